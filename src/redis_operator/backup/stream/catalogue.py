"""The content of the archive of a shard: its lines, their bases and segments. Read only.

Guarantees: every listed object has a manifest. A manifest of a segment that cannot be read is an
error that names it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from msgspec import Struct

from ..errors import Damaged
from ..store import Shelf
from .records import (
    Base,
    Point,
    Segment,
    base_names,
    content_number,
    decode,
    line_and_number,
    point_name,
    segment_names,
)

__all__ = ["Catalogue", "ListedLine", "read_catalogue", "read_segment"]

_LOG = logging.getLogger(__name__)
_AT_ONCE = 16


class ListedLine(Struct, frozen=True):
    """The numbers of a line's segments and bases, in order.

    `hollow`: segments whose manifest is empty, or whose bytes are missing, by the list alone.
    """

    line: int
    segments: tuple[int, ...]
    bases: tuple[int, ...]
    hollow: tuple[int, ...] = ()


class Catalogue:
    """The archive of one shard as it was listed."""

    def __init__(
        self,
        shelf: Shelf,
        lines: tuple[ListedLine, ...],
        points: tuple[str, ...],
        filled: frozenset[str],
    ) -> None:
        self.shelf = shelf
        self.lines = lines
        self.points = points
        self._filled = filled  # objects that are not empty
        self.damaged: dict[tuple[int, int], str] = {}  # bases that cannot be used, and why
        self._lean: dict[tuple[int, int], Segment] = {}

    async def segment(self, line: int, number: int) -> Segment:
        """Return a segment's manifest. Raises `Damaged`."""
        return await read_segment(self.shelf, line, number)

    async def segments(self, line: int, numbers: Iterable[int], since: int = 0) -> list[Segment]:
        """Return the manifests of several segments, in the order that was asked for.

        Those that ended before `since` are lean: a day of an archive would not fit into memory.
        """
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(number: int) -> Segment:
            known = self._lean.get((line, number))
            if known is not None and known.ended_at < since:
                return known
            async with turns:
                found = await self.segment(line, number)
            if found.ended_at >= since:
                return found
            lean = self._lean[line, number] = found.lean()
            return lean

        return list(await asyncio.gather(*(one(number) for number in numbers)))

    async def base(self, line: int, number: int) -> Base:
        """Return a base's manifest. Raises `Damaged`."""
        name = base_names(line, number).manifest
        return decode(await self._get(name), Base, name)

    async def bases(self, line: int) -> list[Base]:
        """Return the manifests of a line's bases that can be used; others are in `damaged`.

        An earlier base serves for the same times: a damaged one is as good as none, and so is one
        whose bytes are missing.
        """
        [listed] = [found for found in self.lines if found.line == line]
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(number: int) -> Base | None:
            if (line, number) in self.damaged:
                return None
            try:
                async with turns:
                    base = await self.base(line, number)
                    await self._require_bytes(base.part.object)
                    return base
            except Damaged as error:
                _LOG.warning("%s", error)
                self.damaged[line, number] = str(error)
                return None

        found = await asyncio.gather(*map(one, listed.bases))
        return [base for base in found if base is not None]

    async def point(self, name: str) -> Point:
        """Return a named restore point. Raises `Damaged`."""
        if name not in self.points:
            known = ", ".join(self.points) or "none"
            raise Damaged(f"there is no restore point {name}; there are: {known}")
        return decode(await self._get(point_name(name)), Point, point_name(name))

    async def newest(self) -> Segment | None:
        """Return the last segment of the last line that has one."""
        for listed in reversed(self.lines):
            if listed.segments:
                return await self.segment(listed.line, listed.segments[-1])
        return None

    async def _require_bytes(self, name: str) -> None:
        """Raise `Damaged` where an object is not there, or empty; the list may be late."""
        if name not in self._filled and not await self.shelf.size(name):
            raise Damaged(f"{name} is missing, or empty")

    async def _get(self, name: str) -> bytes:
        raw = await self.shelf.get(name)
        if raw is None:
            raise Damaged(f"{name} is missing")
        return raw


async def read_segment(shelf: Shelf, line: int, number: int) -> Segment:
    """Return a segment's manifest. Raises `Damaged`."""
    name = segment_names(line, number).manifest
    raw = await shelf.get(name)
    if raw is None:
        raise Damaged(f"{name} is missing")
    found = decode(raw, Segment, name)
    if (found.line, found.number) != (line, number):
        raise Damaged(f"{name} is the manifest of another segment")
    return found


async def read_catalogue(shelf: Shelf) -> Catalogue:
    """List what the store has."""
    found: dict[int, tuple[list[int], list[int], list[int]]] = {}
    points = []
    sizes = await shelf.sizes()
    whole = frozenset(name for name, size in sizes.items() if size)
    filled = {content_number(name) for name in whole}
    for name, size in sizes.items():
        numbered = line_and_number(name)
        if numbered is not None:
            kind, line, number = numbered
            segments, bases, hollow = found.setdefault(line, ([], [], []))
            (segments if kind == "segment" else bases).append(number)
            if kind == "segment" and (not size or (line, number) not in filled):
                hollow.append(number)
        elif name.startswith("points/") and name.endswith(".json"):
            points.append(name.removeprefix("points/").removesuffix(".json"))
    lines = tuple(
        ListedLine(line, *(tuple(sorted(numbers)) for numbers in all_numbers))
        for line, all_numbers in sorted(found.items())
    )
    return Catalogue(shelf, lines, tuple(sorted(points)), whole)
