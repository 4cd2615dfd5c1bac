"""Fields that this release does not act on yet: refused, never silently ignored.

One table. When a behaviour is built, its row is deleted, and with it the admission rule and the
check.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

__all__ = ["UNBUILT", "Unbuilt", "unbuilt_in"]


class Unbuilt(Struct, frozen=True):
    """A field of the spec with its allowed values; any other value is refused."""

    path: str
    fine: tuple[Any, ...]
    message: str

    @property
    def rule(self) -> str:
        """Return the same as a CEL rule on the spec."""
        parts = self.path.split(".")
        absent = [f"!has(self.{'.'.join(parts[: n + 1])})" for n in range(len(parts))]
        equal = [f"self.{self.path} == {_literal(value)}" for value in self.fine if value != []]
        if [] in self.fine:
            equal.append(f"self.{self.path}.size() == 0")
        return " || ".join([*absent, *equal])


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f"'{value}'"


_LATER = "not built in this release: "

UNBUILT: Final[tuple[Unbuilt, ...]] = (
    Unbuilt("tls", (), _LATER + "connections are not encrypted; remove it"),
    Unbuilt("auth.users", ([],), _LATER + "more users; use the default user of spec.auth"),
    Unbuilt(
        "monitoring.serviceMonitor",
        (False,),
        _LATER + "a ServiceMonitor of its own; the installation has one for all, set it to false",
    ),
    Unbuilt(
        "monitoring.prometheusRule",
        (False,),
        _LATER + "alerts of its own; the installation has them for all, set it to false",
    ),
    Unbuilt(
        "monitoring.dashboard",
        (False,),
        _LATER + "a dashboard of its own; the installation has one for all, set it to false",
    ),
)


def unbuilt_in(spec: dict[str, Any], rows: Iterable[Unbuilt] = UNBUILT) -> list[Unbuilt]:
    """Return the rows that a raw spec violates."""
    return [row for row in rows if _value(spec, row.path) not in (None, *row.fine)]


def _value(spec: dict[str, Any], path: str) -> object:
    value: object = spec
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
