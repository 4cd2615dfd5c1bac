"""The password Secret is edited under load: nobody is refused, nothing restarts. T-01, IN-28"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.objects import SECRETS
from kubecontroller.client.patches import MergePatch
from redis_operator.redis import commands
from redis_operator.redis.connection import Address, Credentials, connect
from redis_operator.redis.errors import ReplyError

pytestmark = pytest.mark.e2e

_NEW = "a password that is new"


async def test_a_password_changed_under_load_is_taken_on_and_the_old_one_is_refused_in_the_end(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.secret("cache-conn", "password")
    uids, restarts = await cache.uids(), await cache.restarts()
    async with cache.under_load() as application, _newcomers(cache, application):
        await _set_password(cache, "cache-auth", _NEW)
        await until(lambda: _in_binding(cache, _NEW), seconds=120, what="the new binding")
        await until(lambda: _refused(cache, old), seconds=120, what="the old one to be refused")
        await cache.wait_condition("AuthApplied", "True", seconds=30)
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 2, report
    assert await cache.uids() == uids
    assert await cache.restarts() == restarts
    await cache.wait_ready()


async def test_a_password_that_changed_while_the_operator_was_away_is_taken_on_later(
    database: Any, cluster: Any
) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.secret("cache-conn", "password")
    async with cache.under_load() as application, _newcomers(cache, application):
        cluster.stop_operator()
        try:
            await _set_password(cache, "cache-auth", _NEW)
            await asyncio.sleep(1)
        finally:
            cluster.start_operator()
        await until(lambda: _refused(cache, old), seconds=240, what="the old one to be refused")
    report = await application.verify()
    assert report.lost == (), report


async def _set_password(cache: Any, name: str, password: str) -> None:
    data = {"password": b64encode(password.encode()).decode()}
    key = (cache.namespace, name)
    await cache.client.patch(SECRETS.plain(), key, MergePatch({"data": data}))


@asynccontextmanager
async def _newcomers(cache: Any, application: Any) -> AsyncIterator[None]:
    """Have clients come all the while with what the binding says; every server lets them in.

    The binding may be read right before it changes: what it said then is valid for a while yet.
    """

    async def come() -> None:
        while True:
            application.seeds = seeds = await cache.seeds()
            for host, _ in seeds.addresses:
                assert await _lets_in(host, seeds.password), f"{host} refuses what the binding says"
            await asyncio.sleep(0.1)

    task = asyncio.create_task(come())
    try:
        yield
    finally:
        task.cancel()
        done = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError), done


async def _lets_in(host: str, password: str) -> bool:
    login = Credentials("default", password)
    try:
        async with await connect(Address(host), timeout=5, credentials=login) as connection:
            await connection.run(commands.ping(), timeout=5)
    except ReplyError as error:
        if "WRONGPASS" not in str(error):
            raise
        return False
    return True


async def _in_binding(cache: Any, password: str) -> bool:
    return bool(await cache.secret("cache-conn", "password") == password)


async def _refused(cache: Any, password: str) -> bool:
    """Tell whether every server refuses a password."""
    hosts = [pod.status.pod_ip for pod in (await cache.pods()).values()]
    return not any([await _lets_in(host, password) for host in hosts])
