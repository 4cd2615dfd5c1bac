"""Checks that the schema of a CRD is structural.

Checked are schemas that a server could not serve, and common mistakes: missing types, lists without
items or keys, defaults that violate their own schema, patterns that do not compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kubelocal.apiserver.causes import Cause, forbidden, invalid, not_supported, required
from kubelocal.apiserver.custom.validation import go_pattern, validate

__all__ = ["check_structural"]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_COMBINATIONS = ("allOf", "anyOf", "oneOf")
_NEVER = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_NOT_NESTED = (
    "type",
    "additionalProperties",
    "default",
    "title",
    "description",
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
)
_Schema = dict[str, Any]


def check_structural(schema: _Schema, at: str = "schema") -> list[Cause]:
    """Return everything for which a CRD with this schema is refused, except for CEL rules."""
    found = list(_node(schema, at))
    if schema.get("type", "object") != "object":
        found.append(invalid(f"{at}.type", schema["type"], "must be object at the root"))
    metadata = (schema.get("properties") or {}).get("metadata") or {}
    if set(metadata.get("properties") or ()) - {"name", "generateName"}:
        text = "must not specify anything other than name and generateName"
        found.append(forbidden(f"{at}.properties[metadata]", text))
    return found or list(_defaults(schema, at))


def _below(schema: _Schema, path: str) -> Iterator[tuple[_Schema, str]]:
    """Yield the schemas of the parts of a value, with their paths."""
    for name, sub in (schema.get("properties") or {}).items():
        yield sub, f"{path}.properties[{name}]"
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield schema[word], f"{path}.{word}"


def _node(schema: _Schema, path: str) -> Iterator[Cause]:
    """Check the part of a schema that describes values; every value needs a type."""
    kind = schema.get("type", "")
    is_free = schema.get("x-kubernetes-preserve-unknown-fields")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    elif not kind and not is_free and not schema.get("x-kubernetes-int-or-string"):
        yield required(f"{path}.type", "must not be empty")
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield required(f"{path}.items", "must be specified")
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", text)
    for word in _NEVER:
        if word in schema:
            yield forbidden(f"{path}.{word}", f"{word} is not supported")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", text)
    yield from _values(schema, path)
    yield from _list_type(schema, path)
    for sub, place in _below(schema, path):
        yield from _node(sub, place)


def _values(schema: _Schema, path: str) -> Iterator[Cause]:
    """Check the constraints of values: combinations may contain nothing else."""
    pattern = schema.get("pattern")
    if pattern:
        try:
            go_pattern(pattern)
        except re.error as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", pattern, text)
    nested = [
        (sub, f"{path}.{word}[{index}]")
        for word in _COMBINATIONS
        for index, sub in enumerate(schema.get(word) or ())
    ]
    if "not" in schema:
        nested.append((schema["not"], f"{path}.not"))
    while nested:
        sub, place = nested.pop()
        nested += _below(sub, place)
        if schema.get("anyOf") == _INT_OR_STRING and sub in _INT_OR_STRING:
            continue
        yield from _values(sub, place)
        for word in _NOT_NESTED:
            if sub.get(word) or (word == "default" and word in sub):
                yield forbidden(f"{place}.{word}", "must be undefined to be structural")


def _list_type(schema: _Schema, path: str) -> Iterator[Cause]:
    kind, keys = (schema.get(f"x-kubernetes-list-{word}") for word in ("type", "map-keys"))
    field = f"{path}.x-kubernetes-list-map-keys"
    if kind not in {None, "atomic", "set", "map"}:
        yield not_supported(f"{path}.x-kubernetes-list-type", kind, ["atomic", "set", "map"])
    if kind == "map" and not keys:
        yield required(field, "must not be empty if x-kubernetes-list-type is map")
    items = schema.get("items") or {}
    for key in keys or ():
        sub = (items.get("properties") or {}).get(key)
        if sub is None:
            yield invalid(field, keys, "entries must all be names of item properties")
        elif key not in items.get("required", ()) and "default" not in sub:
            text = (
                "this property is in x-kubernetes-list-map-keys, "
                "so it must have a default or be a required property"
            )
            yield required(f"{path}.items.properties[{key}].default", text)


def _defaults(schema: _Schema, path: str) -> Iterator[Cause]:
    """Check that a default is itself valid, or no object could be written."""
    if "default" in schema:
        for cause in validate(schema, schema["default"]):
            tail = "" if cause.field == "<nil>" else f".{cause.field}"
            yield Cause(f"{path}.default{tail}", cause.reason, cause.message)
    for sub, place in _below(schema, path):
        yield from _defaults(sub, place)
