"""The bytes that a server gets after the base, checked and cut.

Guarantees: a segment is compared with its manifest before a byte of it is given. The last byte that
is given ends a command outside of MULTI.
"""

from __future__ import annotations

import asyncio
import hashlib
from bisect import bisect_left
from collections.abc import AsyncIterator
from itertools import accumulate
from statistics import median

from ..errors import Damaged, StoreError
from ..squeeze import Decompressor
from ..store import Shelf
from .catalogue import read_segment
from .plan import ReplayPlan, Span
from .records import Segment
from .rewrite import Rewriter, says_relative
from .scan import Scanner

__all__ = ["content_of", "replay", "verify_stream"]

_MOST = 1 << 30  # a segment is larger than 16 MiB where a single command is
_PIECE = 1 << 20


async def content_of(shelf: Shelf, segment: Segment) -> bytes:
    """Return the stream's bytes of a segment. Raises `Damaged`, which names the object."""
    try:
        stored = b"".join([piece async for piece in shelf.read(segment.object)])
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise Damaged(f"{segment.object} is missing from the store") from error
        raise
    return await asyncio.to_thread(_unpacked, stored, segment)


def _unpacked(stored: bytes, segment: Segment) -> bytes:
    decompressor = Decompressor()
    try:
        raw = decompressor.decompress(stored, min(segment.size + 1, _MOST))
    except ValueError as error:
        raise Damaged(f"{segment.object} is damaged: {error}") from error
    as_stored = len(stored) == segment.stored and len(raw) == segment.size
    if not as_stored or hashlib.sha256(raw).hexdigest() != segment.sha256:
        raise Damaged(f"{segment.object} is damaged: it is not what its manifest says")
    return raw


async def verify_stream(shelf: Shelf, plan: ReplayPlan) -> int:
    """Read everything that a plan needs of the stream; return how many bytes. Raises `Damaged`."""
    return sum([len(piece) async for piece in replay(shelf, plan)])


async def replay(shelf: Shelf, plan: ReplayPlan) -> AsyncIterator[bytes]:
    """Return the stream from the base up to the cut. Raises `Damaged`."""
    relative = says_relative(plan.base.engine, plan.base.version)
    rewriter = Rewriter(relative=relative) if relative or plan.base.cluster else None
    begin = plan.base.part.offset + 1
    ahead: asyncio.Future[bytes] | None = None
    try:
        for place, span in enumerate(plan.spans):
            raw = await (ahead or content_of(shelf, span.segment))
            following = plan.spans[place + 1 : place + 2]
            ahead = (
                asyncio.ensure_future(content_of(shelf, following[0].segment))
                if following
                else None
            )
            end = span.until if following else min(span.until, plan.cut.offset)
            start, stop = max(begin - span.segment.first, 0), end - span.segment.first + 1
            piece = raw[start:stop]
            if not following:
                piece = await asyncio.to_thread(_clean, piece)
            if rewriter is not None:
                timed = await _timed(shelf, span) if relative else span
                piece = await asyncio.to_thread(
                    _rewritten, rewriter, timed, span.segment.first + start, piece
                )
            for at in range(0, len(piece), _PIECE):
                yield piece[at : at + _PIECE]
    finally:
        if ahead is not None:
            ahead.cancel()


async def _timed(shelf: Shelf, span: Span) -> Span:
    """Return a span with the times at which its bytes arrived, which a lean one has not."""
    known = span.segment
    if known.index:
        return span
    return Span(await read_segment(shelf, known.line, known.number), span.until)


def _clean(piece: bytes) -> bytes:
    scanner = Scanner()
    scanner.feed(piece)
    return piece[: scanner.clean]


def _rewritten(rewriter: Rewriter, span: Span, first: int, piece: bytes) -> bytes:
    """Give the rewriter each piece with the primary's clock when it arrived."""
    segment = span.segment
    offsets = list(accumulate((pair[0] for pair in segment.index), initial=segment.first))[1:]
    times = list(accumulate((pair[1] for pair in segment.index), initial=segment.begun))[1:]
    shift = int(median([s.server - (s.sent + s.received) // 2 for s in segment.samples] or [0]))
    made, at, place = [], 0, bisect_left(offsets, first)
    while at < len(piece):
        # Index: offsets[i] had arrived at times[i].
        last = offsets[place] if place < len(offsets) else segment.last
        when = times[place] if place < len(times) else segment.ended
        upto = max(last - first + 1, at + 1)
        if place >= len(offsets):
            upto = len(piece)
        made.append(rewriter.feed(piece[at:upto], (when + shift) // 1000))
        at, place = upto, place + 1
    return b"".join(made)
