"""The part of JSONPath that printer columns use: fields, indexes, wildcards, simple filters."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

__all__ = ["find"]

_STEP = re.compile(
    r"""\.?\[\?\(@\.(?P<key>[^=!<>\s)]+)\s*(?P<op>==|!=)\s*["'](?P<want>[^"']*)["']\s*\)\]"""
    r"""|\.?\[(?P<index>-?\d+|\*)\]|\.?\['(?P<quoted>[^']+)'\]|\.(?P<name>(?:[^.\[\]\\]|\\.)+)"""
)


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[tuple[str, Any], ...]:
    text = path.strip().removeprefix("{").removesuffix("}")
    if not text.startswith((".", "[")):
        text = "." + text
    found: list[tuple[str, Any]] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return (("none", None),)
        position = match.end()
        if match["key"] is not None:
            found.append(("filter", (match["key"], match["op"], match["want"])))
        elif match["index"] is not None:
            found.append(("all", None) if match["index"] == "*" else ("index", int(match["index"])))
        else:
            name = match["quoted"] or re.sub(r"\\(.)", r"\1", match["name"])
            found.append(("all", None) if name == "*" else ("field", name))
    return tuple(found)


def find(path: str, value: Any) -> list[Any]:
    """Return everything a path leads to."""
    found = [value]
    for kind, argument in _steps(path):
        found = [below for one in found for below in _walk(kind, argument, one)]
    return found


def _walk(kind: str, argument: Any, value: Any) -> list[Any]:
    match kind, value:
        case "field", dict():
            return [value[argument]] if argument in value else []
        case "index", list():
            return [value[argument]] if -len(value) <= argument < len(value) else []
        case "all", list():
            return list(value)
        case "all", dict():
            return list(value.values())
        case "filter", list():
            key, operator, want = argument
            return [
                item
                for item in value
                if any(_same(got, want) for got in find(f".{key}", item)) == (operator == "==")
            ]
    return []


def _same(got: Any, want: str) -> bool:
    if isinstance(got, bool):
        return want == ("true" if got else "false")
    return str(got) == want
