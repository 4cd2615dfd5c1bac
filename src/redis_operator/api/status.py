"""The status of a `Redis`: what the operator last observed and decided, as values."""

from __future__ import annotations

from enum import Enum

from .metadata import Condition, Part

__all__ = [
    "Binding",
    "DataLoss",
    "Endpoints",
    "Operation",
    "Phase",
    "PodStatus",
    "Progress",
    "RedisStatus",
    "ReplicaStatus",
    "RestoreStatus",
    "RestoringStatus",
    "ShardStatus",
    "SourceStatus",
]


class Phase(Enum):
    """The state of a database in one word."""

    PENDING = "Pending"
    CREATING = "Creating"
    FOLLOWING = "Following"
    READY = "Ready"
    UPDATING = "Updating"
    SCALING = "Scaling"
    DEGRADED = "Degraded"
    FAILED = "Failed"
    HIBERNATED = "Hibernated"
    WAKING = "Waking"
    DELETING = "Deleting"


class DataLoss(Part, frozen=True):
    """Slots that lost every copy of their data, and what was done about it."""

    time: str
    slots: str
    reason: str
    action: str


class ReplicaStatus(Part, frozen=True, omit_defaults=False):
    """One replica as last observed."""

    pod: str
    lag_bytes: int = 0
    link: str = ""


class ShardStatus(Part, frozen=True):
    """One shard as last observed.

    `node_id` and `replication_id` are those of the primary; of a dead one as long as it owns slots,
    so that it is known which server was promoted over it.
    """

    name: str
    slots: str = ""
    primary: str = ""
    node_id: str = ""
    replication_id: str = ""
    replicas: tuple[ReplicaStatus, ...] = ()
    last_failover_time: str = ""
    last_primary: str = ""


class Binding(Part, frozen=True):
    """The Secret with the connection details for applications, in the Service Binding layout."""

    name: str = ""


class Endpoints(Part, frozen=True):
    """Where clients connect, as host:port."""

    clients: str = ""
    primaries: str = ""
    replicas: str = ""
    sentinels: str = ""
    primary_name: str = ""


class Operation(Part, frozen=True):
    """A change or a repair: what is being done, or was done last."""

    type: str
    start_time: str = ""
    end_time: str = ""
    result: str = ""
    message: str = ""


class PodStatus(Part, frozen=True):
    """One server as last observed."""

    name: str
    shard: int = 0
    role: str = ""
    ready: bool = False
    node: str = ""
    zone: str = ""
    address: str = ""
    engine: str = ""
    version: str = ""
    memory: str = ""
    keys: int = 0
    lag_bytes: int = 0
    restarts: int = 0
    reason: str = ""


class SourceStatus(Part, frozen=True, omit_defaults=False):
    """The external server that a database follows, and how far the copy is."""

    address: str
    pod: str = ""
    link: str = "none"
    lag_bytes: int = 0


class RestoreStatus(Part, frozen=True):
    """The backup that a new database was filled with, key by key, before it served."""

    backup: str
    keys: int = 0
    start_time: str = ""
    completion_time: str = ""


class RestoringStatus(Part, frozen=True):
    """A `RedisRestore` that replaces the data of a database in use; clients are refused meanwhile.

    `shut`: every server refuses clients. `closed`: and every replica has all that was written
    before. `replacing`: the data may be that of the backup, that from before, or a part of either.
    `filled`: the Job whose worker restored all keys. `servers`: one value for all server processes,
    which changes when any of them restarts. `opened`: clients can connect to every server that
    responds.
    """

    name: str
    uid: str
    shut: bool = False
    closed: bool = False
    replacing: bool = False
    filled: str = ""
    servers: str = ""
    opened: bool = False


class Progress(Part, frozen=True):
    """How far a slot move has come."""

    slots_moved: int = 0
    slots_total: int = 0
    keys_moved: int = 0
    bytes_moved: int = 0
    seconds_left: int = 0


class RedisStatus(Part, frozen=True):
    """What the operator last observed and decided."""

    observed_generation: int = 0
    phase: Phase | None = None
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    plan: tuple[str, ...] = ()
    progress: Progress | None = None
    last_operation: Operation | None = None
    shards: tuple[ShardStatus, ...] = ()
    shard_count: int = 0
    ready_shards: int = 0
    pods: tuple[PodStatus, ...] = ()
    pod_count: int = 0
    ready_pods: int = 0
    replicas: int | None = None
    selector: str = ""
    ready: str = ""
    primary: str = ""
    slots: str = ""
    memory: str = ""
    engine: str = ""
    version: str = ""
    target_version: str = ""
    image: str = ""
    endpoints: Endpoints | None = None
    binding: Binding | None = None
    last_data_loss: DataLoss | None = None
    source: SourceStatus | None = None
    restore: RestoreStatus | None = None
    restoring: RestoringStatus | None = None
