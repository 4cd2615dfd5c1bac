"""`RedisFailover`: one primary, replicas and sentinels, with the fields of Spotahome's operator.

The fields are those that people have in their manifests, with the same names and defaults.
`translation` makes a `Redis` of mode Failover of them; what is not supported is listed in
`redisfailover_rules` with the reason, and refused.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import field

from .metadata import Condition, Metadata, Part
from .redis import Engine, ImagePullPolicy, Json, LocalName, Resources, SecretKey
from .status import Binding, Endpoints, Phase

__all__ = [
    "AuthSettings",
    "BootstrapNode",
    "ClaimMetadata",
    "ClaimSpec",
    "ClaimTemplate",
    "CommandRename",
    "Exporter",
    "RedisFailover",
    "RedisFailoverSpec",
    "RedisFailoverStatus",
    "RedisSettings",
    "SentinelSettings",
    "ServerStorage",
]

Port: TypeAlias = str | int


class ClaimMetadata(Part, frozen=True):
    """Labels and annotations of the claims."""

    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class ClaimSpec(Part, frozen=True):
    """The volume of each server."""

    access_modes: tuple[str, ...] = ()
    resources: Resources = field(default_factory=Resources)
    storage_class_name: str | None = None
    volume_mode: str = ""
    volume_name: str = ""
    selector: Json | None = None
    data_source: Json | None = None


class ClaimTemplate(Part, frozen=True):
    """A volume claim for each server."""

    metadata: ClaimMetadata = field(default_factory=ClaimMetadata)
    spec: ClaimSpec = field(default_factory=ClaimSpec)


class ServerStorage(Part, frozen=True):
    """Where servers keep their data: in memory, or on a volume for each server."""

    keep_after_deletion: bool = False
    empty_dir: Json | None = None
    persistent_volume_claim: ClaimTemplate | None = None


class Exporter(Part, frozen=True):
    """The exporter for Prometheus beside each server or sentinel."""

    enabled: bool = False
    image: str = ""
    image_pull_policy: ImagePullPolicy | None = None
    container_security_context: Json | None = None
    args: tuple[str, ...] = ()
    env: tuple[Json, ...] = ()
    resources: Resources = field(default_factory=Resources)


class CommandRename(Part, frozen=True):
    """A command under another name."""

    # `from` is a keyword of Python
    old: str = field(default="", name="from")
    to: str = ""


class RedisSettings(Part, frozen=True):
    """The servers."""

    replicas: int = 3
    image: str = ""
    engine: Engine | None = None
    version: str = ""
    image_pull_policy: ImagePullPolicy | None = None
    image_pull_secrets: tuple[LocalName, ...] = ()
    port: int = 6379
    resources: Resources = field(default_factory=Resources)
    custom_config: tuple[str, ...] = ()
    custom_command_renames: tuple[CommandRename, ...] = ()
    command: tuple[str, ...] = ()
    shutdown_config_map: str = ""
    startup_config_map: str = ""
    storage: ServerStorage = field(default_factory=ServerStorage)
    exporter: Exporter = field(default_factory=Exporter)
    init_containers: tuple[Json, ...] = ()
    extra_containers: tuple[Json, ...] = ()
    extra_volumes: tuple[Json, ...] = ()
    extra_volume_mounts: tuple[Json, ...] = ()
    affinity: Json = field(default_factory=dict)
    tolerations: tuple[Json, ...] = ()
    node_selector: dict[str, str] = field(default_factory=dict)
    topology_spread_constraints: tuple[Json, ...] = ()
    security_context: Json = field(default_factory=dict)
    container_security_context: Json = field(default_factory=dict)
    pod_annotations: dict[str, str] = field(default_factory=dict)
    service_annotations: dict[str, str] = field(default_factory=dict)
    host_network: bool = False
    dns_policy: str = ""
    priority_class_name: str = ""
    service_account_name: str = ""
    termination_grace_period: int | None = None
    custom_liveness_probe: Json = field(default_factory=dict)
    custom_readiness_probe: Json = field(default_factory=dict)
    custom_startup_probe: Json = field(default_factory=dict)
    disable_pod_disruption_budget: bool = False


class SentinelSettings(Part, frozen=True):
    """The sentinels."""

    replicas: int = 3
    quorum: int | None = None
    image: str = ""
    image_pull_policy: ImagePullPolicy | None = None
    image_pull_secrets: tuple[LocalName, ...] = ()
    resources: Resources = field(default_factory=Resources)
    custom_config: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    startup_config_map: str = ""
    exporter: Exporter = field(default_factory=Exporter)
    config_copy: Json | None = None
    init_containers: tuple[Json, ...] = ()
    extra_containers: tuple[Json, ...] = ()
    extra_volumes: tuple[Json, ...] = ()
    extra_volume_mounts: tuple[Json, ...] = ()
    affinity: Json = field(default_factory=dict)
    tolerations: tuple[Json, ...] = ()
    node_selector: dict[str, str] = field(default_factory=dict)
    topology_spread_constraints: tuple[Json, ...] = ()
    security_context: Json = field(default_factory=dict)
    container_security_context: Json = field(default_factory=dict)
    pod_annotations: dict[str, str] = field(default_factory=dict)
    service_annotations: dict[str, str] = field(default_factory=dict)
    host_network: bool = False
    dns_policy: str = ""
    priority_class_name: str = ""
    service_account_name: str = ""
    custom_liveness_probe: Json | None = None
    custom_readiness_probe: Json | None = None
    custom_startup_probe: Json | None = None
    disable_pod_disruption_budget: bool = False


class AuthSettings(Part, frozen=True):
    """The password of clients."""

    secret_path: str = ""


class BootstrapNode(Part, frozen=True):
    """An external Redis that the servers copy first."""

    host: str
    port: Port = 6379
    allow_sentinels: bool = False
    username: str = ""
    password_secret: SecretKey | None = None


class RedisFailoverSpec(Part, frozen=True):
    """The desired state."""

    redis: RedisSettings = field(default_factory=RedisSettings)
    sentinel: SentinelSettings = field(default_factory=SentinelSettings)
    auth: AuthSettings = field(default_factory=AuthSettings)
    label_whitelist: tuple[str, ...] = ()
    bootstrap_node: BootstrapNode | None = None


class RedisFailoverStatus(Part, frozen=True):
    """The status of its `Redis`, and why the spec is not applied if it is not."""

    observed_generation: int = 0
    redis: str = ""
    phase: Phase | None = None
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    ready: str = ""
    primary: str = ""
    version: str = ""
    endpoints: Endpoints | None = None
    binding: Binding | None = None


class RedisFailover(Part, frozen=True, omit_defaults=False):
    """One primary with replicas, watched by sentinels; it owns a Redis of the same name."""

    spec: RedisFailoverSpec
    metadata: Metadata = field(default_factory=Metadata)
    status: RedisFailoverStatus = field(default_factory=RedisFailoverStatus)
    api_version: str = "redisoperator.dev/v1"
    kind: str = "RedisFailover"
