"""The writing application of the measurements, on real servers."""

from __future__ import annotations

import asyncio

import pytest
from bench.writer import Writer

from redis_operator.cli.application import Seeds
from redis_operator.redis import commands
from redis_testing.servers import Server, Servers, find_engines

pytestmark = pytest.mark.servers


def _seeds(server: Server) -> Seeds:
    return Seeds(((server.address.host, server.address.port),))


async def _wait_commands(server: Server, number: int) -> None:
    async with await server.connect() as connection, asyncio.timeout(60):
        while True:
            info = await connection.run(commands.info(), timeout=5)
            if info.stats.commands_processed >= number:
                return
            await asyncio.sleep(0.01)


async def test_a_report_of_thousands_of_lost_writes_is_read_whole() -> None:
    async with Servers(find_engines()[-1]) as servers:
        written, empty = await servers.start(2, cluster=False)
        async with Writer(_seeds(written), writes_per_second=10_000) as writer:
            await _wait_commands(written, 5_000)
            report = await writer.finish(_seeds(empty))
    assert len(report.lost) == report.acknowledged
    assert len("".join(report.lost)) > 64 * 1024, "no more than a pipe's reader takes by default"
