"""Which replica may be promoted, and why not.

The best candidate has the most data, then is linked with the voters, then runs where the primary
does not. A replica is never promoted over a reachable one that has more data.
"""

from __future__ import annotations

from ...redis.slots import NO_SLOTS
from ..advice import ACCEPT_LOSS
from ..identity import NodeId
from ..observed import Election, Seen, Unreachable
from ..reporting.degradations import memory_kill
from .situation import Situation

__all__ = [
    "LAG_BYTES",
    "best",
    "can_be_elected",
    "limitation",
    "outdated",
    "ranked",
    "successor",
    "unsynced",
]

LAG_BYTES = 64 * 1024
_VALIDITY_TIMES = 10  # the engine's cluster-replica-validity-factor, in node timeouts
_OOM_REST_SECONDS = (
    60.0  # servers that all lack memory must not lead in turn; the engine may choose
)


def ranked(situation: Situation, primary: NodeId) -> tuple[Seen, ...]:
    """Replicas of a primary, the best first: offset, then another zone, then the lower ordinal."""
    pod = situation.pod_of(primary)
    zone = pod.zone if pod is not None else ""
    return tuple(
        sorted(
            (
                node
                for node in situation.replicas_of(primary)
                if node.id not in situation.duplicate_ids
            ),
            key=lambda n: (-n.replication.offset, n.pod.zone == zone, n.pod.ordinal, n.id),
        )
    )


def best(situation: Situation, primary: NodeId) -> tuple[Seen | None, str]:
    """The replica to promote after its primary died, or None and the reason.

    A replica that does not respond may be ahead of all that do. Then the operator promotes none,
    and the engine's own election, in which that replica takes part, decides. I2, CL-13
    """
    candidates, reason = _of_its_history(situation, primary)
    if not candidates:
        return None, reason
    silent = _silent_siblings(situation, primary)
    if silent:
        names = ", ".join(node.pod.name for node in silent)
        return None, f"{names} may hold newer data and does not respond"
    top = candidates[0]
    hindrance = outdated(situation, top, primary) or limitation(situation, top, primary)
    return (None, hindrance) if hindrance else (top, "")


def _of_its_history(situation: Situation, primary: NodeId) -> tuple[tuple[Seen, ...], str]:
    """Replicas that hold this primary's data, judged by their replication history.

    A replica that was made to follow a primary which died before the first sync still has the data
    of another shard. Offsets can be compared only within one history.
    """
    name = situation.name_of(primary)
    elsewhere = {
        history
        for node in situation.voters
        if node.id != primary
        for history in (node.replication.id, node.replication.id2)
    } - {""}
    history = dict(situation.observed.cluster.histories).get(primary)
    copies = [n for n in ranked(situation, primary) if situation.is_copy(n)]
    able = [n for n in copies if n.replication.id not in elsewhere]
    able = [n for n in able if not n.replication.unlinked] or able
    able = [n for n in able if n.replication.id == history] or able
    if not able:
        return (), f"{name} has no live replica with its data"
    if len({node.replication.id for node in able}) > 1:
        names = " and ".join(node.pod.name for node in able)
        return (
            (),
            (
                f"{names} follow {name} with different replication histories: "
                "it is not known which one is its own"
            ),
        )
    return tuple(able), ""


def outdated(situation: Situation, candidate: Seen, primary: NodeId) -> str | None:
    """Why to wait for a dead primary instead: its files may be newer than its replica's. CL-02

    A replica that restarted has the data from when it ended, and one that lost its link has those
    from then. The primary may have accepted writes after that, and comes back with all that it
    acknowledged, unless no pod can be that primary any more or its files are broken. The engine
    does not elect such a replica either; FORCE would.
    """
    lost = _lost_link(situation, candidate, primary)
    if lost is None or situation.wanted.volatile:
        return None
    pod = situation.pod_of(primary)
    if (pod is None and not situation.possible_owners) or (pod is not None and pod.unloadable):
        return None
    slots = situation.owned.get(primary, NO_SLOTS)
    if slots and slots <= situation.wanted.accepted_loss:
        return None
    name = candidate.pod.name
    return (
        f"{name} {lost}, whose files may be newer: it is waited for. If it will not come back, let "
        f"{name} lead with its present data: annotate the database with "
        f"{ACCEPT_LOSS}={slots}"
    )


def _lost_link(situation: Situation, candidate: Seen, primary: NodeId) -> str | None:
    """How a replica lost its link to a dead primary long before that ended, or None.

    Without an append-only file the primary comes back with its last snapshot, which may be older
    than that. When it ended is known only where this operator had seen it serve: links are lost
    when it ends, however long ago that was.
    """
    old, link = situation.name_of(primary), candidate.replication
    if link.unlinked:
        return f"restarted and has had no link to {old} since"
    ended = situation.identities.get(primary)
    if ended is None or ended.last_id is None or candidate.setting("appendonly") != "yes":
        return None
    before = link.down_seconds - (situation.now - ended.since)
    timeout = _node_timeout(candidate, situation.wanted.node_timeout_ms) / 1000
    if before <= _VALIDITY_TIMES * timeout:
        return None
    return f"lost its link to {old} {before:.0f} s before that ended"


def limitation(situation: Situation, candidate: Seen, primary: NodeId) -> str | None:
    """Why a replica may not be promoted now, or None. I6"""
    name = candidate.pod.name
    if candidate.loading:
        return f"{name} is still loading its data"
    if candidate.replication.syncing:
        return f"{name} is in the middle of a full sync"
    if candidate.pod.deleting:
        return f"{name} is being deleted"
    killed = memory_kill(candidate.pod, situation.now, within=_OOM_REST_SECONDS)
    if killed:
        return f"{killed}: it is not promoted while it may be killed again"
    return _unknown(situation, candidate, primary) or _too_soon(situation, candidate, primary)


def unsynced(candidate: Seen, primary: Seen) -> str | None:
    """Why a replica cannot replace its live primary, or None. ST-05"""
    name = candidate.pod.name
    if candidate.replica_of != primary.id:
        return f"{name} does not follow {primary.pod.name}"
    if candidate.loading:
        return f"{name} is still loading its data"
    if candidate.replication.syncing:
        return f"{name} is in the middle of a full sync"
    if not candidate.replication.link_up:
        return f"{name} has no replication link to {primary.pod.name}"
    lag = primary.replication.offset - candidate.replication.offset
    if lag > LAG_BYTES:
        return f"{name} is {lag} bytes behind {primary.pod.name}"
    return None


def _unknown(situation: Situation, candidate: Seen, primary: NodeId) -> str | None:
    """Why too few servers would vote for a replica, as far as they know it. (trap 2)

    A voter answers over its own link to the replica, and only if it knows it as a replica of that
    primary; the replica counts only votes of servers that it knows as slot owners. All servers
    learn this within seconds, but a lost election is not repeated for four node timeouts.
    """
    name = candidate.pod.name
    apart, unaware, unheard = [], [], []
    for voter in situation.voters:
        view, back = situation.view(voter, candidate.id), situation.view(candidate, voter.id)
        if view is None or back is None or not (view.healthy and back.healthy):
            apart.append(voter.pod.name)
        elif view.replica_of != primary:
            unaware.append(voter.pod.name)
        elif not back.slots or back.replica_of is not None:
            unheard.append(voter.pod.name)
    silent = len(apart) + len(unaware) + len(unheard)
    if len(situation.voters) - silent >= situation.quorum:
        return None
    if apart:
        return f"{name} is not linked with {', '.join(apart)}, whose votes it needs"
    if unaware:
        return f"{', '.join(unaware)} have not heard yet that {name} is a replica"
    if unheard:
        return f"{name} has not heard yet that {', '.join(unheard)} own slots and may vote"
    return None


def _too_soon(situation: Situation, candidate: Seen, primary: NodeId) -> str | None:
    """Engines count old votes again, or refuse new ones, when elections follow fast. (trap 1)"""
    timeout = _node_timeout(candidate, situation.wanted.node_timeout_ms) / 1000
    for election in situation.observed.elections:
        span = _quarantine(election, candidate, primary, timeout)
        left = min(span, election.at + span - situation.now)  # a clock set back adds nothing
        if left > 0:
            return f"{candidate.pod.name} must wait {left:.1f} s after the last election"
    return None


def _quarantine(election: Election, candidate: Seen, primary: NodeId, timeout: float) -> float:
    if election.node == candidate.id and candidate.engine == "redis":
        return max(4 * timeout, 4.0)
    if election.over == primary:
        return 2 * timeout
    return 0.0


def _node_timeout(node: Seen, default_ms: int) -> int:
    value = node.setting("cluster-node-timeout")
    return int(value) if value is not None and value.isdecimal() else default_ms


def _silent_siblings(situation: Situation, primary: NodeId) -> list[Unreachable]:
    """Unreachable pods that follow, or may follow, the same primary and may be alive."""
    suspects = []
    for node in situation.unreachable:
        if node.dead:
            continue
        ids = [i for i, holder in situation.identities.items() if holder is node]
        follows = any(
            (view := situation.view(voter, i)) is not None and view.replica_of == primary
            for i in ids
            for voter in situation.seen
        )
        shards = {f.pod.shard for f in situation.replicas_of(primary)}
        if follows or (not ids and node.pod.shard in shards):
            suspects.append(node)
    return suspects


def successor(situation: Situation, dead: NodeId) -> Seen | None:
    """The primary that was promoted over a dead one, by its history or by a remembered election."""
    history = dict(situation.observed.cluster.histories).get(dead)
    elected = {e.node for e in situation.observed.elections if e.over == dead}
    found = [
        node
        for node in situation.by_id.values()
        if node.is_primary and ((history and node.replication.id2 == history) or node.id in elected)
    ]
    return found[0] if len(found) == 1 else None


def can_be_elected(situation: Situation, replica: Seen, primary: NodeId) -> bool:
    """Whether enough owners would vote for a replica of a dead primary.

    A primary that died soon after it got a new epoch may have sent it to the other owners and not
    to its replica. They refuse a candidate with the old epoch, and no server sends the new one to
    the replica any more: only a takeover ends this.
    """
    own = situation.view(replica, primary)
    if own is None:
        return True
    views = (situation.view(voter, primary) for voter in situation.voters)
    willing = sum(1 for v in views if v is None or v.config_epoch <= own.config_epoch)
    return willing >= situation.quorum
