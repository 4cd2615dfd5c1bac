"""Check a raw value against a schema and find every problem, not only the first. Pure.

The same as the API server does at admission, for objects that it did not check: stored under an
older CRD, written with validation off, or read from a file by the CLI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from .schema import Schema

__all__ = ["Problem", "shape_problems"]


class Problem(Struct, frozen=True, order=True):
    """Something wrong with a spec: where it is and what would be right."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
}


def shape_problems(schema: Schema, value: Any, path: str) -> Iterator[Problem]:
    """Return every way in which a value does not match its schema. Unknown fields are allowed."""
    either = ("integer", "string") if schema.get("x-kubernetes-int-or-string") else ()
    wanted = either or (schema.get("type", ""),)
    if not {*wanted} <= {*_TYPES}:
        return  # any value is allowed, or a field of another version
    if not any(_is(value, name) for name in wanted):
        yield Problem(path, f"must be of type {' or '.join(wanted)}, not {_kind(value)}")
        return
    match value:
        case dict():
            yield from _object(schema, value, path)
        case list() | tuple():
            yield from _array(schema, value, path)
        case str():
            yield from _string(schema, value, path)
        case bool():
            pass
        case int():
            yield from _integer(schema, value, path)


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    found = (name for name in _TYPES if _is(value, name))
    return next(found, type(value).__name__)


def _object(schema: Schema, value: dict[Any, Any], path: str) -> Iterator[Problem]:
    limit = schema.get("maxProperties")
    if limit is not None and len(value) > limit:
        yield Problem(path, f"may have at most {limit} entries, has {len(value)}")
    for name in schema.get("required", []):
        if value.get(name) is None:
            yield Problem(f"{path}.{name}", "is required")
    for name, member in value.items():
        below = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
        if below is not None and member is not None:
            yield from shape_problems(below, member, f"{path}.{name}")


def _array(schema: Schema, value: Sequence[Any], path: str) -> Iterator[Problem]:
    limit = schema.get("maxItems")
    if limit is not None and len(value) > limit:
        yield Problem(path, f"may have at most {limit} items, has {len(value)}")
    for index, member in enumerate(value[: limit or None]):
        yield from shape_problems(schema["items"], member, f"{path}[{index}]")


def _string(schema: Schema, value: str, path: str) -> Iterator[Problem]:
    limit = schema.get("maxLength")
    if limit is not None and len(value) > limit:
        yield Problem(path, f"may have at most {limit} characters, has {len(value)}")
        return
    allowed = schema.get("enum")
    if allowed is not None and value not in allowed:
        yield Problem(path, f"must be one of {', '.join(allowed)}, not {value!r}")
    pattern = schema.get("pattern")
    if pattern is not None and not _compiled(pattern).search(value):
        yield Problem(path, f"must match {pattern}, {value[:80]!r} does not")


def _integer(schema: Schema, value: int, path: str) -> Iterator[Problem]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if (low is not None and value < low) or (high is not None and value > high):
        yield Problem(path, f"must be from {low} to {high}, is {value}")


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return the pattern with `$` meaning the very end, as it does for the API server."""
    ending = r"\Z" if pattern.endswith("$") else ""
    return re.compile(pattern.removesuffix("$") + ending, re.ASCII)
