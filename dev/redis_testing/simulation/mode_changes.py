"""Databases that change between modes Standalone and Failover while clients write."""

from __future__ import annotations

import asyncio
from typing import Any

from kubecontroller.client.meta import Manifest

from .failover import failover, is_whole, leader, sentinels, servers
from .scenarios import Act, Scenario, is_asleep
from .system import DATABASE, Simulation, database

__all__ = ["MODE_CHANGES", "standalone"]


def standalone(*, storage: bool = True, **spec: Any) -> Manifest:
    """Return a database of mode Standalone to apply."""
    found = database(storage=storage, **spec)
    found["spec"] |= {"mode": "Standalone", "replicas": 0}
    del found["spec"]["shards"]
    return found


async def _to_failover(simulation: Simulation) -> None:
    await simulation.change(mode="Failover", replicas=2)


async def _to_standalone(simulation: Simulation) -> None:
    await simulation.change(mode="Standalone", replicas=0, sentinel=None)


async def _switched_first(simulation: Simulation) -> None:
    """The pod that stays is not the one that leads."""
    await simulation.annotate(**{"redisoperator.dev/switch-primary-to": f"{DATABASE}-2"})

    async def switched() -> bool:
        return leader(simulation).name == f"{DATABASE}-2"

    await simulation.until_all(switched, within=60.0, what="switched")
    await _to_standalone(simulation)


def _undecided(first: Act, then: Act, seconds: float) -> Act:
    async def act(simulation: Simulation) -> None:
        await first(simulation)
        await asyncio.sleep(seconds)
        await then(simulation)

    return act


async def _primary_killed_meanwhile(simulation: Simulation) -> None:
    await _switched_first(simulation)
    await asyncio.sleep(4.0)
    simulation.kill(leader(simulation).name)


async def _asleep_after(simulation: Simulation, pod: str) -> None:
    """Hibernate, led by a pod up to then."""
    await simulation.annotate(**{"redisoperator.dev/switch-primary-to": pod})

    async def switched() -> bool:
        return leader(simulation).name == pod

    await simulation.until_all(switched, within=60.0, what="switched")
    await simulation.change(hibernate=True)

    async def asleep() -> bool:
        return is_asleep(await simulation.redis()) and not servers(simulation)

    await simulation.until_all(asleep, within=120.0, what="hibernated")


async def _while_asleep(simulation: Simulation) -> None:
    """The mode changes while no pod runs, and another pod than the one that stays led."""
    await _asleep_after(simulation, f"{DATABASE}-1")
    await _to_standalone(simulation)
    await asyncio.sleep(5.0)
    await simulation.change(hibernate=False)


async def _fewer_while_asleep(simulation: Simulation) -> None:
    """Replicas are given up while no pod runs, and the last primary is one of them."""
    await _asleep_after(simulation, f"{DATABASE}-2")
    await simulation.change(replicas=1)
    await asyncio.sleep(5.0)
    await simulation.change(hibernate=False)


def _is_failover(simulation: Simulation) -> bool:
    found = servers(simulation), sentinels(simulation)
    return (len(found[0]), len(found[1])) == (3, 3) and is_whole(simulation)


def _is_smaller(simulation: Simulation) -> bool:
    found = servers(simulation), sentinels(simulation)
    return (len(found[0]), len(found[1])) == (2, 3) and is_whole(simulation)


def _is_standalone(simulation: Simulation) -> bool:
    """One server leads, in the place that stays, and nothing of the other mode is left."""
    found = servers(simulation)
    if [s.name for s in found] != [f"{DATABASE}-0"] or not found[0].is_primary:
        return False
    return not sentinels(simulation)


def _scenario(name: str, act: Act, **more: Any) -> Scenario:
    return Scenario(f"mode: {name}", act, within=600.0, **more)


_INTO = {"over": _is_failover}
_OUT = {"over": _is_standalone}

MODE_CHANGES = (
    _scenario("into Failover", _to_failover, base=standalone(), **_INTO),
    _scenario("into Failover, in memory", _to_failover, base=standalone(storage=False), **_INTO),
    _scenario("out of Failover", _to_standalone, base=failover(), **_OUT),
    _scenario("out of Failover, in memory", _to_standalone, base=failover(storage=False), **_OUT),
    _scenario("out of Failover, another leads", _switched_first, base=failover(), **_OUT),
    _scenario(
        "out of Failover, primary killed meanwhile",
        _primary_killed_meanwhile,
        base=failover(storage=False),
        **_OUT,
    ),
    _scenario("out of Failover, asleep", _while_asleep, base=failover(), **_OUT),
    _scenario("fewer replicas, asleep", _fewer_while_asleep, base=failover(), over=_is_smaller),
    _scenario(
        "into Failover and back",
        _undecided(_to_failover, _to_standalone, 3.0),
        base=standalone(storage=False),
        **_OUT,
    ),
    _scenario(
        "out of Failover and back",
        _undecided(_to_standalone, _to_failover, 8.0),
        base=failover(storage=False),
        **_INTO,
    ),
)
