"""Clients of a simulated database: they write as cluster clients do, and remember every answer.

The ledger is the promise: what was acknowledged must be found again, unless its only copies died
with a server that was killed before a replica had it, or was sent to a server that had slept, or
was cut off, while another took its place: real ones acknowledge writes too before they learn of it.
Where `min-replicas-to-write` is set they do not: no one follows them any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random

from redis_operator.redis.slots import key_slot

from ..cluster.disk import refuses_writes
from ..cluster.memory import is_out_of_memory
from ..cluster.replication import good_replicas
from ..cluster.state import Server
from ..cluster.users import lets_clients_in
from ..cluster.world import SimulatedCluster

__all__ = ["Ledger", "Writer"]

_REDIRECTIONS = 5
_WAKING_SECONDS = 1.0


@dataclass
class Ledger:
    """What clients of one database were promised: for each key the last acknowledged number."""

    world: SimulatedCluster
    database: str
    promised: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    excused: int = 0
    excused_at: float = -1.0  # when a write was last accepted that no other server will have
    is_void: bool = False

    def acknowledged(self, key: str, number: int) -> None:
        """Note an answer."""
        if not self.is_void:
            self.promised[key] = number

    def void(self) -> None:
        """Promise nothing any more: the data is to be deleted."""
        self.promised.clear()
        self.is_void = True

    def excuse(self, killed: Server) -> None:
        """Before a server is killed: what no other living copy has yet is not promised any more.

        A replica's own writes are those of its primary. Only where that one was killed before, with
        less on its disk, and no replica took its place yet, no other server has them: servers that
        start from append-only files have no history, and cannot know which of two files is newer.
        """
        dead = self._dead_primary(killed)
        if not killed.alive or not (killed.is_primary or dead):
            return
        others = [
            s
            for s in self.world.servers.values()
            if s is not killed and s.database == self.database and (s.alive or s is dead)
        ]
        for slot, held in killed.keys.items():
            for key, value in held.items():
                if key not in self.promised:
                    continue
                safe = max((_number(o.keys.get(slot, {}).get(key)) for o in others), default=-1)
                if safe < self.promised[key] == _number(value):
                    self._lower(key, safe)

    def _dead_primary(self, replica: Server) -> Server | None:
        """Return the primary of a replica where its process ended, and its disk is left."""
        if replica.is_primary or replica.follows is not None:
            return None
        return next(
            (
                s
                for s in self.world.servers.values()
                if s.id == replica.me.replica_of and not s.alive and s.persistence == "aof"
            ),
            None,
        )

    def _lower(self, key: str, number: int) -> None:
        self.excused += 1
        if number < 0:
            del self.promised[key]
        else:
            self.promised[key] = number

    def gone(self) -> list[str]:
        """Return keys whose promised value is on no server and no disk at all."""
        best = self._best()
        return sorted(k for k, number in self.promised.items() if best.get(k, -1) < number)

    def _best(self) -> dict[str, int]:
        """The newest number of each key on any server or disk."""
        best: dict[str, int] = {}
        for server in self.world.servers.values():
            if server.database != self.database or not (server.alive or server.persistent):
                continue
            for held in server.keys.values():
                for key, value in held.items():
                    best[key] = max(best.get(key, -1), _number(value))
        return best

    def lower_lost(self) -> None:
        """After a disk lost something: promise what is left, wherever it is."""
        best = self._best()
        for key in self.gone():
            self._lower(key, best.get(key, -1))

    def hidden(self) -> list[str]:
        """Return keys that a client reads older than promised, or not at all.

        It asks any server, by lot, and goes where it is sent.
        """
        random = Random(len(self.promised))
        return sorted(
            key
            for key, number in self.promised.items()
            if _number(self._read(random, key)) < number
        )

    def _read(self, random: Random, key: str) -> str | None:
        living = living_servers(self.world, self.database)
        if not living:
            return None
        found = find_owner(self.world, random.choice(living), key)
        return found.keys.get(key_slot(key), {}).get(key) if found is not None else None


def living_servers(world: SimulatedCluster, database: str) -> list[Server]:
    """Return the servers of a database that answer."""
    return [
        s
        for s in world.servers.values()
        if s.database == database and s.sentinel is None and s.answers(world.now)
    ]


def find_primary(world: SimulatedCluster, server: Server) -> Server | None:
    """The primary without cluster support that a server is or follows, over other replicas too."""
    for _ in range(_REDIRECTIONS):
        if not server.answers(world.now) or server.is_primary:
            return server if server.answers(world.now) else None
        found = world.at(server.follows[0]) if server.follows is not None else None
        if found is None or found.database != server.database:
            return None
        server = found
    return None


def find_owner(world: SimulatedCluster, server: Server, key: str) -> Server | None:
    """Follow MOVED and ASK from any server to the one that serves a key, as clients do."""
    slot, asking = key_slot(key), False
    if server.is_alone:
        return find_primary(world, server)
    for _ in range(_REDIRECTIONS):
        if not server.answers(world.now) or not world.state_ok(server):
            return None
        owns = server.is_primary and bool(server.me.slots >> slot & 1)
        imports = server.is_primary and asking and slot in server.importing
        if owns and slot in server.migrating and key not in server.keys.get(slot, {}):
            line = server.table.get(server.migrating[slot])
            asking = True
        elif owns or imports:
            return server
        else:
            line = next((r for r in server.table.values() if r.slots >> slot & 1), None)
            asking = False
        found = world.at(line.ip) if line is not None and not line.noaddr else None
        if found is None:
            return None
        server = found
    return None


def _number(value: str | None) -> int:
    return int(value) if value is not None else -1


class Writer:
    """Writes numbers to keys, one after another, following redirections."""

    def __init__(
        self, ledger: Ledger, *, seed: int, keys: int = 60, interval: float = 0.05
    ) -> None:
        self._ledger = ledger
        self._world = ledger.world
        self._random = Random(seed)
        self._keys = keys
        self._interval = interval
        self._number = 0
        self.doors: Callable[[], Collection[str]] = lambda: [  # servers that clients are led to
            server.name for server in living_servers(self._world, ledger.database)
        ]

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            self.write(f"k{self._random.randrange(self._keys)}")
            await asyncio.sleep(self._interval)

    def fill(self) -> None:
        """Write every key once."""
        for number in range(self._keys):
            self.write(f"k{number}")

    def write(self, key: str) -> bool:
        """Write the next number to a key; return whether it was acknowledged."""
        self._number += 1
        servers = living_servers(self._world, self._ledger.database)
        owner = find_owner(self._world, self._random.choice(servers), key) if servers else None
        if owner is not None and self._store(owner, key_slot(key), key, str(self._number)):
            self._ledger.acknowledged(key, self._number)
            return True
        self._ledger.refused += 1
        return False

    def _store(self, server: Server, slot: int, key: str, value: str) -> bool:
        if self._world.now < server.paused_until:
            return False
        if refuses_writes(server) or is_out_of_memory(server):
            return False
        if not lets_clients_in(self._world.passwords.get(server.name, {})):
            return False
        if server.is_alone and not self._may_be_written(server):
            return False
        server.keys.setdefault(slot, {})[key] = value
        server.offset += len(key) + len(value)
        if self._was_replaced(server, slot):
            self._ledger.excused += 1
            self._ledger.excused_at = self._world.now
            return False
        return True

    def _may_be_written(self, server: Server) -> bool:
        """Return whether clients, who follow a Service or sentinels, write to this server."""
        wanted = int(server.config.get("min-replicas-to-write") or 0)
        if good_replicas(self._world, server) < wanted:
            return False
        return server.is_primary and server.name in self.doors()

    def _was_replaced(self, server: Server, slot: int) -> bool:
        """Return whether a server that just woke up has not heard yet who leads in its place."""
        if server.is_alone:  # it learns it from sentinels, seconds later
            apart = any(server.name in pair for pair in self._world.cut)
            others = living_servers(self._world, server.database)
            elected = [s.elected_at for s in others if s.is_primary and s is not server]
            if not elected:
                return apart
            # The one that was elected last is the primary: all that it takes is promised.
            return (apart or server.was_away) and max(elected) > server.elected_at
        if self._world.now - server.woken_at > _WAKING_SECONDS:
            return False
        return any(
            other.is_primary and other.me.slots >> slot & 1 and other.me.epoch > server.me.epoch
            for other in self._world.servers.values()
            if other.alive and other.database == server.database
        )
