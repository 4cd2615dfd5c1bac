"""A database gets the content of a backup key by key, and serves no client before that.

A new database is empty. The data of a database in use is replaced for a `RedisRestore`, which says
when its clients cannot connect, when its data is saved, and when a worker may replace it.
"""

from __future__ import annotations

from ..advice import Plan, PlanPhase
from ..sources import Filling
from ..topology import Topology

__all__ = ["fill", "unfilled", "unsaved", "unwatched"]

_LOOK_SECONDS = 2.0
_CLOSING_SECONDS = 0.3
_RECORD_SECONDS = 0.1  # the pass ends: the status is written before the next one begins


def fill(situation: Topology) -> Plan | None:
    """Wait until all keys have arrived, and change nothing meanwhile.

    The worker sends keys to the primaries that were named to it; changes that would replace them
    begin later, and a server that replaces a dead primary gets all its keys again. I1
    """
    filling = situation.wanted.filling
    if filling is None:
        return None
    reason = unfilled(situation, filling)
    message = reason or f"the status records that the database has all of backup {filling.backup}"
    waits = _LOOK_SECONDS if filling.served or not filling.closing else _CLOSING_SECONDS
    return Plan(
        rule="fill",
        blocked=(message,),
        phase=PlanPhase.UPDATING if filling.restore else PlanPhase.CREATING,
        final=True,
        again_after=waits if reason is not None else _RECORD_SECONDS,
    )


def unfilled(situation: Topology, filling: Filling) -> str | None:
    """Say why the database may not have all keys of the backup yet, or None."""
    if situation.unserved:
        return f"backup {filling.backup} waits: {situation.unserved}"
    if filling.carried is None:
        text = filling.problem or filling.message
        if filling.restore:
            return f"RedisRestore {filling.restore} of backup {filling.backup}: {text}"
        return f"backup {filling.backup} is being restored: {text}"
    carried = dict(filling.carried)
    for leader in situation.serving:
        if carried.pop(leader.pod.name, "") != leader.replication.id:
            return (
                f"{leader.pod.name} was not the primary, or has begun again, since it was given "
                f"keys of backup {filling.backup}: they are given again"
            )
        for replica in situation.followers(leader):
            late = situation.unsynced(replica, leader)
            if late is not None:
                return f"backup {filling.backup} is restored, and replicas copy it: {late}"
    if carried:
        gone = ", ".join(carried)
        return (
            f"{gone} had keys of backup {filling.backup} and is no longer the primary: "
            "they are restored again"
        )
    return None


def unwatched(situation: Topology) -> str | None:
    """Say which server may accept clients though all that respond do not, or None."""
    if situation.observed.unlabelled:
        return "there is a pod without labels, which is not asked"
    for node in situation.unreachable:
        return f"{node.pod.name} does not respond, and may accept clients"
    return None


def unsaved(situation: Topology) -> str | None:
    """Say why a backup may lack a write that was acknowledged before clients were cut off, or None.

    Backups are read from replicas: each must be exactly at the offset of its primary.
    """
    if situation.unserved:
        return situation.unserved
    for leader in situation.serving:
        for replica in situation.followers(leader):
            late = situation.unsynced(replica, leader)
            if late is not None:
                return late
            if replica.replication.offset < leader.replication.offset:
                return f"{replica.pod.name} is not where {leader.pod.name} is"
    return None
