"""A cluster bus that has nothing to tell: a round of pings that would change nothing is left out.

Most of a simulated history is such rounds. One is left out only when the one before changed
nothing, nobody doubts anybody, every message arrives at once and whole, and all that messages
tell is still what it was then: so the histories are the same, and cost less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .state import Server

if TYPE_CHECKING:
    from .world import SimulatedCluster

__all__ = ["Books", "is_settled", "note_round", "read_books"]

Books = tuple[object, ...]
"""All that messages tell and are judged by: the network, and the books of who answers."""


def read_books(world: SimulatedCluster) -> Books:
    """Read what servers believe of each other, would tell now, and whether it arrives."""
    return (
        world.weather,
        (len(world.cut), len(world.blocked), len(world.mail)),
        [_read_book(s) for s in world.servers.values() if s.answers(world.now)],
    )


def _read_book(server: Server) -> tuple[object, ...]:
    return (
        (server.name, server.ip, server.started_at, server.current_epoch, len(server.handshakes)),
        [
            (r.id, r.ip, r.replica_of, r.epoch, r.slots, r.pfail, r.fail, r.noaddr, r.connected)
            for r in server.table.values()
        ],
    )


def is_settled(world: SimulatedCluster, servers: Sequence[Server], before: Books) -> bool:
    """After a round of pings: whether the next one would change nothing either."""
    return (
        world.weather.is_plain
        and not (world.cut or world.blocked or world.mail)
        and all(_is_at_ease(server) for server in servers)
        and read_books(world) == before
    )


def _is_at_ease(server: Server) -> bool:
    """Whether a server doubted nobody all through the round and waits for nobody."""
    return (
        server.calm
        and not server.handshakes
        and server.sees_all_well
        and all(r.connected and r.unheard_since is r.ping_since is None for r in server.others())
    )


def note_round(world: SimulatedCluster, servers: Sequence[Server]) -> None:
    """Let everybody have heard of everybody."""
    for server in servers:
        for record in server.table.values():
            record.heard_at = record.pinged_at = world.now
