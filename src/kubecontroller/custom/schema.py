"""Structural OpenAPI schemas made from types, for CustomResourceDefinitions. Pure.

Fields are those of msgspec Structs. What a type cannot express is given by
`Annotated[T, Meta(...)]` at the field (`description`, `ge`, `le`, `pattern`, `min_length`,
`max_length`, and `extra_json_schema` for anything else), or by a function argument, for callers
that keep descriptions and limits in their own table.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Meta, Struct

__all__ = ["Facts", "Schema", "object_schema", "schema_of"]

Schema: TypeAlias = dict[str, Any]
Facts: TypeAlias = dict[str, Any]
"""The facts about a field: keywords of OpenAPI, and those of `_OWN`."""
Describe: TypeAlias = Callable[[type[Struct], msgspec.structs.FieldInfo], Facts]
Rules: TypeAlias = Callable[[str], Sequence[Schema]]

_OWN: Final = frozenset({"listKey", "rules", "unsaid", "values"})
"""The key of a list's items, CEL rules with messages, a default to leave out, facts of values."""
_SCALARS: Final[dict[object, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
}
_INT_OR_STRING: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_ANYTHING: Final[Schema] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_KEYWORDS: Final = {
    "ge": "minimum",
    "le": "maximum",
    "pattern": "pattern",
    "description": "description",
}
_LENGTHS: Final = {"string": "Length", "array": "Items", "object": "Properties"}
_SERVERS_OWN: Final = ("api_version", "kind", "metadata")


def object_schema(struct: type[Struct]) -> Schema:
    """Return the schema of a whole object: its type without the fields that the API server adds."""
    schema = schema_of(struct, leave_out=_SERVERS_OWN)
    described: Schema = {"type": "object", "description": _first_line(struct)}
    named = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    return {**described, **schema, "properties": {**named, **schema["properties"]}}


def schema_of(
    struct: type[Struct],
    *,
    describe: Describe | None = None,
    rules: Rules | None = None,
    leave_out: Sequence[str] = ("api_version", "kind"),
) -> Schema:
    """Return the schema of a type; `describe` has facts of fields, `rules` CEL rules of types."""
    return _Maker(describe, rules).struct(struct, leave_out)


class _Maker(Struct, frozen=True):
    """The arguments of a schema, from the outermost type to the innermost."""

    describe: Describe | None
    rules: Rules | None

    def struct(self, struct: type[Struct], leave_out: Sequence[str] = ()) -> Schema:
        found = [f for f in msgspec.structs.fields(struct) if f.name not in leave_out]
        schema: Schema = {"type": "object"}
        required = [field.encode_name for field in found if field.required]
        if required:
            schema["required"] = required
        schema["properties"] = {field.encode_name: self.field(struct, field) for field in found}
        rules = self.rules(struct.__name__) if self.rules is not None else ()
        if rules:
            schema["x-kubernetes-validations"] = list(rules)
        return schema

    def field(self, struct: type[Struct], field: msgspec.structs.FieldInfo) -> Schema:
        facts = self.describe(struct, field) if self.describe is not None else {}
        if "properties" in facts:
            return facts  # a schema of its own
        schema: Schema = {"description": facts["description"]} if "description" in facts else {}
        schema |= self.typed(field.type, facts)
        schema |= {
            name: value for name, value in facts.items() if name not in {"description", *_OWN}
        }
        if field.default is not NODEFAULT and not facts.get("unsaid"):
            schema |= _default(field.default)
        own_rules = [{"rule": rule, "message": text} for rule, text in facts.get("rules", [])]
        if own_rules:
            schema["x-kubernetes-validations"] = own_rules
        return schema

    def typed(self, kind: Any, facts: Facts) -> Schema:
        """Return the schema of a type expression."""
        if kind in _SCALARS:
            return dict(_SCALARS[kind])
        if kind is Any:
            return {"x-kubernetes-preserve-unknown-fields": True}
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return _limited(self.typed(arguments[0], facts), arguments[1:])
        if origin is Literal:
            return {"type": "string", "enum": list(arguments)}
        if origin in (Union, types.UnionType):
            members = [member for member in arguments if member is not type(None)]
            return dict(_INT_OR_STRING) if set(members) == {str, int} else self.one(members, facts)
        if origin in (tuple, list, Sequence):
            return self.list(arguments[0], facts)
        if origin in (dict, Mapping):
            return self.mapping(arguments[1], facts)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"type": "string", "enum": [member.value for member in kind]}
        if isinstance(kind, type) and issubclass(kind, Struct):
            return self.struct(kind)
        raise TypeError(f"no schema is known for {kind!r}")

    def one(self, members: Sequence[Any], facts: Facts) -> Schema:
        if len(members) != 1:
            raise TypeError(f"a field has one type, or int | str, and may be None: {members}")
        return self.typed(members[0], facts)

    def list(self, member: Any, facts: Facts) -> Schema:
        items = self.typed(member, {}) | facts.get("values", {})
        key = facts.get("listKey") or _condition_key(member)
        schema: Schema = {"type": "array", "items": items}
        if key:
            if key not in items.get("required", ()):  # or the API server refuses the definition
                items["required"] = [*items.get("required", ()), key]
            schema["x-kubernetes-list-type"] = "map"
            schema["x-kubernetes-list-map-keys"] = [key]
        else:
            schema["x-kubernetes-list-type"] = "atomic"
        return schema

    def mapping(self, member: Any, facts: Facts) -> Schema:
        if member is Any:
            return dict(_ANYTHING)
        values = self.typed(member, {}) | facts.get("values", {})
        return {"type": "object", "additionalProperties": values}


def _default(value: object) -> Schema:
    """Return a default that readers should see: empty ones are left out."""
    if isinstance(value, Enum):
        return {"default": value.value}
    if isinstance(value, tuple | list) and value:
        return {"default": [getattr(member, "value", member) for member in value]}
    if isinstance(value, Struct):
        return {}
    return {} if value in (None, "", ()) else {"default": value}


def _limited(schema: Schema, metas: Sequence[Any]) -> Schema:
    """Return a schema with the constraints of `Meta`."""
    result = dict(schema)
    for meta in metas:
        if not isinstance(meta, Meta):
            continue
        for name, keyword in _KEYWORDS.items():
            if getattr(meta, name) is not None:
                result[keyword] = getattr(meta, name)
        for name in ("min", "max"):
            if (length := getattr(meta, f"{name}_length")) is not None:
                result[f"{name}{_LENGTHS[schema['type']]}"] = length
        result |= meta.extra_json_schema or {}
    return result


def _condition_key(member: Any) -> str:
    """Return the key of a list of conditions, which Kubernetes tools expect."""
    is_condition = isinstance(member, type) and member.__name__ == "Condition"
    return "type" if is_condition else ""


def _first_line(struct: type[Struct]) -> str:
    return (struct.__doc__ or struct.__name__).split("\n", 1)[0]
