"""The built-in kinds an operator reads, projected to the fields it uses.

Each `Kind` constant is named by its plural. Where the API may send `null`, the field may be `None`.
The rest of every object is not kept: read `PODS.plain()` for whole pods.
"""

from __future__ import annotations

from typing import Final

from kubecontroller.client.cluster import (
    ClaimSpec,
    ClaimStatus,
    ConfigMap,
    CustomResourceDefinition,
    DefinitionNames,
    DefinitionSpec,
    DefinitionStatus,
    DefinitionVersion,
    Endpoint,
    EndpointConditions,
    EndpointSlice,
    Event,
    EventSource,
    Lease,
    LeaseSpec,
    LoadBalancer,
    LoadBalancerIngress,
    MetadataOnly,
    Namespace,
    NamespaceStatus,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectReference,
    PersistentVolumeClaim,
    Secret,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
    StorageClass,
    Taint,
)
from kubecontroller.client.scheme import Kind, Scheme
from kubecontroller.client.workloads import (
    Container,
    ContainerState,
    ContainerStatus,
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    DisruptionStatus,
    Job,
    JobStatus,
    LabelSelector,
    Pod,
    PodDisruptionBudget,
    PodSpec,
    PodStatus,
    PodTemplate,
    Resources,
    RollingUpdate,
    Running,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetStatus,
    Terminated,
    UpdateStrategy,
    Waiting,
)

__all__ = [
    "BUILTIN",
    "CONFIG_MAPS",
    "CUSTOM_RESOURCE_DEFINITIONS",
    "DEPLOYMENTS",
    "ENDPOINT_SLICES",
    "EVENTS",
    "JOBS",
    "LEASES",
    "NAMESPACES",
    "NETWORK_POLICIES",
    "NODES",
    "PERSISTENT_VOLUME_CLAIMS",
    "PODS",
    "POD_DISRUPTION_BUDGETS",
    "ROLES",
    "ROLE_BINDINGS",
    "SECRETS",
    "SERVICES",
    "SERVICE_ACCOUNTS",
    "STATEFUL_SETS",
    "STORAGE_CLASSES",
    "ClaimSpec",
    "ClaimStatus",
    "ConfigMap",
    "Container",
    "ContainerState",
    "ContainerStatus",
    "CustomResourceDefinition",
    "DefinitionNames",
    "DefinitionSpec",
    "DefinitionStatus",
    "DefinitionVersion",
    "Deployment",
    "DeploymentSpec",
    "DeploymentStatus",
    "DisruptionStatus",
    "Endpoint",
    "EndpointConditions",
    "EndpointSlice",
    "Event",
    "EventSource",
    "Job",
    "JobStatus",
    "LabelSelector",
    "Lease",
    "LeaseSpec",
    "LoadBalancer",
    "LoadBalancerIngress",
    "MetadataOnly",
    "Namespace",
    "NamespaceStatus",
    "Node",
    "NodeSpec",
    "NodeStatus",
    "ObjectReference",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "Resources",
    "RollingUpdate",
    "Running",
    "Secret",
    "Service",
    "ServicePort",
    "ServiceSpec",
    "ServiceStatus",
    "StatefulSet",
    "StatefulSetSpec",
    "StatefulSetStatus",
    "StorageClass",
    "Taint",
    "Terminated",
    "UpdateStrategy",
    "Waiting",
]

PODS: Final = Kind("", "v1", "Pod", "pods", True, Pod)
STATEFUL_SETS: Final = Kind("apps", "v1", "StatefulSet", "statefulsets", True, StatefulSet)
DEPLOYMENTS: Final = Kind("apps", "v1", "Deployment", "deployments", True, Deployment)
JOBS: Final = Kind("batch", "v1", "Job", "jobs", True, Job)
POD_DISRUPTION_BUDGETS: Final = Kind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, PodDisruptionBudget
)
SERVICES: Final = Kind("", "v1", "Service", "services", True, Service)
ENDPOINT_SLICES: Final = Kind(
    "discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True, EndpointSlice
)
CONFIG_MAPS: Final = Kind("", "v1", "ConfigMap", "configmaps", True, ConfigMap)
SECRETS: Final = Kind("", "v1", "Secret", "secrets", True, Secret)
PERSISTENT_VOLUME_CLAIMS: Final = Kind(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, PersistentVolumeClaim
)
STORAGE_CLASSES: Final = Kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", False, StorageClass
)
NODES: Final = Kind("", "v1", "Node", "nodes", False, Node)
NAMESPACES: Final = Kind("", "v1", "Namespace", "namespaces", False, Namespace)
LEASES: Final = Kind("coordination.k8s.io", "v1", "Lease", "leases", True, Lease)
EVENTS: Final = Kind("", "v1", "Event", "events", True, Event)
SERVICE_ACCOUNTS: Final = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, MetadataOnly)
ROLES: Final = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles", True, MetadataOnly)
ROLE_BINDINGS: Final = Kind(
    "rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", True, MetadataOnly
)
NETWORK_POLICIES: Final = Kind(
    "networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, MetadataOnly
)
CUSTOM_RESOURCE_DEFINITIONS: Final = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    False,
    CustomResourceDefinition,
)

BUILTIN: Final[Scheme] = Scheme(
    PODS,
    STATEFUL_SETS,
    DEPLOYMENTS,
    JOBS,
    POD_DISRUPTION_BUDGETS,
    SERVICES,
    ENDPOINT_SLICES,
    CONFIG_MAPS,
    SECRETS,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    NODES,
    NAMESPACES,
    LEASES,
    EVENTS,
    SERVICE_ACCOUNTS,
    ROLES,
    ROLE_BINDINGS,
    NETWORK_POLICIES,
    CUSTOM_RESOURCE_DEFINITIONS,
)
