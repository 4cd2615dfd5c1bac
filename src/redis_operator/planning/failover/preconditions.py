"""What must be true right before each action of mode Failover."""

from __future__ import annotations

from ..at import At
from ..fence import Fence
from ..preconditions import ActionFacts, ServerFacts, precondition_of
from ..sentinels import Monitored, SentinelView, WatchedReplica
from .actions import (
    Elect,
    Follow,
    FollowSource,
    Introduce,
    Promote,
    ResetSentinel,
    SwitchOver,
    Unwatch,
    Watch,
)

__all__ = ["begun_election", "gave_up", "naming", "not_a_primary"]

_PORT = 6379
_INFO_MS = 5_000  # what a sentinel knows of a replica is at most so old in an election


def not_a_primary(primary: At, found: ServerFacts) -> str | None:
    """Why no server may follow, and no sentinel monitor, a server as the primary."""
    return None if found.is_primary else f"{primary.pod} is no longer a primary"


def begun_election(name: str, views: tuple[SentinelView, ...]) -> str | None:
    """Why the sentinels may be about to promote a replica themselves, or None. I7

    A sentinel that knows no replica that it could promote gives up each time, and discovers none:
    replicas are found through the primary. It never promotes one that lost its link too long before
    the primary either. Waiting for its elections would never end.
    """
    for view in views:
        found = view.named(name)
        if found is None:
            continue
        if found.failing_over:
            return "a sentinel is failing over"
        if found.objectively_down and any(_is_promotable(found, r) for r in found.replicas):
            return "the sentinels agree that the primary is down and elect who fails over"
    return None


def gave_up(name: str, place: str, views: tuple[SentinelView, ...]) -> int:
    """How many sentinels have considered the primary at an address dead for longer than needed.

    None of them considers it healthy again, and each had the time to elect and promote. I7
    """
    found = (view.named(name) for view in views if not view.tilt)
    return sum(
        f"{one.ip}:{one.port}" == place
        and one.subjectively_down
        and one.down_ms >= one.down_after_ms
        for one in found
        if one is not None
    )


def naming(name: str, node: At, views: tuple[SentinelView, ...]) -> int:
    """How many sentinels say that a server is the primary."""
    found = (view.named(name) for view in views)
    return sum((one.ip, one.port) == (node.ip, _PORT) for one in found if one is not None)


def named_since(name: str, known: tuple[str, ...], views: tuple[SentinelView, ...]) -> str | None:
    """Why the sentinels have failed over since a plan was made, by the addresses it knew. I2, I7"""
    for view in views:
        found = view.named(name)
        place = f"{found.ip}:{found.port}" if found is not None else ""
        if place and place not in known:
            return f"a sentinel names {place} as the primary now"
    return None


def _is_promotable(found: Monitored, replica: WatchedReplica) -> bool:
    outdated = found.outdates(replica, margin_ms=_INFO_MS)
    return replica.up and replica.priority > 0 and not outdated


@precondition_of(Promote)
def _promote(action: Promote, facts: ActionFacts) -> str | None:
    """The replica still follows the same primary, and has not lost data since."""
    server, pod = facts.server, action.node.pod
    if server is None:
        return f"{pod} does not respond: what it holds is not known"
    if server.is_primary:
        return None
    if server.follows != action.follows:
        return f"{pod} follows {server.follows} now"
    if server.offset < action.min_offset:
        return f"{pod} is at offset {server.offset}, before {action.min_offset}"
    if action.replication_id and server.replication_id != action.replication_id:
        return f"{pod} has another history now"
    if action.fence is Fence.DEPOSED:
        named = naming(action.name, action.node, facts.sentinels)
        if named < action.needed:
            return f"{named} sentinels name {pod}, {action.needed} are needed"
    known = (action.follows, f"{action.node.ip}:{_PORT}", *action.named)
    return named_since(action.name, known, facts.sentinels) or begun_election(
        action.name, facts.sentinels
    )


@precondition_of(Elect)
def _elect(action: Elect, facts: ActionFacts) -> str | None:
    """The sentinels still consider the primary dead and cannot replace it. I7"""
    server, pod = facts.server, action.node.pod
    if server is None:
        return f"{pod} does not respond: what it holds is not known"
    if server.is_primary or server.follows != action.follows:
        return f"{pod} follows {server.follows or 'no primary'} now"
    if server.offset < action.min_offset or server.replication_id != action.replication_id:
        return f"{pod} has other data now"
    if naming(action.name, action.node, facts.sentinels) >= action.needed:
        return None
    agreed = gave_up(action.name, action.follows, facts.sentinels)
    if agreed < action.needed:
        return f"{agreed} sentinels consider {action.follows} dead, {action.needed} are needed"
    return begun_election(action.name, facts.sentinels)


@precondition_of(Follow)
def _follow(action: Follow, facts: ActionFacts) -> str | None:
    """A server that follows drops its data: it must be unchanged since the plan was made. I1"""
    server, pod = facts.server, action.node.pod
    if server is None:
        return f"{pod} does not respond: what it holds is not known"
    if server.follows == f"{action.primary.ip}:{_PORT}":
        return None
    if server.follows != action.follows:
        return f"{pod} follows {server.follows or 'no primary'} now"
    named = naming(action.name, action.node, facts.sentinels)
    if action.needed and named >= action.needed:
        return f"{named} sentinels name {pod} as the primary now"
    return begun_election(action.name, facts.sentinels)


@precondition_of(FollowSource)
def _follow_source(action: FollowSource, facts: ActionFacts) -> str | None:
    """A server that accepts writes or follows another primary differs from the plan's. I1"""
    server, pod = facts.server, action.node.pod
    if server is None:
        return f"{pod} does not respond: what it holds is not known"
    if server.is_primary:
        return f"{pod} accepts writes now"
    if server.follows not in (action.follows, f"{action.host}:{action.port}"):
        return f"{pod} follows {server.follows} now"
    return None


@precondition_of(Watch)
def _watch(action: Watch, facts: ActionFacts) -> str | None:
    """A failover that a sentinel leads is not interrupted."""
    if facts.sentinel is None:
        return f"{action.node.pod} does not respond: what it monitors is not known"
    found = facts.sentinel.named(action.name)
    if found is not None and found.failing_over:
        return f"{action.node.pod} is failing over"
    known = (action.named, f"{action.primary.ip}:{_PORT}")
    since = named_since(action.name, known, (facts.sentinel,))
    if since:
        return f"{action.node.pod}: {since}"
    if action.afresh and found is not None and not found.up:
        return f"{action.node.pod} has no connection to the primary: it forgets nothing now"
    return None


@precondition_of(Introduce)
def _introduce(action: Introduce, facts: ActionFacts) -> str | None:
    """Only a sentinel that monitors the same primary announces itself to the others."""
    if facts.sentinel is None:
        return f"{action.node.pod} does not respond: what it monitors is not known"
    if not naming(action.name, action.primary, (facts.sentinel,)):
        return f"{action.node.pod} names another primary now"
    return None


@precondition_of(Unwatch)
def _unwatch(action: Unwatch, facts: ActionFacts) -> str | None:
    """Only a sentinel that responds and has not failed over since is known to have given up."""
    if facts.sentinel is None:
        return f"{action.node.pod} does not respond: what it monitors is not known"
    views = (facts.sentinel,)
    reason = named_since(action.name, (action.named,), views) or begun_election(action.name, views)
    return f"{action.node.pod}: {reason}" if reason else None


@precondition_of(ResetSentinel)
def _reset_sentinel(action: ResetSentinel, facts: ActionFacts) -> str | None:
    """A sentinel that forgets the others cannot help them: only while all is healthy."""
    pod = action.node.pod
    found = facts.sentinel.named(action.name) if facts.sentinel is not None else None
    if found is None:
        return f"{pod} does not respond, or monitors no primary"
    if (found.ip, found.port) != (action.primary.ip, _PORT):
        return f"{pod} names another primary now"
    if found.failing_over or not found.up:
        return f"{pod} is failing over, or has no connection to the primary"
    return None


@precondition_of(SwitchOver)
def _switch_over(action: SwitchOver, facts: ActionFacts) -> str | None:
    """The replica follows that primary, and all sentinels name it and have no election. I6"""
    server, pod = facts.server, action.node.pod
    if server is None:
        return f"{pod} does not respond: what it holds is not known"
    if server.is_primary:
        return None
    if server.follows != f"{action.primary.ip}:{_PORT}":
        return f"{pod} follows {server.follows} now"
    if len(facts.sentinels) < len(action.sentinels):
        return "a sentinel does not respond"
    named = naming(action.name, action.primary, facts.sentinels)
    if named < len(action.sentinels):
        return (
            f"{named} of {len(action.sentinels)} sentinels name {action.primary.pod} as the "
            "primary now"
        )
    return begun_election(action.name, facts.sentinels)
