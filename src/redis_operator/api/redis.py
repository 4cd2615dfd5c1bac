"""`Redis`, one database: its spec and status as values.

Every field of the kind is here, with its default. What the fields mean is told in `describe`, what
is refused in `validation`; the CRD is generated from these types, so they are the only source.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeAlias

from msgspec import Struct, field

from .metadata import Condition, Metadata

__all__ = [
    "Auth",
    "Binding",
    "Bootstrap",
    "BootstrapFromBackup",
    "BootstrapFromRedis",
    "ConfigValue",
    "DataLoss",
    "Deletion",
    "DeletionPolicy",
    "DisruptionBudget",
    "Durability",
    "Engine",
    "IssuerReference",
    "Json",
    "Mode",
    "Monitoring",
    "NetworkPolicy",
    "OnDataLoss",
    "Persistence",
    "Phase",
    "PodOptions",
    "Progress",
    "Quantity",
    "Redis",
    "RedisSpec",
    "RedisStatus",
    "ReplicaStatus",
    "Resources",
    "SecretKey",
    "Sentinel",
    "ServiceOptions",
    "ServiceType",
    "ShardStatus",
    "Storage",
    "Tls",
    "Update",
    "UpdateStrategy",
    "User",
]

Quantity: TypeAlias = str | int
ConfigValue: TypeAlias = str | int
Json: TypeAlias = dict[str, Any]


class Mode(Enum):
    """How the servers of one database work together."""

    STANDALONE = "Standalone"
    FAILOVER = "Failover"
    CLUSTER = "Cluster"


class Engine(Enum):
    """Which server runs."""

    VALKEY = "valkey"
    REDIS = "redis"


class Persistence(Enum):
    """What a server writes to its disk."""

    AOF = "aof"
    RDB = "rdb"
    BOTH = "both"
    NONE = "none"


class DeletionPolicy(Enum):
    """What becomes of the data when the database is deleted."""

    DELETE = "Delete"
    RETAIN = "Retain"
    BACKUP = "Backup"


class UpdateStrategy(Enum):
    """How pods whose template changed are replaced: replicas first, then a planned switchover."""

    ROLLING = "Rolling"


class ServiceType(Enum):
    """How clients outside the cluster reach the client Service."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class OnDataLoss(Enum):
    """What to do when every copy of some slots is gone."""

    START_EMPTY = "StartEmpty"
    HOLD = "Hold"


class Phase(Enum):
    """The state of a database in one word."""

    PENDING = "Pending"
    CREATING = "Creating"
    READY = "Ready"
    UPDATING = "Updating"
    SCALING = "Scaling"
    DEGRADED = "Degraded"
    FAILED = "Failed"
    HIBERNATED = "Hibernated"
    DELETING = "Deleting"


class _Part(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=False):
    """What all parts of the kind have in common: immutable, camelCase outside, defaults unsaid."""


class SecretKey(_Part, frozen=True):
    """One key of a Secret in the same namespace."""

    name: str
    key: str = "password"


class Resources(_Part, frozen=True):
    """Requests and limits of the server's container."""

    requests: dict[str, Quantity] = field(default_factory=dict)
    limits: dict[str, Quantity] = field(default_factory=dict)


class Sentinel(_Part, frozen=True):
    """The watchers of a database in mode Failover."""

    replicas: int = 3
    quorum: int = 2
    resources: Resources = field(default_factory=Resources)


class Storage(_Part, frozen=True):
    """A volume for each pod. Without it, data live in memory only."""

    size: str
    class_name: str | None = None
    retain: bool = False


class Durability(_Part, frozen=True):
    """How much a write must survive."""

    persistence: Persistence | None = None
    min_replicas_to_write: int = 0
    max_lag_seconds: int = 10
    on_data_loss: OnDataLoss | None = None


class User(_Part, frozen=True):
    """One ACL user for applications."""

    name: str
    rules: str
    password_secret: SecretKey


class Auth(_Part, frozen=True):
    """Who may connect. Without a Secret name, a password is generated."""

    secret_name: str = ""
    users: tuple[User, ...] = ()


class IssuerReference(_Part, frozen=True):
    """The cert-manager issuer that signs the certificate."""

    name: str
    kind: str = "Issuer"
    group: str = "cert-manager.io"


class Tls(_Part, frozen=True):
    """Encryption between clients and servers and among servers."""

    secret_name: str = ""
    issuer_ref: IssuerReference | None = None
    self_signed: bool = False


class PodOptions(_Part, frozen=True):
    """What a person may add to the pods that run the servers."""

    affinity: Json = field(default_factory=dict)
    tolerations: tuple[Json, ...] = ()
    node_selector: dict[str, str] = field(default_factory=dict)
    topology_spread_constraints: tuple[Json, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    priority_class_name: str = ""
    service_account_name: str = ""
    security_context: Json = field(default_factory=dict)
    sidecars: tuple[Json, ...] = ()
    init_containers: tuple[Json, ...] = ()
    volumes: tuple[Json, ...] = ()
    env: tuple[Json, ...] = ()


class ServiceOptions(_Part, frozen=True):
    """How the client Service looks."""

    type: ServiceType = ServiceType.CLUSTER_IP
    annotations: dict[str, str] = field(default_factory=dict)


class Monitoring(_Part, frozen=True):
    """What is made for Prometheus and Grafana."""

    exporter: bool = False
    service_monitor: bool = False
    prometheus_rule: bool = False
    dashboard: bool = False


class DisruptionBudget(_Part, frozen=True):
    """Whether a drain may take one pod of a shard at a time and no more."""

    enabled: bool = True


class NetworkPolicy(_Part, frozen=True):
    """Who may reach the servers. No clients listed: every pod of the namespace."""

    enabled: bool = True
    clients: tuple[Json, ...] = ()


class Update(_Part, frozen=True):
    """How changes reach running pods."""

    strategy: UpdateStrategy = UpdateStrategy.ROLLING
    paused: bool = False
    balance_primaries: bool = True


class Deletion(_Part, frozen=True):
    """What happens to the data after `kubectl delete`."""

    policy: DeletionPolicy = DeletionPolicy.DELETE


class BootstrapFromBackup(_Part, frozen=True):
    """Start with the content of a RedisBackup."""

    name: str


class BootstrapFromRedis(_Part, frozen=True):
    """Start as a copy of a running server."""

    host: str
    port: int = 6379
    password_secret: SecretKey | None = None


class Bootstrap(_Part, frozen=True):
    """Where the first data come from."""

    from_backup: BootstrapFromBackup | None = None
    from_redis: BootstrapFromRedis | None = None


class RedisSpec(_Part, frozen=True):
    """What a person asks for."""

    mode: Mode
    engine: Engine = Engine.VALKEY
    version: str = ""
    image: str = ""
    shards: int = 1
    replicas: int = 1
    sentinel: Sentinel | None = None
    storage: Storage | None = None
    durability: Durability = field(default_factory=Durability)
    resources: Resources = field(default_factory=Resources)
    config: dict[str, ConfigValue] = field(default_factory=dict)
    auth: Auth = field(default_factory=Auth)
    tls: Tls | None = None
    pod: PodOptions = field(default_factory=PodOptions)
    service: ServiceOptions = field(default_factory=ServiceOptions)
    monitoring: Monitoring = field(default_factory=Monitoring)
    disruption_budget: DisruptionBudget = field(default_factory=DisruptionBudget)
    network_policy: NetworkPolicy = field(default_factory=NetworkPolicy)
    update: Update = field(default_factory=Update)
    deletion: Deletion = field(default_factory=Deletion)
    hibernate: bool = False
    paused: bool = False
    bootstrap: Bootstrap = field(default_factory=Bootstrap)

    @property
    def persistence(self) -> Persistence:
        """What servers write to disk: as asked, else AOF on a volume and nothing without one."""
        if self.durability.persistence is not None:
            return self.durability.persistence
        return Persistence.AOF if self.storage is not None else Persistence.NONE

    @property
    def on_data_loss(self) -> OnDataLoss:
        """What becomes of lost slots: as asked, else a cache goes on empty and a store is held."""
        if self.durability.on_data_loss is not None:
            return self.durability.on_data_loss
        return OnDataLoss.START_EMPTY if self.storage is None else OnDataLoss.HOLD


class DataLoss(_Part, frozen=True):
    """Slots that lost every copy of their data, and what was done about it."""

    time: str
    slots: str
    reason: str
    action: str


class ReplicaStatus(_Part, frozen=True, omit_defaults=False):
    """One replica as last seen."""

    pod: str
    lag_bytes: int = 0
    link: str = ""


class ShardStatus(_Part, frozen=True):
    """One shard as last seen.

    `node_id` and `replication_id` are the primary's; a dead one's as long as slots are its, so that
    it is known who was promoted over it.
    """

    name: str
    slots: str = ""
    primary: str = ""
    node_id: str = ""
    replication_id: str = ""
    replicas: tuple[ReplicaStatus, ...] = ()
    last_failover_time: str = ""


class Binding(_Part, frozen=True):
    """The Secret that tells applications how to connect, in the Service Binding layout."""

    name: str = ""


class Progress(_Part, frozen=True):
    """How far a slot move has come."""

    slots_moved: int = 0
    slots_total: int = 0
    keys_moved: int = 0
    bytes_moved: int = 0
    seconds_left: int = 0


class RedisStatus(_Part, frozen=True):
    """What the operator last saw and decided."""

    observed_generation: int = 0
    phase: Phase | None = None
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    plan: tuple[str, ...] = ()
    progress: Progress | None = None
    shards: tuple[ShardStatus, ...] = ()
    shard_count: int = 0
    replicas: int | None = None
    selector: str = ""
    ready: str = ""
    primary: str = ""
    slots: str = ""
    memory: str = ""
    version: str = ""
    image: str = ""
    binding: Binding | None = None
    last_data_loss: DataLoss | None = None


class Redis(_Part, frozen=True, omit_defaults=False):
    """One database."""

    spec: RedisSpec
    metadata: Metadata = field(default_factory=Metadata)
    status: RedisStatus = field(default_factory=RedisStatus)
    api_version: str = "redisoperator.dev/v1"
    kind: str = "Redis"
