"""Whether a database is settled: no planned change starts before that, and the reason is named."""

from __future__ import annotations

from ...redis.slots import ALL_SLOTS, NO_SLOTS
from ..clusters import Peer
from ..identity import NodeId
from ..observed import Node, Seen, Unreachable
from .election import unsynced
from .misbelief import misbelief
from .situation import Situation

__all__ = ["unsettled", "unsettled_shard"]


def unsettled(situation: Situation) -> str | None:
    """Why no planned change may start now, or None. I5, I6, I8, I14

    `cluster_state:ok` is not health: open slots, links in both directions, replicas, epochs and the
    view that every server has of every owner are checked too.
    """
    checks = (_absent, _unowned, _unfinished, _disagreement)
    for check in checks:
        reason = check(situation)
        if reason:
            return reason
    for shard in range(situation.wanted.shards):
        reason = unsettled_shard(situation, shard)
        if reason:
            return reason
    return None


def unsettled_shard(situation: Situation, shard: int) -> str | None:
    """Why one shard's pods are not all in place and in sync, or None."""
    leader = situation.by_id.get(situation.leaders.get(shard, NodeId("")))
    if leader is None:
        return f"shard {shard} has no primary that responds"
    missing = _missing(situation, shard)
    if missing:
        return missing
    for node in situation.pods_of(shard):
        if situation.leaving(node.pod) and not (isinstance(node, Seen) and node.slots):
            continue  # it does not count any more: it may be removed in whatever state it is
        reason = _unsettled_pod(node) or _out_of_place(situation, node, leader)
        if reason:
            return reason
    return None


def _missing(situation: Situation, shard: int) -> str | None:
    """Name a pod that was deleted and not recreated yet: it does not exist, and still counts. I8"""
    workload = situation.workload(shard)
    if workload is None:
        return None
    present = {node.pod.ordinal for node in situation.pods_of(shard)}
    wanted = range(min(workload.pods, situation.wanted.pods_per_shard))
    gone = next((f"{workload.name}-{o}" for o in wanted if o not in present), None)
    why = f": {workload.trouble}" if workload.trouble else ""
    return f"{gone} does not exist yet{why}" if gone else None


def _unsettled_pod(node: Node) -> str | None:
    name = node.pod.name
    if isinstance(node, Unreachable):
        return f"{name} does not respond: {node.pod.waiting or node.error}"
    if node.pod.deleting:
        return f"{name} is being deleted"
    if not node.pod.ready:
        return f"{name} is not ready"
    if node.loading:
        return f"{name} is still loading its data"
    if not node.state_ok and node.slots:
        return f"{name} does not serve yet"
    return None


def _out_of_place(situation: Situation, node: Node, leader: Seen) -> str | None:
    if not isinstance(node, Seen) or node.id == leader.id or situation.leaving(node.pod):
        return None
    if node.is_primary and node.id in situation.owned:
        return None  # the primary of another shard: rule relocate_primary moves it back
    if node.is_primary:
        return f"{node.pod.name} is not a replica yet"
    return unsynced(node, leader)


def _absent(situation: Situation) -> str | None:
    if situation.missing_pods:
        return f"{situation.missing_pods[0]} does not exist yet"
    if situation.missing_shards:
        return f"shard {situation.missing_shards[0]} has no pod yet"
    if situation.duplicate_ids:
        return "two pods have one node id"
    return None


def _unowned(situation: Situation) -> str | None:
    owned = NO_SLOTS
    for node, slots in situation.owned.items():
        if node not in situation.by_id:
            return f"{situation.name_of(node)} owns slots and does not respond"
        owned |= slots
    return None if owned == ALL_SLOTS else f"slots {ALL_SLOTS - owned} have no owner"


def _unfinished(situation: Situation) -> str | None:
    if situation.unfinished_moves:
        return situation.unfinished_moves[0]
    return situation.unsettled_epochs


def _disagreement(situation: Situation) -> str | None:
    """Name a server that has outdated information about an owner, or no link to it."""
    owners = [situation.by_id[node] for node in situation.owned if node in situation.by_id]
    usual = situation.views.usual
    wrong = {o.id for o in owners if _is_old(usual.get(o.id), o)}
    for node in situation.by_id.values():
        if situation.leaving(node.pod) and not node.slots:
            continue
        suspects = {*situation.views.suspects(node, wrong)} - {node.id}
        for owner in (o for o in owners if o.id in suspects) if suspects else ():
            view = situation.view(node, owner.id)
            if view is None or not view.healthy:
                return f"{node.pod.name} has no link to {owner.pod.name}"
            if view.slots != owner.slots:
                text = f"{node.pod.name} has not heard yet what {owner.pod.name} owns"
                return _stuck_news(situation) or text
    return None


def _is_old(view: Peer | None, owner: Seen) -> bool:
    return view is None or not view.healthy or view.slots != owner.slots


def _stuck_news(situation: Situation) -> str | None:
    found = misbelief(situation)
    return str(found) if found is not None else None
