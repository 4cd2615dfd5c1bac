"""What is done to servers of mode Cluster, as values: `CLUSTER` commands and moves of slots."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from ...redis.slots import NO_SLOTS, SlotSet
from ..at import At
from ..fence import Fence
from ..identity import NodeId

__all__ = [
    "AssignSlots",
    "CancelJob",
    "CloseSlots",
    "ClusterAction",
    "Failover",
    "FailoverMode",
    "Forget",
    "InheritSlots",
    "Meet",
    "MoveSlots",
    "RaiseEpoch",
    "Replicate",
    "RescueKeys",
    "ResetEmptyNode",
    "SetConfigEpoch",
    "StopMoving",
    "TuneForBootstrap",
    "UnassignSlots",
]


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
    """`CLUSTER SET-CONFIG-EPOCH`: only while the server's epoch is 0 and it knows no other."""

    node: At
    epoch: int


class RaiseEpoch(Struct, frozen=True):
    """`CLUSTER BUMPEPOCH`: the owner of exactly `slots` takes the next epoch. I3

    Refused when it owns others now: it may have lost some, and would take them back. Nothing
    is done when its epoch is not `epoch` any more.
    """

    node: At
    epoch: int
    slots: SlotSet


class AssignSlots(Struct, frozen=True):
    """`CLUSTER ADDSLOTS`: slots without an owner, of which no server has keys. I3

    `expect_keys` is what the server itself may hold by then: 0 in a new database.
    """

    node: At
    slots: SlotSet
    expect_keys: int = 0


class UnassignSlots(Struct, frozen=True):
    """`CLUSTER DELSLOTS` on a server that believes in an owner of slots who gave them up.

    Only what this one server believes changes: a true owner tells it again within a second. I3
    """

    node: At
    slots: SlotSet
    owner: NodeId


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


class Failover(Struct, frozen=True):
    """`CLUSTER FAILOVER [FORCE|TAKEOVER]` on a replica.

    It must still follow `primary`, and be at `min_offset` at least. `fence` must hold again right
    before: for PROCESS_GONE the address still refuses; for CONTAINER_ENDED the API still has the
    pod with `primary_uid`, and whatever address it has now refuses; for POD_GONE the API has
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


class Forget(Struct, frozen=True):
    """`CLUSTER FORGET` on one server; a plan does it on all of them within the ban. I11

    Refused if the server now says that `id` owns a slot beyond `expect_slots`, those whose loss
    was accepted, or if it follows `id`.
    """

    node: At
    id: NodeId
    expect_slots: SlotSet = NO_SLOTS


class InheritSlots(Struct, frozen=True):
    """`CLUSTER SETSLOT ... NODE` on the replica that was promoted over a dead owner. I3

    It had their keys and had not heard of them when it took over; now everybody else has. The
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


class ResetEmptyNode(Struct, frozen=True):
    """`CLUSTER RESET HARD` of a server that holds no key: it gets a new identity. I1, I3"""

    node: At


ClusterAction: TypeAlias = (
    Meet
    | TuneForBootstrap
    | SetConfigEpoch
    | RaiseEpoch
    | AssignSlots
    | UnassignSlots
    | Replicate
    | Failover
    | Forget
    | InheritSlots
    | CloseSlots
    | MoveSlots
    | RescueKeys
    | StopMoving
    | CancelJob
    | ResetEmptyNode
)
