"""What servers of mode Cluster say beside what all servers say, and what is known of them."""

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
    "Job",
    "Moving",
    "NotCounted",
    "NotWeighed",
    "OpenSlot",
    "Peer",
    "PeerFlag",
    "SlotState",
    "Weighed",
]


class PeerFlag(Enum):
    """What a server holds against a peer."""

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
    """Which end of an unfinished move a server is."""

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
    """Nobody looked into the slots it does not own: counting costs, so it is asked for."""


class Weighed(Struct, frozen=True):
    """What the server's own slots weigh, in keys or bytes: (slot, weight), empty ones left out."""

    by_slot: tuple[tuple[int, int], ...] = ()
    unit: str = "key-count"


class NotWeighed(Struct, frozen=True):
    """Nobody weighed its slots: it is done together with counting stray keys."""


class Job(Struct, frozen=True):
    """An atomic slot migration the servers run by themselves, not yet at its end."""

    id: str
    source: NodeId
    target: NodeId
    slots: SlotSet


class ClusterView(Struct, frozen=True):
    """What a server of mode Cluster says beside: what it owns, and what it thinks of the others."""

    ip: str = ""  # its address as it tells others: the first field of its own line, may be old
    slots: SlotSet = NO_SLOTS
    config_epoch: int = 0
    current_epoch: int = 0
    state_ok: bool = True
    peers: tuple[Peer, ...] = ()
    open_slots: tuple[OpenSlot, ...] = ()
    jobs: tuple[Job, ...] = ()
    stranded: Counted | NotCounted = Counted()
    weighed: Weighed | NotWeighed = NotWeighed()


class Introduction(Struct, frozen=True):
    """A pair of servers that was introduced and does not know each other yet."""

    node: NodeId
    peer: NodeId
    times: int  # how often, in a row
    at: float  # the last time


class Moving(Struct, frozen=True):
    """A slot move this very process is carrying out now."""

    source: NodeId
    target: NodeId
    slots: SlotSet


class ClusterFacts(Struct, frozen=True):
    """What is known of a cluster and no server says: what this process does, and remembers."""

    moving: tuple[Moving, ...] = ()
    introductions: tuple[Introduction, ...] = ()
    shadows: tuple[tuple[NodeId, SlotSet], ...] = ()  # stray keys whose owner has its own copy
    histories: tuple[tuple[NodeId, str], ...] = ()  # the last replication id each primary told
    counted_at: float | None = None  # when a count last found every key at home; None: not kept

    def shadowed(self, node: NodeId) -> SlotSet:
        """Slots of which a server holds stray keys that their owner has as well."""
        return next((slots for holder, slots in self.shadows if holder == node), NO_SLOTS)
