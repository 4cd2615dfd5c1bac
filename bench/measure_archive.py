"""What archiving the replication stream costs: the archiver's CPU at steady rates of writes.

The archiver runs in a process of its own, behind a replica, with checksums, zstd, samples and
uploads to a folder. A writer sends commands of 142 bytes at a steady rate; the figure is the CPU
time of the archiver's process over the wall time, in percent of one core.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from bench.missing import Missing
from bench.rows import Row, at_most
from bench.turns import RUNS
from redis_operator.backup.replica import Login
from redis_operator.backup.store import open_shelf
from redis_operator.backup.stream.archiver import Archiver, Shard
from redis_operator.backup.task import Source, Store
from redis_operator.redis.resp import encode
from redis_testing.servers import Server, Servers, find_engines

_SPAN = 12.0
_TICK = 0.01
_COMMAND = encode(("SET", "key:0000000001", "x" * 100))
SECONDS = 2 * (_SPAN + 8) * RUNS
_RULES = ["on", ">secret", "-@all", "+psync", "+replconf", "+ping", "+info"]
_RULES += ["+multi", "+exec", "+time"]


def run() -> list[Row]:
    """Measure both rates on the newest engine of this machine."""
    return asyncio.run(_run())


async def _run() -> list[Row]:
    rows = []
    for rate, limit in ((1_000, 8), (20_000, 20)):
        shares = [await _share(rate) for _ in range(RUNS)]
        name = f"archiver's CPU at {rate:,} writes/s"
        rows.append(at_most(name, shares, "% of a core", limit=limit))
    return rows


async def _share(rate: int) -> float:
    engine = find_engines()[-1]
    options = {"repl-diskless-sync-delay": "0"}
    with tempfile.TemporaryDirectory() as folder:
        async with Servers(engine, options=options) as servers:
            primary, replica = await servers.start(2, cluster=False)
            for server in (primary, replica):
                await _said(server, "ACL", "SETUSER", "backup", *_RULES)
            await _said(replica, "REPLICAOF", primary.address.host, str(primary.address.port))
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "bench.measure_archive",
                engine.version.engine,
                ".".join(map(str, engine.version.number)),
                folder,
                primary.address.host,
                replica.address.host,
            )
            try:
                await _wait_begun(Path(folder))
                archive = Path(folder) / "archive"
                return await _measured(primary, rate, process.pid, archive)
            finally:
                process.send_signal(signal.SIGKILL)
                await process.wait()


async def _wait_begun(folder: Path) -> None:
    async with asyncio.timeout(60):
        while not list(folder.glob("archive/**/base-*.json")):  # noqa: ASYNC110, ASYNC240 - files
            await asyncio.sleep(0.1)


async def _measured(primary: Server, rate: int, pid: int, archive: Path) -> float:
    reader, writer = await asyncio.open_connection(primary.address.host, primary.address.port)
    draining = asyncio.ensure_future(_drain(reader))
    loop = asyncio.get_running_loop()
    sent, begun = 0, loop.time()
    warm = begun + 2.0
    cpu, since = 0.0, 0.0
    while (now := loop.time()) < warm + _SPAN:
        if not since and now >= warm:
            cpu, since = _cpu_seconds(pid), time.monotonic()
        due = int((now - begun) * rate) - sent
        if due > 0:
            writer.write(_COMMAND * due)
            await writer.drain()
            sent += due
        await asyncio.sleep(_TICK)
    share = (_cpu_seconds(pid) - cpu) / (time.monotonic() - since) * 100
    kept = _kept(archive)
    if kept < 0.5 * sent * len(_COMMAND):
        raise Missing(f"the archive lags: it has {kept} of {sent * len(_COMMAND)} bytes")
    draining.cancel()
    writer.close()
    return share


def _kept(archive: Path) -> int:
    """Return how many bytes of the stream the store has."""
    found = archive.glob("**/segment-*.json")
    return sum(int(json.loads(path.read_text())["size"]) for path in found)


async def _drain(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 16):
        pass


async def _said(server: Server, *words: str) -> None:
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    writer.write(encode(words))
    answer = await reader.readline()
    assert answer.startswith(b"+"), answer
    writer.close()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _archive(engine: str, version: str, folder: str, hosts: list[str]) -> None:
    sources = tuple(Source(f"pod-{n}", host) for n, host in enumerate(hosts))
    archiver = Archiver(
        Shard("server-0", engine, version),
        open_shelf(Store("archive"), folder=folder),
        Path(folder) / "spool",
        lambda: sources,
        lambda: Login("backup", "secret"),
    )
    await archiver.run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(_archive(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
