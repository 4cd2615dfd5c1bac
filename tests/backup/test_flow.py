"""A worker reads no faster than it may, and says how far it is."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import msgspec
import pytest

from backup.conftest import LOGIN, source, task
from kubelocal.loopback import free_host
from redis_operator.backup.flow import ByteRate, Flow
from redis_operator.backup.store import open_shelf
from redis_operator.backup.take import take
from redis_operator.backup.task import PROGRESS_PORT, WorkerProgress
from redis_operator.operator.backups.workers import ask_progress
from redis_testing.servers import EngineBinary, find_engines
from support.pair_of_servers import eventually, speak


@pytest.mark.parametrize("sizes", [[1000] * 50, [1, 40_000, 3], [100_000]])
def test_no_more_passes_than_the_rate_allows_and_pauses_are_not_made_up(sizes: list[int]) -> None:
    pace, now = ByteRate(1000), 5.0
    for size in sizes:
        now += pace.delay(size, now)
    took = now - 5.0
    assert sum(sizes) / 1000 - 0.11 <= took <= sum(sizes) / 1000
    later = now + 3600
    assert pace.delay(1000, later) >= 0.89  # an hour of silence gives nobody an hour of bytes
    assert ByteRate(0).delay(10**9, now) == 0.0


@pytest.mark.servers
async def test_a_backup_is_read_slowly_and_can_be_asked_meanwhile(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with source(engine) as full:
        await speak(full, *(("SET", f"big:{n}", os.urandom(10_000)) for n in range(100)))
        asked = msgspec.structs.replace(task(full), bandwidth=500_000)
        shelf = open_shelf(asked.store, folder=str(tmp_path))
        flow, host = Flow(asked.bandwidth), free_host()
        told = await flow.tell(host, PROGRESS_PORT)
        assert told is not None
        began = time.monotonic()
        taking = asyncio.ensure_future(take(asked, shelf, lambda: LOGIN, flow=flow))

        async def begun() -> bool:
            found = await ask_progress(host)
            return found is not None and 0 < found.read < 1_000_000 and found.parts == 0

        await eventually(begun)
        manifest = await taking
        assert time.monotonic() - began > 1.5  # a megabyte at half a megabyte a second
        found = await ask_progress(host)
        assert found == WorkerProgress(read=manifest.size, stored=flow.stored, parts=1)
        told.close()
        assert await ask_progress(host) is None


@pytest.mark.servers
async def test_a_port_that_is_taken_is_no_reason_to_fail() -> None:
    async with source(find_engines()[-1]) as server:
        assert await Flow().tell(server.address.host, server.address.port) is None
        assert await ask_progress(server.address.host) is None


async def test_whoever_answers_with_something_else_is_not_believed() -> None:
    host = free_host()

    async def rude(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5000)
        writer.close()

    async with await asyncio.start_server(rude, host, PROGRESS_PORT):
        assert await ask_progress(host) is None
