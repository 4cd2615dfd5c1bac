"""A server that cannot load its own files, while a primary has the data."""

from __future__ import annotations

from ..actions import DiscardData
from ..advice import Plan, PlanPhase
from ..at import at
from ..observed import Seen, Unreachable
from .election import holds
from .topology import FailoverTopology, address

__all__ = ["replace_data"]

_TRIES = 2  # a disk may fail to respond once


def replace_data(topology: FailoverTopology) -> Plan | None:
    """Give a server with broken files an empty volume, so that it copies the primary. ST-07, I1

    The files are deleted only while another server leads, holds keys, and is the one that the
    sentinels name. Without such a primary they may be the last copy: the status says what a person
    can do.
    """
    broken = [
        node
        for node in topology.unreachable
        if node.pod.unloadable and node.dead and not node.pod.deleting
    ]
    blocked = []
    for node in broken:
        data_holder = _data_holder(topology, node)
        if isinstance(data_holder, str):
            blocked.append(f"{node.pod.name} cannot load its files and keeps them: {data_holder}")
            continue
        claim = next((v for v in topology.observed.volumes if v.pod == node.pod.name), None)
        step = DiscardData(
            pod=node.pod.name,
            uid=node.pod.uid,
            data_holder=at(data_holder),
            claim=claim.name if claim is not None else "",
            claim_uid=claim.uid if claim is not None else "",
        )
        return Plan(
            rule="replace_data",
            why=f"{node.pod.name} cannot load its files ({node.pod.unloadable}); "
            f"{data_holder.pod.name} has the data, and {node.pod.name} copies them again",
            stages=((step,),),
            blocked=tuple(blocked),
            phase=PlanPhase.HEALING,
        )
    if not blocked:
        return None
    return Plan(rule="replace_data", blocked=tuple(blocked), phase=PlanPhase.HEALING)


def _data_holder(topology: FailoverTopology, node: Unreachable) -> Seen | str:
    """The primary that has the data of the broken server, or why none is known for certain."""
    primary = topology.primary
    if node.pod.restarts < _TRIES:
        return "it tries again"
    if primary is None:
        return "no server is known to be the primary"
    if len(topology.primaries) > 1:
        return "several servers are primaries"
    if topology.election:
        return topology.election
    if topology.named != address(primary):
        return f"the sentinels do not name {primary.pod.name} yet"
    if not holds(primary):
        return f"{primary.pod.name} holds no key, it may have lost what these files hold"
    return primary
