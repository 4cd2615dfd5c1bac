"""Replication of the simulation: links by address, partial and full syncs, offsets, promotions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import disk
from .bus import broadcast
from .state import Record, Server
from .users import accepts

if TYPE_CHECKING:
    from .world import SimulatedCluster

__all__ = [
    "consider_election",
    "elect",
    "follow",
    "good_replicas",
    "hand_over",
    "lead",
    "proceed_failover",
    "promote",
    "pull",
    "start_failover",
    "take_over",
]

FAILOVER_SECONDS = 5.0
_PING_PERIOD = 10.0


def pull(world: SimulatedCluster, server: Server) -> None:
    """One turn of a replica: find its primary, catch up, or copy everything."""
    record = server.primary_record()
    if record is None:
        server.sync_done_at = None
        _lose_link(world, server)
        return
    source = None if record.noaddr else world.reach(server, record.ip)
    if source is None or not _will_feed(world, source, server):
        server.sync_done_at = None
        _lose_link(world, server)
        return
    if server.offset != source.offset and disk.ends_of_a_full_disk(server):
        world.kill(server.name)
    elif _can_go_on(server, source):
        if not server.link_up:
            source.partial_syncs += 1
        elif world.now < server.pull_at:
            return
        server.pull_at = world.now + world.random.uniform(0.0, world.weather.lag)
        _copy(server, source)
        source.heard[server.name] = world.now
    else:
        _full_sync(world, server, source)


def good_replicas(world: SimulatedCluster, server: Server) -> int:
    """How many replicas `min-replicas-to-write` counts: acknowledged within `min-replicas-max-lag`.

    The connection of one that is cut off or frozen stays open; any other that is not linked any
    more has closed it.
    """
    lag = float(server.config.get("min-replicas-max-lag") or 0) or float("inf")
    linked = {copy.name for copy in world.copies(server) if copy.link_up}
    return sum(
        world.now - heard <= lag and (name in linked or _is_silent(world, server, name))
        for name, heard in server.heard.items()
    )


def _is_silent(world: SimulatedCluster, server: Server, name: str) -> bool:
    other = world.servers.get(name)
    return other is not None and (other.stopped or world.is_cut(server, other))


def _can_go_on(server: Server, source: Server) -> bool:
    """Whether what the replica has is a part of the source's history, and the rest is at hand."""
    if server.link_up and source.replication_id == server.replication_id:
        return True
    known = server.replication_id == source.replication_id or (
        server.replication_id == source.replication_id2 and server.offset <= source.second_offset
    )
    missed = source.offset - server.offset
    return known and 0 <= missed <= _bytes(source.config.get("repl-backlog-size", "10mb"))


def _bytes(text: str) -> int:
    units = {"kb": 1024, "mb": 1024**2, "gb": 1024**3, "k": 1000, "m": 1000**2, "g": 1000**3}
    unit = next((u for u in units if text.lower().endswith(u)), "")
    return int(text[: len(text) - len(unit)]) * units.get(unit, 1)


def _will_feed(world: SimulatedCluster, source: Server, server: Server) -> bool:
    """Credentials of another database are refused; so is a replica that has nothing itself."""
    serves = source.sentinel is None and (source.is_primary or source.link_up)
    return serves and (source.database == server.database or _may_log_in(world, source, server))


def _may_log_in(world: SimulatedCluster, source: Server, server: Server) -> bool:
    """Whether a server has the login of the external one."""
    user, password = (server.config.get(name, "") for name in ("masteruser", "masterauth"))
    return accepts(world.passwords.get(source.name, {}), user or "default", password)


def _lose_link(world: SimulatedCluster, server: Server) -> None:
    if server.link_up:
        server.link_up = False
        server.link_down_since = world.now


def _full_sync(world: SimulatedCluster, server: Server, source: Server) -> None:
    server.link_up = False
    if server.sync_done_at is None:
        server.sync_done_at = world.now + world.sync_seconds
    if world.now >= server.sync_done_at:
        server.sync_done_at = None
        source.full_syncs += 1
        _copy(server, source)


def _copy(server: Server, source: Server) -> None:
    server.link_up = server.synced = True
    server.sync_done_at = None
    server.replication_id = source.replication_id
    server.replication_id2 = ""
    if server.offset != source.offset or server.keys != source.keys:
        server.keys, server.expires = source.copy_keys(), dict(source.expires)
    server.offset = source.offset


def consider_election(world: SimulatedCluster, server: Server) -> None:
    """What a replica does by itself when its primary failed: wait by rank, then ask for votes."""
    record = server.primary_record()
    ready = server.synced and not server.link_up and _is_fresh(world, server)
    if record is None or not record.fail or not record.slots or not ready:
        server.election_at = None
        return
    if world.now < server.election_again_at:
        return
    if server.election_at is None:
        delay = 0.5 + 0.5 * world.random.random() + _rank(world, server)
        server.election_at = world.now + delay
        return
    if world.now >= server.election_at:
        server.election_at = None
        elect(world, server, force=False)


def _is_fresh(world: SimulatedCluster, server: Server) -> bool:
    """Whether its link was up lately enough: else its data is too old to stand for election."""
    factor = int(server.config.get("cluster-replica-validity-factor", "10"))
    age = world.now - server.link_down_since - server.node_timeout
    return not factor or age <= _PING_PERIOD + server.node_timeout * factor


def start_failover(world: SimulatedCluster, server: Server) -> None:
    """Begin a planned failover: the primary pauses writes until the replica has them all."""
    server.failover_until = world.now + FAILOVER_SECONDS
    proceed_failover(world, server)


def proceed_failover(world: SimulatedCluster, server: Server) -> None:
    """One turn of a planned failover, which is given up after a while."""
    if server.failover_until is None:
        return
    record = server.primary_record()
    if server.is_primary or record is None or world.now > server.failover_until:
        server.failover_until = None
        return
    primary = world.reach(server, record.ip)
    if primary is None or primary.id != record.id:
        return
    view = primary.table.get(server.id)
    if view is None or view.replica_of != primary.id:
        return  # it does not pause for a server that is not its replica
    primary.paused_until = max(primary.paused_until, server.failover_until)
    if server.link_up and server.offset >= primary.offset and primary.is_primary:
        server.failover_until = None
        if not elect(world, server, force=True):
            server.failover_until = primary.paused_until  # it asks again until the time is over


def _rank(world: SimulatedCluster, server: Server) -> int:
    """How many siblings are ahead, as far as they can be asked."""
    ahead = 0
    for record in server.others():
        if record.replica_of == server.me.replica_of:
            other = world.reach(server, record.ip)
            ahead += other is not None and other.offset > server.offset
    return ahead


def elect(world: SimulatedCluster, server: Server, *, force: bool) -> bool:
    """Ask all nodes; a majority promotes. With `force` the primary need not have failed.

    Only the votes of nodes count that the candidate knows to own slots; Redis asks again only after
    four node timeouts, however often it is asked to.
    """
    record = server.primary_record()
    if record is None or (server.engine == "redis" and world.now < server.election_again_at):
        return False
    server.current_epoch += 1
    epoch = server.current_epoch
    given = [r for r in server.others() if _votes_for(world, r, server, record, force=force)]
    known = sum(1 for r in server.table.values() if r.votes)
    if sum(1 for r in given if r.votes) < known // 2 + 1:
        server.election_again_at = world.now + 2 * max(2 * server.node_timeout, 2.0)
        return False
    promote(world, server, epoch)
    return True


def _votes_for(
    world: SimulatedCluster, line: Record, server: Server, primary: Record, *, force: bool
) -> bool:
    epoch = server.current_epoch
    voter = world.reach(server, line.ip)
    if voter is None or voter.id != line.id or not voter.me.votes:
        return False
    view = voter.table.get(server.id)
    if view is None or world.reach(voter, view.ip) is not server:
        return False  # it does not know the candidate, or cannot answer it
    if world.weather.loses(world.random):
        return False
    if view.replica_of is None:
        return False  # in its view the candidate is not a replica at all
    if epoch < voter.current_epoch or voter.last_vote_epoch >= epoch:
        return False
    voter.current_epoch = max(voter.current_epoch, epoch)
    subject = voter.table.get(view.replica_of)
    if subject is None or not (subject.fail or force):
        return False
    last = voter.voted_about.get(subject.id, -1e9)
    if world.now - last < 2 * voter.node_timeout:
        return False
    claimed = primary.slots
    if any(r.slots & claimed and r.epoch > primary.epoch for r in voter.table.values()):
        return False
    voter.last_vote_epoch = epoch
    voter.voted_about[subject.id] = world.now
    return True


def promote(world: SimulatedCluster, server: Server, epoch: int) -> None:
    """Become primary of all slots the old one had, under a new epoch, and notify all nodes."""
    record = server.primary_record()
    assert record is not None
    me = server.me
    me.replica_of = None
    me.epoch = epoch
    me.slots |= record.slots
    record.slots = 0
    _begin_history(world, server)
    server.election_at = server.failover_until = None
    server.elected_at = world.now
    broadcast(world, server)


def _begin_history(world: SimulatedCluster, server: Server) -> None:
    """Go on under a new id; who has not gone further under the old one can still follow."""
    server.replication_id2, server.second_offset = server.replication_id, server.offset
    server.replication_id = world.new_id("r")
    server.link_up = False
    server.sync_done_at = None


def follow(world: SimulatedCluster, server: Server, address: tuple[str, int]) -> bool:
    """REPLICAOF an address, whoever is there; False when it follows it already."""
    if server.follows == address:
        return False
    server.follows = address
    server.link_up = server.synced = server.was_away = False
    server.heard.clear()
    server.link_down_since, server.sync_done_at = world.now, None
    server.handing_to = ""
    for copy in world.copies(server):  # they have to sync with it again, and it has no link yet
        _lose_link(world, copy)
    return True


def lead(world: SimulatedCluster, server: Server) -> None:
    """REPLICAOF NO ONE."""
    if server.follows is not None:
        server.follows = None
        server.elected_at = world.now
        _begin_history(world, server)


def hand_over(world: SimulatedCluster, server: Server) -> None:
    """One turn of FAILOVER TO: writes are paused until the other one has them all."""
    if not server.handing_to:
        return
    if server.failover_until is None or world.now > server.failover_until:
        server.handing_to, server.failover_until, server.paused_until = "", None, 0.0
        return
    server.paused_until = world.now + 1.0
    target = world.at(server.handing_to)
    if target is None or not target.link_up or target.offset < server.offset:
        return
    address = (server.handing_to, 6379)
    server.failover_until, server.paused_until = None, 0.0
    lead(world, target)
    follow(world, server, address)


def take_over(world: SimulatedCluster, server: Server) -> None:
    """Promote without votes: the next epoch is simply taken."""
    highest = max(record.epoch for record in server.table.values())
    server.current_epoch = max(server.current_epoch, highest) + 1
    promote(world, server, server.current_epoch)
