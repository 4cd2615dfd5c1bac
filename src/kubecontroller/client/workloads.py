"""Pods and workloads, projected to the fields that an operator uses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import field

from kubecontroller.client.meta import Condition, Part, Projected

__all__ = [
    "Container",
    "ContainerState",
    "ContainerStatus",
    "Deployment",
    "DeploymentSpec",
    "DeploymentStatus",
    "DisruptionStatus",
    "Job",
    "JobStatus",
    "LabelSelector",
    "Pod",
    "PodDisruptionBudget",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "Resources",
    "RollingUpdate",
    "Running",
    "StatefulSet",
    "StatefulSetSpec",
    "StatefulSetStatus",
    "Terminated",
    "UpdateStrategy",
    "Waiting",
]


# Pods


class Resources(Part, frozen=True, gc=False):
    """The resource requests and limits of a container or claim, as quantities."""

    requests: Mapping[str, str | int] | None = None
    limits: Mapping[str, str | int] | None = None


class Container(Part, frozen=True, gc=False):
    """One container of a pod."""

    name: str = ""
    image: str = ""
    resources: Resources = Resources()


class PodSpec(Part, frozen=True, gc=False):
    """The containers of a pod, its node and names."""

    containers: tuple[Container, ...] | None = None
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    service_account_name: str = ""
    priority_class_name: str = ""
    termination_grace_period_seconds: int | None = None


class Waiting(Part, frozen=True, gc=False):
    """A container that has not started, and why."""

    reason: str = ""
    message: str = ""


class Running(Part, frozen=True, gc=False):
    """A container that runs, and since when."""

    started_at: datetime | None = None


class Terminated(Part, frozen=True, gc=False):
    """A container that ended, and how."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Part, frozen=True, gc=False):
    """The state of a container: at most one of the three is set."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Part, frozen=True, gc=False):
    """The status of one container."""

    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    image: str = ""
    resources: Resources | None = None  # as actuated, where the cluster reports them
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Part, frozen=True, gc=False):
    """The status of a pod, as its kubelet reports it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = field(name="podIP", default="")
    host_ip: str = field(name="hostIP", default="")
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(Projected, frozen=True, gc=False):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# Workloads


class LabelSelector(Part, frozen=True, gc=False):
    """The labels that pods of a workload carry."""

    match_labels: Mapping[str, str] | None = None


class RollingUpdate(Part, frozen=True, gc=False):
    """The first ordinal that is updated, and how many pods at once."""

    partition: int | None = None
    max_unavailable: int | str | None = None


class UpdateStrategy(Part, frozen=True, gc=False):
    """How pods are replaced when their template changes."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class PodTemplate(Part, frozen=True, gc=False):
    """The template of a workload's pods."""

    spec: PodSpec = PodSpec()


class StatefulSetSpec(Part, frozen=True, gc=False):
    """The desired state of a StatefulSet."""

    replicas: int | None = None
    service_name: str = ""
    selector: LabelSelector = LabelSelector()
    template: PodTemplate = PodTemplate()
    update_strategy: UpdateStrategy = UpdateStrategy()
    pod_management_policy: str = ""


class StatefulSetStatus(Part, frozen=True, gc=False):
    """The progress of a StatefulSet."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(Projected, frozen=True, gc=False):
    """A StatefulSet."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DeploymentSpec(Part, frozen=True, gc=False):
    """The desired state of a Deployment."""

    replicas: int | None = None
    selector: LabelSelector = LabelSelector()
    template: PodTemplate = PodTemplate()


class DeploymentStatus(Part, frozen=True, gc=False):
    """The progress of a Deployment."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: tuple[Condition, ...] | None = None


class Deployment(Projected, frozen=True, gc=False):
    """A Deployment."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class JobStatus(Part, frozen=True, gc=False):
    """The progress of a Job."""

    active: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    start_time: datetime | None = None
    completion_time: datetime | None = None
    conditions: tuple[Condition, ...] | None = None


class Job(Projected, frozen=True, gc=False):
    """A Job."""

    status: JobStatus = JobStatus()


class DisruptionStatus(Part, frozen=True, gc=False):
    """How many pods may be disrupted now."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class PodDisruptionBudget(Projected, frozen=True, gc=False):
    """A PodDisruptionBudget."""

    status: DisruptionStatus = DisruptionStatus()
