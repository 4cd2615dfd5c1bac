"""A worker that plays primary, and those who connect to it without a password."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from kubelocal.loopback import free_host
from redis_operator.backup.manifest import Manifest, StoredPart
from redis_operator.backup.primary import Primary
from redis_operator.backup.replica import Login
from redis_operator.backup.squeeze import Compressor
from redis_operator.backup.store import open_shelf
from redis_operator.backup.task import Store

MIB = 1 << 20


CONTENT = b"REDIS0009 and whatever else a snapshot has"
AUTH = b"*3\r\n$4\r\nAUTH\r\n$11\r\nreplication\r\n$4\r\nword\r\n"
PSYNC = b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n"
ACK = b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$2\r\n99\r\n"


@asynccontextmanager
async def connected(
    tmp_path: Path,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with listening(tmp_path) as (_, host):
        reader, writer = await asyncio.open_connection(host, 6379)
        try:
            yield reader, writer
        finally:
            writer.close()


@asynccontextmanager
async def listening(tmp_path: Path) -> AsyncIterator[tuple[Primary, str]]:
    """Have a worker listen that has a small part to give."""
    compressor = Compressor(1)
    stored = compressor.compress(CONTENT) + compressor.flush()
    name, digest = "server-0-1.rdb.zst", sha256(CONTENT).hexdigest()
    sizes = (len(CONTENT), len(stored))
    part = StoredPart("server-0", name, "r", 1, "REDIS0009", *sizes, digest)
    manifest = Manifest("ns", "cache", "u", "Standalone", "redis", "6.2.14", "", "", (part,))
    shelf = open_shelf(Store("small"), folder=str(tmp_path))
    assert await shelf.create(name, stored)
    primary = Primary(shelf, manifest, part, lambda: Login("replication", "word"))
    host = free_host()
    server = await primary.serve(host, 6379)
    try:
        yield primary, host
    finally:
        server.close()


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """Return what was said before the worker ended the connection."""
    found = b""
    try:
        async with asyncio.timeout(10):
            while piece := await reader.read(65536):
                found += piece
    except ConnectionError:
        pass
    return found


@pytest.mark.parametrize(
    "beginning",
    [b"*2\r\n$4\r\nAUTH\r\n$500000000\r\n", b"x" * 100, b"*1\r\n$4\r\nPING\r\n" * 100],
    ids=["one long word", "no protocol", "many commands"],
)
async def test_whoever_does_not_log_in_cannot_have_memory_filled(
    tmp_path: Path, beginning: bytes
) -> None:
    async with connected(tmp_path) as (reader, writer):
        taken = asyncio.ensure_future(until_closed(reader))
        writer.write(beginning)
        for _ in range(64):
            if taken.done():
                break
            writer.write(b"x" * MIB if b"$500" in beginning else beginning * 100)
            try:
                async with asyncio.timeout(5):
                    await writer.drain()
            except ConnectionError:
                break
        assert len(await taken) < MIB


@pytest.mark.parametrize("said", [b"*0\r\n", b"+OK\r\n", b":7\r\n", b"*1\r\n*1\r\n$1\r\na\r\n"])
async def test_what_is_no_command_ends_the_connection(tmp_path: Path, said: bytes) -> None:
    async with connected(tmp_path) as (reader, writer):
        writer.write(said)
        assert b"NOAUTH" not in await until_closed(reader)


async def test_who_logs_in_may_say_more_than_a_stranger(tmp_path: Path) -> None:
    async with connected(tmp_path) as (reader, writer):
        writer.write(AUTH)
        assert await reader.readline() == b"+OK\r\n"
        for _ in range(1000):
            writer.write(b"*2\r\n$8\r\nREPLCONF\r\n$20\r\n" + b"x" * 20 + b"\r\n")
            assert await reader.readline() == b"+OK\r\n"


@pytest.mark.parametrize("said", [[b"\n", ACK], [b"\n\n" + ACK], [ACK + b"\n", b"\n"]])
async def test_a_replica_that_loads_for_long_says_that_it_lives_and_is_not_cut_off(
    tmp_path: Path, said: list[bytes]
) -> None:
    """It sends empty lines meanwhile; to be cut off for that, it would load for ever."""
    async with listening(tmp_path) as (primary, host), asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(host, 6379)
        writer.write(AUTH + PSYNC)
        await reader.readuntil(CONTENT)
        for piece in said:
            writer.write(piece)
            await reader.readuntil(b"PING\r\n")  # a second later: it listens still
        assert await reader.readuntil(b"PING\r\n")
        assert primary.whole.is_set()
        assert primary.sent == 1
        writer.close()


async def followed(host: str) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
    """Take the snapshot as a replica does; return its offset once it was given a first PING."""
    reader, writer = await asyncio.open_connection(host, 6379)
    writer.write(AUTH + PSYNC)
    begun = int((await reader.readuntil(b"$")).split()[-2])
    await reader.readuntil(CONTENT)
    return begun + len(await reader.readuntil(b"PING\r\n")), reader, writer


async def test_a_second_replica_moves_the_end_away_from_none(tmp_path: Path) -> None:
    """Whoever is behind the offset that INFO names is never promoted."""
    async with listening(tmp_path) as (_, host), asyncio.timeout(20):
        first, _, one = await followed(host)
        second, _, other = await followed(host)
        reader, asking = await asyncio.open_connection(host, 6379)
        asking.write(AUTH + b"*1\r\n$4\r\nINFO\r\n")
        told = await reader.readuntil(b"# Cluster")
        end = int(told.partition(b"master_repl_offset:")[2].split()[0])
        assert (first, second) == (first, first)  # one history: the same bytes at an offset
        assert end <= first
        for writer in (one, other, asking):
            writer.close()
