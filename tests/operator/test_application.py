"""What the application says was lost is lost, and what it says is there was read."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.parsing import as_integer
from redis_operator.redis.slots import ALL_SLOTS
from redis_operator.testing.application import Application, Seeds
from redis_operator.testing.servers import Server, Servers, find_engines

pytestmark = pytest.mark.servers


@asynccontextmanager
async def written() -> AsyncIterator[tuple[Server, Application]]:
    async with Servers(find_engines()[-1]) as servers:
        (server,) = await servers.start(1)
        await server.ask(commands.add_slots_range(ALL_SLOTS))
        place = (server.address.host, server.address.port)
        application = Application(Seeds((place,)), writes_per_second=500)
        application.start()
        async with asyncio.timeout(20):
            while len(application.acknowledged) < 50:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await application.stop()
        yield server, application


async def test_a_key_that_is_gone_is_lost_and_only_that() -> None:
    async with written() as (server, application):
        victim = application.acknowledged[7]
        await server.ask(Command(("UNLINK", victim), as_integer))
        assert (await application.verify()).lost == (victim,)


async def test_a_server_that_stands_still_for_a_moment_has_lost_nothing() -> None:
    async with written() as (server, application):
        server.send_signal(signal.SIGSTOP)
        asyncio.get_running_loop().call_later(4.5, server.send_signal, signal.SIGCONT)
        report = await application.verify()
        assert report.lost == ()
        assert report.acknowledged >= 50
