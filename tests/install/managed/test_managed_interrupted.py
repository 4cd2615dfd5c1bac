"""An installer that is killed at every write of what a `RedisOperator` asks for: the same end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from install.managed.test_components import OFF
from install.managed.test_managed import KEY, Managed, managed
from install.monitoring.test_monitoring import serve_monitoring
from kubecontroller.testing.faults import CRASHES, Fault, NoFaults, Nth, Plan
from kubecontroller.testing.seeds import derive
from redis_operator.install.managed.reconcile import REDIS_OPERATORS
from support.histories import draw_some
from support.small_cluster import Snapshot

pytestmark = pytest.mark.timeout(600)  # whole installations, several times over
PARTS = 6  # in which the campaign does them all
Blow = tuple[int, Fault]
Spec = dict[str, Any]
FIRST: Spec = {"image": "redis-operator:1"}
SECOND: Spec = {"image": "redis-operator:2", "replicas": 3}
ISSUED: Spec = {**FIRST, "certificates": {"issuerRef": {"name": "internal"}}}


class Work(NamedTuple):
    """What a `RedisOperator` says now, and what it said before, one after the other."""

    wanted: Spec | None  # none: it is deleted
    before: tuple[Spec, ...] = (FIRST,)


WORKS = {
    "install": Work(FIRST, before=()),
    "update": Work(SECOND),
    "go back": Work(FIRST, before=(FIRST, SECOND)),
    "switch components off": Work({**FIRST, "components": OFF}),
    "switch components on": Work(FIRST, before=({**FIRST, "components": OFF},)),
    "take an issuer": Work(ISSUED),
    "remove": Work(None),
}


async def ask(one: Managed, spec: Spec | None) -> None:
    if spec is None:
        await one.cluster.client.delete(REDIS_OPERATORS, KEY)
    else:
        await one.say(**spec)


async def settle(one: Managed, spec: Spec | None) -> None:
    """Wait until what was asked for is done."""
    if spec is not None:
        await one.until("Deployed", seconds=600.0)
        return
    for _ in range(600):
        await asyncio.sleep(1.0)
        if not (await one.cluster.client.list(REDIS_OPERATORS)).items:
            return
    pytest.fail("the RedisOperator stays")


async def prepare(work: Work) -> Snapshot:
    """Return a cluster in which was done what was asked for before, its installer dead."""
    async with managed() as one:
        await serve_monitoring(one.cluster)
        await one.cluster.serve_cert_manager()
        one.start()
        for spec in work.before:
            await ask(one, spec)
            await settle(one, spec)
        await one.cluster.create_database("cache")
        await one.kill()
        return one.cluster.snapshot()


async def play(work: Work, before: Snapshot, plan: Plan) -> tuple[dict[str, Any], int, list[Any]]:
    """Have it done by an installer that the plan kills, then by another; return the end."""
    async with managed(before) as one:
        transport = one.start(plan)
        await ask(one, work.wanted)
        for _ in range(120):
            await asyncio.sleep(0.5)
            if transport.journal:
                break
        await one.kill()
        await transport.settle()
        one.start()
        await settle(one, work.wanted)
        state = await one.cluster.state()
        kept = {name: said for name, said in state.items() if not name.startswith("jobs")}
        return kept, transport.writes, transport.journal


async def strike(name: str, chosen: Callable[[list[Blow]], list[Blow]]) -> None:
    work = WORKS[name]
    before = await prepare(work)
    end, writes, _ = await play(work, before, NoFaults())
    assert writes > 10
    blows = [(number, crash) for number in range(1, writes + 1) for crash in sorted(CRASHES)]
    for number, crash in chosen(blows):
        found, _, struck = await play(work, before, Nth(writes={number: crash}))
        assert struck, f"nothing happened at write {number}"
        assert found == end, f"{name}: {crash} at write {number} ends otherwise"


@pytest.mark.slow
@pytest.mark.parametrize("name", draw_some(WORKS, 3, name="managed"))
async def test_the_same_end_when_an_installer_is_killed_at_some_writes(name: str) -> None:
    await strike(name, lambda blows: random.Random(derive(name)).sample(blows, 1))


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", WORKS)
async def test_the_same_end_when_an_installer_is_killed_at_every_write(
    name: str, part: int
) -> None:
    await strike(name, lambda blows: blows[part::PARTS])
