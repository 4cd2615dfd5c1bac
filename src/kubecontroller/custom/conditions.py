"""Conditions of a status: set one, and keep the time of its last transition. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

__all__ = ["dated", "with_condition"]

C = TypeVar("C", bound="Struct | dict[str, Any]")


def with_condition(conditions: Iterable[C] | None, new: C, now: object) -> list[C]:
    """Return conditions with one set; its transition time moves only with its status.

    The others keep their content and place; a new one is appended. Conditions are Structs with
    `type`, `status` and `last_transition_time`, or plain values; `now` is the new transition time,
    of the same type as the times of the others.
    """
    known = {_field(one, "type"): one for one in conditions or ()}
    kind = _field(new, "type")
    known[kind] = dated(new, known.get(kind), now)
    return list(known.values())


def dated(new: C, old: C | None, now: object) -> C:
    """Return a condition with the transition time that follows from the one it replaces."""
    is_same = old is not None and _field(old, "status") == _field(new, "status")
    since = (_since(old) if old is not None and is_same else None) or now
    if isinstance(new, Struct):
        return replace(new, last_transition_time=since)
    return cast("C", {**new, "lastTransitionTime": since})


def _field(condition: Struct | dict[str, Any], name: str) -> Any:
    return getattr(condition, name) if isinstance(condition, Struct) else condition[name]


def _since(condition: Struct | dict[str, Any]) -> Any:
    if isinstance(condition, Struct):
        return getattr(condition, "last_transition_time")  # noqa: B009 - of any such Struct
    return condition.get("lastTransitionTime")
