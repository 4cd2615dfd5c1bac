"""Form a new cluster: slots, CLUSTER MEET and replicas in one plan that can resume anywhere."""

from __future__ import annotations

from itertools import combinations

from ...redis.slots import SlotSet, even_shares
from ..actions import Action, DeletePod
from ..advice import Plan, PlanPhase
from ..at import at
from ..clusters import Counted
from ..common.roll import outdated
from ..observed import Seen, Unreachable
from .actions import AssignSlots, Meet, Replicate, SetConfigEpoch, TuneForBootstrap
from .situation import Situation

__all__ = ["BOOTSTRAP", "bootstrap"]

# Only for servers that hold nothing yet; the rule `configure` restores the wanted values.
BOOTSTRAP = (("cluster-node-timeout", "500"), ("repl-diskless-sync-delay", "0"))


def bootstrap(situation: Situation) -> Plan | None:
    """Give every shard its slots, its own epoch and its replicas, and MEET all servers.

    Epochs and slots come first, while no server knows another and no claims can conflict; then the
    full mesh; then the replicas, which drop their data and have none. Nothing is assigned while a
    pod is missing or does not respond, because it is not known what it holds. I3, I9, CL-05
    """
    if situation.observed.formed or not situation.unclaimed:
        return None
    stuck = [n for n in situation.unreachable if n.dead and outdated(situation, n.pod)]
    if stuck:
        return _corrected(stuck)
    reason = _limitation(situation)
    if reason:
        return Plan(
            rule="bootstrap",
            blocked=reason,
            phase=PlanPhase.CREATING,
            final=True,
            count_strays_on=situation.to_count,
        )
    leaders = {shard: situation.by_id[node] for shard, node in situation.leaders.items()}
    members = tuple(situation.by_id.values())
    stages: list[tuple[Action, ...]] = [
        _tune(members),
        _assign(situation, leaders),
        _mesh(situation, members),
        _copies(leaders, members),
    ]
    return Plan(
        rule="bootstrap",
        why=f"a new database of {situation.wanted.shards} shards gets its slots",
        stages=tuple(stage for stage in stages if stage),
        phase=PlanPhase.CREATING,
        again_after=0.05,
    )


def _corrected(stuck: list[Unreachable]) -> Plan:
    """Recreate pods that do not start, because the spec was corrected since. IN-27"""
    why = f"{len(stuck)} pods do not start and are of an old revision"
    one_a_shard = {node.pod.shard: node for node in reversed(stuck)}.values()
    steps = tuple(DeletePod(pod=n.pod.name, uid=n.pod.uid, why=why) for n in one_a_shard)
    return Plan(rule="bootstrap", why=why, stages=(steps,), phase=PlanPhase.CREATING)


def _limitation(situation: Situation) -> tuple[str, ...]:
    wanted = situation.wanted
    reasons = [
        f"{node.pod.name} does not respond: {node.pod.waiting or node.error}"
        for node in situation.unreachable
    ]
    missing = (*situation.missing_pods, *situation.sleeping_pods)
    reasons += [f"{pod} does not exist yet" for pod in missing]
    reasons += [f"shard {shard} has no pod yet" for shard in situation.missing_shards]
    if situation.duplicate_ids:
        reasons.append("two pods have one node id")
    reasons += [f"{n.pod.name} is still loading its data" for n in situation.seen if n.loading]
    reasons += [f"keys on {node.pod.name} are not counted yet" for node in situation.uncounted]
    reasons += [
        f"{node.pod.name} holds {node.keys} keys and owns no slots: they must find an owner first"
        for node in situation.seen
        if node.is_primary and node.keys and not node.slots
    ]
    reasons += [
        f"{node.pod.name} holds keys for slots {node.stranded.slots & situation.unclaimed}, "
        "which have no owner"
        for node in situation.seen
        if isinstance(node.stranded, Counted) and node.stranded.slots & situation.unclaimed
    ]
    if not reasons:
        reasons += [
            f"shard {shard} has no empty server that could become its primary"
            for shard in range(wanted.shards)
            if situation.leaders.get(shard) not in situation.by_id
        ]
    return tuple(reasons)


def _tune(members: tuple[Seen, ...]) -> tuple[Action, ...]:
    """Set short timeouts on every server that holds nothing and does not have them yet."""
    return tuple(
        TuneForBootstrap(node=at(node), values=BOOTSTRAP)
        for node in members
        if not node.keys
        and not node.slots
        and any(node.setting(k) not in (v, None) for k, v in BOOTSTRAP)
    )


def _assign(situation: Situation, leaders: dict[int, Seen]) -> tuple[Action, ...]:
    """Give each leader its unclaimed slots, and an epoch while it knows no other node."""
    steps: list[Action] = []
    shares = even_shares(situation.wanted.shards)
    for shard, share in enumerate(shares):
        leader = leaders[shard]
        slots: SlotSet = share & situation.unclaimed
        if not leader.config_epoch and not leader.peers:
            steps.append(SetConfigEpoch(node=at(leader), epoch=shard + 1))
        if slots:
            steps.append(AssignSlots(node=at(leader), slots=slots, expect_keys=leader.keys))
    return tuple(steps)


def _mesh(situation: Situation, members: tuple[Seen, ...]) -> tuple[Action, ...]:
    return tuple(
        Meet(node=at(one), peer=at(two))
        for one, two in combinations(members, 2)
        if situation.view(one, two.id) is None or situation.view(two, one.id) is None
    )


def _copies(leaders: dict[int, Seen], members: tuple[Seen, ...]) -> tuple[Action, ...]:
    return tuple(
        Replicate(node=at(node), primary=at(leaders[node.pod.shard]))
        for node in members
        if node.pod.shard in leaders
        and node.is_primary
        and not node.slots
        and not node.keys
        and node.id != leaders[node.pod.shard].id
    )
