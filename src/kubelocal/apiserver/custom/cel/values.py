"""JSON values as CEL sees them, by their schema: names escaped, times and numbers typed."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from typing import Any

from kubelocal.apiserver.custom.formats import parse_duration

__all__ = ["escaped", "to_cel"]

_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "true false null in as break const continue else for function if import let loop package "
        "namespace return var void while",
    )
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[.\-/]")


def escaped(name: str) -> str:
    """Return the name of a field in rules."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if "__" not in name and _IDENTIFIER.fullmatch(name):
        return name
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


def to_cel(schema: dict[str, Any], value: Any, *, is_root: bool = False) -> Any:
    """Convert a value; fields that the schema does not know are invisible to rules."""
    if isinstance(value, dict):
        return _object(schema, value, is_root=is_root)
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [to_cel(items, item) for item in value]
    if isinstance(value, str):
        return _text(schema.get("format"), value)
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _object(schema: dict[str, Any], value: dict[str, Any], *, is_root: bool) -> dict[str, Any]:
    properties: dict[str, Any] = schema.get("properties", {})
    rest = schema.get("additionalProperties")
    is_open = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    result: dict[str, Any] = {}
    for name, item in value.items():
        if is_root and name == "metadata":
            keep = ("name", "generateName")
            result[name] = {key: item[key] for key in keep if key in item}
        elif is_root and name in {"apiVersion", "kind"}:
            result[name] = item
        elif name in properties:
            result[escaped(name)] = to_cel(properties[name], item)
        elif isinstance(rest, dict):
            result[name] = to_cel(rest, item)
        elif is_open:
            result[escaped(name)] = item
    return result


def _text(wanted: str | None, value: str) -> Any:
    if wanted is None:
        return value
    if wanted in {"date-time", "date"}:
        try:
            moment = dt.datetime.fromisoformat(value)
        except ValueError:
            return value
        return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    if wanted == "duration":
        nanoseconds = parse_duration(value)
        return value if nanoseconds is None else dt.timedelta(microseconds=nanoseconds / 1000)
    if wanted == "byte":
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            return value
    return value
