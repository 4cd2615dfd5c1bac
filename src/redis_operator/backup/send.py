"""Send prepared commands to a primary, many at a time, and check the replies.

Sending twice gives the same result, so temporary errors (a closed connection, a server that loads)
are waited for, and commands that were not accepted are sent again.

Errors: `TargetError`, which names the server and what to do.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from msgspec import Struct

from .errors import TargetError
from .link import CommandLink, connect
from .replica import Login
from .task import FillTarget

__all__ = ["PASSING", "Batch", "Room", "Sender", "advice"]

_LOG = logging.getLogger(__name__)
PASSING = ("IOERR", "LOADING", "NOREPLICAS", "CLUSTERDOWN", "MASTERDOWN", "BUSY", "TRYAGAIN")
_SECONDS = 60.0
_PAUSE_SECONDS = 0.5


class Batch(Struct):
    """Commands of one database. With `only_new` a key that exists already is not changed."""

    database: int = 0
    only_new: bool = False
    commands: list[bytes] = []
    size: int = 0


class Room:
    """How many bytes may be on their way to all targets together."""

    def __init__(self, size: int) -> None:
        self._size, self._used = size, 0
        self._freed = asyncio.Event()

    async def take(self, size: int) -> None:
        """Wait for room; what is larger than all of it waits until nothing else is there."""
        while self._used and self._used + size > self._size:
            self._freed.clear()
            await self._freed.wait()
        self._used += size

    def free(self, size: int) -> None:
        """Give room back."""
        self._used -= size
        self._freed.set()


class Sender:
    """A connection to one primary. The order of batches does not matter."""

    def __init__(
        self, target: FillTarget, login: Callable[[], Login], patience: float, room: Room
    ) -> None:
        self._target, self._login, self._patience = target, login, patience
        self._room = room
        self._waiting: asyncio.Queue[Batch | None] = asyncio.Queue()
        self._link: CommandLink | None = None
        self._database = 0

    async def put(self, batch: Batch | None) -> None:
        """Queue a batch; returns when there is room for it. None: that was the last one."""
        if batch is not None:
            await self._room.take(batch.size)
        await self._waiting.put(batch)

    async def run(self) -> None:
        """Send what is put, until the last one was taken. Raises `TargetError`."""
        try:
            while (batch := await self._waiting.get()) is not None:
                await self._take(batch)
                self._room.free(batch.size)
        finally:
            self._close()

    async def _take(self, batch: Batch) -> None:
        left, end = batch.commands, time.monotonic() + self._patience
        while left:
            left, refusal = await self._once(left, batch)
            if not left:
                return
            if time.monotonic() > end:
                raise self._refusal(refusal, batch)
            _LOG.info("%s: %s", self._target.pod, refusal)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _once(self, commands: list[bytes], batch: Batch) -> tuple[list[bytes], str]:
        """Send commands; return those to send again, and why."""
        try:
            link = await self._connected()
            if self._database != batch.database:
                await link.ask("SELECT", batch.database)
                self._database = batch.database
            answers = await link.ask_raw(b"".join(commands), len(commands), timeout=_SECONDS)
        except TargetError as error:
            self._close()
            if not error.passing and not _passes(error.answer):
                raise
            return commands, str(error)
        left, refusal = [], ""
        for number, answer in answers:
            if batch.only_new and answer.startswith("BUSYKEY"):
                continue
            if not _passes(answer):
                raise self._refusal(answer, batch)
            left.append(commands[number])
            refusal = answer
        return left, refusal

    async def _connected(self) -> CommandLink:
        if self._link is None:
            place = self._target
            self._link = await connect(
                place.pod, host=place.host, port=place.port, login=self._login()
            )
            self._database = 0
        return self._link

    def _close(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None

    def _refusal(self, answer: str, batch: Batch) -> TargetError:
        return TargetError(
            f"{self._target.pod} does not take {len(batch.commands)} keys ({batch.size} bytes): "
            f"{answer}{advice(answer)}",
            answer=answer,
        )


def _passes(answer: str) -> bool:
    """Whether a retry may succeed."""
    return answer.partition(" ")[0] in PASSING


def advice(text: str) -> str:
    """Return what to do about an error, where it is known."""
    if "OOM" in text:
        return "; the new database needs more memory (spec.resources.limits.memory), or more shards"
    if "MOVED" in text or "READONLY" in text:
        return "; it is not the primary of these keys any more: the restore begins again"
    return ""
