"""Structural schemas (OpenAPI v3 with x-kubernetes-*): set defaults, prune, validate.

A schema is the plain JSON of a CRD version's `openAPIV3Schema`, or of a built-in kind with its
references resolved. Defaulting and pruning change the value in place and are idempotent.
`validate` reports every problem, in Kubernetes' words, and accepts unchanged values on update
(ratcheting). Pure; called by the write path of the server. At another version than the stored one
only `apiVersion` changes; the schema of the requested version prunes and sets defaults, which also
brings older objects up to date.
"""

from __future__ import annotations

import copy
from typing import Any

from kubelocal.apiserver.kinds.filling import writable
from kubelocal.apiserver.kinds.schemas import OBJECT_META, definition
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.storage.entries import Object, decode, encode

__all__ = ["Schema", "apply_defaults", "at_version", "convert", "prune"]

Schema = dict[str, Any]

_EMBEDDED = ("apiVersion", "kind", "metadata")


def apply_defaults(schema: Schema, value: Any) -> None:
    """Set the defaults of the schema; drop nulls that it does not allow.

    Empty fields of metadata, which is the same for all kinds, are dropped.
    """
    if isinstance(value, dict) and isinstance(value.get("metadata"), dict):
        writable(definition(OBJECT_META), value["metadata"])
    _default(schema, value)


def _default(schema: Schema, value: Any) -> None:
    if isinstance(value, dict):
        _default_object(schema, value)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for item in value:
                _default(items, item)


def _default_object(schema: Schema, value: dict[str, Any]) -> None:
    properties: dict[str, Schema] = schema.get("properties", {})
    for name, sub in properties.items():
        if "default" in sub and (name not in value or _is_bad_null(sub, value[name])):
            value[name] = copy.deepcopy(sub["default"])
    rest = schema.get("additionalProperties")
    for name in list(value):
        sub_schema = properties.get(name, rest)
        if not isinstance(sub_schema, dict):
            continue
        if _is_bad_null(sub_schema, value[name]):
            del value[name]
        else:
            _default(sub_schema, value[name])


def _is_bad_null(schema: Schema, value: Any) -> bool:
    return value is None and not schema.get("nullable")


def prune(schema: Schema, value: Any) -> list[str]:
    """Remove fields that the schema does not specify; return their paths."""
    dropped: list[str] = []
    if isinstance(value, dict):
        _prune_object(schema, value, "", dropped, is_resource=True)
    return sorted(dropped)


def _prune(schema: Schema, value: Any, path: str, dropped: list[str]) -> None:
    if isinstance(value, dict):
        is_resource = bool(schema.get("x-kubernetes-embedded-resource"))
        _prune_object(schema, value, path, dropped, is_resource=is_resource)
    elif isinstance(value, list):
        items = schema.get("items")
        if items is None and schema.get("x-kubernetes-preserve-unknown-fields"):
            return
        for index, item in enumerate(value):
            _prune(items or {}, item, f"{path}[{index}]", dropped)


def _prune_object(
    schema: Schema, value: dict[str, Any], path: str, dropped: list[str], *, is_resource: bool
) -> None:
    properties: dict[str, Schema] = schema.get("properties", {})
    rest = schema.get("additionalProperties")
    keep = schema.get("x-kubernetes-preserve-unknown-fields")
    for name in list(value):
        below = f"{path}.{name}" if path else name
        if is_resource and name in _EMBEDDED:
            if name == "metadata":
                _prune(definition(OBJECT_META), value[name], below, dropped)
            continue
        if name in properties:
            _prune(properties[name], value[name], below, dropped)
        elif rest:
            _prune(rest if isinstance(rest, dict) else {}, value[name], below, dropped)
        elif not keep:
            del value[name]
            dropped.append(below)


def at_version(resource: Resource, body: bytes) -> bytes:
    """Return a stored body at this version of the resource."""
    if resource.custom is None or not resource.custom.rereads:
        return body
    return encode(convert(resource, decode(body)))


def convert(resource: Resource, value: Object) -> Object:
    """Return a stored object at this version of the resource; changes it in place."""
    if resource.custom is not None and resource.custom.rereads:
        value["apiVersion"] = resource.api_version
        prune(resource.custom.schema, value)
        apply_defaults(resource.custom.schema, value)
    return value
