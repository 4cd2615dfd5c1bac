"""`RedisOperator`: the operator's own installation; a cluster has at most one.

An installer in the cluster reconciles it: the image of a version generates the objects of that
version, and the installer applies them in a safe order and reports the result.
"""

from __future__ import annotations

from enum import Enum

from msgspec import field

from .metadata import Condition, Metadata, Part
from .redis import ImagePullPolicy, IssuerReference, Json, LocalName, Resources

__all__ = [
    "AdmissionComponent",
    "Certificates",
    "ComponentStatus",
    "Components",
    "InstallationPhase",
    "MonitoringComponent",
    "Placement",
    "RedisOperator",
    "RedisOperatorSpec",
    "RedisOperatorStatus",
    "UpdateApproval",
    "WatchedNamespaces",
]


class UpdateApproval(Enum):
    """Who decides when another version is installed."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class InstallationPhase(Enum):
    """How far the installation is."""

    DEPLOYING = "Deploying"
    DEPLOYED = "Deployed"
    UPDATING = "Updating"
    DELETING = "Deleting"
    FAILED = "Failed"


class WatchedNamespaces(Part, frozen=True):
    """The namespaces whose databases are reconciled: all, a list, or by label."""

    names: tuple[str, ...] = ()
    match_labels: dict[str, str] = field(default_factory=dict)


class Placement(Part, frozen=True):
    """Where the operator's pods run."""

    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Json, ...] = ()
    affinity: Json = field(default_factory=dict)
    priority_class_name: str = ""


class AdmissionComponent(Part, frozen=True):
    """Whether the API server asks the operator before it stores these kinds."""

    enabled: bool = True


class MonitoringComponent(Part, frozen=True):
    """Objects for Prometheus and Grafana, where the cluster has their kinds."""

    enabled: bool = True
    labels: dict[str, str] = field(default_factory=dict)
    runbook_url: str = "docs/runbooks"
    scrape_namespaces: tuple[str, ...] = ("monitoring",)
    secured: bool = False


class Components(Part, frozen=True):
    """Parts of the installation that can be switched off."""

    admission: AdmissionComponent = field(default_factory=AdmissionComponent)
    monitoring: MonitoringComponent = field(default_factory=MonitoringComponent)


class Certificates(Part, frozen=True):
    """Who issues the certificate of the admission webhooks."""

    issuer_ref: IssuerReference | None = None


class RedisOperatorSpec(Part, frozen=True):
    """What is to be installed."""

    image: str
    version: str = ""
    image_pull_policy: ImagePullPolicy = ImagePullPolicy.IF_NOT_PRESENT
    image_pull_secrets: tuple[LocalName, ...] = ()
    replicas: int = 2
    namespaces: WatchedNamespaces = field(default_factory=WatchedNamespaces)
    resources: Resources = field(default_factory=Resources)
    placement: Placement = field(default_factory=Placement)
    verbose: bool = False
    arguments: tuple[str, ...] = ()
    update_approval: UpdateApproval = UpdateApproval.AUTOMATIC
    components: Components = field(default_factory=Components)
    certificates: Certificates = field(default_factory=Certificates)


class ComponentStatus(Part, frozen=True):
    """One part of the installation."""

    name: str
    enabled: bool = True
    target_version: str = ""
    observed_version: str = ""
    image: str = ""
    ready: str = ""
    message: str = ""


class RedisOperatorStatus(Part, frozen=True):
    """The observed state of the installation."""

    observed_generation: int = 0
    phase: InstallationPhase | None = None
    message: str = ""
    target_version: str = ""
    observed_version: str = ""
    target_configuration: str = ""
    observed_configuration: str = ""
    conditions: tuple[Condition, ...] = ()
    components: tuple[ComponentStatus, ...] = ()


class RedisOperator(Part, frozen=True):
    """The operator's own installation in a cluster."""

    spec: RedisOperatorSpec
    metadata: Metadata = field(default_factory=Metadata)
    status: RedisOperatorStatus = field(default_factory=RedisOperatorStatus)
    api_version: str = "redisoperator.dev/v1"
    kind: str = "RedisOperator"
