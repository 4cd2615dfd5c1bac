"""Compares what has arrived of a stream with what its server has sent.

The server is asked for its offset before and after all that is on the way was taken in. Where it
was the same both times, what has arrived must have come as far. Where writes never pause, the last
bytes that arrived are asked for once more, on a connection of their own, and compared.

Guarantees: bytes up to `Growing.proven` are those of the server. Limit: of a stream that never
pauses the last 64 KiB are compared. A loss before these is not noticed there if they repeat
themselves and what was lost is as long as such a repetition, or a multiple of it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from enum import Enum

from redis_operator.redis import commands
from redis_operator.redis.connection import Connection
from redis_operator.redis.errors import RedisError
from redis_operator.redis.replies import InfoReplication

from ..errors import SourceError
from ..replica import Login
from .follow import Continue
from .link import StreamLink, attach_stream
from .sampler import open_link
from .sealing import Growing

__all__ = ["BytesLost", "OffsetVerdict", "Prover", "judge"]

_ANSWER_SECONDS = 2.0
_QUIET_SECONDS = 0.05
_LATE_SECONDS = 3.0
_RETRY_SECONDS = 0.5
_TRIES = 5
_MOST_LOSSES = 3
_COMPARED = 64 << 10

Receive = Callable[[float], Awaitable[bool]]
"""Take in what arrives within so many seconds; False: nothing did."""


class BytesLost(SourceError):  # noqa: N818 - what it is
    """What has arrived is not what the server has sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, passing=True)


class OffsetVerdict(Enum):
    """What two offsets of a server say about what had arrived between them."""

    EQUAL = "equal"
    LATE = "late"
    BUSY = "busy"
    DIFFERENT = "different"


def judge(before: int, received: int, after: int) -> OffsetVerdict:
    """Compare what has arrived with the server's offset before and after it was counted."""
    if received > after:
        return OffsetVerdict.DIFFERENT
    if before != after:
        return OffsetVerdict.BUSY
    return OffsetVerdict.EQUAL if received == after else OffsetVerdict.LATE


class Prover:
    """Compares for one archiver. `damage`: what was lost since the last bytes that were proven."""

    def __init__(self, login: Callable[[], Login], version: str) -> None:
        self.damage = ""
        self._login = login
        self._version = version
        self._losses = 0
        self._due = 0.0

    def lost(self, damage: str) -> None:
        """Note a loss."""
        self.damage = damage
        self._losses += 1

    @property
    def is_hopeless(self) -> bool:
        """Whether bytes were lost so often that reading them again does not help."""
        return self._losses >= _MOST_LOSSES

    def begin(self) -> None:
        """Forget the losses: another line begins, or bytes were proven."""
        self.damage = ""
        self._losses = 0

    async def is_proven(self, link: StreamLink, growing: Growing, receive: Receive) -> bool:
        """Tell whether all that has arrived is what the server has sent; False: it does not say so.

        Raises `BytesLost` where it is not, and `SourceError` where the stream has ended.
        """
        if time.monotonic() < self._due:
            return False
        if not await self._compare(link, growing, receive):
            self._due = time.monotonic() + _RETRY_SECONDS
            return False
        self.begin()
        return True

    async def _compare(self, link: StreamLink, growing: Growing, receive: Receive) -> bool:
        try:
            async with await open_link(link.source, self._login()) as asking:
                replication = await _offset_settled(asking, link, receive)
        except RedisError:
            return False
        if replication is None:
            return False
        if replication.offset == growing.last:
            growing.proven = growing.last
            return True
        wanted = Continue(link.source, link.replication_id, growing.last + 1)
        return await self.compare_again(wanted, growing, replication)

    async def compare_again(
        self, wanted: Continue, growing: Growing, replication: InfoReplication
    ) -> bool:
        """Compare the last bytes before those that are wanted with the same ones of a server.

        Also done before a server is attached to: its offset says nothing of bytes from before.
        False: it may not keep them any more. Raises `BytesLost` where they differ, and
        `SourceError`.
        """
        last = wanted.first - 1
        if last <= growing.proven:
            return True
        # A server that lacks a byte begins to copy all its data: none near the backlog's beginning.
        kept = (replication.backlog_first + replication.offset) // 2
        first = max(growing.proven + 1, last + 1 - _COMPARED, kept)
        if first > last or not replication.backlog_first:
            return False
        ours = growing.between(first, last)
        again = Continue(wanted.source, wanted.replication_id, first)
        link = await attach_stream(again, self._login(), self._version, silent=True)
        if await _read(link, len(ours)) != ours:
            raise BytesLost(
                f"the bytes {first} to {last} of {wanted.source.pod} are not those that have "
                "arrived: bytes were lost on the way"
            )
        growing.proven = last
        return True


async def _offset_settled(
    asking: Connection, link: StreamLink, receive: Receive
) -> InfoReplication | None:
    """Return what the server says once that settles it, or when writes do not pause.

    None: it is in another history now. Bytes that are late may still arrive and are waited for.
    """
    deadline, busy = time.monotonic() + _LATE_SECONDS, 0
    before = await _ask(asking)
    while True:
        while link.received < before.offset and await receive(_QUIET_SECONDS):
            pass
        received = link.received
        after = await _ask(asking)
        if link.replication_id != after.replication_id or not after.offset:
            return None
        match judge(before.offset, received, after.offset):
            case OffsetVerdict.EQUAL:
                return after
            case OffsetVerdict.BUSY:
                busy += 1
                if busy >= _TRIES:
                    return after
            case OffsetVerdict.LATE if time.monotonic() < deadline:
                pass
            case _:
                raise BytesLost(
                    f"{link.source.pod} has sent the stream up to byte {after.offset}, and "
                    f"{received} have arrived: bytes were lost on the way"
                )
        before = after


async def _ask(asking: Connection) -> InfoReplication:
    return await asking.run(commands.info_replication(), timeout=_ANSWER_SECONDS)


async def _read(link: StreamLink, size: int) -> bytes:
    """Return the next bytes of a link, and end it."""
    found = b""
    deadline = time.monotonic() + _LATE_SECONDS
    try:
        while len(found) < size:
            if time.monotonic() > deadline:
                raise SourceError(f"{link.source.pod} does not send what it keeps", passing=True)
            found += await link.read(timeout=_QUIET_SECONDS)
    finally:
        link.close()
    return found[:size]
