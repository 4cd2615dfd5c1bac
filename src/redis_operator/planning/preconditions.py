"""What must be true right before each action, written once.

A precondition is a pure function of an action and of `ActionFacts`, about the one or two things it
acts on. The facts are made from an observation when a plan is checked, and from live answers when
the executor is about to act, so that both use the same rule; simulations run the executor itself.
What concerns the database as a whole is in `guards`.

A mode adds its actions by decorating functions with `precondition_of`; nothing else lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from msgspec import Struct

from ..redis.slots import NO_SLOTS, SlotSet
from .actions import Action, DeletePod, DeleteWorkload, DiscardData, ScaleWorkload
from .at import At
from .cluster.actions import (
    AssignSlots,
    Failover,
    Forget,
    InheritSlots,
    RaiseEpoch,
    Replicate,
    ResetEmptyNode,
    TuneForBootstrap,
    UnassignSlots,
)
from .clusters import Peer
from .failover.actions import Promote
from .fence import Fence
from .identity import Role, ServerId
from .observed import Seen, SentinelSeen, Unreachable
from .sentinels import SentinelView
from .topology import Topology

__all__ = [
    "ActionFacts",
    "ClaimFacts",
    "FenceFacts",
    "PodFacts",
    "PortState",
    "ServerFacts",
    "WorkloadFacts",
    "claim_limitation",
    "facts_of",
    "fence_limitation",
    "identity_limitation",
    "precondition",
    "precondition_of",
    "server_facts",
]


class ServerFacts(Struct, frozen=True):
    """A server, with its own answers."""

    id: ServerId
    role: Role
    replica_of: ServerId | None = None
    slots: SlotSet = NO_SLOTS
    keys: int = 0
    offset: int = 0
    peers: tuple[Peer, ...] = ()
    follows: str = ""  # host:port of its primary, where servers report no id
    replication_id: str = ""

    @property
    def is_primary(self) -> bool:
        """Whether it says it is a primary."""
        return self.role is Role.PRIMARY


class PodFacts(Struct, frozen=True):
    """A pod: which one it is, and whether its server is up."""

    uid: str
    ready: bool = False
    version: str = ""  # its resourceVersion, where it was read from the API


class WorkloadFacts(Struct, frozen=True):
    """A StatefulSet: its identity, and how many pods it should have."""

    uid: str
    pods: int
    version: str = ""  # its resourceVersion, where it was read from the API


class ClaimFacts(Struct, frozen=True):
    """A volume claim: its identity, and which database its label names."""

    uid: str
    database: str


class ActionFacts(Struct, frozen=True):
    """What is known now of the things that an action names; None: it did not respond."""

    server: ServerFacts | None = None
    pod: PodFacts | None = None
    workload: WorkloadFacts | None = None
    sentinel: SentinelView | None = None
    sentinels: tuple[SentinelView, ...] = ()  # those that an action asks before it is carried out


class PortState(Enum):
    """The result of a connection to an address."""

    REFUSED = "refused"
    ANSWERED = "answered"
    UNKNOWN = "unknown"


class FenceFacts(Struct, frozen=True):
    """What is known of the old primary right before its replica is promoted."""

    port: PortState = PortState.UNKNOWN
    error: str = ""
    pod: PodFacts | None = None  # None: the API has no such pod
    existing: tuple[str, ...] = ()  # of the pods that were not observed, those that exist
    server: ServerFacts | None = None  # with its writes paused


A = TypeVar("A", bound=Struct)
_Check = Callable[[Any, ActionFacts], str | None]
_CHECKS: dict[type[Struct], _Check] = {}


def precondition_of(kind: type[A]) -> Callable[[Callable[[A, ActionFacts], str | None]], _Check]:
    """Register the precondition of a kind of action."""

    def register(check: Callable[[A, ActionFacts], str | None]) -> _Check:
        _CHECKS[kind] = check
        return check

    return register


def precondition(action: Action, facts: ActionFacts) -> str | None:
    """Why an action may not be carried out, or None when it may."""
    check = _CHECKS.get(type(action))
    return check(action, facts) if check is not None else None


# Servers


def identity_limitation(at: At, found: str) -> str | None:
    """Why a server that reports this id is not the one that an action means. I11"""
    if found == at.id:
        return None
    return f"{at.pod} is node {found[:8]} now, not {at.id[:8]}"


def _unanswered(pod: str) -> str:
    return f"{pod} does not respond: what it holds is not known"


@precondition_of(TuneForBootstrap)
def _tune(action: TuneForBootstrap, facts: ActionFacts) -> str | None:
    if facts.server is None:
        return _unanswered(action.node.pod)
    if facts.server.slots or facts.server.keys:
        return f"{action.node.pod} holds data now"
    return None


@precondition_of(RaiseEpoch)
def _raise_epoch(action: RaiseEpoch, facts: ActionFacts) -> str | None:
    """A server that lost a slot without knowing it would take it back. I3"""
    if facts.server is None:
        return _unanswered(action.node.pod)
    if not facts.server.is_primary or facts.server.slots != action.slots:
        return f"{action.node.pod} owns other slots now"
    return None


@precondition_of(AssignSlots)
def _assign(action: AssignSlots, facts: ActionFacts) -> str | None:
    """Slots that another server owns, or that would hide keys, are not given out. I3"""
    server = facts.server
    if server is None:
        return _unanswered(action.node.pod)
    for peer in server.peers:
        if taken := peer.slots & action.slots:
            return f"slots {taken} belong to node {peer.id[:8]} now"
    if action.slots - server.slots and server.keys > action.expect_keys:
        return f"{action.node.pod} holds {server.keys} keys now"
    return None


@precondition_of(UnassignSlots)
def _unassign(action: UnassignSlots, facts: ActionFacts) -> str | None:
    """A server does not give up slots of its own, nor those of an owner that is right. I3"""
    server = facts.server
    if server is None:
        return _unanswered(action.node.pod)
    believed = (peer.slots for peer in server.peers if peer.id == action.owner)
    if action.slots - next(believed, NO_SLOTS):
        return f"{action.node.pod} believes in another owner of slots {action.slots} now"
    return None


@precondition_of(InheritSlots)
def _inherit(action: InheritSlots, facts: ActionFacts) -> str | None:
    server = facts.server
    if server is None:
        return _unanswered(action.node.pod)
    if not server.is_primary:
        return f"{action.node.pod} is no longer a primary"
    if any(peer.id == action.dead and peer.healthy for peer in server.peers):
        return f"node {action.dead[:8]} is alive according to {action.node.pod}"
    return None


@precondition_of(Replicate)
def _replicate(action: Replicate, facts: ActionFacts) -> str | None:
    """A server that becomes a replica drops its data, so it must have none of its own. I1"""
    server, pod = facts.server, action.node.pod
    if server is None:
        return _unanswered(pod)
    if server.replica_of == action.primary.id:
        return None
    if server.slots:
        return f"{pod} owns slots {server.slots} now"
    if server.is_primary and server.keys:
        return f"{pod} holds {server.keys} keys that no other server may have"
    if not server.is_primary and server.replica_of != action.expect_primary:
        return f"{pod} follows another primary now"
    return None


@precondition_of(Forget)
def _forget(action: Forget, facts: ActionFacts) -> str | None:
    """Owners of slots are forgotten only with slots that were given up. I3, I11"""
    server, pod = facts.server, action.node.pod
    if server is None:
        return _unanswered(pod)
    view = next((peer for peer in server.peers if peer.id == action.id), None)
    if view is None:
        return None
    if owned := view.slots - action.expect_slots:
        return f"{pod} says node {action.id[:8]} owns slots {owned}"
    if server.replica_of == action.id:
        return f"{pod} follows node {action.id[:8]}"
    return None


@precondition_of(ResetEmptyNode)
def _reset(action: ResetEmptyNode, facts: ActionFacts) -> str | None:
    if facts.server is None:
        return _unanswered(action.node.pod)
    if facts.server.keys:
        return f"{action.node.pod} holds {facts.server.keys} keys now"
    return None


@precondition_of(Failover)
def _failover(action: Failover, facts: ActionFacts) -> str | None:
    """The replica still follows that primary and has not lost data since. I6"""
    server, pod = facts.server, action.node.pod
    if server is None:
        return _unanswered(pod)
    if server.is_primary:
        return None  # it was promoted meanwhile: nothing is left to do
    if server.replica_of != action.primary:
        return f"{pod} follows another primary now"
    if server.offset < action.min_offset:
        return f"{pod} is at offset {server.offset}, before {action.min_offset}"
    return None


def fence_limitation(action: Failover | Promote, facts: FenceFacts) -> str | None:
    """Why the old primary may still acknowledge writes. I7, I10"""
    pod = action.primary_pod
    match action.fence:
        case Fence.HANDSHAKE | Fence.NEVER_LED | Fence.DEPOSED:
            return None  # DEPOSED: the answers of the sentinels are part of the precondition
        case Fence.PROCESS_GONE:
            return _listening(pod, facts)
        case Fence.CONTAINER_ENDED:
            if facts.pod is None:
                return None  # deleted since: its process has ended with it
            if facts.pod.uid != action.primary_uid:
                return f"pod {pod} was recreated meanwhile: its server may be running again"
            return _listening(pod, facts)
        case Fence.POD_GONE:
            if not facts.existing:
                return None
            return f"pod {facts.existing[0]} exists and was not observed: it may be the primary"
        case Fence.EMPTY_AND_PAUSED:
            return _not_empty(action, facts.server)
        case Fence.IS_REPLICA:
            return _leads_again(pod, facts.server)


def _leads_again(pod: str, server: ServerFacts | None) -> str | None:
    if server is None:
        return _unanswered(pod)
    return f"{pod} is a primary now" if server.is_primary else None


def _not_empty(action: Failover | Promote, server: ServerFacts | None) -> str | None:
    if server is None:
        return f"{action.primary_pod} does not respond: its writes cannot be paused"
    if server.id != action.primary:
        return f"{action.primary_pod} is another node now"
    if server.keys:
        return f"{action.primary_pod} holds {server.keys} keys: it is not empty"
    return None


def _listening(pod: str, facts: FenceFacts) -> str | None:
    if facts.port is PortState.REFUSED:
        return None
    if facts.port is PortState.ANSWERED:
        return f"{pod} responds again"
    return f"{pod} may be alive: {facts.error}"


# Objects


@precondition_of(DeletePod)
def _delete_pod(action: DeletePod, facts: ActionFacts) -> str | None:
    """A server that responded must give the same answers now: it may have been promoted."""
    if facts.pod is not None and facts.pod.uid != action.uid:
        return f"{action.pod} was recreated meanwhile"
    if action.expect_id is None and action.expect_role is None:
        return None
    server = facts.server
    if server is None:
        return (
            f"{action.pod} responded when it was observed and does not now; "
            "it may have been promoted since, so it is observed again first"
        )
    if action.expect_id is not None and server.id != action.expect_id:
        return f"{action.pod} is another node now"
    if action.expect_role is Role.REPLICA and server.is_primary:
        return f"{action.pod} became a primary meanwhile"
    return None


@precondition_of(DiscardData)
def _discard(action: DiscardData, facts: ActionFacts) -> str | None:
    """Files are deleted while their server is down and a primary holds the data. ST-07"""
    if facts.pod is not None and facts.pod.uid != action.uid:
        return f"{action.pod} was recreated meanwhile"
    if facts.pod is not None and facts.pod.ready:
        return f"{action.pod} is up again"
    holder = facts.server
    if holder is None:
        return _unanswered(action.data_holder.pod)
    if holder.id != action.data_holder.id or not holder.is_primary or not holder.keys:
        return f"{action.data_holder.pod} is not a primary with keys any more"
    return None


@precondition_of(ScaleWorkload)
def _scale(action: ScaleWorkload, facts: ActionFacts) -> str | None:
    found = facts.workload
    if found is None:
        return f"the StatefulSet of shard {action.shard} is gone"
    if found.uid != action.uid or found.pods != action.from_pods:
        return f"the StatefulSet of shard {action.shard} changed meanwhile"
    return None


@precondition_of(DeleteWorkload)
def _delete_workload(action: DeleteWorkload, facts: ActionFacts) -> str | None:
    if facts.workload is not None and facts.workload.uid != action.uid:
        return f"the StatefulSet of shard {action.shard} was recreated meanwhile"
    return None


def claim_limitation(name: str, database: str, uid: str, claim: ClaimFacts) -> str | None:
    """Why a claim may not be deleted: it is another one, or not this database's. K-07"""
    if uid and claim.uid != uid:
        return f"claim {name} was recreated meanwhile: its data is kept"
    if claim.database != database:
        return (
            f"claim {name} does not carry the database label of {database}: its data is kept; "
            "set the label, or delete the claim yourself"
        )
    return None


# From an observation


def server_facts(seen: Seen) -> ServerFacts:
    """The facts of a server that was observed."""
    return ServerFacts(
        id=seen.id,
        role=seen.role,
        replica_of=seen.replica_of,
        slots=seen.slots,
        keys=seen.keys,
        offset=seen.replication.offset,
        peers=seen.peers,
        follows=seen.replication.follows,
        replication_id=seen.replication.id,
    )


def facts_of(situation: Topology, action: Action) -> ActionFacts:
    """The facts that an observation has for an action."""
    match action:
        case DeletePod(uid=uid):
            return _of_pod(situation, uid)
        case DiscardData(uid=uid, data_holder=data_holder):
            found = situation.by_id.get(data_holder.id)
            server = server_facts(found) if found is not None else None
            return ActionFacts(server=server, pod=_of_pod(situation, uid).pod)
        case ScaleWorkload(shard=shard) | DeleteWorkload(shard=shard):
            workload = situation.observed.workload(shard)
            if workload is None:
                return ActionFacts()
            return ActionFacts(workload=WorkloadFacts(workload.uid, workload.pods))
    place = getattr(action, "node", None)
    if not isinstance(place, At):
        return ActionFacts()
    seen = next((n for n in situation.seen if n.pod.uid == place.uid and n.id == place.id), None)
    views = {
        node.pod.uid: node.view
        for node in situation.observed.sentinels
        if isinstance(node, SentinelSeen)
    }
    asked = (views.get(sentinel.uid) for sentinel in getattr(action, "sentinels", ()))
    return ActionFacts(
        server=server_facts(seen) if seen is not None else None,
        sentinel=views.get(place.uid),
        sentinels=tuple(view for view in asked if view is not None),
    )


def _of_pod(situation: Topology, uid: str) -> ActionFacts:
    node = next((n for n in situation.observed.nodes if n.pod.uid == uid), None)
    if node is None:
        return ActionFacts()
    up = not isinstance(node, Unreachable) and node.pod.ready
    server = server_facts(node) if isinstance(node, Seen) else None
    return ActionFacts(server=server, pod=PodFacts(node.pod.uid, ready=up))
