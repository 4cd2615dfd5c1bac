"""Replies of servers, as values.

`parsing` creates them: any bytes give a value or `MalformedReplyError`. Fields that a version does
not send keep their default. Values are frozen, so they may be shared and compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from .slots import NO_SLOTS, SlotSet

__all__ = [
    "ClusterInfo",
    "ClusterLink",
    "ClusterNode",
    "Info",
    "InfoMemory",
    "InfoPersistence",
    "InfoReplication",
    "InfoServer",
    "InfoStats",
    "MigrationJob",
    "PrimaryRole",
    "ReplicaLine",
    "ReplicaRole",
    "Role",
    "SentinelRole",
    "ShardNode",
    "ShardView",
]


class ClusterNode(Struct, frozen=True):
    """One line of CLUSTER NODES: a node as the replying node sees it, without its ping times."""

    id: str
    ip: str
    port: int
    bus_port: int
    flags: frozenset[str]
    primary: str | None = None
    config_epoch: int = 0
    link_connected: bool = True
    slots: SlotSet = NO_SLOTS
    migrating: tuple[tuple[int, str], ...] = ()
    importing: tuple[tuple[int, str], ...] = ()
    hostname: str = ""
    shard_id: str = ""

    @property
    def is_myself(self) -> bool:
        """Whether this line is about the replying node itself."""
        return "myself" in self.flags

    @property
    def is_primary(self) -> bool:
        """Whether the node is a primary, with or without slots."""
        return "master" in self.flags

    @property
    def is_replica(self) -> bool:
        """Whether the node follows a primary."""
        return "slave" in self.flags

    @property
    def is_failed(self) -> bool:
        """Whether a majority agreed that the node is down."""
        return "fail" in self.flags

    @property
    def is_suspected(self) -> bool:
        """Whether the replying node alone cannot reach it (PFAIL)."""
        return "fail?" in self.flags

    @property
    def is_in_handshake(self) -> bool:
        """Whether the handshake of the two nodes is not finished; the id is temporary until
        then."""
        return "handshake" in self.flags

    @property
    def has_no_address(self) -> bool:
        """Whether the replying node does not know its address."""
        return "noaddr" in self.flags

    @property
    def slot_count(self) -> int:
        """How many slots it owns."""
        return len(self.slots)


class ClusterInfo(Struct, frozen=True):
    """CLUSTER INFO."""

    is_ok: bool
    slots_assigned: int = 0
    slots_ok: int = 0
    slots_pfail: int = 0
    slots_fail: int = 0
    known_nodes: int = 0
    size: int = 0
    current_epoch: int = 0
    my_epoch: int = 0


class ClusterLink(Struct, frozen=True):
    """One line of CLUSTER LINKS: a bus connection of the replying node."""

    direction: str
    node: str
    created_ms: int = 0
    events: str = ""
    send_buffer_bytes: int = 0


class ShardNode(Struct, frozen=True):
    """One node inside CLUSTER SHARDS."""

    id: str
    ip: str = ""
    endpoint: str = ""
    port: int = 0
    tls_port: int = 0
    role: str = ""
    offset: int = 0
    health: str = ""


class ShardView(Struct, frozen=True):
    """One shard of CLUSTER SHARDS."""

    slots: SlotSet
    nodes: tuple[ShardNode, ...]
    id: str = ""


class MigrationJob(Struct, frozen=True):
    """One atomic slot migration as a server reports it (Valkey 9, Redis 8.4)."""

    name: str
    operation: str
    state: str
    slots: SlotSet
    source: str = ""
    target: str = ""
    message: str = ""
    remaining_bytes: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended."""
        return self.state in ("success", "completed", "failed", "cancelled", "canceled")

    @property
    def is_successful(self) -> bool:
        """Whether the slots have the new owner."""
        return self.state in ("success", "completed")


class ReplicaLine(Struct, frozen=True):
    """One replica as its primary sees it."""

    ip: str
    port: int
    state: str
    offset: int
    lag_seconds: int = -1


class InfoReplication(Struct, frozen=True):
    """The replication section of INFO."""

    role: str
    replication_id: str = ""
    replication_id2: str = ""
    offset: int = 0
    second_offset: int = -1
    connected_replicas: int = 0
    replicas: tuple[ReplicaLine, ...] = ()
    primary_host: str = ""
    primary_port: int = 0
    link_up: bool = False
    sync_in_progress: bool = False
    sync_bytes_left: int = 0
    last_io_seconds: int = -1
    link_down_seconds: int = -1
    is_read_only: bool = False
    priority: int = 100
    failover_state: str = ""
    backlog_bytes: int = 0
    backlog_first: int = 0  # the oldest byte that it can still send; 0: it has no backlog

    @property
    def is_primary(self) -> bool:
        """Whether the server accepts writes."""
        return self.role == "master"


class InfoServer(Struct, frozen=True):
    """The server section of INFO."""

    engine: str = "redis"
    version: str = ""
    run_id: str = ""
    mode: str = ""
    tcp_port: int = 0
    uptime_seconds: int = 0
    process_id: int = 0


class InfoPersistence(Struct, frozen=True):
    """The persistence section of INFO."""

    loading: bool = False
    loading_eta_seconds: int = 0
    bgsave_running: bool = False
    last_bgsave_ok: bool = True
    last_save: int = 0
    changes_since_save: int = 0
    rdb_cow_bytes: int = 0
    aof_enabled: bool = False
    aof_rewrite_running: bool = False
    aof_rewrite_scheduled: bool = False
    last_aof_rewrite_ok: bool = True
    last_aof_write_ok: bool = True
    aof_cow_bytes: int = 0

    @property
    def aof_pending(self) -> bool:
        """Whether a rewrite of the append-only file is in progress or scheduled."""
        return self.aof_enabled and (self.aof_rewrite_running or self.aof_rewrite_scheduled)

    @property
    def aof_written(self) -> bool:
        """Whether there is a complete append-only file, which grows with every write."""
        well = self.last_aof_rewrite_ok and self.last_aof_write_ok
        return self.aof_enabled and well and not self.aof_pending


class InfoMemory(Struct, frozen=True):
    """The memory section of INFO."""

    used_bytes: int = 0
    rss_bytes: int = 0
    peak_bytes: int = 0
    maxmemory_bytes: int = 0
    policy: str = ""


class InfoStats(Struct, frozen=True):
    """The fields of the stats section of INFO that are used."""

    commands_processed: int = 0
    commands_per_second: int = 0
    full_syncs: int = 0
    refused_commands: int = 0  # of the stream that it replicates, since it started
    partial_syncs: int = 0
    partial_sync_errors: int = 0
    keyspace_hits: int = 0
    keyspace_misses: int = 0
    evicted_keys: int = 0
    rejected_connections: int = 0
    latest_fork_microseconds: int = 0


class Info(Struct, frozen=True):
    """INFO, as far as it is used. `fields` has every line as received."""

    server: InfoServer
    replication: InfoReplication
    persistence: InfoPersistence
    memory: InfoMemory
    stats: InfoStats
    connected_clients: int = 0
    keys: int = 0
    cluster_enabled: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)


class PrimaryRole(Struct, frozen=True):
    """ROLE of a primary: its offset, and the acknowledged offset of each replica."""

    offset: int
    replicas: tuple[tuple[str, int, int], ...] = ()


class ReplicaRole(Struct, frozen=True):
    """ROLE of a replica: its primary, the state of the link, and its offset."""

    primary_host: str
    primary_port: int
    state: str
    offset: int

    @property
    def link_up(self) -> bool:
        """Whether the link to the primary is connected."""
        return self.state == "connected"


class SentinelRole(Struct, frozen=True):
    """ROLE of a sentinel: the names that it monitors."""

    watched: tuple[str, ...] = ()


Role: TypeAlias = PrimaryRole | ReplicaRole | SentinelRole
