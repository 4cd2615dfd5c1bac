"""What was observed of one database at one moment, and nothing else.

The shell builds an `Observed` from its caches and from one round of questions to every pod. Each
pod's server is `Seen`, with its own answers, or `Unreachable`, with the evidence of its death; no
rule can mistake silence for an answer. Instants are seconds since the epoch, spans carry their
unit.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from ..redis.slots import SlotSet
from .clusters import (
    ClusterFacts,
    ClusterView,
    Counted,
    NotCounted,
    NotWeighed,
    OpenSlot,
    Peer,
    SlotMigration,
    Weighed,
)
from .identity import Role, ServerId
from .sentinels import SentinelView
from .sources import SourceNode
from .traffic import Traffic

__all__ = [
    "Attempt",
    "Election",
    "Evidence",
    "Led",
    "Node",
    "Observed",
    "Pod",
    "PodPhase",
    "Replication",
    "Seen",
    "SentinelNode",
    "SentinelSeen",
    "Spelling",
    "Unlabelled",
    "Unreachable",
    "Volume",
    "Workload",
]


class PodPhase(Enum):
    """`status.phase` of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class Pod(Struct, frozen=True):
    """The pod of a server. Shard and ordinal come from the workload, never from Redis."""

    name: str
    uid: str
    shard: int
    ordinal: int
    ip: str = ""  # empty until the pod has an address
    phase: PodPhase = PodPhase.RUNNING
    ready: bool = True
    revision: str = ""  # the controller's revision hash of its template
    node: str = ""
    zone: str = ""
    deleting: bool = False
    restarts: int = 0
    role_label: str = ""  # the role label it carries now: "primary", "replica" or nothing
    waiting: str = (
        ""  # why it does not run, in words: "ImagePullBackOff: ..." or "Unschedulable: ..."
    )
    since: float = 0.0  # created at
    restarted_at: str = ""  # the restart request in its template when it was created
    draining: bool = False  # its node is cordoned, or an eviction of it was refused
    shape: str = ""  # hash of its template without the server's resources
    resources: tuple[tuple[str, str], ...] = ()  # of its server: (`limits.memory`, amount), sorted
    resizing: str = ""  # a change of its resources that is not finished yet, as text
    memory_limit: int = 0  # bytes; 0: none
    killed_for_memory_at: float = 0.0  # when the server last ended for lack of memory
    unloadable: str = ""  # the server's message when it could not load its own files
    data_missing: bool = False  # it found that its files are gone, and did not start


class Replication(Struct, frozen=True):
    """A server's `INFO replication`. The link of a primary is up and its lag is zero."""

    id: str = ""
    id2: str = ""
    offset: int = 0
    link_up: bool = True
    syncing: bool = False
    down_seconds: float = 0.0  # how long the link has been down
    unlinked: bool = False  # a replica without a link since it started: it has its files alone
    id2_offset: int = -1  # up to which offset it shares the history `id2`
    follows: str = ""  # host:port of the primary that it says it follows; empty: a primary
    priority: int = 100  # for sentinels; 0: they never promote it


_NO_VIEW = ClusterView()  # for a server outside of a cluster: no slots, no peers


class Seen(Struct, frozen=True):
    """A server that responded, with its own answers, and the view of its mode where it has one."""

    pod: Pod
    id: ServerId
    role: Role
    replica_of: ServerId | None = None
    replication: Replication = Replication()
    keys: int = 0
    engine: str = "valkey"
    version: str = ""
    config: tuple[tuple[str, str], ...] = ()  # CONFIG GET of the directives that planning needs
    loading: bool = False
    saving: bool = False  # writes a complete append-only file; it would not end now
    aof_written: bool = False  # has a complete append-only file and appends to it
    aof_failed: bool = False  # its last write to the append-only file failed
    snapshot_failed: bool = False  # its last snapshot failed
    full_syncs: int = 0  # full syncs that it served since it started
    refused_commands: int = 0  # commands of the replication stream that it refused since it started
    used_memory: int = 0
    max_memory: int = 0
    started_at: float = 0.0
    traffic: Traffic = Traffic()
    view: ClusterView | None = None

    def peer(self, node: ServerId) -> Peer | None:
        """Its view of a node, or None when it does not know it."""
        return next((peer for peer in self.peers if peer.id == node), None)

    def setting(self, name: str) -> str | None:
        """The value of a directive, or None when it was not asked for or does not exist there."""
        for key, value in self.config:  # a plain loop: every rule of every pass calls this
            if key == name:
                return value
        return None

    @property
    def ip(self) -> str:
        """Its address as it announces it to other nodes; may be outdated or empty."""
        return (self.view or _NO_VIEW).ip

    @property
    def slots(self) -> SlotSet:
        """The slots that it says it owns."""
        return (self.view or _NO_VIEW).slots

    @property
    def config_epoch(self) -> int:
        """The epoch of its claim to its slots."""
        return (self.view or _NO_VIEW).config_epoch

    @property
    def current_epoch(self) -> int:
        """The highest epoch that it knows."""
        return (self.view or _NO_VIEW).current_epoch

    @property
    def state_ok(self) -> bool:
        """Whether its `cluster_state` is ok; always so without a cluster."""
        return (self.view or _NO_VIEW).state_ok

    @property
    def peers(self) -> tuple[Peer, ...]:
        """Its views of the other nodes."""
        return (self.view or _NO_VIEW).peers

    @property
    def open_slots(self) -> tuple[OpenSlot, ...]:
        """Slots that it imports or migrates."""
        return (self.view or _NO_VIEW).open_slots

    @property
    def jobs(self) -> tuple[SlotMigration, ...]:
        """Atomic slot migrations that are not finished."""
        return (self.view or _NO_VIEW).jobs

    @property
    def stranded(self) -> Counted | NotCounted:
        """Keys in slots that it does not own: stray keys."""
        return (self.view or _NO_VIEW).stranded

    @property
    def weighed(self) -> Weighed | NotWeighed:
        """The weights of its slots."""
        return (self.view or _NO_VIEW).weighed

    @property
    def is_primary(self) -> bool:
        """Whether it says it is a primary, with or without slots."""
        return self.role is Role.PRIMARY

    @property
    def never_synced(self) -> bool:
        """Whether it follows a primary and holds none of its data: restarted empty, or new."""
        return (
            not self.is_primary
            and not self.keys
            and self.replication.offset <= 1
            and not self.replication.link_up
            and not self.loading
        )


class Evidence(Enum):
    """Evidence about a server that does not respond. Only a `SILENT` one may still be serving."""

    SILENT = "silent"  # no answer and no sign: partition, stopped, busy, or dead
    REFUSED = "refused"  # the connection was reset and the pod's own verified address refuses
    TERMINATED = "terminated"  # the kubelet reports that the container has ended
    NOT_STARTED = "not started"  # the pod has no address or never ran: no process exists yet


class Unreachable(Struct, frozen=True):
    """A server that did not respond. Without evidence of its death it may be alive and ahead."""

    pod: Pod
    error: str
    since: float
    evidence: Evidence = Evidence.SILENT
    last_id: ServerId | None = None  # the id of this pod (same uid) when it last responded

    @property
    def dead(self) -> bool:
        """Whether there is evidence that no process serves there: it is fenced."""
        return self.evidence is not Evidence.SILENT


Node: TypeAlias = Seen | Unreachable


class SentinelSeen(Struct, frozen=True):
    """A sentinel that responded, with its own answers."""

    pod: Pod
    id: ServerId  # the id by which other sentinels know it
    view: SentinelView


SentinelNode: TypeAlias = SentinelSeen | Unreachable


class Volume(Struct, frozen=True):
    """A pod's PersistentVolumeClaim: the requested and the actual size."""

    name: str
    pod: str
    uid: str
    requested: int  # bytes
    capacity: int
    expandable: bool | None  # None: unknown, the API server will decide
    deleting: bool = False
    needs_restart: bool = False  # its file system grows when the pod is restarted
    labels: tuple[tuple[str, str], ...] = ()  # sorted


class Workload(Struct, frozen=True):
    """One shard's StatefulSet."""

    shard: int
    name: str
    uid: str
    pods: int  # spec.replicas
    revision: str  # status.updateRevision: the revision of a pod created now
    current: bool = True  # its controller has observed its last change: the revision is known
    shape: str = ""  # the shape of a pod created now
    resources: tuple[tuple[str, str], ...] = ()
    stamp: str = ""  # hash of the applied manifest
    restarted_at: str = ""  # the restart request in its template
    deleting: bool = False
    trouble: str = ""  # why its controller cannot create the missing pods, as text


class Unlabelled(Struct, frozen=True):
    """A pod of this database without its labels, so that no cache has it; it was read by name."""

    pod: str
    uid: str
    lacks: tuple[tuple[str, str], ...]


class Election(Struct, frozen=True):
    """A promotion that is remembered, because engines may refuse a second one too soon."""

    node: ServerId
    at: float
    over: ServerId | None = None  # the primary it followed


class Spelling(Struct, frozen=True, order=True):
    """A value of a directive, and how servers that accepted it spell it."""

    name: str
    value: str
    answer: str


class Attempt(Struct, frozen=True):
    """Steps that were carried out, and how often in a row without any effect."""

    steps: tuple[object, ...]
    times: int = 0
    at: float = 0.0  # the last time that was counted
    error: str = ""  # why the last attempt failed; empty: it did not fail


class Led(Struct, frozen=True):
    """The primary of a group when its status was last written, and the history of its data."""

    group: int
    pod: str
    replication_id: str = ""


class Observed(Struct, frozen=True):
    """All that was observed, in stable order: by shard, then by ordinal."""

    nodes: tuple[Node, ...] = ()
    workloads: tuple[Workload, ...] = ()
    volumes: tuple[Volume, ...] = ()
    unlabelled: tuple[Unlabelled, ...] = ()
    elections: tuple[Election, ...] = ()
    cluster: ClusterFacts = ClusterFacts()
    resyncs: tuple[tuple[ServerId, int], ...] = ()  # recent full syncs of replicas in sync
    can_resize: bool = False  # the cluster can resize running pods
    resize_refused: frozenset[str] = frozenset()  # uids of pods whose resize it refused
    spellings: frozenset[Spelling] = frozenset()
    attempts: tuple[Attempt, ...] = ()  # steps since the observed state last changed
    recorded: tuple[tuple[int, str], ...] = ()  # group and the id in its status
    led: tuple[Led, ...] = ()
    sentinels: tuple[SentinelNode, ...] = ()  # by ordinal
    sentinel_workload: Workload | None = None
    source: SourceNode | None = None  # the external server that is followed
    copied: str = ""  # its address in the status: until the database is formed, its data is a copy
    formed: bool = False  # it was complete before: slots without an owner now were lost

    @property
    def seen(self) -> tuple[Seen, ...]:
        """The servers that responded."""
        return tuple(node for node in self.nodes if isinstance(node, Seen))

    @property
    def unreachable(self) -> tuple[Unreachable, ...]:
        """The servers that did not respond."""
        return tuple(node for node in self.nodes if isinstance(node, Unreachable))

    def workload(self, shard: int) -> Workload | None:
        """The group's StatefulSet, or None when there is none yet."""
        sentinels = self.sentinel_workload
        if sentinels is not None and sentinels.shard == shard:
            return sentinels
        return next((workload for workload in self.workloads if workload.shard == shard), None)
