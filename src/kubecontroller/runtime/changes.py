"""Changes of cached objects, as handlers receive them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

__all__ = ["Added", "Change", "Deleted", "Handler", "Updated"]

T = TypeVar("T")


class Added(Struct, Generic[T], frozen=True):
    """An object is in the cache now; `initial` if it was there before the handler subscribed."""

    obj: T
    initial: bool = False


class Updated(Struct, Generic[T], frozen=True):
    """An object changed; on a resync `old` and `new` are the same object."""

    old: T
    new: T


class Deleted(Struct, Generic[T], frozen=True):
    """An object was deleted.

    `assumed` if the deletion was not seen but concluded from its absence in a list: `obj` is then
    the last known state, and may be old.
    """

    obj: T
    assumed: bool = False


Change: TypeAlias = Added[T] | Updated[T] | Deleted[T]

Handler: TypeAlias = Callable[[Change[T]], None]
"""Receives changes in order. It must not block and cannot await: it may only enqueue."""
