"""The schemas of the built-in kinds, read from the file that `tools/builtin_kinds.py` writes.

References between definitions are resolved into one graph of shared dicts, once, on first use. Each
definition has its own name under `x-definition`. They must not be changed.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

__all__ = ["OBJECT_META", "definition", "published", "schema_of"]

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def published() -> dict[str, Any]:
    """Return the definitions as in the file, with `$ref` by name, to be published."""
    text = files(__package__).joinpath("schemas.json").read_bytes()
    found: dict[str, Any] = msgspec.json.decode(text)
    return found


@cache
def _linked() -> dict[str, dict[str, Any]]:
    definitions = published()
    for name, schema in definitions.items():
        schema["x-definition"] = name
    definitions[_QUANTITY]["x-quantity"] = True
    for schema in definitions.values():
        _link(schema, definitions)
    return definitions


def _link(schema: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Replace references below a schema; the properties of a definition are linked in place."""
    properties = schema.get("properties", {})
    for name, sub in properties.items():
        properties[name] = _resolved(sub, definitions)
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            schema[word] = _resolved(schema[word], definitions)


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        target = definitions[schema["$ref"]]
        return {**target, **{word: value for word, value in schema.items() if word != "$ref"}}
    _link(schema, definitions)
    return schema


def definition(name: str) -> dict[str, Any]:
    """Return a definition by its full name."""
    return _linked()[name]


@cache
def _kinds() -> dict[tuple[str, str, str], dict[str, Any]]:
    return {
        (known["group"], known["version"], known["kind"]): schema
        for schema in _linked().values()
        for known in schema.get("x-kubernetes-group-version-kind", ())
    }


def schema_of(group: str, version: str, kind: str) -> dict[str, Any]:
    """Return the schema of a built-in kind; a kind that is not served raises KeyError."""
    return _kinds()[group, version, kind]
