"""Bytes of the stream that are lost on the way: the archive notices, and never holds the rest."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backup.stream.conftest import (
    Replicated,
    archived,
    archiver_of,
    digest,
    fed,
    info,
    offset_of,
    replicated,
    running,
    sampled,
    shelf_in,
)
from redis_operator.backup.stream.archiver import Archiver
from redis_operator.backup.stream.catalogue import read_catalogue
from redis_operator.backup.stream.find import find_plan, find_window
from redis_operator.backup.stream.plan import Offset
from redis_operator.backup.task import Source
from redis_testing.servers import EngineBinary, Server
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers


def as_sent(*words: str) -> bytes:
    return f"*{len(words)}\r\n".encode() + b"".join(
        f"${len(word)}\r\n{word}\r\n".encode() for word in words
    )


GONE = as_sent("SET", "gone", "1")


class Lossy:
    """A way to a server on which bytes get lost: what `loses` names, so many times."""

    def __init__(self, server: Server) -> None:
        self.loses = b""
        self.times = 0
        self.lost = 0
        self.port = 0
        self._server = server

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = self._server.address
        try:
            inner = await asyncio.open_connection(address.host, address.port)
        except OSError:
            writer.close()
            return
        pumps = [
            asyncio.ensure_future(self._pump(reader, inner[1], lossy=False)),
            asyncio.ensure_future(self._pump(inner[0], writer, lossy=True)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in (writer, inner[1]):
                one.transport.abort()  # what is buffered would keep it open
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, lossy: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while found := await reader.read(1 << 16):
                if lossy and self.loses and self.loses in found and self.lost < self.times:
                    self.lost += 1
                    found = found.replace(self.loses, b"", 1)
                writer.write(found)
                await writer.drain()


@contextlib.asynccontextmanager
async def lossy_way(server: Server) -> AsyncIterator[Lossy]:
    way = Lossy(server)
    running: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        with contextlib.suppress(asyncio.CancelledError):
            await way.serve(reader, writer)
        running.discard(task)

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    way.port = listening.sockets[0].getsockname()[1]
    try:
        yield way
    finally:
        listening.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.sleep(0)  # connections that were just opened are closed in the next step


def behind(shard: Replicated, way: Lossy, folder: Path) -> Archiver:
    """An archiver that reaches the replica through this way, and the primary as usual."""
    primary, replica = shard.sources()

    def sources() -> tuple[Source, ...]:
        return primary, Source(replica.pod, "127.0.0.1", way.port)

    return archiver_of(shard, folder, sources=sources)


async def write(server: Server, name: str, count: int = 100, size: int = 3) -> int:
    """Write values that differ, so that no place in the stream is like another."""
    lines = [("SET", f"{name}:{number}", f"{number:0{size}}") for number in range(count)]
    await speak(server, *lines)
    return await offset_of(server)


async def holds(engine: EngineBinary, folder: Path, primary: Server) -> object:
    """Return what a restore of all that was archived holds."""
    catalogue = await read_catalogue(shelf_in(folder))
    newest = await catalogue.newest()
    assert newest is not None
    history = (await info(primary))["master_replid"]
    plan = await find_plan(catalogue, Offset(history, newest.last))
    server, servers = await fed(engine, folder, plan)
    async with servers:
        return await digest(server)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 40, 1000])
async def test_lost_bytes_are_read_again_while_the_server_keeps_them(
    engine: EngineBinary, tmp_path: Path, after: int
) -> None:
    """Whether nothing came after them, less than what was lost, or more."""
    async with replicated(engine, 1) as shard, lossy_way(shard.servers[1]) as way:
        primary = shard.primary
        archiver = behind(shard, way, tmp_path)
        async with running(archiver):
            await archived(tmp_path, await write(primary, "before"))
            way.loses, way.times = GONE, 1
            await speak(primary, ("SET", "gone", "1"))
            await write(primary, "after", after)
            end = await write(primary, "end", 1)
            await archived(tmp_path, end)
            held = await digest(primary)
        assert way.lost == 1
        catalogue = await read_catalogue(shelf_in(tmp_path))
        assert [listed.line for listed in catalogue.lines] == [1]
        assert (await find_window(catalogue)).gaps == ()
        assert await holds(engine, tmp_path, primary) == held


@pytest.mark.slow
async def test_lost_bytes_that_the_server_does_not_keep_are_a_gap(
    engine: EngineBinary, tmp_path: Path
) -> None:
    small = replicated(engine, 1, repl_backlog_size="16384")
    async with small as shard, lossy_way(shard.servers[1]) as way:
        primary = shard.primary
        archiver = behind(shard, way, tmp_path)
        async with running(archiver):
            await sampled(archiver)
            await archived(tmp_path, await write(primary, "before"))
            way.loses, way.times = GONE, 1
            await speak(primary, ("SET", "gone", "1"), *(("SET", "big", "x" * 900),) * 60)

            async def again() -> bool:
                return archiver.state().line == 2 and archiver.state().attached != ""

            await eventually(again)
            await sampled(archiver)
            await archived(tmp_path, await write(primary, "end"))
            held = await digest(primary)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        [gap] = (await find_window(catalogue)).gaps
        assert "lost on the way" in gap.reason
        assert await holds(engine, tmp_path, primary) == held


@pytest.mark.slow
async def test_bytes_that_are_lost_while_writes_never_pause_are_noticed(
    engine: EngineBinary, tmp_path: Path
) -> None:
    """No offset of the server is ever equal to what has arrived: the bytes are compared."""
    large = replicated(engine, 1, repl_backlog_size="64mb")
    async with large as shard, lossy_way(shard.servers[1]) as way:
        primary = shard.primary
        archiver = behind(shard, way, tmp_path)
        stop = asyncio.Event()

        async def load() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                lines = [("SET", f"busy:{n}", f"{number}-{n}") for n in range(20)]
                await speak(primary, *lines)

        async with running(archiver):
            await archived(tmp_path, await write(primary, "before"))
            loading = asyncio.create_task(load())
            try:
                way.loses, way.times = GONE, 1
                await speak(primary, ("SET", "gone", "1"))
                here = await offset_of(primary)
                await archived(tmp_path, here + 20_000)
            finally:
                stop.set()
                await loading
            await archived(tmp_path, await write(primary, "end", 1))
            held = await digest(primary)
        assert way.lost == 1
        assert (await find_window(await read_catalogue(shelf_in(tmp_path)))).gaps == ()
        assert await holds(engine, tmp_path, primary) == held


@pytest.mark.slow
async def test_a_way_that_loses_bytes_each_time_ends_the_line(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with replicated(engine, 1) as shard, lossy_way(shard.servers[1]) as way:
        primary = shard.primary
        archiver = behind(shard, way, tmp_path)
        async with running(archiver):
            await sampled(archiver)
            await archived(tmp_path, await write(primary, "before"))
            way.loses, way.times = GONE, 1000
            await speak(primary, ("SET", "gone", "1"))
            await write(primary, "after")

            async def again() -> bool:
                return archiver.state().line == 2 and archiver.state().attached != ""

            await eventually(again)
            await sampled(archiver)
            await archived(tmp_path, await write(primary, "end"))
            held = await digest(primary)
        [gap] = (await find_window(await read_catalogue(shelf_in(tmp_path)))).gaps
        assert "lost on the way" in gap.reason
        assert await holds(engine, tmp_path, primary) == held
