"""Databases that start as replicas of an external server, follow it, and are promoted.

Whoever writes there stops before the promotion is asked for: then every write must be found in the
database, whatever happened meanwhile.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from redis_operator.manifests.pod import RESTARTED_ANNOTATION
from redis_operator.redis.slots import key_slot

from ..cluster.state import Server
from ..cluster.wire import answer
from .failover import failover, is_whole, servers
from .mode_changes import standalone
from .scenarios import Act, Scenario
from .system import NAMESPACE, Simulation

__all__ = ["ELSEWHERE", "SOURCE_SCENARIOS", "elsewhere", "follows", "has_all", "source_of", "write"]

ELSEWHERE = "elsewhere"
_PASSWORD = "of-the-other-one"  # noqa: S105 - of a simulated server
_ACCEPT = "redisoperator.dev/accept-data-loss"


def elsewhere(simulation: Simulation) -> Server:
    """Start a server that no operator manages, with a password."""
    server = simulation.world.add(ELSEWHERE, database=ELSEWHERE)
    server.config["cluster-enabled"] = "no"
    word = hashlib.sha256(_PASSWORD.encode()).hexdigest()
    simulation.world.passwords[ELSEWHERE] = {"default": (f"#{word}",)}
    simulation.network.sandboxes.add(server.ip)
    return server


def write(simulation: Simulation, count: int = 20) -> None:
    """Write so many further keys there."""
    server = simulation.world.servers[ELSEWHERE]
    for _ in range(count):
        number = server.key_count
        answer(simulation.world, server, ["SET", f"old-{number}", str(number)])


def has_all(simulation: Simulation) -> bool:
    """Return whether every server has every key that was written elsewhere."""
    source = simulation.world.servers[ELSEWHERE]
    wanted = [key for held in source.keys.values() for key in held]
    return bool(wanted) and all(
        key in server.keys.get(key_slot(key), {})
        for server in servers(simulation)
        for key in wanted
    )


async def source_of(simulation: Simulation) -> dict[str, Any]:
    """Make the Secret with the login; return what a spec says of the server."""
    await simulation.client.apply(
        BUILT_IN_KINDS["secrets"],
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": NAMESPACE, "name": "old-login"},
            "stringData": {"word": _PASSWORD},
        },
    )
    return {
        "fromRedis": {
            "host": simulation.world.servers[ELSEWHERE].ip,
            "passwordSecret": {"name": "old-login", "key": "word"},
        }
    }


async def follows(simulation: Simulation) -> None:
    """Wait until the status says that the database has what is there."""

    async def in_sync() -> bool:
        status = (await simulation.redis()).get("status") or {}
        told = {c["type"]: c["status"] for c in status.get("conditions") or ()}
        return told.get("Following") == "True" and has_all(simulation)

    await simulation.until_all(in_sync, within=120.0, what="in sync with the external server")


Base = Callable[..., dict[str, Any]]


def _copied(base: Base, *happens: Callable[[Simulation], Awaitable[None]], **spec: Any) -> Act:
    """Create a database as a copy, let things happen, stop writing there, and have it promoted."""

    async def act(simulation: Simulation) -> None:
        elsewhere(simulation)
        write(simulation)
        await simulation.apply(base(bootstrap=await source_of(simulation), **spec))
        await follows(simulation)
        for event in happens:
            await event(simulation)
            write(simulation)
            await follows(simulation)
        write(simulation)
        await simulation.change(bootstrap={"fromRedis": None})

    return act


def _head(simulation: Simulation) -> Server:
    place = simulation.world.servers[ELSEWHERE].ip
    return next(s for s in servers(simulation) if s.follows is not None and s.follows[0] == place)


async def _kill_head(simulation: Simulation) -> None:
    simulation.kubelet.kill(_head(simulation).name)
    await asyncio.sleep(5.0)


async def _delete_head(simulation: Simulation) -> None:
    await simulation.delete_pod(_head(simulation).name)
    await asyncio.sleep(5.0)


async def _kill_all(simulation: Simulation) -> None:
    for server in servers(simulation):
        simulation.kubelet.kill(server.name)
    await asyncio.sleep(5.0)


async def _restart_source(simulation: Simulation) -> None:
    """It is gone for a while: the copies wait."""
    simulation.world.end(ELSEWHERE)
    simulation.network.server_ended(ELSEWHERE)
    await asyncio.sleep(20.0)
    simulation.world.start(ELSEWHERE)


async def _hide_source(simulation: Simulation) -> None:
    """The operator alone does not reach it."""
    simulation.cut_off(ELSEWHERE)
    await asyncio.sleep(20.0)
    simulation.reach_again()


def _changed(**spec: Any) -> Callable[[Simulation], Awaitable[None]]:
    async def change(simulation: Simulation) -> None:
        await simulation.change(**spec)
        await asyncio.sleep(30.0)

    return change


async def _restart(simulation: Simulation) -> None:
    """It waits for the promotion."""
    await simulation.annotate(**{RESTARTED_ANNOTATION: simulation.now().isoformat()})
    await asyncio.sleep(20.0)


async def _sleep_and_wake(simulation: Simulation) -> None:
    await simulation.change(hibernate=True)
    await asyncio.sleep(60.0)
    await simulation.change(hibernate=False)
    await asyncio.sleep(10.0)


async def _promoted_without(simulation: Simulation) -> None:
    """It is gone for ever: a person says that what has arrived is enough."""
    elsewhere(simulation)
    write(simulation)
    await simulation.apply(failover(bootstrap=await source_of(simulation)))
    await follows(simulation)
    simulation.world.end(ELSEWHERE)
    simulation.network.server_ended(ELSEWHERE)
    await simulation.change(bootstrap={"fromRedis": None})
    await asyncio.sleep(20.0)
    assert not any(server.is_primary for server in servers(simulation))
    await simulation.annotate(**{_ACCEPT: "source"})


def _is_copied(simulation: Simulation) -> bool:
    return has_all(simulation) and is_whole(simulation)


def _stands_alone(simulation: Simulation) -> bool:
    return has_all(simulation) and [s.is_primary for s in servers(simulation)] == [True]


def _in_memory(**spec: Any) -> dict[str, Any]:
    return failover(storage=False, **spec)


def _scenario(name: str, act: Act, **more: Any) -> Scenario:
    given: dict[str, Any] = {"over": _is_copied, "base": None, "within": 300.0} | more
    return Scenario(f"source: {name}", act, **given)


SOURCE_SCENARIOS = (
    _scenario("followed and promoted", _copied(failover)),
    _scenario("one server", _copied(standalone), over=_stands_alone),
    _scenario("one server killed", _copied(standalone, _kill_all), over=_stands_alone),
    _scenario("head killed", _copied(failover, _kill_head)),
    _scenario("head killed, in memory", _copied(_in_memory, _kill_head)),
    _scenario("head's pod deleted", _copied(failover, _delete_head)),
    _scenario("all servers killed, in memory", _copied(_in_memory, _kill_all)),
    _scenario("restarted", _copied(failover, _restart_source)),
    _scenario("not reached by the operator", _copied(failover, _hide_source)),
    _scenario("gone for ever", _promoted_without),
    _scenario("restart asked for", _copied(failover, _restart), within=600.0),
    _scenario("hibernation", _copied(failover, _sleep_and_wake)),
    _scenario("hibernation, one server", _copied(standalone, _sleep_and_wake), over=_stands_alone),
    _scenario("fewer replicas", _copied(failover, _changed(replicas=1))),
    _scenario(
        "into Failover", _copied(standalone, _changed(mode="Failover", replicas=2)), within=600.0
    ),
    _scenario(
        "out of Failover",
        _copied(failover, _changed(mode="Standalone", replicas=0, sentinel=None)),
        over=_stands_alone,
        within=600.0,
    ),
)
