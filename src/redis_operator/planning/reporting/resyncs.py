"""Replicas that do a full sync repeatedly, seen over many observations. ST-06

One observation shows a link that is up, or has been down for a second. The evidence is the
primary's count of full syncs, which grows while its replicas are the same processes as before.
"""

from __future__ import annotations

from msgspec import Struct

from ..identity import ServerId
from ..observed import Observed, Seen
from ..topology import Topology

__all__ = ["Resyncs", "after_look", "resyncing"]

_SECONDS = 300.0
_MOST = 100  # that are remembered of one observation


class Resyncs(Struct, frozen=True):
    """What is known of full syncs: the last counts, the synced replicas, and when counts rose."""

    last: tuple[tuple[ServerId, int], ...] = ()
    synced: frozenset[tuple[ServerId, str, int]] = frozenset()  # primary, pod, restarts
    given: tuple[tuple[ServerId, float], ...] = ()

    @property
    def times(self) -> tuple[tuple[ServerId, int], ...]:
        """How many recent full syncs each primary has served."""
        found: dict[ServerId, int] = {}
        for node, _ in self.given:
            found[node] = found.get(node, 0) + 1
        return tuple(found.items())


def after_look(before: Resyncs, observed: Observed, now: float) -> Resyncs:
    """Return what is known after one more observation.

    A new replica, one that restarted and one that changed its primary do one full sync. Only a full
    sync counts that happened while all replicas were in sync with this primary before. A primary
    without replicas serves full syncs to the workers of backups.
    """
    replicas: dict[ServerId, set[tuple[ServerId, str, int]]] = {}
    linked = set()
    for node in observed.seen:
        if node.replica_of is not None:
            process = (node.replica_of, node.pod.uid, node.pod.restarts)
            replicas.setdefault(node.replica_of, set()).add(process)
            if node.replication.link_up:
                linked.add(process)
    was = dict(before.last)
    given = [(node, at) for node, at in before.given if 0 <= now - at < _SECONDS]
    primaries = [node for node in observed.seen if node.is_primary]
    for node in primaries:
        more = node.full_syncs - was.get(node.id, node.full_syncs)
        followers = replicas.get(node.id)
        if more > 0 and followers and followers <= before.synced:
            given += [(node.id, now)] * min(_MOST, more)
    present = set().union(*replicas.values())
    synced = frozenset((before.synced & present) | linked)
    return Resyncs(tuple((node.id, node.full_syncs) for node in primaries), synced, tuple(given))


def resyncing(situation: Topology, *, reported: bool = False) -> tuple[tuple[Seen, int], ...]:
    """Primaries with too many full syncs in five minutes, with how many would be too many.

    Once reported, it is reported until it has not happened for five minutes. A primary that has no
    replicas by the spec serves full syncs only to workers of backups and archives.
    """
    if not situation.wanted.replicas:
        return ()
    most = 2 * situation.wanted.replicas + 1
    found = []
    for node, times in situation.observed.resyncs:
        primary = situation.by_id.get(node)
        if primary is not None and times > (0 if reported else most):
            found.append((primary, most))
    return tuple(found)
