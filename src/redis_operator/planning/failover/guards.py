"""What no plan may do to servers and sentinels of mode Failover, whichever rule plans it."""

from __future__ import annotations

from ..actions import Action, DeletePod, DeleteWorkload, DiscardData, ScaleWorkload
from ..at import At
from ..common.follow_source import breaches
from ..copies import address, is_linked
from ..fence import Fence
from ..guards import Guards
from ..observed import Seen
from .actions import Elect, Follow, FollowSource, Promote, SwitchOver
from .election import holds, same_history
from .leave import stays_outdated
from .topology import FailoverTopology

__all__ = ["GUARDS"]


def _of_step(topology: FailoverTopology, step: Action) -> list[str]:
    """Return every way in which one step would break an invariant."""
    match step:
        case Promote():
            found = _promotion(topology, step.node, step.source) or breaches(topology, step)
            return found or _unfenced(topology, step)
        case Elect():
            return _promotion(topology, step.node)
        case Follow():
            return _following(topology, step)
        case FollowSource():
            return breaches(topology, step)
        case SwitchOver():
            leader = topology.primary
            if leader is None or leader.id != step.primary.id:
                return [f"I6: {step.primary.pod} is not the primary"]
            return []
        case _:
            return _of_object(topology, step)


def _of_object(topology: FailoverTopology, step: Action) -> list[str]:
    """The same for a step on a Kubernetes object."""
    match step:
        case DeletePod():
            return _deletion(topology, step)
        case DiscardData():
            return _discard(topology, step)
        case DeleteWorkload():
            return _dismissal(topology, step)
        case ScaleWorkload(from_pods=before, to_pods=after) if after < before:
            return _shrinking(topology, step)
        case _:
            return []


def _promotion(topology: FailoverTopology, at: At, source: str = "") -> list[str]:
    """A server is not promoted beside a primary, nor with less data than another one. I1, I7"""
    node = topology.by_id.get(at.id)
    if node is None:
        return [f"I2: {at.pod} was not observed"]
    if topology.primaries and topology.wrongly_demoted is not node:
        return [f"I7: {topology.primaries[0].pod.name} is a primary"]
    ahead = [
        other
        for other in topology.seen
        if other.replication.id == node.replication.id
        and other.replication.offset > node.replication.offset
        and not topology.going(other.pod)
        and not other.loading
        and not (source and other.replication.follows == address(node))  # seen a moment later
    ]
    return [f"I1: {ahead[0].pod.name} has more than {node.pod.name}"] if ahead else []


def _unfenced(topology: FailoverTopology, step: Promote) -> list[str]:
    """A server is not promoted as a first primary while the server that it follows may lead. I7"""
    leads = [n for n in topology.unreachable if address(n) == step.follows and not n.dead]
    if step.fence is Fence.NEVER_LED and leads:
        return [f"I7: {leads[0].pod.name} does not respond and may lead"]
    return []


def _following(topology: FailoverTopology, step: Follow) -> list[str]:
    """A server's data is dropped only for data of another server. I1"""
    node, primary = topology.by_id.get(step.node.id), topology.by_id.get(step.primary.id)
    if node is None or primary is None:
        return [f"I2: {step.node.pod} or {step.primary.pod} was not observed"]
    if node.id == primary.id:
        return [f"I1: {node.pod.name} would follow itself"]
    if step.source and is_linked(primary):
        return []  # both are copies, and this one is complete
    if holds(node) and not holds(primary) and not same_history(node, primary):
        return [f"I1: {primary.pod.name} is empty and would replace {node.keys} keys"]
    return []


def _deletion(topology: FailoverTopology, step: DeletePod) -> list[str]:
    """A primary is deleted last, and only if no other server could take over. I1, I8"""
    node = next((n for n in topology.observed.nodes if n.pod.uid == step.uid), None)
    if node is None:
        known = any(n.pod.uid == step.uid for n in topology.observed.sentinels)
        return [] if known else [f"I2: pod {step.pod} was not observed"]
    if not isinstance(node, Seen):
        return []
    if node.saving:
        return [f"I1: {step.pod} is writing its append-only file and would be killed"]
    if node.is_primary and topology.followers(node):
        return [f"I8: {step.pod} is the primary and has replicas that could take over"]
    wanted = topology.wanted
    if topology.holds_data(node) and not (wanted.persistent or wanted.restart_may_lose):
        return [f"I1: {step.pod} holds keys in memory only and would lose them"]
    return []


def _discard(topology: FailoverTopology, step: DiscardData) -> list[str]:
    """Files are deleted only while their server is down and the primary has the data. I1, I2"""
    node = next((n for n in topology.observed.nodes if n.pod.uid == step.uid), None)
    if node is None or isinstance(node, Seen) or not node.dead:
        return [f"I2: {step.pod} may be alive and would lose its data"]
    leader = topology.primary
    if leader is None or leader.id != step.data_holder.id or not holds(leader):
        return [f"I1: {step.data_holder.pod} is not known to have the data of {step.pod}"]
    return []


def _shrinking(topology: FailoverTopology, step: ScaleWorkload) -> list[str]:
    """The primary is not scaled away while it leads; all pods together is hibernation. I1"""
    if topology.wanted.hibernate or step.shard != 0:
        return []
    leader = topology.primary
    if leader is None:
        return ["I1: no primary is known, and a server that goes may have been it"]
    if leader.pod.ordinal >= step.to_pods:
        return [f"I1: {leader.pod.name} is the primary"]
    if topology.leaves_mode and step.to_pods == 1 and stays_outdated(topology):
        return [f"I1: {leader.pod.name} would be alone, and has to be recreated"]
    return []


def _dismissal(topology: FailoverTopology, step: DeleteWorkload) -> list[str]:
    """Only sentinels are deleted, and only when they monitor the single server that stays. I8"""
    if topology.observed.sentinel_workload is None or step.shard == 0:
        return ["I1: the servers' StatefulSet is not deleted"]
    if not topology.leaves_mode or len(topology.observed.nodes) > 1:
        return ["I8: sentinels are deleted while servers are left that they could promote"]
    return []


def _of_stage(topology: FailoverTopology, stage: tuple[Action, ...]) -> list[str]:
    """One promotion at a time, and one pod at a time. I8"""
    del topology
    found = []
    if sum(isinstance(step, Promote | SwitchOver) for step in stage) > 1:
        found.append("I8: two promotions at a time")
    if sum(isinstance(step, DeletePod) for step in stage) > 1:
        found.append("I8: two pods at a time")
    return found


GUARDS = Guards(step=_of_step, stage=_of_stage)
