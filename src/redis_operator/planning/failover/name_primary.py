"""Choose a primary when there is none: by data, and never in a race with the sentinels."""

from __future__ import annotations

from msgspec.structs import replace

from ...redis.slots import ALL_SLOTS
from ..advice import Loss, Plan, PlanPhase
from ..at import at
from ..fence import Fence
from ..identity import ServerId
from ..observed import Evidence, Seen, Unreachable
from .actions import Promote, Unwatch
from .election import FRESH, Undecided, best, holds, same_history
from .outdated import newest, outdated, waiting
from .outvote import elect_step, needed, outvoted
from .topology import FailoverTopology, address

__all__ = ["name_primary"]

_SOON_SECONDS = 0.1
_FENCES = {
    Evidence.REFUSED: Fence.PROCESS_GONE,
    Evidence.TERMINATED: Fence.CONTAINER_ENDED,
    Evidence.NOT_STARTED: Fence.CONTAINER_ENDED,
}


def name_primary(topology: FailoverTopology) -> Plan | None:
    """Promote the server with the database's data while no server leads. SE-02, SE-05, SE-13, SE-18

    All servers must be seen, or the best of the seen ones must be known to have everything: a
    server that does not respond may hold more. While the sentinels elect, they decide.
    """
    if topology.wrongly_demoted is None and (topology.primaries or not topology.seen):
        return None
    before = _before(topology)
    candidates = _candidates(topology)
    synced = [n for n in candidates if before is not None and _followed(n, before)]
    synced = [n for n in synced if not outdated(topology, n)]
    if isinstance(before, Unreachable) and not before.dead and not topology.wrongly_demoted:
        successor = outvoted(topology, synced, before)
        if successor is not None:
            return _elected(topology, successor, before)
    hazard = _race(topology)
    if hazard:
        return _wait(topology, hazard + waiting(topology, candidates))
    if topology.wrongly_demoted is not None:
        return _named(topology, topology.wrongly_demoted, Fence.NEVER_LED, None)
    loading = next((n for n in topology.seen if n.loading), None)
    if synced:
        return _assist(topology, before, synced)
    absent = _absent(topology)
    if _waits_in_vain(topology):
        return _release(topology)
    if loading is not None or absent:
        reason = f"{loading.pod.name} is loading" if loading is not None else absent
        reason += waiting(topology, candidates)
        return _wait(topology, f"no primary is chosen before all servers are observed: {reason}")
    asked = topology.wanted.switchover
    wanted = asked.pod if asked is not None else ""
    chosen = best(newest(topology, candidates), topology.led, wanted, topology.elected)
    if isinstance(chosen, Undecided):
        blocked = (chosen.why,)
        return Plan(
            rule="name_primary", blocked=blocked, phase=PlanPhase.HEALING, final=True, asks=True
        )
    return _named(topology, chosen, Fence.NEVER_LED, None)


def _candidates(topology: FailoverTopology) -> list[Seen]:
    return [n for n in topology.seen if not n.loading and not topology.going(n.pod)]


def _elected(topology: FailoverTopology, chosen: Seen, before: Unreachable) -> Plan:
    """Have the sentinels name a replica instead of a primary that they consider dead. I7

    Then it leads. Sentinels that do not respond learn it from the others, whose epoch is higher.
    """
    plan = _named(topology, chosen, Fence.DEPOSED, before)
    if not plan.stages:
        return plan
    why = (
        f"the sentinels consider {before.pod.name} dead and cannot replace it; "
        f"{chosen.pod.name} has its data and becomes the primary"
    )
    return replace(plan, why=why, stages=((elect_step(topology, chosen),), *plan.stages))


def _race(topology: FailoverTopology) -> str | None:
    """Why sentinels may promote another server meanwhile; never one with priority 0."""
    eligible = any(node.replication.priority > 0 for node in topology.seen)
    if topology.election and (eligible or topology.unreachable):
        return topology.election
    silent = topology.silent_watchers
    if silent and eligible:
        return f"{silent[0].pod.name} does not respond and may be electing"
    return None


def _before(topology: FailoverTopology) -> Unreachable | Seen | None:
    """The server that led before: replicas still follow it, and it is not a primary now.

    After a switchover some replicas still follow the old primary, which follows the new one. The
    new one is returned, above all when it does not respond: it may lead. I7
    """
    named = {node.replication.follows for node in topology.seen if not node.is_primary}
    found = [n for n in topology.observed.nodes if address(n) in named]
    return min(found, key=lambda n: _descent(topology, n), default=None)


def _descent(topology: FailoverTopology, node: Unreachable | Seen) -> int:
    """How unlikely it is that a server with followers leads, or led last."""
    if isinstance(node, Unreachable):
        return 1 if node.dead else 0
    places = {address(n) for n in topology.observed.nodes}
    return 3 if node.replication.follows in places else 2


def _followed(node: Seen, before: Unreachable | Seen) -> bool:
    """Whether a replica copied its data from the server that led before."""
    link = node.replication
    return link.follows == address(before) and not link.unlinked and not node.never_synced


def _assist(
    topology: FailoverTopology, before: Unreachable | Seen | None, synced: list[Seen]
) -> Plan | None:
    """Replace a primary whose process is known to have ended. I7"""
    assert before is not None
    chosen = best([*synced, *_ahead(topology, before, synced)], topology.led)
    if isinstance(chosen, Undecided):
        return _wait(topology, chosen.why)
    if isinstance(before, Seen) and chosen.id == before.id:
        return _named(topology, chosen, Fence.NEVER_LED, None)
    if isinstance(before, Seen):
        return _named(topology, chosen, Fence.IS_REPLICA, before)
    fence = _FENCES.get(before.evidence)
    if fence is None:
        return _wait(topology, f"{before.pod.name} does not respond and may be alive")
    return _named(topology, chosen, fence, before)


def _ahead(
    topology: FailoverTopology, before: Unreachable | Seen | None, synced: list[Seen]
) -> list[Seen]:
    """The server that led before, if it is further in the history of its replicas. I1"""
    if not isinstance(before, Seen) or before.loading or topology.going(before.pod):
        return []
    return [before] if all(same_history(before, node) for node in synced) else []


def _waits_in_vain(topology: FailoverTopology) -> bool:
    """Whether the server that the sentinels name waits for them to replace it, and they cannot.

    It waits at its start (`boot.sh`); all other servers have restarted, and sentinels never promote
    them.
    """
    named = [n for n in topology.unreachable if address(n) == topology.named and n.dead]
    restarted = all(n.replication.priority == 0 and n.replication.unlinked for n in topology.seen)
    return bool(named) and len(topology.unreachable) == 1 and restarted


def _release(topology: FailoverTopology) -> Plan:
    name = topology.wanted.primary_name
    steps = tuple(
        Unwatch(at(node), name, topology.place_named_by(node)) for node in topology.watchers
    )
    return Plan(
        rule="name_primary",
        why="every server has restarted, and no sentinel can promote any of them",
        stages=(steps,),
        phase=PlanPhase.HEALING,
        urgent=True,
        again_after=_SOON_SECONDS,
    )


def _absent(topology: FailoverTopology) -> str:
    """A server that is not seen and may hold more data than those that are, or an empty string."""
    if topology.missing_pods:
        return f"{topology.missing_pods[0]} does not exist yet"
    for node in topology.unreachable:
        return f"{node.pod.name} does not respond: {node.pod.waiting or node.error}"
    servers = topology.workload(0)
    count = servers.pods if servers is not None and not servers.deleting else 0
    if count < topology.wanted.pods_per_shard and not topology.wanted.volatile:
        return f"{topology.wanted.name}-{count} does not run and has a volume"
    return ""


def _named(
    topology: FailoverTopology, chosen: Seen, fence: Fence, before: Unreachable | Seen | None
) -> Plan:
    lost = _lost(topology)
    if lost and not all(loss.accepted for loss in lost):
        return Plan(rule="name_primary", losses=lost, phase=PlanPhase.HEALING, final=True)
    link = chosen.replication
    asks = fence is Fence.DEPOSED or _contested(topology)
    last = before.id if isinstance(before, Seen) else before.last_id if before else None
    step = Promote(
        node=at(chosen),
        follows=link.follows,
        fence=fence,
        replication_id=link.id,
        min_offset=link.offset,
        primary=last or ServerId(""),
        primary_pod=before.pod.name if before is not None else "",
        primary_uid=before.pod.uid if before is not None else "",
        sentinels=tuple(at(node) for node in topology.watchers) if asks else (),
        needed=needed(topology) if fence is Fence.DEPOSED else 0,
        name=topology.wanted.primary_name,
        named=tuple(sorted({topology.place_named_by(node) for node in topology.watchers} - {""})),
    )
    others = [n for n in topology.seen if n.id != chosen.id and not n.loading]
    others = [node for node in others if not _keeps_apart(node, chosen)]
    formed = topology.observed.formed
    why = f"{before.pod.name} has ended" if before is not None else "no server is a primary"
    return Plan(
        rule="name_primary",
        why=f"{why}; {chosen.pod.name} has its data and becomes the primary",
        stages=((step,), topology.after_promotion(chosen, others)),
        losses=lost,
        phase=PlanPhase.HEALING if formed else PlanPhase.CREATING,
        urgent=formed and not lost,
    )


def _contested(topology: FailoverTopology) -> bool:
    return any(node.replication.priority > 0 for node in topology.seen)


def _keeps_apart(node: Seen, chosen: Seen) -> bool:
    """Whether the data of a server would be dropped without need."""
    return holds(node) and not holds(chosen) and not same_history(node, chosen)


def _lost(topology: FailoverTopology) -> tuple[Loss, ...]:
    """The loss when no server of a database in use found its files again. SE-05, ST-03"""
    if not topology.observed.formed:
        return ()
    wanted = topology.wanted
    if not all(_has_nothing(node, volatile=wanted.volatile) for node in topology.seen):
        return ()
    why = "every server was restarted and keeps its data in memory only"
    if not wanted.volatile:
        why = "no server found the files that it had"
    return (Loss(why=why, accepted=wanted.gives_up(ALL_SLOTS)),)


def _has_nothing(node: Seen, *, volatile: bool) -> bool:
    """Whether a server found no files when it started, and has not copied any server since.

    A server that was made to follow does not show any more whether it found files; in memory alone
    there are none.
    """
    link = node.replication
    return not holds(node) and (link.follows == FRESH or (volatile and link.unlinked))


def _wait(topology: FailoverTopology, reason: str) -> Plan:
    phase = PlanPhase.HEALING if topology.observed.formed else PlanPhase.CREATING
    return Plan(rule="name_primary", blocked=(reason,), phase=phase, again_after=_SOON_SECONDS)
