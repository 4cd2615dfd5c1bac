"""Make every server know every other one at its current address."""

from __future__ import annotations

from collections.abc import Iterator

from ..actions import Action
from ..advice import Plan, PlanPhase
from ..at import at
from ..clusters import Introduction, Peer, PeerFlag
from ..identity import NodeId
from ..observed import Seen
from .actions import Meet
from .situation import Situation

__all__ = ["PATIENT_TIMES", "connect", "merge_limitation", "unlinked_reason"]

PATIENT_TIMES = 5
_LONGEST_PAUSE = 60.0


def connect(situation: Situation) -> Plan | None:
    """Send CLUSTER MEET for all pairs that do not know each other's current address: a full mesh.

    With a star, the server in its centre would keep announcing its old address: a server learns its
    own address from the servers that meet it. Ids were read over authenticated connections to pods
    of this database, and the executor reads them again, since addresses are reused. I11, CL-02
    """
    members = [node for node in situation.by_id.values() if _belongs(situation, node)]
    steps: list[Action] = []
    blocked: dict[str, None] = {}
    greeted = {node.id: _greeted(situation, node) for node in members}
    tried = {frozenset((i.node, i.peer)): i for i in situation.observed.cluster.introductions}
    meeting, spans = 0, []
    for one, two in _doubtful(situation, members, greeted):
        if two.pod.ip in greeted[one.id] or one.pod.ip in greeted[two.id]:
            meeting += 1  # a second MEET would restart the handshake
            continue
        meets = _meets(situation, one, two)
        if not meets or _know_no_epoch(situation, one, two):
            continue
        before = tried.get(frozenset((one.id, two.id)))
        left = _pause(before) - (situation.now - before.at) if before is not None else 0.0
        reason = merge_limitation(one, two)
        if reason:
            blocked[reason] = None
        elif left > 0:
            blocked[unlinked_reason(one, two, before)] = None
            spans.append(left)
        else:
            steps += meets
    if steps:
        return Plan(
            rule="connect",
            why="servers do not know each other at their present addresses",
            stages=(tuple(steps),),
            blocked=tuple(blocked),
            phase=PlanPhase.HEALING if situation.observed.formed else PlanPhase.CREATING,
            urgent=True,
            again_after=0.1,
        )
    if meeting:
        blocked[f"{meeting} pairs of servers are meeting (CLUSTER MEET)"] = None
    if not blocked:
        return None
    again = 0.05 if meeting else min(spans, default=None)
    return Plan(
        rule="connect",
        blocked=tuple(blocked),
        phase=PlanPhase.HEALING if situation.observed.formed else PlanPhase.CREATING,
        again_after=again,
    )


def _doubtful(
    situation: Situation, members: list[Seen], greeted: dict[NodeId, frozenset[str]]
) -> Iterator[tuple[Seen, Seen]]:
    """Pairs where one may have a wrong view of the other or a handshake with it, in order."""
    places = {node.id: place for place, node in enumerate(members)}
    usual = situation.views.usual
    wrong = [node.id for node in members if _is_wrong(usual.get(node.id), node)]
    at_ip: dict[str, list[int]] = {}
    for place, node in enumerate(members):
        at_ip.setdefault(node.pod.ip, []).append(place)
    found: set[tuple[int, int]] = set()
    for place, node in enumerate(members):
        others = [places[s] for s in situation.views.suspects(node, wrong) if s in places]
        others += [other for ip in greeted[node.id] for other in at_ip.get(ip, ())]
        found.update((min(place, o), max(place, o)) for o in others if o != place)
    return ((members[one], members[two]) for one, two in sorted(found))


def _know_no_epoch(situation: Situation, one: Seen, two: Seen) -> bool:
    """Whether two new servers should learn the cluster's epoch before they meet.

    When two primaries with epoch 0 meet, the engine gives one of them the next epoch it knows of.
    If that is 1, it is the epoch of a primary that may be down. When that primary comes back, it
    gets a higher epoch than the new server, and takes its slots back from the replica promoted over
    it. I3
    """
    if one.current_epoch or two.current_epoch:
        return False
    return any(node.current_epoch for node in situation.seen)


def merge_limitation(one: Seen, two: Seen) -> str | None:
    """Why two servers may not meet: one would delete keys that the other does not have.

    When two servers claim a slot, the one with the lower epoch deletes its keys as soon as they
    meet. That is right for an old primary after a failover, and wrong when the winner never had the
    data. I3
    """
    both = one.slots & two.slots
    if not both or not (one.is_primary and two.is_primary):
        return None
    winner, loser = (one, two) if one.config_epoch >= two.config_epoch else (two, one)
    if loser.keys and not winner.keys:
        return (
            f"{winner.pod.name} (epoch {winner.config_epoch}, no keys) and {loser.pod.name} "
            f"(epoch {loser.config_epoch}, {loser.keys} keys) both claim slots {both}: "
            "CLUSTER MEET would delete the keys"
        )
    return None


def unlinked_reason(one: Seen, two: Seen, tried: Introduction | None) -> str:
    """Say that two servers respond to the operator and not to each other, and the likely cause."""
    times = tried.times if tried is not None else 0
    return (
        f"{one.pod.name} ({one.pod.ip}) and {two.pod.name} ({two.pod.ip}) were sent CLUSTER MEET "
        f"{times} times and are not connected: allow their cluster bus port 16379 (NetworkPolicy, "
        "firewall), and announce no other one"
    )


def _pause(tried: Introduction | None) -> float:
    """How long to wait before the next MEET: the first ones may have been too early."""
    if tried is None or tried.times < PATIENT_TIMES:
        return 0.0
    return min(_LONGEST_PAUSE, 2.0 ** (tried.times - PATIENT_TIMES + 1))


def _belongs(situation: Situation, node: Seen) -> bool:
    """Whether a pod stays, or leaves and still owns slots or holds keys."""
    if not situation.leaving(node.pod):
        return True
    followed = any(not situation.leaving(f.pod) for f in situation.replicas_of(node.id))
    return bool(node.slots or (node.is_primary and node.keys) or followed)


def _meets(situation: Situation, one: Seen, two: Seen) -> list[Action]:
    """The MEETs that a pair needs: one if neither knows the other, else from each wrong side."""
    here, there = situation.view(one, two.id), situation.view(two, one.id)
    if here is None and there is None:
        found: list[Action] = [Meet(node=at(one), peer=at(two))]
        if one.ip != one.pod.ip:
            found.append(Meet(node=at(two), peer=at(one)))
        return found
    found = [Meet(node=at(one), peer=at(two))] if _is_wrong(here, two) else []
    return found + ([Meet(node=at(two), peer=at(one))] if _is_wrong(there, one) else [])


def _is_wrong(view: Peer | None, other: Seen) -> bool:
    """Whether a server's view of another one differs from how that one is now."""
    if view is None or view.ip != other.pod.ip or other.ip != other.pod.ip:
        return True
    return (
        bool(view.flags) and PeerFlag.NOADDR in view.flags
    )  # the engine reopens a link that is merely down


def _greeted(situation: Situation, node: Seen) -> frozenset[str]:
    """Addresses with which a server has a handshake in progress."""
    views = (situation.view(node, peer.id) for peer in situation.views.greetings)
    return frozenset(view.ip for view in views if view and PeerFlag.HANDSHAKE in view.flags)
