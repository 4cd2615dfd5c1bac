"""Installing, upgrading and removing, ended at every write and begun again: the same end."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from kubecontroller.client.objects import NAMESPACES
from kubecontroller.testing.faults import (
    CRASHES,
    Crashed,
    Fault,
    FaultyTransport,
    NoFaults,
    Nth,
    Plan,
    Seeded,
)
from kubecontroller.testing.seeds import derive
from redis_operator.install.options import Issuer, Options
from redis_operator.install.waiting import NotInForce
from support.histories import draw_some
from support.small_cluster import SmallCluster, Snapshot, small_cluster

Blow = tuple[int, Fault]

pytestmark = pytest.mark.timeout(600)  # whole installations, several times over
PARTS = 6  # in which the campaign does them all
BEFORE = Options(image="redis-operator:1", watch_namespaces=("team",))
AFTER = Options(image="redis-operator:2", replicas=3)
MISSING = Options(image="redis-operator:missing", watch_namespaces=("team",))
ISSUED = Options(image="redis-operator:1", watch_namespaces=("team",), issuer=Issuer("internal"))


class Work(NamedTuple):
    """What somebody does, and what was done before it, to the end or in vain."""

    wanted: Options | None  # none: the operator goes
    before: tuple[Options, ...] = (BEFORE,)
    everything: bool = False

    async def do(self, cluster: SmallCluster, transport: FaultyTransport) -> None:
        if self.wanted is not None:
            await cluster.installer(transport).install(self.wanted)
            return
        remover = cluster.remover(transport)
        await remover.uninstall("redis-operator", everything=self.everything)


WORKS = {
    "install": Work(BEFORE, before=()),
    "upgrade": Work(AFTER),
    "go back": Work(BEFORE, before=(BEFORE, AFTER)),
    "go back from an image that does not exist": Work(BEFORE, before=(BEFORE, MISSING)),
    "take an issuer": Work(ISSUED),
    "leave an issuer": Work(BEFORE, before=(ISSUED,)),
    "uninstall": Work(None),
    "uninstall in the middle of an upgrade": Work(None, before=(BEFORE, MISSING)),
    "uninstall everything": Work(None, everything=True),
}


End = tuple[dict[str, Any], int]  # what there is, and by how many writes it came
_prepared: dict[str, Snapshot] = {}
_ends: dict[str, End] = {}


async def prepare(name: str) -> Snapshot:
    """Return a cluster in which was done what was done before, made once for each work."""
    if name not in _prepared:
        async with small_cluster() as cluster:
            await cluster.serve_cert_manager()
            await cluster.client.create(NAMESPACES.plain(), {"metadata": {"name": "team"}})
            for options in WORKS[name].before:
                seconds = 60.0 if options != MISSING else 2.0
                with suppress(NotInForce):
                    await cluster.installer(seconds=seconds).install(options)
            await cluster.create_database("cache", "team")
            _prepared[name] = cluster.snapshot()
    return _prepared[name]


async def play(name: str, plan: Plan) -> tuple[dict[str, Any], int, list[Any]]:
    """Do it once with the plan's faults, then to the end; return that, and how many writes."""
    work = WORKS[name]
    async with small_cluster(await prepare(name)) as cluster:
        transport = FaultyTransport(cluster.transport, plan)
        with suppress(Crashed):
            await work.do(cluster, transport)
        await transport.settle()
        await work.do(cluster, FaultyTransport(cluster.transport, NoFaults()))
        return await cluster.state(), transport.writes, transport.journal


async def undisturbed(name: str) -> End:
    """Return what a work comes to without any fault, and by how many writes; played once."""
    if name not in _ends:
        end, writes, _ = await play(name, NoFaults())
        _ends[name] = (end, writes)
    return _ends[name]


# The tests of one work share what was done before it, and its end.
TOGETHER = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in WORKS]


async def strike(name: str, chosen: Callable[[list[Blow]], list[Blow]]) -> None:
    """End some work at writes of it, each time in another way, and begin it again."""
    end, writes = await undisturbed(name)
    assert writes > 5
    blows = [(number, crash) for number in range(1, writes + 1) for crash in sorted(CRASHES)]
    for number, crash in chosen(blows):
        found, _, struck = await play(name, Nth(writes={number: crash}))
        assert struck, f"nothing happened at write {number}"
        assert found == end, f"{name}: {crash} at write {number} ends otherwise"


@pytest.mark.slow
@pytest.mark.parametrize("name", draw_some(TOGETHER, 4, name="installer"))
async def test_the_same_end_after_a_crash_at_some_writes(name: str) -> None:
    await strike(name, lambda blows: random.Random(derive(name)).sample(blows, 2))


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", WORKS)
async def test_the_same_end_after_a_crash_at_every_write(name: str, part: int) -> None:
    await strike(name, lambda blows: blows[part::PARTS])


TROUBLE = {
    Fault.LOST_REPLY: 0.05,
    Fault.RESET_BEFORE: 0.1,
    Fault.RESET_AFTER: 0.1,
    Fault.CONFLICT: 0.05,
    Fault.TOO_MANY: 0.1,
    Fault.SERVER_ERROR: 0.1,
    Fault.SLOW: 0.05,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TOGETHER)
async def test_the_same_end_in_one_run_over_a_server_in_trouble(name: str) -> None:
    end, _ = await undisturbed(name)
    seed = derive(f"trouble {name}")
    found, _, struck = await play(name, Seeded(seed, TROUBLE))
    assert len(struck) > 5
    assert found == end, f"{name} ends otherwise with faults of seed {seed}"
