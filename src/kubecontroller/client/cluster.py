"""Network, configuration, storage and the cluster itself, projected to the fields in use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import field

from kubecontroller.client.meta import Condition, Part, Projected
from kubecontroller.client.workloads import Resources

__all__ = [
    "ClaimSpec",
    "ClaimStatus",
    "ConfigMap",
    "CustomResourceDefinition",
    "DefinitionNames",
    "DefinitionSpec",
    "DefinitionStatus",
    "DefinitionVersion",
    "Endpoint",
    "EndpointConditions",
    "EndpointSlice",
    "Event",
    "EventSource",
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
    "Secret",
    "Service",
    "ServicePort",
    "ServiceSpec",
    "ServiceStatus",
    "StorageClass",
    "Taint",
]


class MetadataOnly(Projected, frozen=True, gc=False):
    """An object with only its metadata."""


# Network


class ServicePort(Part, frozen=True, gc=False):
    """One port of a Service."""

    name: str = ""
    protocol: str = ""
    port: int = 0
    target_port: int | str | None = None
    node_port: int = 0


class ServiceSpec(Part, frozen=True, gc=False):
    """Which pods a Service selects, and on which ports."""

    type: str = ""
    cluster_ip: str = field(name="clusterIP", default="")
    selector: Mapping[str, str] | None = None
    ports: tuple[ServicePort, ...] | None = None
    publish_not_ready_addresses: bool = False


class LoadBalancerIngress(Part, frozen=True, gc=False):
    """One external address of a Service."""

    ip: str = ""
    hostname: str = ""


class LoadBalancer(Part, frozen=True, gc=False):
    """The external addresses of a Service."""

    ingress: tuple[LoadBalancerIngress, ...] | None = None


class ServiceStatus(Part, frozen=True, gc=False):
    """The external addresses that a Service was given."""

    load_balancer: LoadBalancer = LoadBalancer()


class Service(Projected, frozen=True, gc=False):
    """A Service."""

    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


class ObjectReference(Part, frozen=True, gc=False):
    """A reference to an object."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EndpointConditions(Part, frozen=True, gc=False):
    """Whether an endpoint may receive traffic."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(Part, frozen=True, gc=False):
    """One pod behind a Service."""

    addresses: tuple[str, ...] | None = None
    conditions: EndpointConditions = EndpointConditions()
    target_ref: ObjectReference | None = None


class EndpointSlice(Projected, frozen=True, gc=False):
    """Some of the pods behind a Service."""

    address_type: str = ""
    endpoints: tuple[Endpoint, ...] | None = None


# Configuration and storage


class ConfigMap(Projected, frozen=True, gc=False):
    """A ConfigMap."""

    data: Mapping[str, str] | None = None
    immutable: bool | None = None


class Secret(Projected, frozen=True, gc=False):
    """A Secret, its values decoded; its representation hides them."""

    type: str = ""
    data: Mapping[str, bytes] | None = None
    immutable: bool | None = None

    def __repr__(self) -> str:
        shown = ", ".join(f"{name!r}: ***" for name in self.data or ())
        return f"Secret({'/'.join(self.metadata.key)}, type={self.type!r}, data={{{shown}}})"


class ClaimSpec(Part, frozen=True, gc=False):
    """The storage that a claim requests."""

    storage_class_name: str | None = None
    volume_name: str = ""
    resources: Resources = Resources()


class ClaimStatus(Part, frozen=True, gc=False):
    """The storage that a claim was given."""

    phase: str = ""
    capacity: Mapping[str, str | int] | None = None
    conditions: tuple[Condition, ...] | None = None


class PersistentVolumeClaim(Projected, frozen=True, gc=False):
    """A PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class StorageClass(Projected, frozen=True, gc=False):
    """A StorageClass."""

    provisioner: str = ""
    allow_volume_expansion: bool | None = None
    reclaim_policy: str | None = None


# The cluster


class Taint(Part, frozen=True, gc=False):
    """A property of a node that keeps pods away from it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Part, frozen=True, gc=False):
    """The desired state of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class NodeStatus(Part, frozen=True, gc=False):
    """The conditions of a node."""

    conditions: tuple[Condition, ...] | None = None


class Node(Projected, frozen=True, gc=False):
    """A Node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceStatus(Part, frozen=True, gc=False):
    """Whether a namespace is active or terminating."""

    phase: str = ""


class Namespace(Projected, frozen=True, gc=False):
    """A Namespace."""

    status: NamespaceStatus = NamespaceStatus()


class LeaseSpec(Part, frozen=True, gc=False):
    """The holder of a lease, since when, and for how long without renewal."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(Projected, frozen=True, gc=False):
    """A Lease."""

    spec: LeaseSpec = LeaseSpec()


class EventSource(Part, frozen=True, gc=False):
    """The component that reported an event."""

    component: str = ""
    host: str = ""


class Event(Projected, frozen=True, gc=False):
    """An Event."""

    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    source: EventSource = EventSource()
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


class DefinitionNames(Part, frozen=True, gc=False):
    """The names of a custom kind."""

    kind: str = ""
    plural: str = ""
    singular: str = ""


class DefinitionVersion(Part, frozen=True, gc=False):
    """One version of a custom kind."""

    name: str = ""
    served: bool = False
    storage: bool = False


class DefinitionSpec(Part, frozen=True, gc=False):
    """The group, scope, names and versions of a custom kind."""

    group: str = ""
    scope: str = ""
    names: DefinitionNames = DefinitionNames()
    versions: tuple[DefinitionVersion, ...] | None = None


class DefinitionStatus(Part, frozen=True, gc=False):
    """Whether a custom kind is served."""

    conditions: tuple[Condition, ...] | None = None
    stored_versions: tuple[str, ...] | None = None


class CustomResourceDefinition(Projected, frozen=True, gc=False):
    """A CustomResourceDefinition."""

    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()
