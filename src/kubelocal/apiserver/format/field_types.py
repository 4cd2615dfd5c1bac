"""Checks that the values of an object have the types of their fields."""

from __future__ import annotations

import base64
import binascii
import json
import re
from datetime import datetime
from typing import Any

from kubelocal.apiserver.custom.schema import Schema

__all__ = ["TYPES", "mistyped", "syntax_error", "type_name"]

_QUANTITY = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
_RANGES = {"int32": 2**31, "int64": 2**63}
_NAMES = {str: "string", bool: "boolean", int: "number", float: "number", list: "array"}
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def syntax_error(body: bytes) -> str:
    """Return what is wrong with a text that is not JSON."""
    try:
        json.loads(body)
    except RecursionError:
        return "exceeded max depth"
    except ValueError as error:
        return str(error)
    return "the text is JSON, but not what is expected here"


def type_name(value: Any) -> str:
    """Return the JSON type of a value."""
    return _NAMES.get(type(value), "object")


def mistyped(schema: Schema, value: Any, path: str = "") -> str | None:
    """Return where the first value of a wrong type is and what was expected, or nothing."""
    if value is None:
        return None
    kind = "object" if "properties" in schema else schema.get("type", "")
    wanted = TYPES.get(kind)
    if schema.get("x-quantity"):
        fits = type_name(value) in {"string", "number"} and _QUANTITY.fullmatch(str(value))
        text = "quantities must match the regular expression '^" + _QUANTITY.pattern + "$'"
        return None if fits else f"{path}: {text}"
    if schema.get("x-kubernetes-int-or-string"):
        kind, wanted = "integer or string", (int, str)
    if wanted is None:
        return None
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        return f"{path}: expected {kind}, got {type_name(value)}"
    if isinstance(value, dict):
        return _mistyped_below(schema, value, path)
    if isinstance(value, list):
        items = schema.get("items") or {}
        found = (mistyped(items, item, f"{path}[{index}]") for index, item in enumerate(value))
        return next((one for one in found if one is not None), None)
    problem = _malformed(schema, value)
    return f"{path}: {problem}" if problem else None


def _mistyped_below(schema: Schema, value: dict[str, Any], path: str) -> str | None:
    properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    for key, item in value.items():
        below = properties.get(key) or (rest if isinstance(rest, dict) else {})
        found = mistyped(below, item, f"{path}.{key}" if path else key)
        if found is not None:
            return found
    return None


def _malformed(schema: Schema, value: Any) -> str | None:
    form = schema.get("format")
    if schema.get("type") == "integer":
        bound = _RANGES.get(str(form), 2**63)
        return None if -bound <= value < bound else f"{value} does not fit {form or 'int64'}"
    try:
        if form == "byte":
            base64.b64decode(value.replace("\n", ""), validate=True)
        elif form == "date-time":
            datetime.fromisoformat(value)
    except (binascii.Error, ValueError):
        return "illegal base64 data" if form == "byte" else f'"{value}" is not a time (RFC 3339)'
    return None
