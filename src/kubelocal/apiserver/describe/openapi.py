"""OpenAPI v3 as kubectl reads it: an index, and one document for each group and version.

kubectl reads here the fields of a kind (`explain`, `diff`), and whether the server can validate
them itself (`apply`): a PATCH operation with the parameter `fieldValidation`.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

from kubecontroller.client import Response
from kubelocal.apiserver.describe.discovery import VERSION, Discovery
from kubelocal.apiserver.kinds.schemas import published
from kubelocal.apiserver.kinds.table import Registry, Resource
from kubelocal.apiserver.storage.entries import Object, encode

__all__ = ["OpenApi"]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions"
_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_EMPTY_V2 = b"\x0a\x032.0\x12\x14\x0a\x0aKubernetes\x12\x06v1.34."
# A version 2 document without paths (swagger: "2.0", info.title, info.version): kubectl reads it
# for kinds that version 3 does not have, and finds that they are not there either.
_OPTIONS = ("dryRun", "fieldManager", "fieldValidation", "force")


@cache
def _definitions() -> dict[str, Any]:
    """Return the schemas of all built-in types by name, with references between them."""
    return {name: _referring(schema) for name, schema in published().items()}


def _referring(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_referring(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: _referring(item) for key, item in schema.items() if key not in {"$ref", "x-omit-empty"}
    }
    if isinstance(schema.get("$ref"), str):
        kept["allOf"] = [{"$ref": f"#/components/schemas/{schema['$ref']}"}]
    return kept


class OpenApi:
    """Serves the OpenAPI paths from the table of resources."""

    def __init__(self, registry: Registry, discovery: Discovery) -> None:
        self._registry = registry
        self._discovery = discovery
        self._cache: dict[str, bytes] = {}
        self._revision = -1

    def answer(self, path: str) -> Response | None:
        """Return an OpenAPI document, or nothing if there is no such document."""
        if self._revision != self._registry.revision:
            self._revision = self._registry.revision
            self._cache.clear()
        if path == "/openapi/v2":
            return Response(status=200, headers={"content-type": _V2}, body=_EMPTY_V2)
        if path == "/openapi/v3":
            return _json(encode({"paths": self._index()}))
        for group in self._discovery.groups():
            for version in self._discovery.versions(group):
                where = _where(group, version)
                if path == f"/openapi/v3/{where}":
                    return _json(self._document(group, version))
        return None

    def _index(self) -> Object:
        found: Object = {}
        for group in self._discovery.groups():
            for version in self._discovery.versions(group):
                where = _where(group, version)
                digest = hashlib.sha256(self._document(group, version)).hexdigest().upper()
                found[where] = {"serverRelativeURL": f"/openapi/v3/{where}?hash={digest}"}
        return found

    def _document(self, group: str, version: str) -> bytes:
        where = _where(group, version)
        if where not in self._cache:
            rows = self._discovery.rows(group, version)
            self._cache[where] = encode(
                {
                    "openapi": "3.0.0",
                    "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
                    "paths": _paths(where, rows),
                    "components": {"schemas": _schemas(rows)},
                }
            )
        return self._cache[where]


def _where(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _json(body: bytes) -> Response:
    digest = hashlib.sha256(body).hexdigest().upper()
    headers = {"content-type": "application/json", "etag": f'"{digest}"', "vary": "Accept"}
    return Response(status=200, headers=headers, body=body)


def _name(row: Resource) -> str:
    """Return the name of a kind's schema."""
    if row.custom is not None:
        reverse = ".".join(reversed(row.group.split(".")))
        return f"{reverse}.{row.version}.{row.kind}"
    if row.group == "apiextensions.k8s.io":
        return f"{_CRD}.{row.version}.{row.kind}"
    package = row.group.partition(".")[0] or "core"
    return f"io.k8s.api.{package}.{row.version}.{row.kind}"


def _gvk(row: Resource) -> Object:
    return {"group": row.group, "version": row.version, "kind": row.kind}


def _schemas(rows: list[Resource]) -> Object:
    found: Object = {}
    for row in rows:
        if row.custom is not None:
            schema = _custom(row)
            found[_name(row)] = schema
        else:
            schema = _collect(_name(row), found)
        schema["x-kubernetes-group-version-kind"] = [_gvk(row)]
        _collect(f"{_META}.ObjectMeta", found)
    return found


def _custom(row: Resource) -> Object:
    assert row.custom is not None
    meta = {"allOf": [{"$ref": f"#/components/schemas/{_META}.ObjectMeta"}]}
    properties = dict(row.custom.schema.get("properties") or {})
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    properties["metadata"] = (properties.get("metadata") or {}) | meta
    return row.custom.schema | {"properties": properties}


def _collect(name: str, found: Object) -> Object:
    """Add a schema and all that it refers to; return a copy of it that may be changed."""
    if name in found:
        known: Object = found[name]
        return known
    schema: Object = dict(_definitions().get(name, {"type": "object"}))
    found[name] = schema
    pending: list[Any] = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            target = part.get("$ref")
            if isinstance(target, str):
                _collect(target.removeprefix("#/components/schemas/"), found)
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
    return schema


def _paths(where: str, rows: list[Resource]) -> Object:
    found: Object = {}
    for row in rows:
        prefix = f"/{where}/namespaces/{{namespace}}" if row.namespaced else f"/{where}"
        content = {
            "schema": {"$ref": f"#/components/schemas/{_name(row)}"},
        }
        answer = {"200": {"description": "OK", "content": {"application/json": content}}}
        operations: Object = {}
        for method, verb in (
            ("get", "get"),
            ("put", "update"),
            ("patch", "patch"),
            ("delete", "delete"),
        ):
            if verb in row.verbs:
                operations[method] = _operation(row, verb, answer)
        if operations:
            found[f"{prefix}/{row.plural}/{{name}}"] = operations
        whole: Object = {}
        for method, verb in (("get", "list"), ("post", "create"), ("delete", "deletecollection")):
            if verb in row.verbs:
                whole[method] = _operation(row, verb, answer)
        found[f"{prefix}/{row.plural}"] = whole
    return found


def _operation(row: Resource, verb: str, answer: Object) -> Object:
    operation: Object = {
        "x-kubernetes-action": verb if verb != "create" else "post",
        "x-kubernetes-group-version-kind": _gvk(row),
        "responses": answer,
    }
    if verb in {"create", "update", "patch"}:
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in _OPTIONS
        ]
    return operation
