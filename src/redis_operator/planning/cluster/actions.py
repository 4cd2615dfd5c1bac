"""The actions on servers of mode Cluster, as values: `CLUSTER` commands and slot migrations."""

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
    """Shorten the timeouts of a server that holds nothing, so that bootstrap takes half a second.

    Refused when the server has keys or slots. The rule `configure` restores the values.
    """

    node: At
    values: tuple[tuple[str, str], ...]


class SetConfigEpoch(Struct, frozen=True):
    """`CLUSTER SET-CONFIG-EPOCH`: only while the server's epoch is 0 and it knows no other node."""

    node: At
    epoch: int


class RaiseEpoch(Struct, frozen=True):
    """`CLUSTER BUMPEPOCH`: the owner of exactly `slots` takes the next epoch. I3

    Refused when the server owns other slots now: it may have lost some, and would take them back.
    Nothing is done when its epoch is not `epoch` any more.
    """

    node: At
    epoch: int
    slots: SlotSet


class AssignSlots(Struct, frozen=True):
    """`CLUSTER ADDSLOTS`: slots without an owner, for which no server has keys. I3

    `expect_keys` is how many keys the server itself may hold at that time: 0 in a new database.
    """

    node: At
    slots: SlotSet
    expect_keys: int = 0


class UnassignSlots(Struct, frozen=True):
    """`CLUSTER DELSLOTS` on a server that takes a former owner for the owner of these slots.

    Only the view of this one server changes: the real owner sends its claim again within a second.
    I3
    """

    node: At
    slots: SlotSet
    owner: NodeId


class Replicate(Struct, frozen=True):
    """`CLUSTER REPLICATE`: the server drops its data and copies `primary`.

    It must not own a slot. As a primary it must hold no key; as a replica it must still follow
    `expect_primary`, whose data another server has. I1
    """

    node: At
    primary: At
    expect_primary: NodeId | None = None


class FailoverMode(Enum):
    """Whose agreement a promotion needs."""

    PLAIN = "plain"  # the primary pauses writes, the replica catches up, a majority votes: no loss
    FORCE = "force"  # the primary is dead; the majority still votes
    TAKEOVER = "takeover"  # there is no majority, or none of its members would vote


class Failover(Struct, frozen=True):
    """`CLUSTER FAILOVER [FORCE|TAKEOVER]` on a replica.

    The replica must still follow `primary` and have reached `min_offset`. `fence` is checked again
    right before. PROCESS_GONE: the address still refuses connections. CONTAINER_ENDED: the API
    still has the pod with `primary_uid`, and its current address refuses connections. POD_GONE: the
    API has none of the pods `unseen`. EMPTY_AND_PAUSED: the executor pauses the primary's writes
    for a bounded time and reads DBSIZE 0.
    """

    node: At
    primary: NodeId
    mode: FailoverMode
    fence: Fence
    min_offset: int = 0
    primary_pod: str = ""  # the pod that the primary runs in; empty when it has none any more
    primary_uid: str = ""
    unseen: tuple[str, ...] = ()  # pods that may exist, not observed: one may be the primary


class Forget(Struct, frozen=True):
    """`CLUSTER FORGET` on one server; a plan does it on all servers before the ban on it ends. I11

    Refused if the server now says that `id` owns a slot that is not in `expect_slots` (the slots
    whose loss was accepted, or that others serve), or if the server follows `id`.
    """

    node: At
    id: NodeId
    expect_slots: SlotSet = NO_SLOTS


class InheritSlots(Struct, frozen=True):
    """`CLUSTER SETSLOT ... NODE` on the replica that was promoted over a dead owner. I3

    The replica had the keys of these slots, but did not know yet that its primary owned them; all
    other servers know it. It must still be a primary, and must not see the dead owner alive.
    """

    node: At
    slots: SlotSet
    dead: NodeId


class CloseSlots(Struct, frozen=True):
    """`CLUSTER SETSLOT <slot> STABLE`: close slots whose migration has no other end."""

    node: At
    slots: SlotSet


class MoveSlots(Struct, frozen=True):
    """Migrate slots with their keys from one primary to another, or finish such a migration. I4, I5

    The source must still own the slots; if the target owns them already, only the open slots are
    closed. The executor chooses the mover by what both engines support.
    """

    source: At
    target: At
    slots: SlotSet


class RescueKeys(Struct, frozen=True):
    """Move keys of slots that `holder` does not own to their `owner`; then close the slots."""

    holder: At
    owner: At
    slots: SlotSet


class StopMoving(Struct, frozen=True):
    """Stop a migration that this process is carrying out, at the end of the current batch."""

    source: NodeId
    target: NodeId


class CancelJob(Struct, frozen=True):
    """Cancel an atomic slot migration; the slots stay with the source."""

    node: At
    job: str


class ResetEmptyNode(Struct, frozen=True):
    """`CLUSTER RESET HARD` on a server that holds no key: it gets a new node id. I1, I3"""

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
