"""Reading from a simulated database as a cluster client does: from one server, by redirections."""

from __future__ import annotations

from random import Random

from redis_operator.redis.slots import key_slot

from .state import Server
from .world import SimulatedCluster

__all__ = ["read_as_client"]

_REDIRECTIONS = 5


def read_as_client(world: SimulatedCluster, database: str, key: str, random: Random) -> str | None:
    """Ask one random server that answers, follow MOVED and ASK; None when there is no value."""
    servers = [s for s in world.servers.values() if s.database == database and s.answers(world.now)]
    if not servers:
        return None
    server: Server | None = random.choice(servers)
    slot, asking = key_slot(key), False
    for _ in range(_REDIRECTIONS):
        if server is None or not server.answers(world.now) or not world.state_ok(server):
            return None
        value = server.keys.get(slot, {}).get(key)
        owns = server.is_primary and bool(server.me.slots >> slot & 1)
        if owns and slot in server.migrating and value is None:
            line = server.table.get(server.migrating[slot])
            asking = True
        elif owns or (server.is_primary and asking and slot in server.importing):
            return value
        else:
            line = next((r for r in server.table.values() if r.slots >> slot & 1), None)
            asking = False
        server = world.at(line.ip) if line is not None and not line.noaddr else None
    return None
