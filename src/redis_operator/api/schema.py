"""Structural OpenAPI schemas made from the types, with the words and limits of `describe`. Pure."""

from __future__ import annotations

import types
from enum import Enum
from typing import Any, Final, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct

from .describe import FIELDS
from .describe_redisfailover import REDISFAILOVER_FIELDS
from .describe_redisoperator import REDISOPERATOR_FIELDS
from .metadata import Metadata
from .rules import rules_of

__all__ = ["ALL_FIELDS", "Schema", "schema_of"]

Schema: TypeAlias = dict[str, Any]
ALL_FIELDS: Final = FIELDS | REDISFAILOVER_FIELDS | REDISOPERATOR_FIELDS
"""The words and limits of every kind."""
_OWN = frozenset({"listKey", "rules", "unsaid", "values"})
_SCALARS: dict[object, str] = {str: "string", bool: "boolean", int: "integer"}


def schema_of(struct: type[Struct]) -> Schema:
    """The schema of one of our types. Every field must be described."""
    hints = msgspec.structs.fields(struct)
    schema: Schema = {"type": "object"}
    required = [field.encode_name for field in hints if field.required]
    if required:
        schema["required"] = required
    schema["properties"] = {
        field.encode_name: _property(struct, field)
        for field in hints
        if field.name not in ("api_version", "kind")
    }
    rules = rules_of(struct.__name__)
    if rules:
        schema["x-kubernetes-validations"] = rules
    return schema


def _property(struct: type[Struct], field: msgspec.structs.FieldInfo) -> Schema:
    if field.type is Metadata:
        return {
            "type": "object",
            "properties": {"name": {"type": "string", **ALL_FIELDS["Metadata.name"]}},
        }
    facts = ALL_FIELDS[f"{struct.__name__}.{field.name}"]
    schema: Schema = {"description": facts["description"]}
    schema |= _typed(field.type, facts)
    schema |= {name: value for name, value in facts.items() if name not in {"description", *_OWN}}
    if field.default is not NODEFAULT and not facts.get("unsaid"):
        schema |= _default(field.default)
    own_rules = [{"rule": rule, "message": text} for rule, text in facts.get("rules", [])]
    if own_rules:
        schema["x-kubernetes-validations"] = own_rules
    return schema


def _default(value: object) -> Schema:
    """A default worth telling: empty ones say nothing."""
    if isinstance(value, Enum):
        return {"default": value.value}
    if isinstance(value, tuple) and value:
        return {"default": [member.value for member in value]}
    return {} if value in (None, "", ()) else {"default": value}


def _typed(kind: Any, facts: dict[str, Any]) -> Schema:
    """The schema of a type expression."""
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]} | ({"format": "int64"} if kind is int else {})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        members = [member for member in arguments if member is not type(None)]
        if set(members) == {str, int}:
            return _INT_OR_STRING | {}
        return _typed(members[0], facts)
    if origin is tuple:
        return _list(arguments[0], facts)
    if origin is dict:
        return _mapping(arguments[1], facts)
    if issubclass(kind, Enum):
        return {"type": "string", "enum": [member.value for member in kind]}
    if issubclass(kind, Struct):
        return schema_of(kind)
    raise TypeError(f"no schema is known for {kind!r}")


_INT_OR_STRING: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _list(member: Any, facts: dict[str, Any]) -> Schema:
    items = _typed(member, {}) | facts.get("values", {})
    schema: Schema = {"type": "array", "items": items}
    if "listKey" in facts:
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = [facts["listKey"]]
    else:
        schema["x-kubernetes-list-type"] = "atomic"
    return schema


def _mapping(member: Any, facts: dict[str, Any]) -> Schema:
    if member is Any:
        return dict(_ANYTHING)
    return {"type": "object", "additionalProperties": _typed(member, {}) | facts.get("values", {})}
