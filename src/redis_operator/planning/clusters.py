"""What only servers of mode Cluster report, and what the operator remembers about them."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from ..redis.slots import NO_SLOTS, SlotSet
from .identity import NodeId, Role

__all__ = [
    "ClusterFacts",
    "ClusterView",
    "Counted",
    "Introduction",
    "Moving",
    "NotCounted",
    "NotWeighed",
    "OpenSlot",
    "Peer",
    "PeerFlag",
    "SlotMigration",
    "SlotState",
    "Weighed",
]


class PeerFlag(Enum):
    """A state that a server reports about a peer."""

    PFAIL = "fail?"
    FAIL = "fail"
    HANDSHAKE = "handshake"
    NOADDR = "noaddr"


class Peer(Struct, frozen=True):
    """One line of `CLUSTER NODES` that a server writes about another one."""

    id: NodeId
    ip: str
    role: Role
    replica_of: NodeId | None = None
    config_epoch: int = 0
    slots: SlotSet = NO_SLOTS
    connected: bool = True
    flags: frozenset[PeerFlag] = frozenset()

    @property
    def healthy(self) -> bool:
        """Linked and not suspected: it would get this server's vote."""
        return self.connected and not self.flags


class SlotState(Enum):
    """Which end of an unfinished migration a server is."""

    IMPORTING = "importing"
    MIGRATING = "migrating"


class OpenSlot(Struct, frozen=True):
    """A slot that a server is importing from, or migrating to, a peer."""

    slot: int
    state: SlotState
    peer: NodeId


class Counted(Struct, frozen=True):
    """Keys found in slots that the server does not own: (slot, keys), ascending."""

    by_slot: tuple[tuple[int, int], ...] = ()

    @property
    def slots(self) -> SlotSet:
        """The slots that hold stray keys."""
        return SlotSet(slot for slot, _ in self.by_slot)

    @property
    def keys(self) -> int:
        """How many stray keys there are."""
        return sum(keys for _, keys in self.by_slot)


class NotCounted(Struct, frozen=True):
    """The slots that the server does not own were not counted: a count has a cost."""


class Weighed(Struct, frozen=True):
    """The weights of the server's slots, in keys or bytes: (slot, weight), without empty ones."""

    by_slot: tuple[tuple[int, int], ...] = ()
    unit: str = "key-count"


class NotWeighed(Struct, frozen=True):
    """The slots were not weighed: that is done together with the count of stray keys."""


class SlotMigration(Struct, frozen=True):
    """An atomic slot migration that the servers run by themselves and that is not finished."""

    id: str
    source: NodeId
    target: NodeId
    slots: SlotSet


class ClusterView(Struct, frozen=True):
    """What a server of mode Cluster reports in addition: its slots, and its view of the others."""

    ip: str = ""  # its announced address: the first field of its own line, may be outdated
    slots: SlotSet = NO_SLOTS
    config_epoch: int = 0
    current_epoch: int = 0
    state_ok: bool = True
    peers: tuple[Peer, ...] = ()
    open_slots: tuple[OpenSlot, ...] = ()
    jobs: tuple[SlotMigration, ...] = ()
    stranded: Counted | NotCounted = Counted()
    weighed: Weighed | NotWeighed = NotWeighed()


class Introduction(Struct, frozen=True):
    """A pair of servers that was introduced by CLUSTER MEET and does not know each other yet."""

    node: NodeId
    peer: NodeId
    times: int  # how often, in a row
    at: float  # the last time


class Moving(Struct, frozen=True):
    """A slot migration that this very process is carrying out now."""

    source: NodeId
    target: NodeId
    slots: SlotSet


class ClusterFacts(Struct, frozen=True):
    """What no server reports about a cluster: what this process does and remembers."""

    moving: tuple[Moving, ...] = ()
    introductions: tuple[Introduction, ...] = ()
    duplicate_strays: tuple[
        tuple[NodeId, SlotSet], ...
    ] = ()  # stray keys that their owner also has
    histories: tuple[tuple[NodeId, str], ...] = ()  # the last replication id of each primary
    counted_at: float | None = None  # when a count last found no stray key; None: unknown
    former_addresses: frozenset[str] = frozenset()  # of pods that were there a moment ago

    def duplicate_strays_of(self, node: NodeId) -> SlotSet:
        """Slots whose stray keys on a server their owner also has."""
        return next((slots for holder, slots in self.duplicate_strays if holder == node), NO_SLOTS)
