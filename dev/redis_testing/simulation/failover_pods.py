"""What the boot and stop scripts of mode Failover do, on simulated nodes.

A server never starts as a primary: it follows an address where nothing listens, whose port says
whether it found files, and whether they are of a server that led when it was stopped. No sentinel
may promote it. A sentinel has the id of its place, and keeps its file while its pod lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from redis_operator.planning.failover.set_aside import MARK

from ..cluster.state import Server
from ..cluster.world import SimulatedCluster
from ..sentinels.wire import configure
from .kept_pod import Volume

__all__ = [
    "boot_sentinel",
    "follows_at_start",
    "hand_over",
    "is_failover",
    "is_put_aside",
    "is_sentinel",
    "leads_at_end",
]

_NO_PRIMARY = "127.0.0.1"
_WITH_FILES, _WITHOUT_FILES, _LED = 1, 2, 3
_LOOK_SECONDS = 0.2


def is_sentinel(environment: Mapping[str, str]) -> bool:
    """Return whether a pod runs a sentinel."""
    return "SENTINEL_ID" in environment


def is_failover(files: Mapping[str, str]) -> bool:
    """Return whether a pod runs a server that never starts as a primary: by script and files."""
    script = files["boot.sh"]
    return "--replica-priority" in script or ("--replicaof" in script and "follow" in files)


def follows_at_start(server: Server, volume: Volume) -> tuple[str, int]:
    """Return the primary of a server at its start, before the operator sets one."""
    if not server.persistent or volume.fresh:
        return _NO_PRIMARY, _WITHOUT_FILES
    return _NO_PRIMARY, _LED if volume.led else _WITH_FILES


def boot_sentinel(
    world: SimulatedCluster,
    name: str,
    *,
    ip: str,
    new_pod: bool,
    database: str,
    environment: Mapping[str, str],
    file: str,
) -> Server:
    """Start a sentinel, with its file if its pod had one."""
    if name not in world.servers:
        world.add_sentinel(name, database=database)
    server = world.servers[name]
    sentinel = server.sentinel
    assert sentinel is not None
    ordinal = int(name.rsplit("-", 1)[1])
    if new_pod:
        sentinel.lose_file(f"{environment['SENTINEL_ID']}{ordinal:08x}")
    sentinel.announce_ip = ip  # its pod may have its file and another address
    world.start(name, address=ip)
    configure(world, server, file)
    return server


async def hand_over(world: SimulatedCluster, server: Server, seconds: float) -> bool:
    """Keep serving while there is a replica, until another one leads: the preStop hook.

    The only copy of a database in memory waits longer for a replica. Returns whether none came.
    """
    await _wait_while(lambda: _is_followed(world, server), seconds)
    await _wait_while(lambda: _is_only_copy(world, server), 6 * seconds)
    await _wait_while(lambda: _is_followed(world, server), seconds)
    return _is_only_copy(world, server)


async def _wait_while(holds: Callable[[], bool], seconds: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while holds() and loop.time() < end:  # noqa: ASYNC110 - as the script does
        await asyncio.sleep(_LOOK_SECONDS)


def _is_followed(world: SimulatedCluster, server: Server) -> bool:
    leads = server.alive and server.is_primary
    return leads and any(copy.link_up for copy in world.copies(server))


def _is_only_copy(world: SimulatedCluster, server: Server) -> bool:
    if server.persistent or not (server.alive and server.is_primary and server.key_count):
        return False
    if _is_followed(world, server):
        return False
    found = [s for s in world.servers.values() if s.database == server.database and s.alive]
    named = [p.ip for s in found if s.sentinel is not None for p in s.sentinel.primaries.values()]
    return server.ip in named


def is_put_aside(world: SimulatedCluster, server: Server) -> bool:
    """Return whether the next start keeps the files of a server aside: marked, and not named."""
    marked = server.is_primary and server.config.get("replica-priority") == MARK
    return marked and _is_replaced(world, server)


def leads_at_end(world: SimulatedCluster, server: Server) -> bool:
    """Return whether a server that ends in peace notes on its volume that it led."""
    return server.persistent and server.is_primary and not _is_replaced(world, server)


def _is_replaced(world: SimulatedCluster, server: Server) -> bool:
    """Return whether the sentinels that can be asked name another server."""
    watchers = [s.sentinel for s in world.servers.values() if s.alive and s.sentinel is not None]
    named = {p.ip for sentinel in watchers for p in sentinel.primaries.values()}
    return bool(named) and server.ip not in named
