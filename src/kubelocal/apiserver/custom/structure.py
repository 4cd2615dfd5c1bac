"""Whether the schema of a CRD is structural: what a CustomResourceDefinition may not say.

Fields of the causes are relative to the schema (`properties[spec].type`, or empty for the schema
itself); the caller puts the place of the schema in front.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kubelocal.apiserver.causes import (
    Cause,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubelocal.apiserver.custom.validation import go_pattern, validate

__all__ = ["check_structural"]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_COMBINATIONS = ("allOf", "anyOf", "oneOf")
_NEVER = {
    "id": "id is not supported",
    "additionalItems": "additionalItems is not supported",
    "patternProperties": "patternProperties is not supported",
    "definitions": "definitions is not supported",
    "dependencies": "dependencies is not supported",
    "$ref": "$ref is not supported",
}
_NOT_NESTED = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_EMPTY_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def check_structural(schema: dict[str, Any]) -> list[Cause]:
    """Find everything for which a CRD with this schema would be refused, CEL rules left aside."""
    causes = sorted(_structural(schema, "", "root"), key=str)
    if not causes:
        causes = list(_defaults(schema, ""))
    return [*causes, *_keywords(schema, ""), *_top_level(schema)]


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _property(path: str, name: str) -> str:
    return f"{_child(path, 'properties')}[{name}]"


def _structural(schema: dict[str, Any], path: str, level: str) -> Iterator[Cause]:
    """Follow the value-carrying part of the schema; types must be given all the way."""
    items, rest = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and items is None:
        yield required(_child(path, "items"), "must be specified")
    if isinstance(items, dict):
        yield from _structural(items, _child(path, "items"), "item")
    for name, sub in schema.get("properties", {}).items():
        yield from _structural(sub, _property(path, name), "field")
    if rest is not None and rest is not False:
        if level == "root":
            yield forbidden(_child(path, "additionalProperties"), "must not be used at the root")
        if isinstance(rest, dict):
            yield from _structural(rest, _child(path, "additionalProperties"), "field")
    yield from _types(schema, path, level)
    yield from _metadata(schema, path, level)
    yield from _extensions(schema, path)
    yield from _value_validation(schema, path, skip_any_of=_is_int_or_string(schema))


def _is_int_or_string(schema: dict[str, Any]) -> bool:
    return schema.get("anyOf") == _INT_OR_STRING


def _types(schema: dict[str, Any], path: str, level: str) -> Iterator[Cause]:
    kind = schema.get("type", "")
    field = _child(path, "type")
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(field, kind, text) if kind else required(field, text)
    elif not kind and not (
        schema.get("x-kubernetes-int-or-string")
        or schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        yield required(field, _EMPTY_TYPE[level])
    if level == "root" and kind and kind != "object":
        yield invalid(field, kind, "must be object at the root")


def _metadata(schema: dict[str, Any], path: str, level: str) -> Iterator[Cause]:
    embedded = schema.get("x-kubernetes-embedded-resource")
    properties = schema.get("properties", {})
    if level == "root" or embedded:
        for name in ("kind", "apiVersion"):
            if name in properties and properties[name].get("type") != "string":
                field = _child(_property(path, name), "type")
                yield invalid(field, properties[name].get("type", ""), "must be string")
        if "metadata" in properties and properties["metadata"].get("type") != "object":
            field = _child(_property(path, "metadata"), "type")
            yield invalid(field, properties["metadata"].get("type", ""), "must be object")
    if level == "root" and "metadata" in properties:
        meta = properties["metadata"]
        extra = set(meta) - {"type", "description", "title", "properties", "default"}
        if extra or set(meta.get("properties", {})) - {"name", "generateName"}:
            text = (
                "must not specify anything other than name and generateName, "
                "but metadata is implicitly specified"
            )
            yield forbidden(_property(path, "metadata"), text)


def _extensions(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    if schema.get("x-kubernetes-int-or-string"):
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(name):
                text = "must be false if x-kubernetes-int-or-string is true"
                yield invalid(_child(path, name), True, text)
    if not schema.get("x-kubernetes-embedded-resource"):
        return
    if schema.get("additionalProperties"):
        text = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(_child(path, "additionalProperties"), text)
    if not schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields"
        )
        yield required(_child(path, "properties"), text)


def _value_validation(
    schema: dict[str, Any], path: str, *, skip_any_of: bool = False
) -> Iterator[Cause]:
    for word in _COMBINATIONS:
        if word == "anyOf" and skip_any_of:
            continue
        for index, sub in enumerate(schema.get(word, ())):
            skip = word == "allOf" and index == 0 and _is_int_or_string(sub)
            yield from _nested(sub, f"{_child(path, word)}[{index}]", skip_any_of=skip)
    if "not" in schema:
        yield from _nested(schema["not"], _child(path, "not"))
    pattern = schema.get("pattern")
    if pattern:
        try:
            go_pattern(pattern)
        except re.error as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(_child(path, "pattern"), pattern, text)


def _nested(schema: dict[str, Any], path: str, *, skip_any_of: bool = False) -> Iterator[Cause]:
    yield from _value_validation(schema, path, skip_any_of=skip_any_of)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], _child(path, "items"))
    for name, sub in schema.get("properties", {}).items():
        yield from _nested(sub, _property(path, name))
        if name == "metadata":
            text = "must not be specified in a nested context"
            yield forbidden(_property(path, name), text)
    for word, text in _NOT_NESTED.items():
        if word == "x-kubernetes-validations" and ".allOf[" in f".{path}":
            continue
        if schema.get(word) or (word == "default" and word in schema):
            yield forbidden(_child(path, word), text)


def _keywords(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    """Check each node for words that are refused or contradict each other."""
    for word, text in _NEVER.items():
        if word in schema:
            yield forbidden(_child(path, word), text)
    yield from _type_word(schema, path)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(_child(path, "uniqueItems"), text)
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden(_child(path, "additionalProperties"), text)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        field = _child(path, "x-kubernetes-preserve-unknown-fields")
        yield invalid(field, False, "must be true or undefined")
    yield from _map_type(schema, path)
    yield from _list_type(schema, path)
    for sub, below in _children(schema, path):
        yield from _keywords(sub, below)


def _top_level(schema: dict[str, Any]) -> Iterator[Cause]:
    if schema.get("nullable"):
        yield forbidden("nullable", "nullable cannot be true at the root")
    for name in ("apiVersion", "kind", "metadata"):
        if "default" in schema.get("properties", {}).get(name, {}):
            text = f"must not be set in top-level {name}"
            yield forbidden(_child(_property("", name), "default"), text)


def _type_word(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    if schema.get("type") == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        yield forbidden(_child(path, "type"), text)
    elif schema.get("type") and schema["type"] not in _TYPES:
        yield not_supported(_child(path, "type"), schema["type"], _TYPES)
    if isinstance(schema.get("items"), list):
        text = "items must be a schema object and not an array"
        yield forbidden(_child(path, "items"), text)


def _children(schema: dict[str, Any], path: str) -> Iterator[tuple[dict[str, Any], str]]:
    for name, sub in schema.get("properties", {}).items():
        yield sub, _property(path, name)
    for word in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(word), dict):
            yield schema[word], _child(path, word)
    for word in _COMBINATIONS:
        for index, sub in enumerate(schema.get(word, ())):
            yield sub, f"{_child(path, word)}[{index}]"


def _map_type(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    kind = schema.get("x-kubernetes-map-type")
    if kind is None:
        return
    if schema.get("type") != "object":
        text = "must be object if x-kubernetes-map-type is specified"
        field = _child(path, "type")
        yield invalid(field, schema["type"], text) if schema.get("type") else required(field, text)
    if kind not in {"atomic", "granular"}:
        yield not_supported(_child(path, "x-kubernetes-map-type"), kind, ["atomic", "granular"])


def _list_type(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    kind = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys")
    field = _child(path, "x-kubernetes-list-type")
    if keys and kind != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required(field, text) if kind is None else invalid(field, kind, text)
    if kind is None:
        return
    if schema.get("type") != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        place = _child(path, "type")
        yield invalid(place, schema["type"], text) if schema.get("type") else required(place, text)
    if kind not in {"atomic", "set", "map"}:
        yield not_supported(field, kind, ["atomic", "set", "map"])
    if kind == "map":
        yield from _map_keys(schema, path)
    elif kind == "set":
        yield from _set_items(schema.get("items") or {}, _child(path, "items"))


def _set_items(items: dict[str, Any], path: str) -> Iterator[Cause]:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    kind, shape = items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type")
    if items.get("type") == "array" and kind not in {None, "atomic"}:
        yield invalid(_child(path, "x-kubernetes-list-type"), kind, text)
    if items.get("type") == "object" and shape != "atomic":
        yield invalid(_child(path, "x-kubernetes-map-type"), kind, text)
    if items.get("nullable"):
        text = "cannot be nullable when x-kubernetes-list-type is set"
        yield forbidden(_child(path, "nullable"), text)


def _map_keys(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    keys = schema.get("x-kubernetes-list-map-keys") or []
    field = _child(path, "x-kubernetes-list-map-keys")
    items = schema.get("items")
    below = _child(path, "items")
    if not keys:
        yield required(field, "must not be empty if x-kubernetes-list-type is map")
    if not isinstance(items, dict):
        yield required(below, "must have a schema if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(_child(below, "type"), items.get("type", ""), text)
        return
    if items.get("nullable"):
        text = "cannot be nullable when x-kubernetes-list-type is map"
        yield forbidden(_child(below, "nullable"), text)
    if len(set(keys)) < len(keys):
        yield invalid(field, keys, "must not contain duplicate entries")
    for key in dict.fromkeys(keys):
        yield from _map_key(items, key, below, keys, field)


def _map_key(
    items: dict[str, Any], key: str, path: str, keys: list[str], field: str
) -> Iterator[Cause]:
    sub = items.get("properties", {}).get(key)
    if sub is None:
        yield invalid(field, keys, "entries must all be names of item properties")
        return
    place = _property(path, key)
    if sub.get("type") in {"array", "object"}:
        text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
        yield invalid(_child(place, "type"), items["type"], text)
    if key not in items.get("required", ()) and "default" not in sub:
        text = (
            "this property is in x-kubernetes-list-map-keys, "
            "so it must have a default or be a required property"
        )
        yield required(_child(place, "default"), text)
    if sub.get("nullable"):
        text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
        yield forbidden(_child(place, "nullable"), text)


def _defaults(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    """A default must itself be valid, or no object could be written."""
    if "default" in schema:
        field = _child(path, "default")
        for cause in validate(schema, schema["default"]):
            tail = "" if cause.field == "<nil>" else f".{cause.field}"
            yield Cause(f"{field}{tail}", cause.reason, cause.message)
    for sub, below in _children(schema, path):
        yield from _defaults(sub, below)
