"""A silent primary that the sentinels consider dead and cannot replace: they know no replica.

They discover replicas through the primary alone, so they never will while it is silent. The
operator knows the replicas. It asks the sentinels for their votes, as one of them would, and has
them name a replica in the epoch that it won; then it promotes that replica. The operator may stop
after either step: the name that the sentinels have is the record of the decision. Decision 023
"""

from __future__ import annotations

from ..at import at
from ..observed import Seen, Unreachable
from .actions import Elect
from .election import Undecided, best
from .preconditions import gave_up
from .topology import FailoverTopology, address

__all__ = ["elect_step", "needed", "outvoted"]


def needed(topology: FailoverTopology) -> int:
    """How many sentinels must agree: the quorum, and a majority of all that any of them counts."""
    known = (topology.monitored(node) for node in topology.watchers)
    counted = [1 + len(found.sentinels) for found in known if found is not None]
    voters = max(topology.wanted.sentinels, len(topology.observed.sentinels), *counted, 0)
    return max(topology.wanted.quorum, voters // 2 + 1)


def outvoted(topology: FailoverTopology, synced: list[Seen], before: Unreachable) -> Seen | None:
    """The replica that replaces a silent primary, or None while the sentinels may do it.

    A majority of all sentinels has considered the primary dead for longer than needed, and none of
    them could promote any replica; or they name the replica already, by a vote that was won. After
    a switchover that they have not learned of, they name the replica that led before, and see its
    primary alive.
    """
    if topology.election or not synced:
        return None
    chosen = best(synced, topology.led)
    if isinstance(chosen, Undecided):
        return None
    if topology.named == address(chosen):
        return None if _lives(topology, before) else chosen
    agreed = gave_up(topology.wanted.primary_name, address(before), topology.views)
    return chosen if agreed >= needed(topology) else None


def _lives(topology: FailoverTopology, node: Unreachable) -> bool:
    """Whether a sentinel is connected to a server and considers it healthy."""
    known = (topology.monitored(watcher) for watcher in topology.watchers)
    replicas = (replica for found in known if found is not None for replica in found.replicas)
    return any(r.up and f"{r.ip}:{r.port}" == address(node) for r in replicas)


def elect_step(topology: FailoverTopology, chosen: Seen) -> Elect:
    """The votes of all sentinels that respond, for this replica."""
    return Elect(
        node=at(chosen),
        follows=chosen.replication.follows,
        name=topology.wanted.primary_name,
        sentinels=tuple(at(node) for node in topology.watchers),
        needed=needed(topology),
        replication_id=chosen.replication.id,
        min_offset=chosen.replication.offset,
    )
