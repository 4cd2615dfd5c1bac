"""A database is given the content of a backup key by key, and serves nothing before that.

A new one is empty. One that was in use has its data replaced for a `RedisRestore`, which says when
its clients cannot connect, when its data are safe elsewhere, and when a worker may replace them.
"""

from __future__ import annotations

from ..advice import Phase, Plan
from ..sources import Filling
from ..topology import Topology

__all__ = ["fill", "unfilled", "unsaved", "unwatched"]

_LOOK_SECONDS = 2.0
_CLOSING_SECONDS = 0.3
_RECORD_SECONDS = 0.1  # the pass ends: the status is written before the next one begins


def fill(situation: Topology) -> Plan | None:
    """Wait until everything is there, and have nothing changed meanwhile.

    The worker gives keys to primaries that it was named; what would replace them begins later, and
    who replaces one that died is given all of its keys again. I1
    """
    filling = situation.wanted.filling
    if filling is None:
        return None
    reason = unfilled(situation, filling)
    told = reason or f"the status records that the database has all of backup {filling.backup}"
    waits = _LOOK_SECONDS if filling.served or not filling.closing else _CLOSING_SECONDS
    return Plan(
        rule="fill",
        blocked=(told,),
        phase=Phase.UPDATING if filling.restore else Phase.CREATING,
        final=True,
        again_after=waits if reason is not None else _RECORD_SECONDS,
    )


def unfilled(situation: Topology, filling: Filling) -> str | None:
    """Say why the database may not have all of the backup yet, or None."""
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
    """Say which server may let clients in though all that respond do not, or None."""
    if situation.observed.unlabelled:
        return "there is a pod without labels, which is not asked"
    for node in situation.unreachable:
        return f"{node.pod.name} does not respond, and may accept clients"
    return None


def unsaved(situation: Topology) -> str | None:
    """Say why a backup may lack a write that a client was told of before it was shut out, or None.

    Backups are read from replicas: each must be exactly where its primary is.
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
