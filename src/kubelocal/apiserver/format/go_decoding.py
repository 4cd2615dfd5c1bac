"""What a Go program says of JSON it cannot read into its types, since clients show it to people.

`syntax_error` words a text that is no JSON; `mistyped` finds the first value in an object of a
built-in kind that is of another type than its field, and words that.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from datetime import datetime
from typing import Any

from kubelocal.apiserver.custom.schema import Schema

__all__ = ["converted", "go_map", "mistyped", "syntax_error"]

_QUANTITY = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
_QUANTITY_TEXT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_WORDS = {str: "string", bool: "bool", int: "number", float: "number", list: "array"}
_AFTER = {
    "Expecting property name": "looking for beginning of object key string",
    "Illegal trailing comma": "looking for beginning of object key string",
    "Expecting value": "looking for beginning of value",
    "Expecting ':'": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character": "in string literal",
}


def syntax_error(body: bytes) -> str:
    """Say what is wrong with a text that is no JSON."""
    try:
        text = body.decode("utf-8")
        json.loads(text)
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 in string at byte {error.start}"
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated"):
            return "unexpected end of JSON input"
        where = next(
            (words for start, words in _AFTER.items() if error.msg.startswith(start)),
            "after object key:value pair",
        )
        return f"invalid character '{text[error.pos]}' {where}"
    except (RecursionError, ValueError):
        return "exceeded max depth"
    return "the text is JSON, but not what is expected here"


def go_map(value: Any) -> str:
    """Print a value as Go's %v prints a decoded JSON document."""
    match value:
        case dict():
            return f"map[{' '.join(f'{key}:{go_map(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(go_map(item) for item in value)}]"
        case bool():
            return "true" if value else "false"
        case None:
            return "<nil>"
    return str(value)


def mistyped(schema: Schema, value: Any, kind: str) -> str | None:
    """Return what Go says of the first value that does not fit its field, or nothing."""
    return _walk(schema, value, kind, "")


_UNMARSHAL = re.compile(
    r"json: cannot unmarshal (\w+)(?: (\S+))? into Go struct field \S+ of type (.+)"
)


def converted(problem: str) -> str:
    """Return how the decoder of strategic patches words what `mistyped` found."""
    found = _UNMARSHAL.fullmatch(problem)
    if found is None:
        return problem
    word, number, kind = found.groups()
    if kind.startswith("map["):
        return f"cannot restore map from {word}"
    if kind.startswith("[]"):
        return f"cannot restore slice from {word}"
    if "." in kind:
        return f"cannot restore struct from: {word}"
    if number:
        return f"cannot convert {'float64' if '.' in number else 'int64'} to {kind}"
    if word == "number":
        return f"cannot convert int64 to {kind}"
    return f"unrecognized type: {kind}"


def _walk(schema: Schema, value: Any, owner: str, path: str) -> str | None:
    if value is None:
        return None
    if schema.get("x-quantity"):
        is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        return None if is_plain and _QUANTITY.fullmatch(str(value)) else _QUANTITY_TEXT
    if schema.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, str | int) and not isinstance(value, bool)
        return None if fits else _unmarshal(value, owner, path, "int32")
    if "properties" in schema:
        return _walk_struct(schema, value, owner, path)
    check = _CHECKS.get(schema.get("type", ""))
    return None if check is None else check(schema, value, owner, path)


def _check_boolean(_schema: Schema, value: Any, owner: str, path: str) -> str | None:
    return None if isinstance(value, bool) else _unmarshal(value, owner, path, "bool")


def _check_number(_schema: Schema, value: Any, owner: str, path: str) -> str | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    return None if fits else _unmarshal(value, owner, path, "float64")


def _walk_struct(schema: Schema, value: Any, owner: str, path: str) -> str | None:
    if not isinstance(value, dict):
        return _unmarshal(value, owner, path, _go_type(schema))
    name = str(schema.get("x-definition", owner)).rpartition(".")[2]
    for key, item in value.items():
        below = schema["properties"].get(key)
        if below is None:
            continue
        found = _walk(below, item, name, f"{path}.{key}" if path else key)
        if found is not None:
            return found
    return None


def _walk_map(schema: Schema, value: Any, owner: str, path: str) -> str | None:
    inner = schema.get("additionalProperties")
    if not isinstance(value, dict):
        return _unmarshal(value, owner, path, _go_type(schema)) if inner else None
    if isinstance(inner, dict):
        for item in value.values():
            found = _walk(inner, item, owner, path)
            if found is not None:
                return found
    return None


def _walk_list(schema: Schema, value: Any, owner: str, path: str) -> str | None:
    if not isinstance(value, list):
        return _unmarshal(value, owner, path, _go_type(schema))
    for item in value:
        found = _walk(schema.get("items") or {}, item, owner, path)
        if found is not None:
            return found
    return None


def _check_text(schema: Schema, value: Any, owner: str, path: str) -> str | None:
    if not isinstance(value, str):
        special = "types.UID" if path.endswith(".uid") else "string"
        return _unmarshal(value, owner, path, special)
    match schema.get("format"):
        case "byte":
            try:
                base64.b64decode(value.replace("\n", ""), validate=True)
            except (binascii.Error, ValueError):
                return f"illegal base64 data at input byte {_bad_byte(value)}"
        case "date-time":
            try:
                datetime.fromisoformat(value)
            except ValueError:
                return (
                    f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse'
                    f' "{value}" as "2006"'
                )
    return None


def _bad_byte(value: str) -> int:
    found = re.search(r"[^A-Za-z0-9+/=\n]", value)
    return found.start() if found else len(value)


def _check_integer(schema: Schema, value: Any, owner: str, path: str) -> str | None:
    kind = schema.get("format") or "int64"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _unmarshal(value, owner, path, kind)
    low, high = _RANGES.get(kind, _RANGES["int64"])
    if isinstance(value, float) or not low <= value <= high:
        field = f"{owner}.{path}"
        return f"json: cannot unmarshal number {value} into Go struct field {field} of type {kind}"
    return None


_CHECKS = {
    "object": _walk_map,
    "array": _walk_list,
    "string": _check_text,
    "boolean": _check_boolean,
    "integer": _check_integer,
    "number": _check_number,
}


def _unmarshal(value: Any, owner: str, path: str, kind: str) -> str:
    word = _WORDS.get(type(value), "object")
    return f"json: cannot unmarshal {word} into Go struct field {owner}.{path} of type {kind}"


def _go_type(schema: Schema) -> str:
    name = schema.get("x-definition")
    if name:
        return ".".join(str(name).split(".")[-2:])
    match schema.get("type"):
        case "array":
            return f"[]{_go_type(schema.get('items') or {})}"
        case "object":
            return f"map[string]{_go_type(schema.get('additionalProperties') or {})}"
        case "integer":
            return str(schema.get("format") or "int64")
        case "boolean":
            return "bool"
    return "[]uint8" if schema.get("format") == "byte" else "string"
