"""What a backup costs beside `redis-cli --rdb`: speed, memory, and what the primary notices.

A primary with a replica holds values of 1 kB, half of each random (`BENCH_BACKUP_MIB`, 1024 of them
by default). Both sides read the replica and write a file to the same disk in turns: the worker in a
process of its own with SHA-256 and zstd, redis-cli as it is. Meanwhile a client writes to the
primary 200 times a second; the figure is its p99 during backups over that without one.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import hiredis

from bench.rows import Row, at_most, better_if_more
from bench.turns import RUNS, in_turns
from redis_operator.backup.replica import Login
from redis_operator.backup.store import open_shelf
from redis_operator.backup.take import take
from redis_operator.backup.task import ShardTask, Source, Store, TakeTask
from redis_operator.redis.resp import encode
from redis_testing.servers import Server, Servers, find_engines

T = TypeVar("T")
_MIB = int(os.environ.get("BENCH_BACKUP_MIB", "1024"))
_RULES = ["on", ">secret", "-@all", "+psync", "+replconf", "+ping"]
_RATE = 200
SECONDS = 60 + RUNS * 2 * (10 + _MIB / 50)


def run() -> list[Row]:
    """Measure on the newest engine of this machine."""
    return asyncio.run(_run())


async def _run() -> list[Row]:
    engine = find_engines()[-1]
    options = {"repl-diskless-sync-delay": "0", "save": "", "rdbcompression": "no"}
    version = ".".join(map(str, engine.version.number))
    with tempfile.TemporaryDirectory() as folder:
        async with Servers(engine, options=options) as servers:
            primary, replica = await servers.start(2, cluster=False)
            await said(replica, "ACL", "SETUSER", "backup", *_RULES)
            await said(replica, "REPLICAOF", primary.address.host, str(primary.address.port))
            await fill(primary, _MIB)
            await _linked(primary, replica)
            quiet = await _latencies(primary, asyncio.sleep(5))
            memory: list[float] = []
            busy: list[float] = []

            async def ours() -> float:
                work = _taken(version, folder, replica)
                noticed: list[float] = []
                seconds, size, peak = await _while_writing(primary, work, noticed)
                memory.append(peak / 1024)
                busy.append(_p99(noticed) / quiet)
                return size / seconds / 1e6

            async def theirs() -> float:
                return await _by_client(folder, replica)

            mine, peers = await in_turns(ours, theirs)
    what = f"backup of {_MIB} MiB"
    return [
        better_if_more(f"{what}, beside redis-cli --rdb", mine, peers, "MB/s", aim=0.8),
        at_most(f"{what}: memory of the worker", memory, "MiB", limit=150),
        at_most(f"{what}: p99 of the primary's writes over rest", busy, "x", limit=2),
    ]


async def fill(server: Server, mib: int) -> None:
    """Give a server so many keys times 1024, of 1 kB each, half of it random."""
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    parser = hiredis.Reader()
    for first in range(0, mib * 1024, 1024):
        drawn = os.urandom(512 * 1024)
        halves = (drawn[n * 512 : (n + 1) * 512] for n in range(1024))
        lines = [
            encode(("SET", f"key:{first + n}", half + b"x" * 512)) for n, half in enumerate(halves)
        ]
        writer.write(b"".join(lines))
        answered = 0
        while answered < len(lines):
            parser.feed(await reader.read(1 << 16))
            while parser.gets() is not False:
                answered += 1
    writer.close()


async def _linked(primary: Server, replica: Server) -> None:
    """Wait until the replica has everything."""
    async with asyncio.timeout(300):
        while True:
            lead, follow = await asked(primary, "ROLE"), await asked(replica, "ROLE")
            if bytes(follow[3]) == b"connected" and int(follow[4]) >= int(lead[1]):
                return
            await asyncio.sleep(0.2)


async def _taken(version: str, folder: str, replica: Server) -> tuple[float, int, int]:
    """Have a process of its own take a backup: seconds, bytes, and its peak of memory in KiB."""
    place = Path(folder) / "ours"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.measure_backup",
        version,
        str(place),
        replica.address.host,
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate()
    await asyncio.to_thread(shutil.rmtree, place)
    seconds, size, peak = told.split()
    return float(seconds), int(size), int(peak)


async def _by_client(folder: str, replica: Server) -> float:
    program = shutil.which("redis-cli", path=str(Path(sys.executable).parent)) or "redis-cli"
    place = Path(folder) / "theirs.rdb"
    begun = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        program,
        "-h",
        replica.address.host,
        "--rdb",
        str(place),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await process.wait()
    seconds = time.monotonic() - begun
    size = await asyncio.to_thread(lambda: place.stat().st_size)
    await asyncio.to_thread(place.unlink)
    return size / seconds / 1e6


async def _while_writing(primary: Server, work: Awaitable[T], noticed: list[float]) -> T:
    running = asyncio.ensure_future(work)
    reader, writer = await asyncio.open_connection(primary.address.host, primary.address.port)
    while not running.done():
        begun = time.monotonic()
        writer.write(encode(("SET", "probe", "x")))
        await reader.readline()
        noticed.append(time.monotonic() - begun)
        await asyncio.sleep(1 / _RATE)
    writer.close()
    return await running


async def _latencies(primary: Server, span: Awaitable[None]) -> float:
    noticed: list[float] = []
    await _while_writing(primary, span, noticed)
    return _p99(noticed)


def _p99(figures: list[float]) -> float:
    return sorted(figures)[int(len(figures) * 0.99)]


async def asked(server: Server, *words: str) -> list[Any]:
    """Return what a server answers, as a list."""
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    parser = hiredis.Reader()
    writer.write(encode(words))
    while (answer := parser.gets()) is False:
        parser.feed(await reader.read(1 << 16))
    writer.close()
    return answer if isinstance(answer, list) else [answer]


async def said(server: Server, *words: str) -> None:
    """Run a command that no server refuses."""
    [answer] = await asked(server, *words)
    assert not isinstance(answer, Exception), answer


async def _take(version: str, folder: str, host: str) -> None:
    task = TakeTask(
        store=Store("backup"),
        namespace="bench",
        redis="bench",
        uid="u",
        mode="Standalone",
        engine="valkey",
        version=version,
        user="backup",
        attempt="1",
        shards=(ShardTask("server-0", (Source("pod-0", host),)),),
    )
    shelf = open_shelf(task.store, folder=folder)
    begun = time.monotonic()
    manifest = await take(task, shelf, lambda: Login("backup", "secret"))
    seconds = time.monotonic() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sys.stdout.write(f"{seconds} {manifest.size} {peak}\n")


if __name__ == "__main__":
    asyncio.run(_take(*sys.argv[1:]))
