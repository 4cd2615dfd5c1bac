"""What can happen to a database, one function each: what is done to it, and when it is over.

Every scenario begins with a whole database that clients write to, or with none, and ends when the
operator has nothing left to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from redis_operator.kube.meta import Manifest
from redis_operator.kube.verbs import Propagation
from redis_operator.local.controllers.caches import BUILT_IN_KINDS
from redis_operator.manifests.pod import RESTARTED_ANNOTATION

from ...redis.slots import key_slot
from ..cluster import verbs
from ..cluster.state import Record, Server
from .summary import mislabelled
from .system import DATABASE, NAMESPACE, Broken, Simulation, Snapshot, database, simulate

__all__ = ["CHANGES", "CREATIONS", "HEALS", "SCENARIOS", "Scenario", "formed", "play"]

Act = Callable[[Simulation], Awaitable[None]]
Over = Callable[[Simulation], bool]


@dataclass(frozen=True)
class Scenario:
    """One thing that happens, from its beginning to its end."""

    name: str
    act: Act
    over: Over = lambda _: True  # beside Ready
    base: Manifest | None = field(default_factory=database)  # formed before it begins
    exact_slots: bool = True
    within: float = 240.0
    sleeps: bool = False  # ends hibernated, not ready

    def __str__(self) -> str:
        return self.name


async def play(simulation: Simulation, scenario: Scenario) -> None:
    """Let a scenario happen with an operator at work and clients that write, to its end."""
    simulation.start_operator()
    if scenario.base is not None:
        await asyncio.sleep(3.0)
    writing = simulation.write_on()
    await scenario.act(simulation)
    await until_over(simulation, scenario)
    writing.cancel()
    await asyncio.sleep(1.0)
    simulation.check_end()


async def until_over(simulation: Simulation, scenario: Scenario) -> None:
    """Wait until all is as wanted, and the operator writes nothing any more."""

    def holds(found: Manifest) -> bool:
        if not scenario.over(simulation) or not simulation.is_calm():
            return False
        if mislabelled(simulation):
            return False  # nobody has looked yet
        return is_asleep(found) if scenario.sleeps else simulation.is_ready(found)

    within = scenario.within * simulation.patience
    await simulation.until(holds, within=within, what=f"over: {scenario.name}")
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while loop.time() < end:
        seen = len(simulation.journal.effects)
        await asyncio.sleep(simulation.quiet_seconds)
        simulation.check()
        if len(simulation.journal.effects) == seen and holds(await simulation.redis()):
            return
    found = await simulation.redis()
    raise Broken(simulation.explain("the operator never comes to rest", found))


def is_asleep(found: Manifest) -> bool:
    """Tell whether a database says that it hibernates."""
    status = found.get("status") or {}
    current = status.get("observedGeneration") == found["metadata"].get("generation")
    return current and status.get("phase") == "Hibernated"


_FORMED: dict[str, Snapshot] = {}


def formed(manifest: Manifest) -> Snapshot:
    """Return a whole database with some data, made once for each spec."""
    name = repr(manifest)
    if name not in _FORMED:
        _FORMED[name] = simulate(lambda simulation: _form(simulation, manifest))
    return _FORMED[name]


async def _form(simulation: Simulation, manifest: Manifest) -> Snapshot:
    simulation.start_operator()
    await simulation.apply(manifest)
    await simulation.until_ready()
    simulation.writer.fill()
    await asyncio.sleep(11.0)
    simulation.check_end()
    simulation.restarts = False
    for process in simulation.processes:
        process.die()
    await asyncio.sleep(1.0)
    return simulation.snapshot()


# Helpers on the world


def _mine(simulation: Simulation) -> list[Server]:
    return [s for s in simulation.world.servers.values() if s.database == DATABASE and s.alive]


def _primary(simulation: Simulation, shard: int = 0) -> Server:
    prefix = f"{DATABASE}-{shard}-"
    return next(s for s in _mine(simulation) if s.is_primary and s.name.startswith(prefix))


def _replica(simulation: Simulation, shard: int = 0) -> Server:
    prefix = f"{DATABASE}-{shard}-"
    return next(s for s in _mine(simulation) if not s.is_primary and s.name.startswith(prefix))


def _pods(simulation: Simulation) -> list[Manifest]:
    return [p for p in simulation.kubelet.informer.cache if p["metadata"]["namespace"] == NAMESPACE]


# Creations


def _apply(**spec: Any) -> Act:
    async def act(simulation: Simulation) -> None:
        await simulation.apply(database(**spec))

    return act


CREATIONS = (
    Scenario("create", _apply(), base=None),
    Scenario("create in memory", _apply(storage=False), base=None),
)


# Heals


async def _kill_primary(simulation: Simulation) -> None:
    simulation.kill(_primary(simulation).name)


async def _kill_replica(simulation: Simulation) -> None:
    simulation.kill(_replica(simulation).name)


async def _kill_whole_shard(simulation: Simulation) -> None:
    primary, replica = _primary(simulation), _replica(simulation)
    simulation.kubelet.kill(replica.name)
    simulation.kubelet.kill(primary.name)


async def _kill_two_primaries(simulation: Simulation) -> None:
    for name in [_primary(simulation, 0).name, _primary(simulation, 1).name]:
        simulation.kill(name)


async def _delete_primary(simulation: Simulation) -> None:
    await simulation.delete_pod(_primary(simulation).name)


async def _delete_replica(simulation: Simulation) -> None:
    await simulation.delete_pod(_replica(simulation).name)


async def _delete_all(simulation: Simulation) -> None:
    for pod in _pods(simulation):
        await simulation.delete_pod(pod["metadata"]["name"])


async def _lead_astray(simulation: Simulation) -> None:
    verbs.replicate(simulation.world, _replica(simulation, 0), _primary(simulation, 1).id)


async def _reset_replica(simulation: Simulation) -> None:
    verbs.reset(simulation.world, _replica(simulation, 0), hard=True)


async def _open_slots(simulation: Simulation) -> None:
    source, target = _primary(simulation, 0), _primary(simulation, 1)
    filled = [slot for slot in source.keys if source.keys[slot]][:3]
    for slot in filled:
        verbs.set_slot(target, slot, "IMPORTING", source.id)
        verbs.set_slot(source, slot, "MIGRATING", target.id)
    for key in list(source.keys[filled[0]]):
        verbs.migrate(simulation.world, source, target.ip, [key])


async def _strand_keys(simulation: Simulation) -> None:
    """Keys on a server that does not own their slot, and that nobody else has."""
    holder = _primary(simulation, 1)
    slot, key = next((key_slot(f"s{n}"), f"s{n}") for n in range(99) if key_slot(f"s{n}") < 5000)
    holder.keys[slot] = {key: "1"}
    holder.offset += 1
    simulation.ledger.acknowledged(key, 1)


def _none_stranded(simulation: Simulation) -> bool:
    return not any(
        held and not server.me.slots >> slot & 1
        for server in _mine(simulation)
        if server.is_primary
        for slot, held in server.keys.items()
    )


async def _add_ghost(simulation: Simulation) -> None:
    ghost = simulation.world.new_id()
    for server in _mine(simulation):
        server.table[ghost] = Record(id=ghost, ip="10.99.99.99", connected=False)


async def _collide_epochs(simulation: Simulation) -> None:
    """Two primaries took the same epoch, as after a split."""
    for shard in (0, 1):
        server = _primary(simulation, shard)
        server.me.epoch = server.current_epoch = 9


async def _delete_children(simulation: Simulation) -> None:
    """A person deletes objects that are not theirs."""
    for resource, name in (
        ("services", f"{DATABASE}-primaries"),
        ("configmaps", f"{DATABASE}-config"),
        ("poddisruptionbudgets", f"{DATABASE}-0"),
        ("secrets", f"{DATABASE}-conn"),
    ):
        await simulation.client.delete(BUILT_IN_KINDS[resource], (NAMESPACE, name))


async def _orphan_set(simulation: Simulation) -> None:
    """A StatefulSet goes and its pods stay."""
    key = (NAMESPACE, f"{DATABASE}-0")
    sets = BUILT_IN_KINDS["statefulsets"]
    await simulation.client.delete(sets, key, propagation=Propagation.ORPHAN)


HEALS = (
    Scenario("primary killed", _kill_primary),
    Scenario("primary killed, in memory", _kill_primary, base=database(storage=False)),
    Scenario("replica killed", _kill_replica),
    Scenario("whole shard killed", _kill_whole_shard),
    Scenario("two primaries killed", _kill_two_primaries),
    Scenario("primary's pod deleted", _delete_primary),
    Scenario("primary's pod deleted, in memory", _delete_primary, base=database(storage=False)),
    Scenario("replica's pod deleted", _delete_replica),
    Scenario("all pods deleted", _delete_all),
    Scenario("replica follows the wrong primary", _lead_astray),
    Scenario("replica reset", _reset_replica),
    Scenario("slots left open", _open_slots),
    Scenario("keys stranded", _strand_keys, _none_stranded, within=700.0),
    Scenario("ghost node", _add_ghost),
    Scenario("epochs collide", _collide_epochs),
    Scenario("children deleted", _delete_children),
    Scenario("StatefulSet orphaned its pods", _orphan_set),
)


# Changes


def _change(**spec: Any) -> Act:
    async def act(simulation: Simulation) -> None:
        await simulation.change(**spec)

    return act


def _count(pods: int) -> Over:
    return lambda simulation: len(_pods(simulation)) == pods and len(_mine(simulation)) == pods


async def _restart_all(simulation: Simulation) -> None:
    await simulation.annotate(**{RESTARTED_ANNOTATION: "2026-01-01T00:00:00Z"})


def _restarted(simulation: Simulation) -> bool:
    return all(RESTARTED_ANNOTATION in p["metadata"]["annotations"] for p in _pods(simulation))


def _configured(name: str, value: str) -> Over:
    return lambda simulation: all(s.config.get(name) == value for s in _mine(simulation))


def _runs(version: str) -> Over:
    return lambda simulation: all(s.version.startswith(version) for s in _mine(simulation))


async def _switch(simulation: Simulation) -> None:
    name = _replica(simulation).name
    await simulation.annotate(**{"redisoperator.dev/switch-primary-to": name})


async def _sleep_and_wake(simulation: Simulation) -> None:
    await simulation.change(hibernate=True)
    await simulation.until(
        lambda found: is_asleep(found) and not _mine(simulation), within=120.0, what="asleep"
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
    simulation.kill(_primary(simulation, 0).name)


async def _kill_target(simulation: Simulation) -> None:
    await simulation.change(shards=4)
    await _until_moving(simulation)
    simulation.kill(_primary(simulation, 3).name)


async def _kill_both(simulation: Simulation) -> None:
    await simulation.change(shards=4)
    await _until_moving(simulation)
    for shard in (0, 3):
        simulation.kill(_primary(simulation, shard).name)


async def _until_moving(simulation: Simulation) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + 60.0
    while loop.time() < end:
        if any(s.importing for s in _mine(simulation)):
            return
        await asyncio.sleep(0.0007)
    raise Broken(simulation.explain("no slot was ever moved", await simulation.redis()))


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

SCENARIOS = (*CREATIONS, *HEALS, *CHANGES)
