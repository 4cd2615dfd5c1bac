"""Take snapshots of all shards at one moment: writes are paused until every one has begun.

Steps: connect to all servers; `CLIENT PAUSE ... WRITE` on all primaries; send each a command that
is answered when the pause is over; read their offsets; wait until every source has these; ask all
sources for their snapshots; read the offsets of the primaries once more; check that no such command
was answered; `CLIENT UNPAUSE`. Then the snapshots are read.

Guarantees:
    - The result is proven: each snapshot is between the two offsets of its primary, and the
      pause was in force from before the first to after the last of them, also where another client
      ends pauses. So each shard has all writes that were acknowledged before the moment, and none
      that began after it.
    - Writes wait at most `_PAUSE_SECONDS`, whatever happens to this worker: the servers end the
      pause themselves. Otherwise it ends as soon as all snapshots have begun, or one cannot.

Assumptions: a user that may run ROLE, CLIENT PAUSE, CLIENT UNPAUSE, and PUBLISH to `CUT_CHANNEL`.
Sources begin a snapshot at once, which servers do when they make a file first: there must be room
for it beside their data.
Errors: `SourceError`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

import hiredis
from msgspec import Struct

from redis_operator.redis.resp import encode

from .errors import SourceError
from .replica import Attached, Login, introduced
from .task import CUT_CHANNEL, ShardTask, Source

__all__ = ["Begun", "begin_all", "wait_received", "waits"]

_PAUSE_SECONDS = 3.0
_BUDGET_SECONDS = 2.0  # within which all snapshots begin; the rest is a reserve
_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 2.0
_LOOK_SECONDS = 0.002
_RECEIVE_SECONDS = 10.0


def waits() -> Iterator[float]:
    """Return how many seconds to wait after each cut that was not proven.

    Each may have blocked writes for up to `_BUDGET_SECONDS`: the time between must be longer.
    """
    return (2.0 * 2**number for number in count())


class Begun(Struct, frozen=True):
    """A snapshot that has begun: where it is in the history of its shard."""

    shard: ShardTask
    attached: Attached
    replication_id: str
    offset: int


class _Server:
    """A connection for commands to one server."""

    def __init__(
        self, source: Source, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.source = source
        self._reader, self._writer = reader, writer
        self._parser = hiredis.Reader()
        self._held: asyncio.Future[bytes] | None = None

    async def run(self, *words: str | int) -> object:
        self._writer.write(encode(words))
        return await self._answer(words[0])

    async def _answer(self, asked: str | int) -> object:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                while (answer := self._parser.gets()) is False:
                    data = await self._reader.read(65536)
                    if not data:
                        raise SourceError(f"{self.source.pod} ended the connection", passing=True)
                    self._parser.feed(data)
        except (OSError, TimeoutError) as error:
            why = str(error) or f"no answer within {_ANSWER_SECONDS:g} s"
            raise SourceError(f"{self.source.pod}: {asked}: {why}", passing=True) from error
        if isinstance(answer, Exception):
            raise SourceError(f"{self.source.pod} refuses {asked}: {answer}", passing=True)
        return answer

    async def hold(self) -> None:
        """Send a command that is answered when the pause of writes is over.

        Both commands are in one write: the server has received the second when it replies to the
        first.
        """
        self._writer.write(encode(("PING",)) + encode(("PUBLISH", CUT_CHANNEL, "held")))
        await self._answer("PING")
        self._held = asyncio.ensure_future(self._reader.read(65536))

    def check_held(self) -> None:
        """Raise `SourceError` where the command of `hold` was answered."""
        assert self._held is not None
        if self._held.done() and self._held.exception() is None:
            self._parser.feed(self._held.result())
        answer = self._parser.gets()  # it may have come together with that to PING
        if isinstance(answer, Exception):
            raise SourceError(f"{self.source.pod} refuses PUBLISH: {answer}", passing=True)
        if self._held.done() or answer is not False:
            raise SourceError(
                f"{self.source.pod}: the pause of writes was over before all snapshots began: "
                "another client ended it (CLIENT UNPAUSE), or the server ended the connection",
                passing=True,
            )

    async def close(self) -> None:
        """Close the connection."""
        if self._held is not None:
            self._held.cancel()
            await asyncio.gather(self._held, return_exceptions=True)
        self._writer.close()

    async def offset(self, *, primary: bool | None = None) -> int:
        """Return the offset of the server. Raises `SourceError` where its role has changed."""
        answer = await self.run("ROLE")
        assert isinstance(answer, list)
        leads = bytes(answer[0]) == b"master"
        if primary is not None and leads is not primary:
            is_now = "a primary" if leads else "a replica"
            raise SourceError(f"{self.source.pod} is {is_now} now", passing=True)
        return int(answer[1] if leads else answer[4])


@asynccontextmanager
async def _asked(source: Source, login: Login) -> AsyncIterator[_Server]:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(source.host, source.port)
    except (OSError, TimeoutError) as error:
        why = str(error) or f"no connection within {_CONNECT_SECONDS:g} s"
        raise SourceError(f"{source.pod} cannot be reached: {why}", passing=True) from error
    found = _Server(source, reader, writer)
    try:
        await found.run("AUTH", login.user, login.password)
        yield found
    finally:
        await found.close()


async def wait_received(source: Source, primary: Source | None, login: Login) -> None:
    """Wait until a server has all that its primary has acknowledged so far.

    A primary begins to stream to a new replica when that one has responded to its first sync, up to
    a second after both of them call it in sync. Raises `SourceError`.
    """
    if primary is None or primary.pod == source.pod:
        return
    async with _asked(primary, login) as leading, _asked(source, login) as following:
        wanted = await leading.offset()
        try:
            async with asyncio.timeout(_RECEIVE_SECONDS):
                while await following.offset() < wanted:  # noqa: ASYNC110 - there is no event
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError as error:
            raise SourceError(
                f"{source.pod} has not received within {_RECEIVE_SECONDS:g} s what {primary.pod} "
                "had acknowledged",
                passing=True,
            ) from error


@asynccontextmanager
async def begin_all(
    shards: Sequence[ShardTask], login: Callable[[], Login], version: str
) -> AsyncIterator[tuple[list[Begun], float]]:
    """Begin the snapshots of all shards at one moment; return them, and how long writes waited.

    Each shard is read from the first of its sources. Connections end with the context.
    """
    async with AsyncExitStack() as stack:
        readers, primaries, sources, witnesses = [], [], [], []
        for shard in shards:
            assert shard.primary is not None
            source = shard.sources[0]
            entered = introduced(source, login(), version, streams=False)
            readers.append(await stack.enter_async_context(entered))
            asked = await stack.enter_async_context(_asked(shard.primary, login()))
            primaries.append(asked)
            witness = await stack.enter_async_context(_asked(shard.primary, login()))
            witnesses.append(witness)
            same = source.pod == shard.primary.pod
            sources.append(
                asked if same else await stack.enter_async_context(_asked(source, login()))
            )
        began = time.monotonic()
        try:
            async with asyncio.timeout(_BUDGET_SECONDS):
                places = await _paused(primaries, sources, readers, witnesses)
        except TimeoutError as error:
            text = f"not every snapshot began within {_BUDGET_SECONDS:g} s of the pause of writes"
            raise SourceError(text, passing=True) from error
        finally:
            await _unpause(primaries)
        waited = time.monotonic() - began
        yield (
            [
                Begun(shard, reader, *place)
                for shard, reader, place in zip(shards, readers, places, strict=True)
            ],
            waited,
        )


async def _paused(
    primaries: list[_Server],
    sources: list[_Server],
    readers: list[Attached],
    witnesses: list[_Server],
) -> list[tuple[str, int]]:
    """Pause, begin everywhere, and verify that all of it was within the pause."""
    began = time.monotonic()
    words = ("CLIENT", "PAUSE", int(_PAUSE_SECONDS * 1000), "WRITE")
    await asyncio.gather(*(server.run(*words) for server in primaries))
    await asyncio.gather(*(server.hold() for server in witnesses))
    before = await asyncio.gather(*(server.offset(primary=True) for server in primaries))
    waits = zip(primaries, sources, before, strict=True)
    await asyncio.gather(*(_caught_up(*one) for one in waits))
    places = await asyncio.gather(*(reader.begin() for reader in readers))
    after = await asyncio.gather(*(server.offset(primary=True) for server in primaries))
    # Replies that were sent before these offsets arrive before the replies to these.
    await asyncio.gather(*(server.run("PING") for server in primaries))
    for witness in witnesses:
        witness.check_held()
    if time.monotonic() - began >= _PAUSE_SECONDS:
        raise SourceError("the pause of writes was over before all snapshots began", passing=True)
    for server, first, (_, offset), last in zip(primaries, before, places, after, strict=True):
        if not first <= offset <= last:
            raise SourceError(
                f"{server.source.pod}: the snapshot is at {offset} and not between {first} and "
                f"{last}, where writes were paused",
                passing=True,
            )
    return list(places)


async def _caught_up(primary: _Server, source: _Server, wanted: int) -> None:
    """Wait until a replica has everything that its primary had when writes were paused."""
    if primary is source:
        return
    while await source.offset(primary=False) < wanted:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(_LOOK_SECONDS)


async def _unpause(primaries: list[_Server]) -> None:
    """End the pause; a server that does not respond ends it by itself."""
    await asyncio.gather(
        *(server.run("CLIENT", "UNPAUSE") for server in primaries), return_exceptions=True
    )
