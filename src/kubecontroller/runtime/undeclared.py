"""Fields of a status that the installed definition does not declare.

A server refuses to apply them, and with them the whole status. So an operator that is newer than
the definitions of its kinds would write no status at all: it leaves such fields out instead, and
retries later, when the definitions may have been installed.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any, Final

from kubecontroller.runtime.logs import fields

__all__ = ["Undeclared"]

_log = logging.getLogger(__name__)
_REFUSED: Final = re.compile(r"\s(\.status\.[^\n]*?): field not declared in schema")
_PART: Final = re.compile(r"\[[^\]]*\]|[^.\[]+")
_REMEMBERED_SECONDS: Final = 600.0
_EACH: Final = "[]"

Path = tuple[str, ...]


class Undeclared:
    """The fields that definitions do not declare, by kind."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, frozenset[Path]]] = {}

    def learn(self, resource: str, message: str) -> bool:
        """Learn from a refusal which fields to leave out; whether it named new ones."""
        named = {_path(text) for text in _REFUSED.findall(message)}
        known = self._paths(resource)
        if not named - known:
            return False
        now = asyncio.get_running_loop().time()
        self._found[resource] = (now + _REMEMBERED_SECONDS, known | named)
        _log.warning(
            "the definition of this kind does not declare fields of the status, which are left "
            "out: apply the definitions of this version",
            extra=fields(kind=resource, fields=[".".join(path) for path in sorted(named)]),
        )
        return True

    def strip(self, resource: str, status: Any) -> Any:
        """Return a status without the fields that are known to be refused."""
        for path in self._paths(resource):
            status = _without(status, path)
        return status

    def _paths(self, resource: str) -> frozenset[Path]:
        until, paths = self._found.get(resource, (0.0, frozenset[Path]()))
        return paths if paths and asyncio.get_running_loop().time() < until else frozenset()


def _path(text: str) -> Path:
    """Return a path below `.status`; it stands for every element of a list."""
    parts = _PART.findall(text)
    return tuple(_EACH if part.startswith("[") else part for part in parts[1:])


def _without(value: Any, path: Path) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if first == _EACH:
        return [_without(one, rest) for one in value] if isinstance(value, list) else value
    if not isinstance(value, dict) or first not in value:
        return value
    if rest:
        return {**value, first: _without(value[first], rest)}
    return {name: kept for name, kept in value.items() if name != first}
