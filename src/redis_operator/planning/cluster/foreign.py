"""Healthy nodes of another database, which were reached by a reused address."""

from __future__ import annotations

from ..actions import Action
from ..advice import Plan, PlanPhase
from ..at import at
from ..clusters import Peer
from ..identity import NodeId
from .actions import Forget
from .situation import Situation

__all__ = ["foreign"]


def foreign(situation: Situation) -> Plan | None:
    """Forget healthy nodes that are not pods of this database, on all its servers at once.

    A linked node whose address is not that of a pod of this database belongs to another database. A
    node that owns slots according to a server is not forgotten, since that would leave the slots
    without an owner; a person must decide. Nor is a node that a server of this database follows: it
    was a member a moment ago, and has died unnoticed; the servers follow another primary first.
    One at the address of a pod that was there a moment ago is that pod, which was removed: no other
    database is involved. I3, I11
    """
    if situation.unidentified or situation.possible_owners:
        return None  # one of them may be the node that is not recognised
    addresses = {node.pod.ip for node in situation.observed.nodes if node.pod.ip}
    steps: list[Action] = []
    blocked = []
    strange = False
    followed = {node.replica_of for node in situation.by_id.values()}
    for node, views in situation.others.items():
        if node in followed or not _is_foreign(views, addresses):
            continue
        if any(view.slots for view in views):
            blocked.append(_explain(node, views))
            continue
        strange = strange or not _was_pod(situation, views)
        knowing = [s for s in situation.by_id.values() if situation.view(s, node) is not None]
        steps += [Forget(node=at(server), id=node) for server in knowing]
    if not steps:
        return (
            Plan(rule="foreign", blocked=tuple(blocked), phase=PlanPhase.HEALING)
            if blocked
            else None
        )
    return Plan(
        rule="foreign",
        why="servers are linked with nodes that do not belong to this database"
        if strange
        else "servers are linked with nodes whose pods were removed",
        stages=(tuple(steps),),
        blocked=tuple(blocked),
        phase=PlanPhase.HEALING if strange or blocked else PlanPhase.SCALING,
        routine=not strange and not blocked,
    )


def _was_pod(situation: Situation, views: tuple[Peer, ...]) -> bool:
    former = situation.observed.cluster.former_addresses
    return all(view.ip in former for view in views if view.ip)


def _is_foreign(views: tuple[Peer, ...], addresses: set[str]) -> bool:
    return any(view.healthy and view.ip for view in views) and all(
        view.ip not in addresses for view in views
    )


def _explain(node: NodeId, views: tuple[Peer, ...]) -> str:
    view = next(view for view in views if view.slots)
    return (
        f"node {node[:8]} at {view.ip} is not a pod of this database but owns slots "
        f"{view.slots} here: "
        "find out which database it belongs to before anything is forgotten"
    )
