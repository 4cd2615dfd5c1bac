"""Steps that are carried out repeatedly without effect. Pure.

The same steps carried out five times without a change in the observed state are not repeated at
once: they are reported as having no effect, and retried after ever longer pauses. Repetitions
within a second count once: what servers do because of a step needs a moment.
"""

from __future__ import annotations

from msgspec.structs import replace

from .actions import Action, DeletePod, LabelPod, LabelRole
from .advice import Plan
from .cluster.actions import AssignSlots, Failover
from .clusters import ClusterView, Counted, NotCounted, NotWeighed
from .observed import Attempt, Node, Observed, Replication, Seen, SentinelNode, SentinelSeen
from .sources import SourceNode, SourceSeen
from .traffic import Traffic

__all__ = ["Attempt", "after_attempt", "essence", "held_back", "last_error", "still_failing"]

_TIMES = 5
_APART_SECONDS = 1.0
_LONGEST = 300.0
_LONGEST_URGENT = 4.0


def held_back(plan: Plan, observed: Observed, now: float) -> Plan:
    """Return the plan, or, while a repetition would have no effect, the reason to wait."""
    steps = _signature(plan)
    attempt = next((a for a in observed.attempts if a.steps == steps), None)
    if attempt is None or attempt.times < _TIMES or not plan.stages:
        return plan
    longest = _LONGEST_URGENT if plan.urgent else _LONGEST
    pause = min(longest, 2.0 ** (attempt.times - _TIMES))
    left = min(pause, attempt.at + pause - now)  # a clock that was set back adds nothing
    error = f" ({attempt.error})" if attempt.error else ""
    reason = (
        f"{plan.why}: carried out {_TIMES} times and more with no effect{error}; "
        "it is retried less and less often"
    )
    if left <= 0:
        return replace(plan, stalled=reason)
    return replace(
        plan, stages=(), blocked=(*plan.blocked, reason), stalled=reason, again_after=left
    )


def after_attempt(
    before: tuple[Attempt, ...], plan: Plan, now: float, errors: tuple[str, ...] = ()
) -> tuple[Attempt, ...]:
    """Return what is remembered after a plan was carried out, while the observation is the same."""
    steps = _signature(plan)
    if not steps:
        return before
    known = next((a for a in before if a.steps == steps), Attempt(steps=steps))
    others = tuple(a for a in before if a.steps != steps)
    last = replace(known, error="; ".join(dict.fromkeys(errors)))
    if not known.times or not 0 <= now - known.at < _APART_SECONDS:
        last = replace(last, times=known.times + 1, at=now)
    return (*others, last)


def still_failing(attempts: tuple[Attempt, ...], now: float) -> tuple[Attempt, ...]:
    """What is remembered of attempts when the observed state has changed.

    Steps that failed repeatedly are tried once after each change, and not five times: other changes
    would have to wait for them each time.
    """
    return tuple(
        replace(attempt, times=_TIMES)
        for attempt in attempts
        if attempt.error and attempt.times >= _TIMES and now - attempt.at < 2 * _LONGEST
    )


def last_error(plan: Plan, observed: Observed) -> str:
    """Why the steps of a plan failed when they were last tried; empty if they did not."""
    steps = _signature(plan)
    return next((attempt.error for attempt in observed.attempts if attempt.steps == steps), "")


def _signature(plan: Plan) -> tuple[Action, ...]:
    """The steps without details that differ each time, and without labels."""
    return tuple(_plain(s) for s in plan.steps if not isinstance(s, LabelRole | LabelPod))


def _plain(step: Action) -> Action:
    if isinstance(step, Failover):
        return replace(step, min_offset=0)
    if isinstance(step, AssignSlots):
        return replace(step, expect_keys=0)
    if isinstance(step, DeletePod):
        return replace(step, why="")
    return step


def essence(observed: Observed, before: Observed | None = None) -> Observed:
    """The observed state without values that change all the time: if equal, nothing progressed.

    Stray keys are counted now and then: until the next count, what was counted `before` holds.
    """
    counts = {n.pod.uid: n.stranded for n in before.seen} if before is not None else {}
    return replace(
        observed,
        nodes=tuple(_essence(node, counts.get(node.pod.uid)) for node in observed.nodes),
        sentinels=tuple(_sentinel_essence(node) for node in observed.sentinels),
        elections=(),
        cluster=replace(observed.cluster, introductions=(), histories=(), counted_at=None),
        attempts=(),
        source=_source_essence(observed.source),
    )


def _source_essence(node: SourceNode | None) -> SourceNode | None:
    return replace(node, offset=0) if isinstance(node, SourceSeen) else node


def _essence(node: Node, stranded: Counted | NotCounted | None) -> Node:
    if not isinstance(node, Seen):
        return replace(node, error="", since=0.0)
    link = node.replication
    return replace(
        node,
        replication=Replication(
            link.id,
            link.id2,
            0,
            link.link_up,
            link.syncing,
            follows=link.follows,
            priority=link.priority,
        ),
        keys=0,
        used_memory=0,
        started_at=0.0,  # each observation subtracts whole seconds from its own time
        traffic=Traffic(),
        view=_essential_view(node.view, stranded),
    )


def _sentinel_essence(node: SentinelNode) -> SentinelNode:
    if not isinstance(node, SentinelSeen):
        return replace(node, error="", since=0.0)
    monitored = tuple(
        replace(
            found,
            known_ms=0,
            down_ms=0,
            replicas=tuple(replace(replica, offset=0) for replica in found.replicas),
            sentinels=tuple(replace(other, voted_leader_epoch=0) for other in found.sentinels),
        )
        for found in node.view.monitored
    )
    return replace(node, view=replace(node.view, monitored=monitored, started_at=0.0))


def _essential_view(
    view: ClusterView | None, before: Counted | NotCounted | None
) -> ClusterView | None:
    if view is None:
        return None
    peers = tuple(sorted(view.peers, key=lambda peer: peer.id))
    counted = before if isinstance(view.stranded, NotCounted) and before else view.stranded
    return replace(view, peers=peers, weighed=NotWeighed(), stranded=counted)
