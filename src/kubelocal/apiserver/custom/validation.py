"""Validation of a value against a structural schema, with the wording of a real API server.

All problems are reported. On update a part that is equal to its old counterpart is accepted;
counterparts are found by field name and, in lists of type map, by key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from kubelocal.apiserver.causes import (
    Cause,
    duplicate,
    go_number,
    go_quote,
    go_value,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from kubelocal.apiserver.custom.formats import has_format, is_known_format

__all__ = ["ABSENT", "correlated_items", "go_pattern", "map_key", "same", "validate"]

ABSENT: Any = object()
"""Stands for no old counterpart, which differs from a counterpart that is null."""

_encoder = msgspec.json.Encoder()
_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object"}


def validate(schema: dict[str, Any], value: Any, old: Any = ABSENT) -> list[Cause]:
    """Return everything in a value that its schema does not allow and that is new."""
    if old is None:
        old = ABSENT
    causes = list(_check(schema, value, "", old))
    lists = list(_check_lists(schema, value, ""))
    if lists and (old is ABSENT or not any(_check_lists(schema, old, ""))):
        causes += lists
    return causes


def _check(schema: dict[str, Any], value: Any, path: str, old: Any) -> Iterator[Cause]:
    if old is not ABSENT and same(value, old):
        return
    yield from _check_type(schema, value, path)
    if value is None:
        yield from _check_enum(schema, value, path)
        return
    yield from _check_combinations(schema, value, path, old)
    if isinstance(value, str):
        yield from _check_string(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _check_number(schema, value, path)
    elif isinstance(value, list):
        yield from _check_list(schema, value, path, old)
    yield from _check_enum(schema, value, path)
    if isinstance(value, dict):
        yield from _check_object(schema, value, path, old)


def same(left: Any, right: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    if left is right:
        return True
    if left != right:
        return False
    if not isinstance(left, dict | list):
        return isinstance(left, bool) == isinstance(right, bool)
    # Most equal values have the same text, and only the others are compared deeply.
    return _encoder.encode(left) == _encoder.encode(right) or _same_below(left, right)


def _same_below(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same_below(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same_below, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def type_of(value: Any) -> str:
    """Return the JSON type of a value as the validator prints it."""
    if value is None:
        return "null"
    if type(value) is int and not -(2**63) <= value < 2**63:
        return "number"
    return _TYPE_NAMES.get(type(value), "array")


def _check_type(schema: dict[str, Any], value: Any, path: str) -> Iterator[Cause]:
    if schema.get("x-kubernetes-int-or-string"):
        types = ["integer", "string"]
    elif "type" in schema:
        types = [schema["type"]]
    else:
        return
    actual = type_of(value)
    if actual in types or (actual == "null" and schema.get("nullable")):
        return
    if actual == "integer" and "number" in types:
        return
    if isinstance(value, float) and value.is_integer() and "integer" in types:
        return
    is_formatted = is_known_format(schema.get("format", ""))
    if actual == "string" and is_formatted and not {"number", "integer"} & set(types):
        return
    detail = f"{path} in body must be of type {','.join(types)}: {go_quote(actual)}"
    yield type_invalid(_field(path), actual, detail)


def _field(path: str) -> str:
    """Return the field of a cause: a problem of the whole object has Go's nil path."""
    return path.removeprefix(".") or "<nil>"


def _check_enum(schema: dict[str, Any], value: Any, path: str) -> Iterator[Cause]:
    choices = schema.get("enum")
    if not choices or any(same(value, choice) for choice in choices):
        return
    names = [choice if isinstance(choice, str) else go_value(choice) for choice in choices]
    yield not_supported(_field(path), value, names)


def _check_string(schema: dict[str, Any], value: str, path: str) -> Iterator[Cause]:
    """Report the first violation of length and pattern, then the format, as Kubernetes does."""
    field = _field(path)
    limit, least, pattern = (schema.get(key) for key in ("maxLength", "minLength", "pattern"))
    if limit is not None and len(value) > limit:
        yield too_long(field, limit)
    elif least is not None and len(value) < least:
        yield invalid(field, value, f"{path} in body should be at least {least} chars long")
    elif pattern and not go_pattern(pattern).search(value):
        yield invalid(field, value, f"{path} in body should match '{pattern}'")
    wanted = schema.get("format")
    if wanted and is_known_format(wanted) and not has_format(wanted, value):
        detail = f"{path} in body must be of type {wanted}: {go_quote(value)}"
        yield type_invalid(field, value, detail)


@lru_cache(maxsize=4096)
def go_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in Go's syntax, where $ is the very end and POSIX classes are known."""
    for name, characters in _CLASSES.items():
        pattern = pattern.replace(name, characters)
    pattern = pattern.replace("\\z", "\\Z")
    if pattern.endswith("$") and not pattern.endswith("\\$"):
        pattern = pattern[:-1] + "\\Z"
    return re.compile(pattern, re.ASCII)


_CLASSES = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:space:]": r"\s",
    "[:word:]": r"\w",
    "[:xdigit:]": "0-9A-Fa-f",
    "[:punct:]": r"!-/:-@\[-`{-~",
}


def _check_number(schema: dict[str, Any], value: float, path: str) -> Iterator[Cause]:
    field = _field(path)
    factor = schema.get("multipleOf")
    if factor and (value / factor) % 1 != 0:
        detail = f"{path} in body should be a multiple of {go_number(factor)}"
        yield invalid(field, value, detail)
    # A bound is shown as a number of the same kind as the value.
    least, most = (_as(value, schema.get(bound)) for bound in ("minimum", "maximum"))
    if least is not None:
        exclusive = schema.get("exclusiveMinimum")
        if value < least or (exclusive and value == least):
            words = "greater than" if exclusive else "greater than or equal to"
            yield invalid(field, value, f"{path} in body should be {words} {go_number(least)}")
    if most is not None:
        exclusive = schema.get("exclusiveMaximum")
        if value > most or (exclusive and value == most):
            words = "less than" if exclusive else "less than or equal to"
            yield invalid(field, value, f"{path} in body should be {words} {go_number(most)}")


def _as(value: float, bound: float | None) -> float | None:
    if bound is None:
        return None
    is_whole = type(value) is int and bound == int(bound)
    return int(bound) if is_whole else float(bound)


def _check_list(schema: dict[str, Any], value: list[Any], path: str, old: Any) -> Iterator[Cause]:
    items = schema.get("items")
    if isinstance(items, dict):
        before = correlated_items(schema, value, old)
        for index, (item, counterpart) in enumerate(zip(value, before, strict=True)):
            yield from _check(items, item, f"{path}[{index}]", counterpart)
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        detail = f"{path} in body should have at least {least} items"
        yield invalid(_field(path), len(value), detail)
    if most is not None and len(value) > most:
        yield too_many(_field(path), len(value), most)


def map_key(schema: dict[str, Any], item: Any) -> tuple[str, ...] | None:
    """Return the key of an item in a list of type map, or nothing if it has none."""
    if not isinstance(item, dict):
        return None
    properties = schema.get("items", {}).get("properties", {})
    return tuple(
        go_value(item.get(name, properties.get(name, {}).get("default")))
        for name in schema.get("x-kubernetes-list-map-keys", ())
    )


def correlated_items(schema: dict[str, Any], value: list[Any], old: Any) -> list[Any]:
    """Pair each item with its old counterpart: only lists of type map have them."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return [ABSENT] * len(value)
    before = {map_key(schema, item): item for item in old}
    return [before.get(map_key(schema, item), ABSENT) for item in value]


def _check_object(
    schema: dict[str, Any], value: dict[str, Any], path: str, old: Any
) -> Iterator[Cause]:
    yield from _check_size(schema, value, path)
    properties: dict[str, Any] = schema.get("properties", {})
    rest = schema.get("additionalProperties")
    before = old if isinstance(old, dict) else {}
    for name, item in value.items():
        if name in properties:
            below = f"{path}.{name}" if path else name
            yield from _check(properties[name], item, below, before.get(name, ABSENT))
        elif isinstance(rest, dict):
            yield from _check(rest, item, f"{path}.{name}", before.get(name, ABSENT))
        elif rest is False:
            detail = f"{path}.{name} in body is a forbidden property"
            yield invalid(_field(path), "", detail)
    wanted = schema.get("required", ())
    if schema.get("x-kubernetes-embedded-resource"):
        wanted = [*wanted, *(name for name in ("apiVersion", "kind") if name not in wanted)]
    for name in wanted:
        if name not in value:
            yield required(_field(f"{path}.{name}"))


def _check_size(schema: dict[str, Any], value: dict[str, Any], path: str) -> Iterator[Cause]:
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None and len(value) < least:
        detail = f"{path} in body should have at least {least} properties"
        yield invalid(_field(path), len(value), detail)
    if most is not None and len(value) > most:
        yield too_many(_field(path), len(value), most)


def _check_combinations(schema: dict[str, Any], value: Any, path: str, old: Any) -> Iterator[Cause]:
    """Check anyOf, oneOf, allOf and not; the nearest miss is reported with the general message."""
    name = go_quote(path)
    if "anyOf" in schema:
        failures = [list(_check(sub, value, path, old)) for sub in schema["anyOf"]]
        if failures and all(failures):
            yield invalid("<nil>", "", f"{name} must validate at least one schema (anyOf)")
            yield from min(failures, key=len)
    if "oneOf" in schema:
        yield from _check_one_of(schema["oneOf"], value, path, old)
    if "allOf" in schema:
        failures = [list(_check(sub, value, path, old)) for sub in schema["allOf"]]
        for found in failures:
            yield from found
        if any(failures):
            none = ". None validated" if all(failures) else ""
            yield invalid("<nil>", "", f"{name} must validate all the schemas (allOf){none}")
    if "not" in schema and not any(_check(schema["not"], value, path, old)):
        yield invalid("<nil>", "", f"{name} must not validate the schema (not)")


def _check_one_of(
    choices: list[dict[str, Any]], value: Any, path: str, old: Any
) -> Iterator[Cause]:
    failures = [list(_check(sub, value, path, old)) for sub in choices]
    fits = sum(not found for found in failures)
    if fits == 1:
        return
    found_text = f"Found {fits} valid alternatives" if fits else "Found none valid"
    text = f"{go_quote(path)} must validate one and only one schema (oneOf). {found_text}"
    yield invalid("<nil>", "", text)
    if not fits and failures:
        yield from min(failures, key=len)


def _check_lists(schema: dict[str, Any], value: Any, path: str) -> Iterator[Cause]:
    """Report duplicates in a list of type set or map."""
    if isinstance(value, list):
        yield from _check_unique(schema, value, path)
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                yield from _check_lists(items, item, f"{path}[{index}]")
    elif isinstance(value, dict):
        properties: dict[str, Any] = schema.get("properties", {})
        rest = schema.get("additionalProperties")
        for name, item in value.items():
            if name in properties:
                below = f"{path}.{name}" if path else name
                yield from _check_lists(properties[name], item, below)
            elif isinstance(rest, dict):
                yield from _check_lists(rest, item, f"{path}[{name}]")


def _check_unique(schema: dict[str, Any], value: list[Any], path: str) -> Iterator[Cause]:
    kind = schema.get("x-kubernetes-list-type")
    seen: set[Any] = set()
    for index, item in enumerate(value):
        if kind == "map":
            key: Any = map_key(schema, item)
            names = schema.get("x-kubernetes-list-map-keys", ())
            shown = {name: item[name] for name in names if name in item} if key else item
        elif kind == "set":
            key, shown = go_value(item), item
        else:
            return
        if key in seen:
            yield duplicate(f"{path}[{index}]", shown)
        seen.add(key)
