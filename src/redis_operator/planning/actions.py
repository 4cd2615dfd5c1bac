"""Everything that can be done to a database, as values.

Each action carries what must still be true at the moment it is done; the executor checks it against
the live server or object right before the effect, and refuses when the world has moved on. Each is
safe to repeat.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from ..redis.slots import NO_SLOTS, SlotSet
from .observed import NodeId, Role, Seen, SentinelSeen

__all__ = [
    "Action",
    "AssignSlots",
    "At",
    "CancelJob",
    "CloseSlots",
    "ConfigSet",
    "DeletePod",
    "DeleteWorkload",
    "DiscardData",
    "Failover",
    "FailoverMode",
    "Fence",
    "Follow",
    "Forget",
    "GrowVolume",
    "InheritSlots",
    "LabelPod",
    "LabelRole",
    "Meet",
    "MoveSlots",
    "Promote",
    "RaiseEpoch",
    "Replicate",
    "RescueKeys",
    "ResetEmptyNode",
    "ResetSentinel",
    "ResizePod",
    "ScaleWorkload",
    "SetConfigEpoch",
    "StopMoving",
    "SwitchOver",
    "TuneForBootstrap",
    "Unwatch",
    "Watch",
    "at",
]


class At(Struct, frozen=True):
    """One server, by all that identifies it. `CLUSTER MYID` must answer `id` before the act."""

    pod: str
    uid: str
    ip: str
    id: NodeId


def at(node: Seen | SentinelSeen) -> At:
    """The address of a server, or a sentinel, that was seen."""
    return At(pod=node.pod.name, uid=node.pod.uid, ip=node.pod.ip, id=node.id)


class Meet(Struct, frozen=True):
    """`CLUSTER MEET`: introduce `peer` to `node`, after both ids were read again. I11"""

    node: At
    peer: At


class TuneForBootstrap(Struct, frozen=True):
    """Shorten timeouts of a server that holds nothing, so that forming takes half a second.

    Refused when the server has keys or slots. The config rule puts the values back.
    """

    node: At
    values: tuple[tuple[str, str], ...]


class SetConfigEpoch(Struct, frozen=True):
    """`CLUSTER SET-CONFIG-EPOCH`: only while the server's epoch is 0 and it knows nobody."""

    node: At
    epoch: int


class RaiseEpoch(Struct, frozen=True):
    """`CLUSTER BUMPEPOCH`: the owner of exactly `slots` takes the next epoch. I3

    Refused when it owns others by now: it may have lost some, and would take them back. Nothing
    is done when its epoch is not `epoch` any more.
    """

    node: At
    epoch: int
    slots: SlotSet


class AssignSlots(Struct, frozen=True):
    """`CLUSTER ADDSLOTS`: slots that nobody owns and nobody has keys for. I3

    `expect_keys` is what the server itself may hold by then: 0 in a new database.
    """

    node: At
    slots: SlotSet
    expect_keys: int = 0


class Replicate(Struct, frozen=True):
    """`CLUSTER REPLICATE`: the server drops what it has and copies `primary`.

    It must own no slot. As a primary it must hold no key; as a replica it must still follow
    `expect_primary`, whose data lives elsewhere. I1
    """

    node: At
    primary: At
    expect_primary: NodeId | None = None


class FailoverMode(Enum):
    """How much consent a promotion needs."""

    PLAIN = "plain"  # primary pauses writes, replica catches up, majority votes: nothing is lost
    FORCE = "force"  # the primary is dead; the majority still votes
    TAKEOVER = "takeover"  # no majority is left to ask, or none of it would vote


class Fence(Enum):
    """Why the old primary cannot acknowledge another write. I7"""

    HANDSHAKE = "the primary takes part and pauses its writes"
    PROCESS_GONE = "its process refuses connections at the pod's own address"
    CONTAINER_ENDED = "its container has ended"
    POD_GONE = "no pod has its address any more"
    EMPTY_AND_PAUSED = "it restarted empty; its writes are paused and it still holds no key"
    IS_REPLICA = "it restarted as a replica and refuses writes"
    NEVER_LED = "no server was a primary yet"


class Failover(Struct, frozen=True):
    """`CLUSTER FAILOVER [FORCE|TAKEOVER]` on a replica.

    It must still follow `primary`, and be at `min_offset` at least. `fence` must hold again right
    before: for PROCESS_GONE the address still refuses; for CONTAINER_ENDED the API still has the
    pod with `primary_uid`, and whatever address it has by now refuses; for POD_GONE the API has
    none of the pods `unseen`; for EMPTY_AND_PAUSED the executor pauses the primary's writes
    (bounded) and sees DBSIZE 0.
    """

    node: At
    primary: NodeId
    mode: FailoverMode
    fence: Fence
    min_offset: int = 0
    primary_pod: str = ""  # the pod the primary runs in, empty when it has none any more
    primary_uid: str = ""
    unseen: tuple[str, ...] = ()  # pods that may exist and were not observed: one may be it


class Promote(Struct, frozen=True):
    """`REPLICAOF NO ONE` on a server that follows `follows`, in mode Failover.

    It must still be a replica of that address, at `min_offset` at least and with the history
    `replication_id`. The fence must hold again right before, as with `Failover`; and no sentinel of
    `sentinels` may have begun an election, unless nobody could win it.
    """

    node: At
    follows: str
    fence: Fence
    replication_id: str = ""
    min_offset: int = 0
    primary: NodeId = NodeId("")  # who led before, where it is known
    primary_pod: str = ""
    primary_uid: str = ""
    unseen: tuple[str, ...] = ()
    sentinels: tuple[At, ...] = ()  # asked right before whether they have begun an election
    name: str = ""  # what they call the primary


class Follow(Struct, frozen=True):
    """`REPLICAOF` on a server: it copies `primary`, which must be one right before.

    The server must still follow `follows`; empty: it is a primary, and what it holds is known to be
    part of the history of `primary`, or was given up.
    """

    node: At
    primary: At
    follows: str


class Watch(Struct, frozen=True):
    """Have a sentinel monitor `primary` under `name`, with these settings and no other address.

    Refused while the sentinel fails over, and unless the primary is one right before.
    """

    node: At  # the sentinel
    name: str
    primary: At
    quorum: int
    settings: tuple[tuple[str, str], ...] = ()


class Unwatch(Struct, frozen=True):
    """`SENTINEL REMOVE`: a sentinel stops to monitor a primary that it cannot replace.

    Every server has restarted, and the one that the sentinels name waits for them to promote
    another: they never will, since none of the others is eligible.
    """

    node: At
    name: str


class ResetSentinel(Struct, frozen=True):
    """`SENTINEL RESET`: a sentinel forgets replicas and sentinels, and finds those that live again.

    Refused while it fails over or has the primary down, and unless it names `primary`.
    """

    node: At
    name: str
    primary: At


class SwitchOver(Struct, frozen=True):
    """Give the place of a primary to a replica that has all that it acknowledged. I6, I10

    Writes are paused (bounded by the server), the replica is seen to have the offset, it is
    promoted, and the old primary follows it. Refused when a sentinel has begun an election. The
    sentinels are told right after: they take a promoted replica back after eight seconds.
    """

    node: At  # the replica
    primary: At
    name: str
    sentinels: tuple[At, ...] = ()


class Forget(Struct, frozen=True):
    """`CLUSTER FORGET` on one server; a plan does it on all of them within the ban. I11

    Refused if the server by now says that `id` owns a slot beyond `expect_slots`, those whose loss
    was accepted, or if it follows `id`.
    """

    node: At
    id: NodeId
    expect_slots: SlotSet = NO_SLOTS


class InheritSlots(Struct, frozen=True):
    """`CLUSTER SETSLOT ... NODE` on the replica that was promoted over a dead owner. I3

    It had their keys and had not heard of them when it took over; by now everybody else has. The
    server must still be a primary, and must not see the dead one alive.
    """

    node: At
    slots: SlotSet
    dead: NodeId


class CloseSlots(Struct, frozen=True):
    """`CLUSTER SETSLOT <slot> STABLE`: end moves that lead nowhere."""

    node: At
    slots: SlotSet


class MoveSlots(Struct, frozen=True):
    """Move slots with their keys from one primary to another, or finish such a move. I4, I5

    The source must still own them (or the target already, then only the books are closed). The
    executor chooses the mover by what both engines can do.
    """

    source: At
    target: At
    slots: SlotSet


class RescueKeys(Struct, frozen=True):
    """Bring keys of slots that `holder` does not own to their `owner`; then close the slots."""

    holder: At
    owner: At
    slots: SlotSet


class StopMoving(Struct, frozen=True):
    """End a move this process is carrying out, at the next boundary between batches."""

    source: NodeId
    target: NodeId


class CancelJob(Struct, frozen=True):
    """Cancel an atomic slot migration; the slots stay with the source."""

    node: At
    job: str


class ConfigSet(Struct, frozen=True):
    """`CONFIG SET` of these values, in this order."""

    node: At
    values: tuple[tuple[str, str], ...]


class ResetEmptyNode(Struct, frozen=True):
    """`CLUSTER RESET HARD` of a server that holds no key: it gets a new identity. I1, I3"""

    node: At


class LabelPod(Struct, frozen=True):
    """Give exactly this pod (uid) back labels that were taken from it. K-27"""

    pod: str
    uid: str
    labels: tuple[tuple[str, str], ...]


class LabelRole(Struct, frozen=True):
    """Set the role label by which Services find primaries and replicas."""

    pod: str
    uid: str
    role: Role


class DeletePod(Struct, frozen=True):
    """Delete exactly this pod (uid); its workload makes it anew.

    `expect_id` and `expect_role` are what the server answered when it was observed. They are
    checked on the live server; one that does not respond any more may have been promoted, so its
    pod stays. A primary with slots is only deleted when nothing better can be done and
    `expect_role` says PRIMARY. Both are None for a server that did not respond.
    """

    pod: str
    uid: str
    why: str
    expect_id: NodeId | None = None
    expect_role: Role | None = None


class DiscardData(Struct, frozen=True):
    """Delete a pod whose server cannot load its files, and those: its claim, if it has one.

    Only while the pod still is that one and is not up, and `keeper` still is a primary that holds
    keys: what the files held must be held by somebody. I1
    """

    pod: str
    uid: str
    keeper: At
    claim: str = ""
    claim_uid: str = ""


class ScaleWorkload(Struct, frozen=True):
    """Set `spec.replicas` of a shard's StatefulSet, if it still is `from_pods`.

    With `discard`, the pods that go are not to come back: their claims go by the storage policy.
    """

    shard: int
    uid: str
    from_pods: int
    to_pods: int
    discard: bool = False


class DeleteWorkload(Struct, frozen=True):
    """Remove the objects of a shard that left; its claims go by the storage policy."""

    shard: int
    uid: str


class ResizePod(Struct, frozen=True):
    """Give exactly this pod (uid) other resources while it runs, as (`limits.memory`, amount)."""

    pod: str
    uid: str
    resources: tuple[tuple[str, str], ...]


class GrowVolume(Struct, frozen=True):
    """Ask for a bigger volume."""

    claim: str
    uid: str
    size: int


Action: TypeAlias = (
    Meet
    | TuneForBootstrap
    | SetConfigEpoch
    | RaiseEpoch
    | AssignSlots
    | Replicate
    | Failover
    | Promote
    | Follow
    | Watch
    | Unwatch
    | ResetSentinel
    | SwitchOver
    | Forget
    | InheritSlots
    | CloseSlots
    | MoveSlots
    | RescueKeys
    | StopMoving
    | CancelJob
    | ConfigSet
    | ResetEmptyNode
    | LabelPod
    | LabelRole
    | DeletePod
    | DiscardData
    | ScaleWorkload
    | DeleteWorkload
    | GrowVolume
    | ResizePod
)
