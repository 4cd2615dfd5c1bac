"""Settings that servers spell differently, and settings that they do not have. IN-26, IN-27"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from e2e.harness import REDISES, until
from kubecontroller.client.errors import Invalid, NotFound
from redis_operator.redis.command import Command
from redis_operator.redis.parsing import as_text

pytestmark = pytest.mark.e2e

_SPELLINGS = {
    "notify-keyspace-events": "Ex",
    "repl-backlog-size": "1mb",
    "maxmemory-policy": "allkeys-lru",
    "slave-lazy-flush": "yes",
}


async def test_a_value_that_servers_spell_differently_is_applied_once(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    await cache.patch(config=_SPELLINGS)
    await cache.wait_condition("ConfigApplied", "True", seconds=60)
    await cache.wait_ready(seconds=60)
    version = (await cache.get())["metadata"]["resourceVersion"]
    before = await _config_sets(cache)
    await asyncio.sleep(12)  # longer than the interval at which servers are observed
    assert await _config_sets(cache) == before
    assert (await cache.get())["metadata"]["resourceVersion"] == version
    assert await cache.uids() == uids


async def _config_sets(cache: Any) -> dict[str, str]:
    """Return how often each server was told a setting."""
    found = {}
    for pod in await cache.pods():
        async with cache.server(pod) as connection:
            text = await connection.run(Command(("INFO", "commandstats"), as_text), timeout=5)
        lines = [line for line in text.splitlines() if "config|set" in line.lower()]
        found[pod] = lines[0].partition(",")[0] if lines else ""
    return found


@pytest.mark.parametrize(
    ("name", "value"), [("nonsense", "1"), ("save", "banana")], ids=["unknown", "bad"]
)
async def test_a_setting_that_no_server_takes_is_refused_and_what_runs_is_not_touched(
    database: Any, name: str, value: str
) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    refusal = await _refusal(cache.patch(config={name: value}))
    if name not in refusal:
        await until(lambda: _says(cache, name), seconds=60, what=f"{name} to be reported")
    await asyncio.sleep(3)
    now = await cache.uids()
    assert [pod for pod in uids if now.get(pod) != uids[pod]][1:] == []  # one replica at most
    assert (await cache.condition("Available"))["status"] == "True"


async def _refusal(request: Awaitable[None]) -> str:
    """Return why the API server refused a request, or nothing."""
    try:
        await request
    except Invalid as refusal:
        return str(refusal)
    return ""


async def _is_gone(cache: Any) -> bool:
    try:
        await cache.get()
    except NotFound:
        return not await cache.pods()
    return False


async def _says(cache: Any, name: str) -> bool:
    told = [await cache.condition(kind) for kind in ("Ready", "Degraded", "ConfigApplied")]
    return any(name in found.get("message", "") for found in told)


@pytest.mark.parametrize(
    ("name", "value"), [("nonsense", "1"), ("save", "banana")], ids=["unknown", "bad"]
)
async def test_a_new_database_with_a_setting_that_no_server_takes_names_it(
    database: Any, name: str, value: str
) -> None:
    cache = await database()
    await cache.client.delete(REDISES, cache.key)
    await until(lambda: _is_gone(cache), seconds=60, what="a clean start")
    refusal = await _refusal(cache.apply(config={name: value}))
    if name in refusal:
        return  # at admission: nothing was made
    await until(lambda: _says(cache, name), seconds=60, what=f"{name} to be reported")
    assert (await cache.condition("Ready"))["status"] == "False"


async def test_a_new_database_whose_servers_do_not_start_says_why_and_a_corrected_spec_heals_it(
    database: Any,
) -> None:
    """A value that passes every table and that the server itself refuses when it starts. IN-27"""
    cache = await database(config={"rdma-rx-size": "1"})

    found = await cache.wait_condition("Degraded", "True", reason="StartFailed")
    for part in ("rdma-rx-size 1", "argument must be between", "spec.config"):
        assert part in found["message"], found
    await cache.patch(config={"rdma-rx-size": None})
    await cache.wait_ready(seconds=120)
    assert await cache.check(await cache.fill(100)) == []
