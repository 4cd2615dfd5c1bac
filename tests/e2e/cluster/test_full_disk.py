"""Disks that are really full: servers refuse writes, the status says so, and nobody is moved."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.test_memory import Writer, tag_of
from e2e.harness import PATIENCE
from redis_operator.redis import commands

pytestmark = pytest.mark.e2e

STORED: dict[str, Any] = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}
_MIB = 2**20


class Disk:
    """A disk of 64 MiB that the volumes of a local cluster are on, and a file that fills it."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                return

    def make_room(self) -> None:
        self._ballast.unlink(missing_ok=True)


@pytest.fixture
def disk(cluster: Any) -> Iterator[Disk]:
    """Return the disk of every volume that is made from now on."""
    if not cluster.is_local or os.geteuid():
        pytest.skip("disks of a local cluster are made by root")
    folder = cluster.folder / cluster.name / "node" / "volumes"
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=755", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    made = Disk(folder)
    yield made
    made.make_room()
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def _refusal(writer: Writer, tag: str) -> str:
    """Write until that is refused, and return the error: a snapshot fails seconds later."""
    deadline = time.monotonic() + 30 * PATIENCE
    number = 0
    while time.monotonic() < deadline:
        number += 1
        answer = await writer.ask("SET", f"{{{tag}}}{number % 2000}", "x" * 8192)
        if isinstance(answer, Exception):
            return str(answer)
        if number >= 2000:
            await asyncio.sleep(0.01)
    return ""


async def test_a_primary_whose_disk_is_full_is_told_until_there_is_room(
    database: Any, disk: Disk
) -> None:
    cache = await database(replicas=0, **STORED)
    await cache.wait_ready(seconds=90)
    uids, restarts, tag = await cache.uids(), await cache.restarts(), await tag_of(cache, 1)
    pod = await cache.primary_of(1)
    writer = await Writer.of(cache, pod)
    try:
        assert await writer.ask("SET", f"{{{tag}}}first", "v") == b"OK"
        disk.fill()
        assert "MISCONF" in await _refusal(writer, tag)
        told = await cache.wait_condition("Degraded", "True", reason="PersistenceFailed")
        for part in (pod, "append-only file", "MISCONF", f"data-{pod}", "spec.storage.size"):
            assert part in told["message"]
        assert "cache-0-0" not in told["message"], "nobody wrote to it"
        assert await writer.ask("GET", f"{{{tag}}}first") == b"v"
        disk.make_room()
        await cache.wait_ready(seconds=60)
        assert await writer.ask("SET", f"{{{tag}}}last", "v") == b"OK"
    finally:
        writer.close()
    assert await cache.uids() == uids
    assert await cache.restarts() == restarts
    async with cache.server(pod) as connection:
        assert await connection.run(commands.dbsize(), timeout=5) > 1


@pytest.mark.parametrize("persistence", ["aof", "rdb"])
async def test_the_server_of_mode_standalone_whose_disk_is_full_is_told_until_there_is_room(
    database: Any, disk: Disk, persistence: str
) -> None:
    spec = {**STORED, "durability": {"persistence": persistence}, "config": {"save": "1 1"}}
    if persistence == "aof":
        del spec["config"]
    cache = await database(mode="Standalone", shards=1, replicas=0, **spec)
    await cache.wait_ready(seconds=90)
    restarts = await cache.restarts()
    writer = await Writer.of(cache, "cache-0")
    try:
        disk.fill()
        assert "MISCONF" in await _refusal(writer, "any")
        told = await cache.wait_condition("Degraded", "True", reason="PersistenceFailed")
        word = {"aof": "append-only file", "rdb": "snapshot"}[persistence]
        for part in ("cache-0", word, "MISCONF", "data-cache-0", "spec.storage.size"):
            assert part in told["message"]
        disk.make_room()
        await cache.wait_ready(seconds=60)
        assert await writer.ask("SET", "last", "v") == b"OK"
    finally:
        writer.close()
    assert await cache.restarts() == restarts
