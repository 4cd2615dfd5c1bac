"""Mode Failover in simulation: states that are broken by hand, and random trouble."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from ..cluster import replication
from ..cluster.state import Server
from ..cluster.wire import answer
from .failover import followers, is_whole, leader, sentinels, servers
from .scenarios import Scenario, until_over
from .soak import COMMON_EVENTS, Event, soak
from .system import Simulation

__all__ = [
    "BREAKAGES",
    "FAILOVER_EVENTS",
    "Breakage",
    "heal_broken",
    "soak_failover",
]

Breakage = Callable[[Simulation, Random], str]


def _some_follower(simulation: Simulation, random: Random) -> Server:
    """Return a server that does not lead; where a breakage before made all lead, any."""
    return random.choice(followers(simulation) or servers(simulation))


def _rogue_primary(simulation: Simulation, random: Random) -> str:
    server = _some_follower(simulation, random)
    replication.lead(simulation.world, server)
    return f"{server.name} promoted by hand"


def _rogue_writer(simulation: Simulation, random: Random) -> str:
    server = _some_follower(simulation, random)
    replication.lead(simulation.world, server)
    answer(simulation.world, server, ["SET", "beside", "1"])
    return f"{server.name} promoted by hand, and written to"


def _no_primary(simulation: Simulation, random: Random) -> str:
    del random
    server = leader(simulation)
    replication.follow(simulation.world, server, ("127.0.0.1", 9))
    return f"{server.name} follows no server"


def _wrong_primary(simulation: Simulation, random: Random) -> str:
    server = _some_follower(simulation, random)
    ghost = simulation.world.new_address()
    replication.follow(simulation.world, server, (ghost, 6379))
    return f"{server.name} follows a ghost"


def _chained(simulation: Simulation, random: Random) -> str:
    found = followers(simulation) or servers(simulation)  # a breakage before made all lead
    random.shuffle(found)
    replication.follow(simulation.world, found[0], (found[-1].ip, 6379))
    return f"{found[0].name} follows {found[-1].name}"


def _told(simulation: Simulation, server: Server, *words: str | int) -> object:
    return answer(simulation.world, server, ["SENTINEL", *words])


def _sentinel_of_a_ghost(simulation: Simulation, random: Random) -> str:
    server, sentinel = random.choice(sentinels(simulation))
    ghost = simulation.world.new_address()
    for name in list(sentinel.primaries):
        _told(simulation, server, "REMOVE", name)
        _told(simulation, server, "MONITOR", name, ghost, 6379, 2)
    return f"{server.name} monitors a ghost"


def _sentinel_of_a_replica(simulation: Simulation, random: Random) -> str:
    server, sentinel = random.choice(sentinels(simulation))
    other = _some_follower(simulation, random)
    for name in list(sentinel.primaries):
        _told(simulation, server, "REMOVE", name)
        _told(simulation, server, "MONITOR", name, other.ip, 6379, 2)
    return f"{server.name} monitors {other.name}"


def _bare_sentinel(simulation: Simulation, random: Random) -> str:
    server, sentinel = random.choice(sentinels(simulation))
    for name in list(sentinel.primaries):
        _told(simulation, server, "REMOVE", name)
    return f"{server.name} monitors nothing"


def _wrong_options(simulation: Simulation, random: Random) -> str:
    server, sentinel = random.choice(sentinels(simulation))
    for name in sentinel.primaries:
        _told(simulation, server, "SET", name, "quorum", 5)
        _told(simulation, server, "SET", name, "failover-timeout", 1000)
    return f"{server.name} has other settings"


def _clock(simulation: Simulation, random: Random) -> str:
    server, _ = random.choice(sentinels(simulation))
    # Set back, a sentinel neither pings nor publishes until it has caught up.
    simulation.world.jump_clock(server.name, random.choice([-10.0, 3600.0, -7200.0]))
    return f"the clock of {server.name} jumped"


def _failed_over(simulation: Simulation, random: Random) -> str:
    server, sentinel = random.choice(sentinels(simulation))
    for name in sentinel.primaries:
        _told(simulation, server, "FAILOVER", name)
    return f"{server.name} fails over"


BREAKAGES: tuple[Breakage, ...] = (
    *(_rogue_primary, _rogue_writer, _no_primary, _wrong_primary, _chained, _sentinel_of_a_ghost),
    *(_sentinel_of_a_replica, _bare_sentinel, _wrong_options, _clock, _failed_over),
)


async def heal_broken(simulation: Simulation, *, most: int = 3) -> None:
    """Break some things while no operator is there; one that comes must put all of them right."""
    random = Random(simulation.seed)
    chosen = random.sample(BREAKAGES, random.randint(1, most))
    if _failed_over not in chosen:  # sentinels lose what the old primary takes meanwhile
        simulation.write_on()
    for breakage in chosen:
        simulation.history.append(breakage(simulation, random))
        await asyncio.sleep(random.choice([0.0, 0.0, 0.5, 3.0]))
    simulation.start_operator()
    over = Scenario("whole again", _nothing, over=is_whole, within=240.0)
    await until_over(simulation, over)
    simulation.check_end()


async def _more_sentinels(simulation: Simulation, random: Random) -> str:
    count = random.choice([3, 3, 5])
    await simulation.change(sentinel={"replicas": count})
    return f"sentinels: {count}"


async def _jump(simulation: Simulation, random: Random) -> str:
    return _clock(simulation, random) if sentinels(simulation) else "no clock to jump"


FAILOVER_EVENTS: tuple[Event, ...] = (*COMMON_EVENTS, _more_sentinels, _jump)


async def soak_failover(
    simulation: Simulation, *, seconds: float, pause: float = 30.0
) -> list[str]:
    """Live through so many seconds of trouble in mode Failover, then calm down."""
    return await soak(
        simulation, seconds=seconds, pause=pause, events=FAILOVER_EVENTS, over=is_whole
    )


async def _nothing(simulation: Simulation) -> None:
    del simulation
