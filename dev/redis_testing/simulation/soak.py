"""Long histories: random kills, deletions, freezes and changes of the spec, one seed a history.

Clients write all the while. At the end faults stop, and the database must become what was
asked for last, with every promise kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from kubecontroller.client.errors import NotFound
from redis_operator.manifests.pod import RESTARTED_ANNOTATION

from ..cluster import disk
from ..cluster.person import follow_advice
from ..cluster.weather import draw_weather
from .scenarios import Over, Scenario, until_over
from .system import DATABASE, Simulation

__all__ = ["COMMON_EVENTS", "Event", "soak"]

_POLICIES = ("allkeys-lru", "volatile-ttl", "noeviction")
Event = Callable[[Simulation, Random], Awaitable[str]]


def _living(simulation: Simulation) -> list[str]:
    servers = simulation.world.servers.values()
    return sorted(s.name for s in servers if s.database == DATABASE and s.alive and not s.stopped)


async def _kill(simulation: Simulation, random: Random) -> str:
    living = _living(simulation)
    if not living:
        return "no server to kill"
    name = random.choice(living)
    simulation.kill(name)
    return f"{name} killed"


async def _delete(simulation: Simulation, random: Random) -> str:
    living = _living(simulation)
    if not living:
        return "no pod to delete"
    name = random.choice(living)
    try:
        await simulation.delete_pod(name)
    except NotFound:
        return f"{name} is gone already"
    return f"pod {name} deleted"


async def _freeze(simulation: Simulation, random: Random) -> str:
    living = _living(simulation)
    if not living:
        return "no server to freeze"
    name, seconds = random.choice(living), random.choice([1.0, 4.0, 12.0])
    simulation.freeze(name)
    asyncio.get_running_loop().call_later(seconds, simulation.thaw, name)
    return f"{name} frozen for {seconds:g} s"


async def _power_off(simulation: Simulation, random: Random) -> str:
    living = _living(simulation)
    if not living:
        return "nothing to power off"
    name = random.choice(living)
    simulation.power_off(name)
    return f"the machine of {name} lost power"


async def _cut_off(simulation: Simulation, random: Random) -> str:
    """The operator cannot reach a server for a while; all others can. CL-13"""
    living = _living(simulation)
    if not living:
        return "nothing to cut off"
    name, seconds = random.choice(living), random.choice([2.0, 8.0, 20.0])
    simulation.cut_off(name)
    asyncio.get_running_loop().call_later(seconds, simulation.reach_again)
    return f"{name} not reached by the operator for {seconds:g} s"


async def _kill_for_memory(simulation: Simulation, random: Random) -> str:
    living = _living(simulation)
    if not living:
        return "no server to kill"
    name = random.choice(living)
    simulation.kubelet.out_of_memory.add(name)
    simulation.kill(name)
    return f"{name} killed for memory"


async def _fill_disk(simulation: Simulation, random: Random) -> str:
    """No room for a while: writes are refused, or a replica ends repeatedly."""
    living = _living(simulation)
    if not living:
        return "no disk to fill"
    server, seconds = simulation.world.servers[random.choice(living)], random.choice([5.0, 40.0])
    simulation.ledger.excuse(server)
    disk.fill_up(simulation.world, server)
    loop = asyncio.get_running_loop()
    loop.call_later(seconds, disk.make_room, simulation.world, server)
    return f"the disk of {server.name} is full for {seconds:g} s"


async def _lose_volume(simulation: Simulation, random: Random) -> str:
    """A node dies with its disk. What it had, another one has."""
    world = simulation.world
    spare = [
        server.name
        for name in _living(simulation)
        if not (server := world.servers[name]).is_primary and server.link_up
    ]
    if not spare:
        return "no volume to lose"
    name = random.choice(spare)
    simulation.kill(name)
    simulation.kubelet.volumes.pop(name, None)
    return f"{name} lost its volume"


async def _end_operator(simulation: Simulation, random: Random) -> str:
    del random
    for process in simulation.processes:
        process.die()
    return "operator killed"


async def _shards(simulation: Simulation, random: Random) -> str:
    shards = random.choice([3, 3, 4, 5])
    await simulation.change(shards=shards)
    return f"shards: {shards}"


async def _replicas(simulation: Simulation, random: Random) -> str:
    replicas = random.choice([1, 1, 2])
    await simulation.change(replicas=replicas)
    return f"replicas: {replicas}"


async def _setting(simulation: Simulation, random: Random) -> str:
    policy = random.choice(_POLICIES)
    await simulation.change(config={"maxmemory-policy": policy})
    return f"maxmemory-policy: {policy}"


async def _restart(simulation: Simulation, random: Random) -> str:
    del random
    await simulation.annotate(**{RESTARTED_ANNOTATION: simulation.now().isoformat()})
    return "restart asked for"


_EVENTS: tuple[Event, ...] = (
    *(_kill, _kill, _power_off, _delete, _delete, _freeze, _cut_off, _end_operator, _end_operator),
    *(_kill_for_memory, _fill_disk, _lose_volume),
    *(_shards, _replicas, _setting, _restart),
)


COMMON_EVENTS: tuple[Event, ...] = (
    *(_kill, _kill, _power_off, _delete, _delete, _freeze, _cut_off, _end_operator, _end_operator),
    *(_kill_for_memory, _fill_disk, _lose_volume, _replicas, _setting, _restart),
)
"""What happens to databases of every mode that has replicas."""


async def soak(
    simulation: Simulation,
    *,
    seconds: float,
    pause: float = 30.0,
    events: tuple[Event, ...] = _EVENTS,
    over: Over = lambda _: True,
) -> list[str]:
    """Live through so many seconds of trouble, then calm down; return what happened."""
    random, loop = Random(simulation.seed), asyncio.get_running_loop()
    history: list[str] = []
    simulation.history = history
    simulation.world.weather = draw_weather(random)
    simulation.world.slow_disks = random.random() < 0.3
    simulation.world.migrate_breaks = random.choice([0.0, 0.0, 0.05])
    simulation.world.load_seconds = random.choice([0.0, 0.0, 2.0, 15.0])
    history.append(f"a start reads its files for {simulation.world.load_seconds:g} s")
    history.append(f"{simulation.world.weather}, slow disks: {simulation.world.slow_disks}")
    simulation.start_operator()
    writing = simulation.write_on()
    end = loop.time() + seconds
    while loop.time() < end:
        await asyncio.sleep(random.uniform(0.5, 2 * pause))
        told = await random.choice(events)(simulation, random)
        history.append(f"{loop.time():.1f} {told}")
        simulation.check()
    person = simulation.spawn(_follow_advice(simulation))
    await until_over(simulation, Scenario("calm again", _nothing, over=over, within=900.0))
    person.cancel()
    writing.cancel()
    await asyncio.sleep(1.0)
    simulation.check_end()
    return history


async def _follow_advice(simulation: Simulation) -> None:
    """Do what the status asks a person for: drop values that clients do not see."""
    while True:
        await asyncio.sleep(60.0)
        plan = ((await simulation.found()).get("status") or {}).get("plan") or ()
        simulation.history += follow_advice(simulation.world, map(str, plan))


async def _nothing(simulation: Simulation) -> None:
    del simulation
