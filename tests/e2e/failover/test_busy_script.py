"""A script keeps a server busy while its place is to be handed over. SE-21, ST-13"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from e2e.harness import PATIENCE, until
from e2e.writing import Peer

pytestmark = pytest.mark.e2e

SWITCH = "redisoperator.dev/switch-primary-to"
LOOP = "local n = 0; while n < tonumber(ARGV[1]) do n = n + 1 end;"
COUNT = LOOP + " return n"
COUNT_AND_WRITE = LOOP + " redis.call('SET', KEYS[1], n) return n"


async def _open(cache: Any, pod: str) -> Peer:
    address = ((await cache.pods())[pod].status.pod_ip, 6379)
    return await Peer.open(address, "default", await cache.secret("cache-conn", "password"))


async def _turns(cache: Any, pod: str, seconds: float) -> str:
    """Return how many turns of the loop take so long on this machine."""
    peer = await _open(cache, pod)
    loop = asyncio.get_running_loop()
    try:
        begun = loop.time()
        await peer.ask("EVAL", COUNT, "0", "1000000", seconds=30)
        return str(round(1_000_000 * seconds / (loop.time() - begun)))
    finally:
        peer.close()


@asynccontextmanager
async def _busy(cache: Any, pod: str, *words: str) -> Any:
    """Run a script on a server for as long as it takes; its answer is the task's."""
    peer = await _open(cache, pod)
    task = asyncio.create_task(peer.ask("EVAL", *words, seconds=120))
    try:
        await asyncio.sleep(0.2)
        assert not task.done()
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        peer.close()


# Sentinels would end the script: they take a server that is busy for so long for dead.
PATIENT = {"sentinel": {"downAfterMilliseconds": 60_000}}


@pytest.mark.parametrize("answers", [False, True], ids=["silent", "answers BUSY"])
@pytest.mark.parametrize("place", ["primary", "replica"])
async def test_a_switchover_waits_for_a_script_and_loses_neither_it_nor_a_write(
    watched: Any, place: str, answers: bool
) -> None:
    limit = {"config": {"lua-time-limit": "200"}} if answers else {}
    cache = await watched(**PATIENT, **limit)
    old = (await cache.wait_ready())["primary"]
    target = next(pod for pod, role in (await cache.roles()).items() if role == "replica")
    busy = old if place == "primary" else target
    turns = await _turns(cache, busy, 3.0)
    script = (COUNT_AND_WRITE, "1", "counted") if place == "primary" else (COUNT, "0")
    async with cache.writing() as writer, _busy(cache, busy, *script, turns) as task:
        await cache.annotate(**{SWITCH: target})
        assert await task == int(turns), "the operator ends no script of others"
        assert await cache.wait_other_primary(old) == target

        async def closed() -> bool:
            return SWITCH not in ((await cache.get())["metadata"].get("annotations") or {})

        await until(closed, seconds=30, what="the request to be taken off")
        await cache.wait_ready()
    assert await cache.lost(writer) == []
    assert writer.longest < 10.0 * PATIENCE
    if place == "primary":
        assert await cache.run("GET", "counted") == turns
    assert await cache.restarts() == 0


async def test_a_script_that_never_ends_is_ended_by_the_sentinels_and_writes_go_on(
    watched: Any,
) -> None:
    """They take its server for dead and promote another, then end the script.

    What the old primary takes after that, until the label has moved, is lost as after any failover
    from a server that was silent. What was acknowledged before the script is not.
    """
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    async with cache.writing() as writer:
        async with _busy(cache, primary, "while true do end", "0") as task:
            before = dict(writer.acknowledged)
            ended = await task
            assert "kill" in str(ended).lower(), ended
        await writer.acknowledged_again(seconds=60)
        await cache.wait_ready(seconds=90)
    writer.acknowledged = before
    assert await cache.lost(writer) == []
    assert await cache.restarts() == 0
