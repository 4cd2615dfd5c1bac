"""Admission: what may change or refuse a write between its decoding and its commit."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from .calls import Call, Steps
from .core import Core
from .entries import Object

__all__ = ["Admission", "Review"]


class Review(Struct, frozen=True):
    """One write as admission sees it."""

    call: Call
    operation: str
    new: Object | None
    old: Object | None

    def with_new(self, new: Object) -> Review:
        """Return the review of a changed object."""
        return replace(self, new=new)


class Admission:
    """Built-in admission and webhooks."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def mutate(self, review: Review) -> Steps[Object]:
        """Return the object as admission leaves it."""
        yield from ()
        assert review.new is not None
        return review.new

    def validate(self, review: Review) -> Steps[None]:  # noqa: ARG002
        """Refuse what may not be."""
        yield from ()
