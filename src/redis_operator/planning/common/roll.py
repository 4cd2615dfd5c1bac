"""Outdated pods are recreated one by one."""

from __future__ import annotations

from ..actions import DeletePod
from ..advice import ACCEPT_LOSS, Plan, PlanPhase
from ..gates import limitation as version_limitation
from ..identity import Role
from ..observed import Node, Pod, Seen, Unreachable
from ..reporting.degradations import memory_kill
from ..reporting.resyncs import resyncing
from ..sizes import lowered_too_far
from ..topology import Topology
from .resize import differs_in_size_alone, resizable
from .saving import unsaved

__all__ = ["DWELL_SECONDS", "is_stuck", "outdated", "roll"]

DWELL_SECONDS = 1.0


def roll(situation: Topology) -> Plan | None:
    """Replace outdated pods: stuck ones first, then replicas, then switch over, old primaries last.

    One disruption per shard, in as many shards at a time as the spec allows, each only when all its
    copies are in sync. The roll stops at the first new pod that does not start: then the spec is
    wrong, not the pods, and an old pod that crashes meanwhile comes back as it was. After the next
    change of the spec those pods are the outdated, stuck ones. I8, I12, CL-18, IN-07, ST-05
    """
    old = [n for n in situation.observed.nodes if outdated(situation, n.pod)]
    if not old:
        return None
    count = f"{len(old)} pods are of an old revision{_refused_writes(situation)}"
    reason = _refused(situation)
    if reason:
        return Plan(rule="roll", blocked=(f"{count}; {reason}",), phase=PlanPhase.UPDATING)
    stuck = [node for node in old if is_stuck(situation, node)]
    if stuck and not _unproven(situation):
        return _replace(situation, [stuck[0]], f"{count}; {stuck[0].pod.name} does not run")
    failing = _failing(situation) or _falling_behind(situation)
    if failing:
        return Plan(rule="roll", blocked=(f"{count}; {failing}",), phase=PlanPhase.UPDATING)
    replicas = _replicas_to_go(situation, old)
    if isinstance(replicas, str):
        return Plan(
            rule="roll",
            blocked=(f"{count}; {replicas}",),
            phase=PlanPhase.UPDATING,
            again_after=0.5,
        )
    if replicas:
        return _replace(situation, replicas, count)
    return _primary(situation, old, count)


def outdated(situation: Topology, pod: Pod) -> bool:
    """Whether the workload would create this pod differently now; leaving pods do not count."""
    workload = situation.workload(pod.shard)
    if workload is None or not workload.revision or situation.leaving(pod) or pod.deleting:
        return False
    if pod.revision == workload.revision:
        return False
    if differs_in_size_alone(situation, pod):
        return pod.resources != workload.resources and not resizable(situation, pod)
    return True


def _refused_writes(situation: Topology) -> str:
    """Announce that a roll interrupts writes: too few replicas are left while one restarts."""
    wanted = situation.wanted
    if not wanted.min_replicas_to_write or wanted.replicas > wanted.min_replicas_to_write:
        return ""
    return (
        "; a shard refuses writes while one of its pods restarts, because "
        f"spec.durability.minReplicasToWrite is {wanted.min_replicas_to_write} and it has "
        f"{wanted.replicas} replicas: add a replica or lower it to avoid that"
    )


def is_stuck(situation: Topology, node: Node) -> bool:
    """Whether a pod serves no client and its data is not needed: the new revision may fix it.

    One that writes its append-only file runs: it has just copied all data of its primary.
    """
    if isinstance(node, Unreachable):
        return node.dead
    if node.role is Role.REPLICA and node.keys > 0 and situation.leader(node.pod.shard) is None:
        return False  # it may have data that its primary, which does not respond, has lost
    if node.saving or situation.holds_data(node):
        return False
    return not node.pod.ready and not situation.unfinished_moves


def _unproven(situation: Topology) -> bool:
    """Whether a pod of the new revision does not run: the revision may be wrong."""
    return any(
        node.dead and not situation.leaving(node.pod) and not outdated(situation, node.pod)
        for node in situation.unreachable
    )


def _refused(situation: Topology) -> str | None:
    wanted = situation.wanted
    if wanted.update_paused:
        return "spec.update.paused is set"
    reason = version_limitation(wanted, situation.observed)
    if reason:
        return reason
    reason = lowered_too_far(wanted, situation.observed)
    if reason:
        return reason
    if not situation.has_copies and not wanted.persistent and not wanted.restart_may_lose:
        return (
            "without replicas and storage a restart loses all data: "
            "add either, accept it once with the annotation "
            f"{ACCEPT_LOSS}=restart, or set spec.durability.onDataLoss: StartEmpty"
        )
    return None


def _falling_behind(situation: Topology) -> str | None:
    """Name replicas that do a full sync repeatedly: they are in sync only for a moment. ST-06"""
    found = [primary.pod.name for primary, _ in resyncing(situation)]
    return f"replicas of {found[0]} fall behind repeatedly" if found else None


def _failing(situation: Topology) -> str | None:
    """Describe a pod of the new revision that does not start, or return None."""
    for node in situation.observed.nodes:
        if situation.leaving(node.pod) or outdated(situation, node.pod):
            continue
        if isinstance(node, Unreachable):
            return f"{node.pod.name} does not start: {node.pod.waiting or node.error}"
        if not node.pod.ready:
            return f"{node.pod.name} is not ready: {node.pod.waiting or 'waiting for it'}"
        killed = memory_kill(node.pod, situation.now)
        if killed:
            return killed
    return None


def _replicas_to_go(situation: Topology, old: list[Node]) -> list[Node] | str:
    """At most one replica per shard, in settled shards; or why none may be replaced now."""
    reasons: list[str] = []
    chosen: list[Node] = []
    disturbed = [s for s in situation.groups() if situation.group_unsettled(s)]
    room = situation.wanted.rolling_shards - len(disturbed)
    if situation.unfinished:
        return situation.unfinished
    for node in sorted(old, key=lambda n: (n.pod.shard, -n.pod.ordinal)):
        if not isinstance(node, Seen) or node.is_primary:
            continue
        if any(node.pod.shard == other.pod.shard for other in chosen):
            continue
        shard = node.pod.shard
        reason = (
            situation.group_unsettled(shard)
            or unsaved(situation, shard)
            or _freshly_up(situation, shard)
        )
        if reason:
            reasons.append(reason)
        elif len(chosen) < room:
            chosen.append(node)
    if chosen:
        return chosen
    if reasons:
        return reasons[0]
    if any(isinstance(n, Seen) and not n.is_primary for n in old):
        return (
            situation.group_unsettled(disturbed[0]) or "a shard is still changing"
            if disturbed
            else []
        )
    return []


def _freshly_up(situation: Topology, shard: int) -> str | None:
    """Why to wait: a server that has only just started must first keep running for a moment."""
    for node in situation.pods_of(shard):
        if isinstance(node, Seen) and situation.now - node.started_at < DWELL_SECONDS:
            return f"{node.pod.name} has just started"
    return None


def _primary(situation: Topology, old: list[Node], count: str) -> Plan:
    """Only primaries are left: switch over, or restart one that has no replica."""
    reason = situation.unsettled() or unsaved(situation)
    if reason:
        return Plan(
            rule="roll", blocked=(f"{count}; {reason}",), phase=PlanPhase.UPDATING, again_after=0.5
        )
    primary = next(node for node in old if isinstance(node, Seen))
    fresh = _freshly_up(situation, primary.pod.shard)
    if fresh:
        return Plan(
            rule="roll", blocked=(f"{count}; {fresh}",), phase=PlanPhase.UPDATING, again_after=0.5
        )
    if not situation.holds_data(primary) and not primary.keys:
        return _replace(situation, [primary], f"{count}; {primary.pod.name} owns no slots yet")
    if situation.followers(primary):
        return situation.hand_over(
            primary,
            rule="roll",
            why=count,
            phase=PlanPhase.UPDATING,
            among=[
                replica
                for replica in situation.followers(primary)
                if replica.pod.shard == primary.pod.shard and not outdated(situation, replica.pod)
            ],
        )
    return _replace(situation, [primary], f"{count}; {primary.pod.name} has no replica")


def _replace(situation: Topology, nodes: list[Node], why: str) -> Plan:
    del situation
    steps = tuple(
        DeletePod(
            pod=node.pod.name,
            uid=node.pod.uid,
            why=why,
            expect_id=node.id if isinstance(node, Seen) else None,
            expect_role=_role(node),
        )
        for node in nodes
    )
    names = ", ".join(step.pod for step in steps)
    return Plan(
        rule="roll", why=f"{why}; {names} is recreated", stages=(steps,), phase=PlanPhase.UPDATING
    )


def _role(node: Node) -> Role | None:
    return node.role if isinstance(node, Seen) else None
