"""Mode Failover in simulation: what happens to such databases, and what must hold in the end.

In the end one server leads, all others follow it and are in sync, and every sentinel names it,
knows every other sentinel and no other process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kubecontroller.client.meta import Manifest
from redis_operator.manifests.pod import RESTARTED_ANNOTATION

from ..cluster.state import Server
from ..sentinels.state import Sentinel
from .nodes import node_of, power_off, power_on
from .scenarios import Act, Scenario, is_asleep, pods
from .system import DATABASE, Simulation, database

__all__ = [
    "DURABLE",
    "FAILOVER_SCENARIOS",
    "failover",
    "followers",
    "forget_replicas",
    "is_whole",
    "leader",
    "sentinels",
    "servers",
]


def failover(*, replicas: int = 2, storage: bool = True, **spec: Any) -> Manifest:
    """Return a database of mode Failover to apply."""
    found = database(replicas=replicas, storage=storage, **spec)
    found["spec"]["mode"] = "Failover"
    del found["spec"]["shards"]
    return found


# Servers and sentinels


def servers(simulation: Simulation) -> list[Server]:
    """Return the servers of the database that live, sentinels not among them."""
    found = simulation.world.servers.values()
    return [s for s in found if s.database == DATABASE and s.alive and s.sentinel is None]


def sentinels(simulation: Simulation) -> list[tuple[Server, Sentinel]]:
    """Return the sentinels of the database that live."""
    return [
        (server, server.sentinel)
        for server in simulation.world.servers.values()
        if server.database == DATABASE and server.alive and server.sentinel is not None
    ]


def leader(simulation: Simulation) -> Server:
    """Return the primary that clients are led to, or any."""
    led = simulation.kubelet.labelled(DATABASE, "primary")
    found = [s for s in servers(simulation) if s.is_primary]
    return next((s for s in found if s.name in led), found[0])


def followers(simulation: Simulation) -> list[Server]:
    """Return the servers that do not lead."""
    return [s for s in servers(simulation) if not s.is_primary]


def disorder(simulation: Simulation) -> str:
    """Return what is not as it must be in the end; empty: all is."""
    found = servers(simulation)
    led = [s for s in found if s.is_primary]
    if len(led) != 1:
        return f"{[s.name for s in led]} lead"
    primary = led[0]
    for server in found:
        if server is not primary and not _follows(simulation, server, primary):
            return f"{server.name} does not follow {primary.name}"
    watchers = sentinels(simulation)
    ids = {sentinel.id for _, sentinel in watchers}
    for server, sentinel in watchers:
        known = list(sentinel.primaries.values())
        if [one.ip for one in known] != [primary.ip]:
            return f"{server.name} names {[one.ip for one in known]} and not {primary.ip}"
        if known[0].down_since is not None:
            return f"{server.name} considers {primary.name} dead"
        if {*known[0].sentinels} != ids - {sentinel.id}:
            return f"{server.name} knows {len(known[0].sentinels)} other sentinels"
    return ""


def _follows(simulation: Simulation, server: Server, primary: Server) -> bool:
    right = server.follows is not None and simulation.world.at(server.follows[0]) is primary
    return right and server.link_up


def is_whole(simulation: Simulation) -> bool:
    """Return whether all is as it must be in the end."""
    return not disorder(simulation)


# Things that happen


def _apply(**spec: Any) -> Act:
    async def act(simulation: Simulation) -> None:
        await simulation.apply(failover(**spec))

    return act


def _change(**spec: Any) -> Act:
    async def act(simulation: Simulation) -> None:
        await simulation.change(**spec)

    return act


async def _kill_primary(simulation: Simulation) -> None:
    simulation.kill(leader(simulation).name)


async def _kill_replica(simulation: Simulation) -> None:
    simulation.kill(followers(simulation)[0].name)


async def _kill_all(simulation: Simulation) -> None:
    for server in servers(simulation):
        simulation.kubelet.kill(server.name)


async def _kill_sentinels(simulation: Simulation) -> None:
    for server, _ in sentinels(simulation):
        simulation.kubelet.kill(server.name)


async def _kill_primary_and_sentinels(simulation: Simulation) -> None:
    """SE-05: only the servers themselves know which of them was the primary."""
    simulation.kill(leader(simulation).name)
    for server, _ in sentinels(simulation):
        await simulation.delete_pod(server.name)


async def _kill_twice(simulation: Simulation) -> None:
    """SE-03: who takes over dies as well."""
    first = leader(simulation)
    simulation.kill(first.name)

    async def taken_over() -> bool:
        found = [s for s in servers(simulation) if s.is_primary and s is not first]
        return bool(found)

    await simulation.until_all(taken_over, within=60.0, what="taken over")
    await asyncio.sleep(1.0)
    simulation.kill(leader(simulation).name)


async def _delete_primary(simulation: Simulation) -> None:
    await simulation.delete_pod(leader(simulation).name)


async def _delete_all(simulation: Simulation) -> None:
    for pod in pods(simulation):
        await simulation.delete_pod(pod["metadata"]["name"])


async def _delete_servers(simulation: Simulation) -> None:
    """The sentinels stay, and name the one that has the data: it waits for the others."""
    for server in servers(simulation):
        await simulation.delete_pod(server.name)


async def _freeze_primary(simulation: Simulation) -> None:
    """ST-10: the sentinels replace it, and it continues as if nothing had happened."""
    first = leader(simulation)
    simulation.freeze(first.name)

    async def taken_over() -> bool:
        return any(s.is_primary for s in servers(simulation) if s is not first)

    await simulation.until_all(taken_over, within=120.0, what="taken over")
    await asyncio.sleep(2.0)
    simulation.thaw(first.name)


async def _operator_away(simulation: Simulation) -> None:
    """K-17, SE-10: the sentinels fail over alone; who comes back adopts it."""
    simulation.restarts = False
    for process in simulation.processes:
        process.die()
    first = leader(simulation)
    simulation.kill(first.name)

    async def switched() -> bool:
        named = {p.ip for _, s in sentinels(simulation) for p in s.primaries.values()}
        return len(named) == 1 and first.ip not in named

    await simulation.until_all(switched, within=120.0, what="failed over by the sentinels")
    simulation.restarts = True
    simulation.start_operator()


def forget_replicas(simulation: Simulation) -> None:
    """Let all sentinels be as they are when they monitored a primary before it had replicas."""
    for _, sentinel in sentinels(simulation):
        now = sentinel.clock(simulation.world.now)
        for primary in sentinel.primaries.values():
            primary.replicas, primary.asked_at, primary.info_at = {}, now, now


async def _lose_power_unheard(simulation: Simulation) -> None:
    """SE-02: a primary dies silently, and no sentinel knows its replicas."""
    first = leader(simulation)
    node = node_of(simulation, first.name)
    forget_replicas(simulation)
    gone = await power_off(simulation, node)

    async def taken_over() -> bool:
        led = simulation.kubelet.labelled(DATABASE, "primary")
        here = [s for s in servers(simulation) if s.name not in gone]
        return any(s.is_primary and s.name in led for s in here)

    await simulation.until_all(taken_over, within=120.0, what="taken over")
    await asyncio.sleep(5.0)
    await power_on(simulation, node)


async def _switch(simulation: Simulation) -> None:
    name = followers(simulation)[0].name
    await simulation.annotate(**{"redisoperator.dev/switch-primary-to": name})

    async def switched() -> bool:
        return leader(simulation).name == name

    await simulation.until_all(switched, within=60.0, what=f"switched to {name}")


async def _switch_after_failover(simulation: Simulation) -> None:
    """A planned switchover when the sentinels have an epoch from a failover of their own."""
    await _freeze_primary(simulation)

    async def whole() -> bool:
        return is_whole(simulation)

    await simulation.until_all(whole, within=120.0, what="whole again")
    await _switch(simulation)


async def _cut_primary_off(simulation: Simulation, *, operator: bool) -> None:
    """SE-11: the primary and one sentinel on one side, all others on the other."""
    first = leader(simulation)
    watchers = [server.name for server, _ in sentinels(simulation)]
    rest = [server.name for server in servers(simulation) if server is not first]
    simulation.ledger.excuse(first)
    simulation.world.part([first.name, watchers[0]], [*rest, *watchers[1:]])
    if not operator:
        simulation.cut_off(first.name)

    async def taken_over() -> bool:
        return any(s.is_primary for s in servers(simulation) if s is not first)

    await simulation.until_all(taken_over, within=120.0, what="taken over")
    await asyncio.sleep(15.0)
    simulation.rejoin()


async def _cut_off(simulation: Simulation) -> None:
    await _cut_primary_off(simulation, operator=True)


async def _cut_off_from_all(simulation: Simulation) -> None:
    await _cut_primary_off(simulation, operator=False)


async def _hide_primary(simulation: Simulation) -> None:
    """The operator alone does not reach the primary; sentinels and replicas do: nothing happens."""
    simulation.cut_off(leader(simulation).name)
    await asyncio.sleep(60.0)
    simulation.reach_again()


async def _replace_replicas_in_turn(simulation: Simulation) -> None:
    """Every place but the first goes with its data and comes back, and then the first as well.

    Nothing checks whether they have the data again: the last server that has it waits.
    """
    for pod in (f"{DATABASE}-2", f"{DATABASE}-1", f"{DATABASE}-0"):
        await simulation.delete_pod(pod)
        await asyncio.sleep(4.0)


async def _replace_pods_in_turn(simulation: Simulation) -> None:
    """Every pod goes with its data, each when the one before is in sync: nothing may be lost."""

    async def whole() -> bool:
        ready = all(kept.server.ready for kept in simulation.kubelet.kept.values())
        return ready and len(servers(simulation)) == len(names) and is_whole(simulation)

    names = [server.name for server in servers(simulation)]
    for name in names:
        before = simulation.world.servers[name].started_at
        await simulation.delete_pod(name)

        async def back(name: str = name, before: float = before) -> bool:
            return simulation.world.servers[name].started_at > before and await whole()

        await simulation.until_all(back, within=240.0, what=f"{name} in sync again")


async def _sleep_and_wake(simulation: Simulation) -> None:
    await simulation.change(hibernate=True)

    async def asleep() -> bool:
        return is_asleep(await simulation.redis()) and not servers(simulation)

    await simulation.until_all(asleep, within=120.0, what="hibernated")
    await simulation.change(hibernate=False)


async def _restart(simulation: Simulation) -> None:
    await simulation.annotate(**{RESTARTED_ANNOTATION: simulation.now().isoformat()})


def _restarted(simulation: Simulation) -> bool:
    found = pods(simulation)
    stamps = [(p["metadata"].get("annotations") or {}).get(RESTARTED_ANNOTATION) for p in found]
    return len(found) > 0 and all(stamps)


def _count(wanted: int) -> Callable[[Simulation], bool]:
    return lambda simulation: len(servers(simulation)) == wanted and is_whole(simulation)


def _sentinel_count(wanted: int) -> Callable[[Simulation], bool]:
    return lambda simulation: len(sentinels(simulation)) == wanted and is_whole(simulation)


def _scenario(name: str, act: Act, **more: Any) -> Scenario:
    given: dict[str, Any] = {"over": is_whole, "base": failover()} | more
    return Scenario(f"failover: {name}", act, **given)


_IN_MEMORY = failover(storage=False)
DURABLE = failover(durability={"minReplicasToWrite": 1})
"""No primary accepts writes for long that no other server gets."""

FAILOVER_SCENARIOS = (
    _scenario("create", _apply(), base=None),
    _scenario("create in memory", _apply(storage=False), base=None),
    _scenario("primary killed", _kill_primary),
    _scenario("replica killed", _kill_replica),
    _scenario("primary killed, in memory", _kill_primary, base=_IN_MEMORY),
    _scenario("all servers killed", _kill_all),
    _scenario("all sentinels killed", _kill_sentinels),
    _scenario("primary killed, sentinels recreated", _kill_primary_and_sentinels),
    _scenario("primary and successor killed", _kill_twice),
    _scenario("primary's pod deleted", _delete_primary),
    _scenario("all pods deleted", _delete_all),
    _scenario("primary frozen", _freeze_primary),
    _scenario("operator away", _operator_away),
    _scenario("primary cut off with a sentinel", _cut_off),
    _scenario("primary cut off from all", _cut_off_from_all),
    _scenario("primary not reached by the operator", _hide_primary),
    _scenario("pods deleted in turn", _replace_replicas_in_turn, base=_IN_MEMORY),
    _scenario("server pods deleted at once, in memory", _delete_servers, base=_IN_MEMORY),
    _scenario("pods deleted in turn when in sync", _replace_pods_in_turn, base=_IN_MEMORY),
    _scenario("primary cut off, writes need a replica", _cut_off_from_all, base=DURABLE),
    _scenario("primary's node lost, replicas unheard of", _lose_power_unheard, within=400.0),
    _scenario("switchover", _switch),
    _scenario("switchover after a failover", _switch_after_failover),
    _scenario("restart", _restart, over=lambda s: _restarted(s) and is_whole(s), within=600.0),
    _scenario("more replicas", _change(replicas=3), over=_count(4)),
    _scenario("fewer replicas", _change(replicas=1), over=_count(2)),
    _scenario("another setting", _change(config={"maxmemory-policy": "allkeys-lru"})),
    _scenario("another image", _change(version="9.0"), within=600.0),
    _scenario("hibernation", _sleep_and_wake),
    _scenario("more sentinels", _change(sentinel={"replicas": 5}), over=_sentinel_count(5)),
)
