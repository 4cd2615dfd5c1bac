"""Votes of simulated sentinels, and a failover step by step, as in sentinel.c."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cluster import replication
from .state import Address, Kind, Monitored, Sentinel, State, Watched

if TYPE_CHECKING:
    from ..cluster.state import Server
    from ..cluster.world import SimulatedCluster

__all__ = [
    "good_replica",
    "note_reconfigured",
    "proceed",
    "promoted",
    "start",
    "start_if_needed",
    "switch",
    "switch_to_chosen",
    "vote",
]

_ELECTION_SECONDS = 10.0
_RECONF_SECONDS = 10.0
_PING_SECONDS = 1.0
_INFO_SECONDS = 10.0
_DESYNC_SECONDS = 1.0


def vote(
    world: SimulatedCluster,
    sentinel: Sentinel,
    primary: Monitored,
    epoch: int,
    candidate: str,
) -> tuple[str, int]:
    """Vote once in each epoch, for who asks first; the vote that stands."""
    now = sentinel.clock(world.now)
    sentinel.current_epoch = max(sentinel.current_epoch, epoch)
    if primary.leader_epoch < epoch and sentinel.current_epoch <= epoch:
        primary.leader, primary.leader_epoch = candidate, sentinel.current_epoch
        sentinel.note(f"+vote-for-leader {candidate[:8]} {epoch}")
        if candidate != sentinel.id:  # not to try itself for a while
            primary.failover_at = now + world.random.uniform(0.0, _DESYNC_SECONDS)
    return primary.leader, primary.leader_epoch


def start_if_needed(
    world: SimulatedCluster, sentinel: Sentinel, primary: Monitored, now: float
) -> bool:
    """Start a failover when enough sentinels say that the primary is down, not too often."""
    if primary.together_since is None or primary.state is not State.NONE:
        return False
    if now - primary.failover_at < 2 * primary.failover_timeout:
        return False
    start(world, sentinel, primary, now, forced=False)
    return True


def start(
    world: SimulatedCluster, sentinel: Sentinel, primary: Monitored, now: float, *, forced: bool
) -> None:
    """Start a failover under a new epoch."""
    sentinel.current_epoch += 1
    primary.failover_epoch = sentinel.current_epoch
    primary.forced = forced
    primary.failover_at = now + world.random.uniform(0.0, _DESYNC_SECONDS)
    _go_to(primary, State.WAIT_START, now)
    sentinel.note(f"+try-failover {primary.name} {primary.failover_epoch}")


def _go_to(primary: Monitored, state: State, now: float) -> None:
    primary.state, primary.state_at = state, now


def _abort(sentinel: Sentinel, primary: Monitored, why: str, now: float) -> None:
    sentinel.note(f"-failover-abort-{why} {primary.name}")
    _go_to(primary, State.NONE, now)
    primary.forced = False
    for replica in primary.replicas.values():
        replica.promoted = False


def proceed(world: SimulatedCluster, server: Server, primary: Monitored, now: float) -> None:
    """Take the next step of a failover."""
    sentinel = server.sentinel
    assert sentinel is not None
    match primary.state:
        case State.WAIT_START:
            _wait_start(world, sentinel, primary, now)
        case State.SELECT:
            chosen = good_replica(primary, now)
            if chosen is None:
                _abort(sentinel, primary, "no-good-slave", now)
                return
            chosen.promoted = True
            sentinel.note(f"+selected-slave {chosen.ip}")
            _go_to(primary, State.SEND_NO_ONE, now)
        case State.SEND_NO_ONE:
            _send_no_one(world, server, sentinel, primary, now)
        case State.WAIT_PROMOTION:
            if now - primary.state_at > primary.failover_timeout:
                _abort(sentinel, primary, "slave-timeout", now)
        case State.RECONFIGURE:
            _reconfigure(world, server, primary, now)
        case State.NONE | State.UPDATE:
            pass


def _wait_start(
    world: SimulatedCluster, sentinel: Sentinel, primary: Monitored, now: float
) -> None:
    if _leader(world, sentinel, primary) == sentinel.id or primary.forced:
        sentinel.note(f"+elected-leader {primary.name} {primary.failover_epoch}")
        _go_to(primary, State.SELECT, now)
    elif now - primary.failover_at > min(_ELECTION_SECONDS, primary.failover_timeout):
        _abort(sentinel, primary, "not-elected", now)


def _leader(world: SimulatedCluster, sentinel: Sentinel, primary: Monitored) -> str:
    """Return the candidate with the votes of the majority, and of as many as the quorum."""
    votes: dict[str, int] = {}
    for other in primary.sentinels.values():
        if other.leader and other.leader_epoch == sentinel.current_epoch:
            votes[other.leader] = votes.get(other.leader, 0) + 1
    best = max(votes, key=lambda one: votes[one], default="")
    mine, epoch = vote(world, sentinel, primary, primary.failover_epoch, best or sentinel.id)
    if epoch == primary.failover_epoch and mine:
        votes[mine] = votes.get(mine, 0) + 1
    winner = max(votes, key=lambda one: votes[one], default="")
    voters = len(primary.sentinels) + 1
    needed = max(voters // 2 + 1, primary.quorum)
    return winner if votes.get(winner, 0) >= needed else ""


def good_replica(primary: Monitored, now: float) -> Watched | None:
    """The replica to promote: by priority, then by offset, then by run id."""
    oldest = 10 * primary.down_after
    fresh = 3 * _INFO_SECONDS
    if primary.down_since is not None:
        oldest += now - primary.down_since
        fresh = 5 * _PING_SECONDS
    good = [
        replica
        for replica in primary.replicas.values()
        if replica.down_since is None
        and replica.connected
        and now - replica.last_ok <= 5 * _PING_SECONDS
        and replica.priority
        and replica.info_at is not None
        and now - replica.info_at <= fresh
        and replica.link_down_seconds <= oldest
    ]
    return min(good, key=lambda r: (r.priority, -r.offset, r.run_id), default=None)


def _send_no_one(
    world: SimulatedCluster, server: Server, sentinel: Sentinel, primary: Monitored, now: float
) -> None:
    chosen = primary.chosen
    other = world.reach(server, chosen.ip) if chosen is not None else None
    if other is None or not world.lets_in(other, *primary.auth):
        if now - primary.state_at > primary.failover_timeout:
            _abort(sentinel, primary, "slave-timeout", now)
        return
    replication.lead(world, other)
    world.kicked.append(other.name)
    _go_to(primary, State.WAIT_PROMOTION, now)


def promoted(server: Server, primary: Monitored, now: float) -> None:
    """The chosen replica says that it is a primary: from now on the new epoch is announced."""
    sentinel = server.sentinel
    assert sentinel is not None
    primary.config_epoch = primary.failover_epoch
    sentinel.note(f"+promoted-slave {primary.name}")
    _go_to(primary, State.RECONFIGURE, now)


def note_reconfigured(primary: Monitored, replica: Watched, now: float) -> None:
    """How far a replica is that was asked to follow the new primary."""
    chosen = primary.chosen
    if chosen is None:
        return
    if replica.reconf == "sent" and replica.follows == chosen.address:
        replica.reconf, replica.reconf_at = "inprog", now
    if replica.reconf == "inprog" and replica.link_up:
        replica.reconf = "done"


def _reconfigure(world: SimulatedCluster, server: Server, primary: Monitored, now: float) -> None:
    chosen = primary.chosen
    assert chosen is not None
    late = now - primary.state_at > primary.failover_timeout
    under_way = sum(r.reconf in ("sent", "inprog") for r in primary.replicas.values())
    for replica in primary.replicas.values():
        if replica.promoted or replica.reconf == "done":
            continue
        if replica.reconf == "sent" and now - replica.reconf_at > _RECONF_SECONDS:
            replica.reconf = "done"
            continue
        if replica.reconf or (under_way >= primary.parallel_syncs and not late):
            continue
        other = world.reach(server, replica.ip) if replica.connected else None
        if other is None or not world.lets_in(other, *primary.auth):
            continue
        replication.follow(world, other, chosen.address)
        world.kicked.append(other.name)
        replica.reconf, replica.reconf_at = "sent", now
        under_way += 1
    left = [
        r
        for r in primary.replicas.values()
        if not r.promoted and r.reconf != "done" and r.down_since is None
    ]
    if late or not left:
        _go_to(primary, State.UPDATE, now)


def switch_to_chosen(server: Server, primary: Monitored, now: float) -> None:
    """The end of a failover: the new address is the one that is monitored."""
    chosen = primary.chosen
    switch(server, primary, chosen.address if chosen is not None else primary.address, now)


def switch(server: Server, primary: Monitored, address: Address, now: float) -> None:
    """Monitor another address; who led before is a replica from now on."""
    sentinel = server.sentinel
    assert sentinel is not None
    sentinel.note(f"+switch-master {primary.name} {primary.ip} {address[0]}")
    known = {*primary.replicas, primary.address} - {address}
    primary.replicas = {
        one: Watched(Kind.REPLICA, *one, last_ok=now, role_since=now, published_at=now)
        for one in sorted(known)
    }
    primary.ip, primary.port = address
    forget_course(primary, now)


def forget_course(primary: Monitored, now: float) -> None:
    """Drop all that was thought of the primary, and a failover that runs."""
    primary.run_id, primary.connected = "", False
    primary.last_ok, primary.ping_since, primary.info_at = now, None, None
    primary.asked_at = primary.pinged_at = -1e9
    primary.down_since = primary.together_since = None
    primary.role, primary.role_since = "master", now
    primary.state, primary.state_at, primary.forced = State.NONE, now, False
    primary.failover_at = -1e9
    primary.leader = ""
    for other in primary.sentinels.values():
        other.says_down = False
