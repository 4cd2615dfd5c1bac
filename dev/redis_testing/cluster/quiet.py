"""Rounds of pings that carry no news: most rounds of a simulated cluster are such.

What a round would leave behind is written at once, without a message for each pair of servers. The
history is exactly the one that the messages of `bus` give: `tests/redis_testing/test_quiet.py`
compares both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .state import Record, Server

if TYPE_CHECKING:
    from .world import SimulatedCluster

__all__ = ["are_settled", "exchange_pings"]


def are_settled(world: SimulatedCluster, servers: Sequence[Server]) -> bool:
    """Tell whether a round of pings among all servers of a database would tell none of them news.

    That is so where each knows exactly the others, reaches them, doubts none of them, and has in
    its book what they say of themselves; where no two claim a slot or an epoch; and where nothing
    befalls messages on their way. `exchange_pings` says what such a round leaves behind.
    """
    if world.sends_every_ping or world.cut or world.blocked:
        return False
    if not world.weather.is_still or world.weather.rare:
        return False
    lines = {server.id: server.me for server in servers}
    epoch = servers[0].current_epoch
    for server in servers:
        if not server.calm or server.handshakes or server.current_epoch != epoch:
            return False
        if server.table.keys() != lines.keys() or world.at(server.ip) is not server:
            return False
    primaries = [line for line in lines.values() if line.replica_of is None]
    claimed = 0
    for line in primaries:
        if claimed & line.slots:
            return False
        claimed |= line.slots
    epochs = [line.epoch for line in primaries]
    return all(_knows_all(server, servers, lines, epochs) for server in servers)


def _knows_all(
    server: Server, servers: Sequence[Server], lines: Mapping[str, Record], epochs: Sequence[int]
) -> bool:
    """Tell whether a server has in its book of each other what that one says of itself."""
    table, mine = server.table, server.me
    if mine.slots and mine.replica_of is not None:
        return False
    if epochs.count(mine.epoch) > (mine.replica_of is None):
        return False
    for other in servers:
        if other is server:
            continue
        known, line = table[other.id], lines[other.id]
        if known.ip != other.ip or known.replica_of != line.replica_of:
            return False
        if line.replica_of is not None:
            if known.slots:
                return False
        elif known.epoch != line.epoch or known.slots != line.slots:
            return False
    return True


def exchange_pings(world: SimulatedCluster, servers: Sequence[Server]) -> None:
    """Let all servers of a database ping each other that have no news for each other."""
    now = world.now
    for server in servers:
        mine = server.me
        for record in server.table.values():
            if record is not mine:
                record.pinged_at = record.heard_at = now
                record.connected = True
                record.ping_since = record.unheard_since = None
