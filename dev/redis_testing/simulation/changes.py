"""Changes of a database while it is in use, one at a time and several at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from kubecontroller.client.meta import Manifest
from redis_operator.manifests.pod import RESTARTED_ANNOTATION
from redis_operator.operator.world import REDISES

from .process import Effect
from .scenarios import Act, Over, Scenario, is_asleep, mine, pods, primary, replica
from .summary import is_gone
from .system import DATABASE, NAMESPACE, Broken, Simulation, database

__all__ = ["CHANGES", "ENDS", "ENGINES", "MOVES", "OVERLAPS"]


def _change(**spec: Any) -> Act:
    async def act(simulation: Simulation) -> None:
        await simulation.change(**spec)

    return act


def _count(wanted: int) -> Over:
    return lambda simulation: len(pods(simulation)) == len(mine(simulation)) == wanted


async def _restart_all(simulation: Simulation) -> None:
    await simulation.annotate(**{RESTARTED_ANNOTATION: "2026-01-01T00:00:00Z"})


def _restarted(simulation: Simulation) -> bool:
    return all(RESTARTED_ANNOTATION in p["metadata"]["annotations"] for p in pods(simulation))


def _configured(name: str, value: str) -> Over:
    return lambda simulation: all(s.config.get(name) == value for s in mine(simulation))


def _runs(version: str) -> Over:
    return lambda simulation: all(s.version.startswith(version) for s in mine(simulation))


async def _switch(simulation: Simulation) -> None:
    name = replica(simulation).name
    await simulation.annotate(**{"redisoperator.dev/switch-primary-to": name})


async def _sleep_and_wake(simulation: Simulation) -> None:
    await simulation.change(hibernate=True)
    await simulation.until(
        lambda found: is_asleep(found) and not mine(simulation), within=120.0, what="asleep"
    )
    await asyncio.sleep(5.0)
    await simulation.change(hibernate=False)


async def _out_and_back(simulation: Simulation) -> None:
    await simulation.change(shards=4)
    await asyncio.sleep(4.0)
    await simulation.change(shards=3)


async def _kill_source(simulation: Simulation) -> None:
    await simulation.change(shards=4)
    await _until_moving(simulation)
    simulation.kill(primary(simulation, 0).name)


async def _kill_target(simulation: Simulation) -> None:
    await simulation.change(shards=4)
    await _until_moving(simulation)
    simulation.kill(primary(simulation, 3).name)


async def _kill_both(simulation: Simulation) -> None:
    await simulation.change(shards=4)
    await _until_moving(simulation)
    for shard in (0, 3):
        simulation.kill(primary(simulation, shard).name)


async def _until_moving(simulation: Simulation) -> None:
    """Wait for the command of the operator that opens the first slot."""
    moves = asyncio.Event()

    def look(effect: Effect | None = None) -> None:
        del effect
        if any(s.importing or any(not job.is_finished for job in s.jobs) for s in mine(simulation)):
            moves.set()

    simulation.journal.told.append(look)
    try:
        look()
        async with asyncio.timeout(60.0 * simulation.patience):
            await moves.wait()
    except TimeoutError:
        explained = simulation.explain("no slot was ever moved", await simulation.redis())
        raise Broken(explained) from None
    finally:
        simulation.journal.told.remove(look)


def _misplace(simulation: Simulation) -> None:
    """Give a few slots with keys of the first shard to the second, as if it had always been so.

    Moving them back is a move like any other, and short enough to be struck at every single step.
    """
    loser, winner = primary(simulation, 0), primary(simulation, 1)
    slots = [slot for slot in sorted(loser.keys) if loser.keys[slot]][:_FEW]
    bits = sum(1 << slot for slot in slots)
    for server in mine(simulation):
        server.table[loser.id].slots &= ~bits
        server.table[winner.id].slots |= bits
    for slot in slots:
        winner.keys[slot] = loser.keys.pop(slot)
    for shard in (0, 1):
        follower, leader = replica(simulation, shard), primary(simulation, shard)
        leader.offset += 1
        follower.offset = leader.offset
        follower.keys = {slot: dict(keys) for slot, keys in leader.keys.items()}


def _few(*killed: int) -> Act:
    """Let a few slots move from the second shard to the first; kill primaries meanwhile."""

    async def act(simulation: Simulation) -> None:
        _misplace(simulation)
        await _until_moving(simulation)
        for shard in killed:
            simulation.kill(primary(simulation, shard).name)

    return act


async def _lose_target(simulation: Simulation) -> None:
    """Let a few slots move; their target dies meanwhile and its pod is gone with its data."""
    _misplace(simulation)
    await _until_moving(simulation)
    target = primary(simulation, 0).name
    simulation.kill(target)
    await simulation.delete_pod(target)


def _balanced(simulation: Simulation) -> bool:
    sizes = [len(s.slots) for s in mine(simulation) if s.is_primary]
    return len(sizes) == 3 and max(sizes) - min(sizes) <= 1


_FEW = 12


def _moves(base: Manifest, suffix: str = "") -> tuple[Scenario, ...]:
    """A few slots that move, and what can happen to either end meanwhile."""
    lost = database(storage=False, **{k: base["spec"][k] for k in ("engine", "version")})
    names: tuple[tuple[str, Act, Manifest], ...] = (
        ("few slots move", _few(), base),
        ("few slots move and their source dies", _few(1), base),
        ("few slots move and their target dies", _few(0), base),
        ("few slots move and both ends die", _few(0, 1), base),
        ("few slots move and their target's pod is lost", _lose_target, lost),
    )
    return tuple(
        Scenario(f"{name}{suffix}", act, _balanced, base=start, exact_slots=False)
        for name, act, start in names
    )


def _without_scripts(scenario: Scenario) -> Scenario:
    """The same on servers that forbid scripts."""

    async def act(simulation: Simulation) -> None:
        simulation.network.refused["SCRIPT"] = "NOPERM this user has no permissions to run it"
        await scenario.act(simulation)

    return replace(scenario, name=f"{scenario.name}, without scripts", act=act)


ENGINES = (("valkey", "9.1"), ("redis", "8.4"), ("redis", "7.4"), ("redis", "6.2"))
"""Beside the usual one: atomic migration of both engines, and scripts on Redis, new and old."""

MOVES = (
    *(few := _moves(database())),
    *map(_without_scripts, few[:3]),
    *(
        scenario
        for engine, version in ENGINES
        for scenario in _moves(database(engine=engine, version=version), f", {engine} {version}")
    ),
)

CHANGES = (
    Scenario("scale out", _change(shards=4), _count(8), exact_slots=False),
    Scenario("scale in", _change(shards=3), _count(6), base=database(shards=4), exact_slots=False),
    Scenario("out and back", _out_and_back, _count(6), exact_slots=False),
    Scenario("source killed while slots move", _kill_source, _count(8), exact_slots=False),
    Scenario("target killed while slots move", _kill_target, _count(8), exact_slots=False),
    Scenario("both killed while slots move", _kill_both, _count(8), exact_slots=False),
    Scenario("more replicas", _change(replicas=2), _count(9)),
    Scenario("fewer replicas", _change(replicas=1), _count(6), base=database(replicas=2)),
    Scenario(
        "live setting",
        _change(config={"maxmemory-policy": "allkeys-lru"}),
        _configured("maxmemory-policy", "allkeys-lru"),
    ),
    Scenario(
        "setting that needs a restart",
        _change(config={"io-threads": 2}),
        _configured("io-threads", "2"),
    ),
    Scenario("restart on request", _restart_all, _restarted),
    Scenario(
        "restart on request, in memory", _restart_all, _restarted, base=database(storage=False)
    ),
    Scenario("upgrade", _change(version="8.1"), _runs("8.1"), base=database(version="8.0")),
    Scenario("switchover", _switch),
    Scenario("hibernate and wake", _sleep_and_wake, _count(6)),
)


# Several at once


def _both(*conditions: Over) -> Over:
    return lambda simulation: all(holds(simulation) for holds in conditions)


async def _scale_while_rolling(simulation: Simulation) -> None:
    await _restart_all(simulation)
    await _until(simulation, _some_restarted, "a pod restarted")
    await simulation.change(shards=4)


def _some_restarted(simulation: Simulation) -> bool:
    return any(RESTARTED_ANNOTATION in p["metadata"]["annotations"] for p in pods(simulation))


async def _roll_while_scaling(simulation: Simulation) -> None:
    await simulation.change(shards=4)
    await _until_moving(simulation)
    await _restart_all(simulation)


async def _revert_while_draining(simulation: Simulation) -> None:
    await simulation.change(shards=3)
    await _until_moving(simulation)
    await simulation.change(shards=4)


async def _configure_during_failover(simulation: Simulation) -> None:
    simulation.kill(primary(simulation).name)
    await asyncio.sleep(0.2)
    await simulation.change(config={"maxmemory-policy": "allkeys-lru", "io-threads": 2})


async def _kill_while_rolling(simulation: Simulation) -> None:
    await _restart_all(simulation)
    await _until(simulation, _some_restarted, "a pod restarted")
    simulation.kill(primary(simulation, 2).name)


async def _another_setting_while_rolling(simulation: Simulation) -> None:
    await simulation.change(config={"io-threads": 2})
    await asyncio.sleep(5.0)
    await simulation.change(config={"io-threads": 3})


async def _replicas_while_scaling(simulation: Simulation) -> None:
    await simulation.change(shards=4)
    await asyncio.sleep(2.0)
    await simulation.change(replicas=2)


async def _sleep_while_scaling(simulation: Simulation) -> None:
    await simulation.change(shards=4)
    await _until_moving(simulation)
    await simulation.change(hibernate=True)
    await _until(simulation, lambda s: not mine(s), "asleep")
    await simulation.change(hibernate=False)


async def _until(simulation: Simulation, holds: Over, what: str) -> None:
    await simulation.until(lambda _: holds(simulation), within=120.0, what=what)


OVERLAPS = (
    Scenario(
        "scaled out while rolling",
        _scale_while_rolling,
        _both(_count(8), _restarted),
        exact_slots=False,
    ),
    Scenario(
        "rolled while scaling out",
        _roll_while_scaling,
        _both(_count(8), _restarted),
        exact_slots=False,
    ),
    Scenario(
        "reverted while draining",
        _revert_while_draining,
        _count(8),
        base=database(shards=4),
        exact_slots=False,
    ),
    Scenario(
        "settings during a failover",
        _configure_during_failover,
        _both(_configured("maxmemory-policy", "allkeys-lru"), _configured("io-threads", "2")),
    ),
    Scenario("primary killed while rolling", _kill_while_rolling, _restarted),
    Scenario(
        "another setting while rolling",
        _another_setting_while_rolling,
        _configured("io-threads", "3"),
    ),
    Scenario(
        "more replicas while scaling out", _replicas_while_scaling, _count(12), exact_slots=False
    ),
    Scenario("hibernated while scaling out", _sleep_while_scaling, _count(8), exact_slots=False),
)


# The end


async def _delete(simulation: Simulation) -> None:
    await simulation.client.delete(REDISES, (NAMESPACE, DATABASE))


_RETAINED = database(deletion={"policy": "Retain"})


async def _recreate(simulation: Simulation) -> None:
    await simulation.client.delete(REDISES, (NAMESPACE, DATABASE))

    async def gone() -> bool:
        return is_gone(simulation)

    await simulation.until_all(gone, within=120.0, what="gone")
    await simulation.apply(_RETAINED)


ENDS = (
    Scenario("deletion", _delete, goes=True),
    Scenario("deleted and recreated on its volumes", _recreate, _count(6), base=_RETAINED),
)
