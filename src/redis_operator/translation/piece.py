"""A part of a translated spec: fields of a `Redis`, where each came from, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from redis_operator.api.redis import Resources
from redis_operator.api.shape import Problem

__all__ = ["SpecPiece", "amounts", "join", "origin_of"]


class SpecPiece(Struct, frozen=True):
    """Some fields of a spec."""

    spec: dict[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    origins: dict[str, str] = field(
        default_factory=dict
    )  # from a path of Redis to where it is said


def join(pieces: Iterable[SpecPiece]) -> SpecPiece:
    """Return all pieces as one; objects that several have are merged."""
    spec: dict[str, Any] = {}
    problems: list[Problem] = []
    origins: dict[str, str] = {}
    for piece in pieces:
        _lay(spec, piece.spec)
        problems += piece.problems
        origins |= piece.origins
    return SpecPiece(spec=spec, problems=tuple(problems), origins=origins)


def _lay(below: dict[str, Any], above: dict[str, Any]) -> None:
    for name, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(name), dict):
            _lay(below[name], value)
        else:
            below[name] = value.copy() if isinstance(value, dict) else value


def origin_of(path: str, origins: dict[str, str]) -> str:
    """Return the original path of a path of the `Redis`; the path itself if there is none."""
    known = [
        place for place in origins if path == place or path.startswith((f"{place}.", f"{place}["))
    ]
    if not known:
        return path
    longest = max(known, key=len)
    return origins[longest] + path[len(longest) :]


def amounts(resources: Resources) -> dict[str, Any]:
    """Return requests and limits as they are written."""
    found = {"requests": resources.requests, "limits": resources.limits}
    return {name: dict(values) for name, values in found.items() if values}
