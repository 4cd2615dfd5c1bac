"""`Redis`, one database: its spec as a value. Its status is in `status`.

Every field of the kind is here, with its default. The descriptions of the fields are in `describe`,
and the checks in `validation`; the CRD is generated from these types, so they are the only source.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeAlias

from msgspec import field

from .backup_storage import BackupEncryption, BackupStorage
from .metadata import Metadata, Part
from .status import RedisStatus

__all__ = [
    "AccessMode",
    "AntiAffinity",
    "Auth",
    "Bootstrap",
    "BootstrapFromBackup",
    "BootstrapFromRedis",
    "ConfigValue",
    "Deletion",
    "DeletionPolicy",
    "DisruptionBudget",
    "Durability",
    "Engine",
    "ImagePullPolicy",
    "IssuerReference",
    "Json",
    "LocalName",
    "Mode",
    "Monitoring",
    "NetworkPolicy",
    "OnDataLoss",
    "Persistence",
    "PodOptions",
    "ProbeTimes",
    "Probes",
    "Quantity",
    "Redis",
    "RedisSpec",
    "Resources",
    "RestoreBound",
    "SecretKey",
    "Sentinel",
    "SentinelExporter",
    "SentinelPod",
    "ServiceOptions",
    "ServiceType",
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
    """What happens to the data when the database is deleted."""

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


class ImagePullPolicy(Enum):
    """When a node pulls an image."""

    IF_NOT_PRESENT = "IfNotPresent"
    ALWAYS = "Always"
    NEVER = "Never"


class AntiAffinity(Enum):
    """Whether two servers of one shard may share a node."""

    PREFERRED = "Preferred"
    REQUIRED = "Required"


class AccessMode(Enum):
    """How a volume may be mounted. A server never shares its volume."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"
    READ_WRITE_MANY = "ReadWriteMany"


class SecretKey(Part, frozen=True):
    """One key of a Secret in the same namespace."""

    name: str
    key: str = "password"


class Resources(Part, frozen=True):
    """Requests and limits of the server's container."""

    requests: dict[str, Quantity] = field(default_factory=dict)
    limits: dict[str, Quantity] = field(default_factory=dict)


class SentinelPod(Part, frozen=True):
    """Where sentinels run, and their labels; by default the same as the servers."""

    affinity: Json = field(default_factory=dict)
    tolerations: tuple[Json, ...] = ()
    node_selector: dict[str, str] = field(default_factory=dict)
    topology_spread_constraints: tuple[Json, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    priority_class_name: str = ""
    security_context: Json = field(default_factory=dict)


class SentinelExporter(Part, frozen=True):
    """The exporter for Prometheus beside each Sentinel."""

    enabled: bool = False
    image: str = ""
    resources: Resources = field(default_factory=Resources)
    args: tuple[str, ...] = ()
    env: tuple[Json, ...] = ()


class Sentinel(Part, frozen=True):
    """The Sentinels of a database in mode Failover."""

    replicas: int = 3
    quorum: int | None = None
    resources: Resources = field(default_factory=Resources)
    down_after_milliseconds: int = 5000
    failover_timeout_milliseconds: int = 30_000
    parallel_syncs: int = 1
    pod: SentinelPod | None = None
    exporter: SentinelExporter = field(default_factory=SentinelExporter)

    @property
    def agreeing(self) -> int:
        """Return how many must agree that the primary is down: the field, or more than half."""
        return self.quorum if self.quorum is not None else self.replicas // 2 + 1


class Storage(Part, frozen=True):
    """A volume for each pod. Without it, data is in memory only."""

    size: str
    class_name: str | None = None
    access_modes: tuple[AccessMode, ...] = (AccessMode.READ_WRITE_ONCE,)
    labels: dict[str, str] = field(default_factory=dict)
    retain: bool = False


class Durability(Part, frozen=True):
    """Persistence and replication of writes."""

    persistence: Persistence | None = None
    min_replicas_to_write: int = 0
    max_lag_seconds: int = 10
    on_data_loss: OnDataLoss | None = None


class User(Part, frozen=True):
    """One ACL user for applications."""

    name: str
    rules: str
    password_secret: SecretKey


class Auth(Part, frozen=True):
    """Who may connect. Without a Secret name, a password is generated."""

    secret_name: str = ""
    users: tuple[User, ...] = ()


class IssuerReference(Part, frozen=True):
    """The cert-manager issuer that signs the certificate."""

    name: str
    kind: str = "Issuer"
    group: str = "cert-manager.io"


class Tls(Part, frozen=True):
    """Encryption between clients and servers and among servers."""

    secret_name: str = ""
    issuer_ref: IssuerReference | None = None
    self_signed: bool = False


class LocalName(Part, frozen=True):
    """An object of the same namespace, by its name."""

    name: str


class ProbeTimes(Part, frozen=True):
    """The timings of a probe. A field that is absent keeps the operator's value."""

    initial_delay_seconds: int | None = None
    period_seconds: int | None = None
    timeout_seconds: int | None = None
    failure_threshold: int | None = None


class Probes(Part, frozen=True):
    """Timings of the probes of the server's container. The operator defines what the probes
    check."""

    startup: ProbeTimes = field(default_factory=ProbeTimes)
    liveness: ProbeTimes = field(default_factory=ProbeTimes)
    readiness: ProbeTimes = field(default_factory=ProbeTimes)


class PodOptions(Part, frozen=True):
    """What a person may add to the pods that run the servers."""

    image_pull_policy: ImagePullPolicy = ImagePullPolicy.IF_NOT_PRESENT
    image_pull_secrets: tuple[LocalName, ...] = ()
    affinity: Json = field(default_factory=dict)
    anti_affinity: AntiAffinity = AntiAffinity.PREFERRED
    tolerations: tuple[Json, ...] = ()
    node_selector: dict[str, str] = field(default_factory=dict)
    topology_spread_constraints: tuple[Json, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    priority_class_name: str = ""
    runtime_class_name: str = ""
    service_account_name: str = ""
    termination_grace_period_seconds: int = 300
    probes: Probes = field(default_factory=Probes)
    security_context: Json = field(default_factory=dict)
    sidecars: tuple[Json, ...] = ()
    init_containers: tuple[Json, ...] = ()
    volumes: tuple[Json, ...] = ()
    volume_mounts: tuple[Json, ...] = ()
    env: tuple[Json, ...] = ()


class ServiceOptions(Part, frozen=True):
    """The options of the client Service."""

    type: ServiceType = ServiceType.CLUSTER_IP
    annotations: dict[str, str] = field(default_factory=dict)


class Monitoring(Part, frozen=True):
    """Metrics, alerts and dashboards."""

    exporter: bool = False
    exporter_image: str = ""
    exporter_resources: Resources = field(default_factory=Resources)
    exporter_args: tuple[str, ...] = ()
    exporter_env: tuple[Json, ...] = ()
    service_monitor: bool = False
    prometheus_rule: bool = False
    dashboard: bool = False


class DisruptionBudget(Part, frozen=True):
    """How many pods of a shard a drain may evict at a time: one by default."""

    enabled: bool = True
    max_unavailable: int | None = None
    min_available: int | None = None


class NetworkPolicy(Part, frozen=True):
    """Who may reach the servers. No clients listed: every pod of the namespace."""

    enabled: bool = True
    clients: tuple[Json, ...] = ()


class Update(Part, frozen=True):
    """How changes reach running pods."""

    strategy: UpdateStrategy = UpdateStrategy.ROLLING
    paused: bool = False
    parallel_shards: int = 1
    balance_primaries: bool = True
    backup_first: bool = False


class Deletion(Part, frozen=True):
    """What happens to the data after `kubectl delete`."""

    policy: DeletionPolicy = DeletionPolicy.DELETE
    protected: bool = False


class RestoreBound(Enum):
    """On which side of a time a restore from an archive ends."""

    NOT_AFTER = "NotAfter"
    INCLUDE = "Include"


class BootstrapFromBackup(Part, frozen=True):
    """Start with the content of a backup: by its object, its schedule, or where it is kept.

    With `at` or `restore_point` it is the content that an archive has of that moment.
    """

    name: str = ""
    schedule: str = ""
    storage: BackupStorage | None = None
    path: str = ""
    encryption: BackupEncryption | None = None
    at: str = ""
    bound: RestoreBound = RestoreBound.NOT_AFTER
    restore_point: str = ""

    @property
    def of_archive(self) -> bool:
        """Whether a moment of an archive is meant, and not a backup."""
        return bool(self.at or self.restore_point)

    @property
    def label(self) -> str:
        """The name that messages use for it. Another moment has another name."""
        if self.restore_point:
            return f"{self._origin} at restore point {self.restore_point}"
        if not self.at:
            return self._origin
        side = "including" if self.bound is RestoreBound.INCLUDE else "at"
        return f"{self._origin} {side} {self.at}"

    @property
    def _origin(self) -> str:
        return self.name or self.path or f"of schedule {self.schedule}"


class BootstrapFromRedis(Part, frozen=True):
    """Start as a replica of an external server, until this is removed."""

    host: str
    port: int = 6379
    username: str = ""
    password_secret: SecretKey | None = None


class Bootstrap(Part, frozen=True):
    """Where the initial data comes from."""

    from_backup: BootstrapFromBackup | None = None
    from_redis: BootstrapFromRedis | None = None


class RedisSpec(Part, frozen=True):
    """The desired state of a database."""

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
    maxmemory_percent: int | None = None
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
        """Return what servers write to disk: the field, or AOF on a volume and nothing without
        one."""
        if self.durability.persistence is not None:
            return self.durability.persistence
        return Persistence.AOF if self.storage is not None else Persistence.NONE

    @property
    def on_data_loss(self) -> OnDataLoss:
        """Return what happens to lost slots: the field, or StartEmpty without storage and Hold with
        it."""
        if self.durability.on_data_loss is not None:
            return self.durability.on_data_loss
        return OnDataLoss.START_EMPTY if self.storage is None else OnDataLoss.HOLD


class Redis(Part, frozen=True, omit_defaults=False):
    """One database."""

    spec: RedisSpec
    metadata: Metadata = field(default_factory=Metadata)
    status: RedisStatus = field(default_factory=RedisStatus)
    api_version: str = "redisoperator.dev/v1"
    kind: str = "Redis"
