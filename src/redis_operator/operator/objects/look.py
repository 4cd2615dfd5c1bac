"""From cached Kubernetes objects to what planning sees of pods, workloads and volumes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubecontroller.client.objects import (
    ContainerStatus,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    StatefulSet,
    StorageClass,
    Terminated,
)
from redis_operator.api.quantity import parse_quantity
from redis_operator.manifests import names
from redis_operator.manifests.layout import Layout
from redis_operator.manifests.pod import RESTARTED_ANNOTATION
from redis_operator.manifests.standalone_scripts import DATA_MISSING
from redis_operator.planning import observed as seen

__all__ = [
    "SERVER",
    "has_ended",
    "is_left_out",
    "lacking_labels",
    "memory_limit",
    "pod_seen",
    "volume_seen",
    "workload_seen",
]

SERVER: Final = "server"  # the container that runs the server
_ZONE: Final = "topology.kubernetes.io/zone"
_REVISION: Final = "controller-revision-hash"
_LONGEST: Final = 200
# What the engines say about files that they cannot read, whatever their version.
_BROKEN: Final = (
    "Bad file format reading the append only file",
    "Unexpected end of file reading the append only file",
    "Unrecoverable error reading the append only file",
    "Invalid AOF manifest file format",
    "The AOF manifest file contains",
    "Wrong signature trying to load DB",
    "Wrong RDB checksum",
    "Unexpected EOF reading RDB file",
    "Internal error in RDB reading",
)
# Said when memory ran out while files were loaded: the files are intact.
_NO_MEMORY: Final = ("failed allocating", "Out Of Memory")
_STARTING: Final = ("ContainerCreating", "PodInitializing", "")
_RESIZES: Final = ("PodResizePending", "PodResizeInProgress")
_DRAINED: Final = frozenset({"node.kubernetes.io/unschedulable"})


def pod_seen(layout: Layout, database: str, pod: Pod, nodes: Mapping[str, Node]) -> seen.Pod | None:
    """Return a pod as planning sees it; None when it is not a pod of the database."""
    place = layout.place_of(database, pod.metadata.name, pod.metadata.labels)
    if place is None:
        return None
    node = nodes.get(pod.spec.node_name)
    born = pod.metadata.creation_timestamp
    server = _server_status(pod)
    return seen.Pod(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        shard=place.shard,
        ordinal=place.ordinal,
        ip=pod.status.pod_ip,
        phase=_phase(pod),
        ready=_is_ready(pod),
        revision=pod.metadata.label(_REVISION),
        node=pod.spec.node_name,
        zone=node.metadata.label(_ZONE) if node is not None else "",
        deleting=pod.metadata.is_deleting,
        restarts=server.restart_count if server is not None else 0,
        role_label=pod.metadata.label(names.ROLE_LABEL),
        waiting=_waiting(pod),
        since=born.timestamp() if born is not None else 0.0,
        restarted_at=pod.metadata.annotation(RESTARTED_ANNOTATION),
        draining=node is not None and _is_drained(node),
        shape=pod.metadata.annotation(names.SHAPE_ANNOTATION),
        resources=_resources(pod.spec),
        resizing=_resizing(pod),
        memory_limit=_limit_in_force(pod),
        killed_for_memory_at=_killed_for_memory_at(pod),
        unloadable=_unloadable(pod),
        data_missing=_data_missing(pod),
    )


def lacking_labels(layout: Layout, database: str, pod: Pod) -> tuple[tuple[str, str], ...]:
    """Return the labels that a pod of this database must have and does not, by its name. K-27"""
    place = layout.place_of(database, pod.metadata.name)
    if place is None:
        return ()
    wanted = names.common_labels(database) | layout.selector(database, place.shard)
    return tuple(
        (label, value)
        for label, value in sorted(wanted.items())
        if pod.metadata.label(label) != value
    )


def _phase(pod: Pod) -> seen.PodPhase:
    try:
        return seen.PodPhase(pod.status.phase or "Pending")
    except ValueError:
        return seen.PodPhase.UNKNOWN


def _is_ready(pod: Pod) -> bool:
    """Whether the server is ready: other containers of the pod must not block the database."""
    server = _server_status(pod)
    return server.ready if server is not None else _condition(pod, "Ready")


def is_left_out(pod: Pod) -> bool:
    """Whether no Service selects a server that is ready, because of a sidecar container."""
    server = _server_status(pod)
    if server is None or not server.ready or pod.metadata.is_deleting:
        return False
    beside = (s for s in pod.status.container_statuses or () if s.name != SERVER)
    return any(s.state.terminated is not None or _fails_to_start(s) for s in beside)


def _fails_to_start(status: ContainerStatus) -> bool:
    waiting = status.state.waiting
    return waiting is not None and waiting.reason not in _STARTING


def _condition(pod: Pod, kind: str) -> bool:
    return any(c.type == kind and c.is_true for c in pod.status.conditions or ())


def _waiting(pod: Pod) -> str:
    """Describe why a pod does not run."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"{condition.reason}: {condition.message}"
    for status in (
        *(pod.status.init_container_statuses or ()),
        *(pod.status.container_statuses or ()),
    ):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in _STARTING:
            message = f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
            last = _last_line(status)
            end = f", which ended with: {last}" if last else ""
            return f"{message} (container {status.name}){end}"
    return ""


def _server_status(pod: Pod) -> ContainerStatus | None:
    found = (s for s in pod.status.container_statuses or () if s.name == SERVER)
    return next(found, None)


def _end(status: ContainerStatus) -> Terminated | None:
    """Return how a container last ended."""
    return status.state.terminated or status.last_state.terminated


def _last_line(status: ContainerStatus) -> str:
    """Return the last line of a failed container, with the directive that it is about."""
    end = _end(status)
    lines = [line.strip() for line in end.message.splitlines()] if end is not None else []
    last = next((line for line in reversed(lines) if line), "")
    setting = next((line.removeprefix(">>> ") for line in lines if line.startswith(">>> ")), "")
    return (f"{setting}: {last}" if setting and not last.startswith(">>>") else last)[-_LONGEST:]


def _killed_for_memory_at(pod: Pod) -> float:
    status = _server_status(pod)
    end = _end(status) if status is not None else None
    if end is None or end.reason != "OOMKilled":
        return 0.0
    born = pod.metadata.creation_timestamp
    moment = end.finished_at or born
    return moment.timestamp() if moment is not None else 0.0


def memory_limit(pod: Pod) -> int:
    """Return how many bytes the server's container may use; 0: unlimited."""
    for container in pod.spec.containers or ():
        if container.name == SERVER:
            return int(parse_quantity((container.resources.limits or {}).get("memory", 0)) or 0)
    return 0


def _limit_in_force(pod: Pod) -> int:
    """Return the memory that a server has: a resize is in effect when its node says so."""
    asked, status = memory_limit(pod), _server_status(pod)
    if not asked or status is None or status.resources is None:
        return asked
    given = int(parse_quantity((status.resources.limits or {}).get("memory", 0)) or 0)
    return min(asked, given) if given else asked


def _resources(spec: PodSpec) -> tuple[tuple[str, str], ...]:
    """Return the resources of the server as in a pod: a missing request equals the limit."""
    for container in spec.containers or ():
        if container.name == SERVER:
            limits = dict(container.resources.limits or {})
            requests = limits | dict(container.resources.requests or {})
            found = {f"limits.{name}": str(amount) for name, amount in limits.items()}
            found |= {f"requests.{name}": str(amount) for name, amount in requests.items()}
            return tuple(sorted(found.items()))
    return ()


def _resizing(pod: Pod) -> str:
    """Return why new resources of a pod are not in effect yet, if it has any."""
    for condition in pod.status.conditions or ():
        if condition.type in _RESIZES and condition.is_true:
            return f"{condition.reason or 'InProgress'}: {condition.message}".removesuffix(": ")
    return ""


def _unloadable(pod: Pod) -> str:
    """Return what a server that is not up said about its files when it ended, if it did."""
    status = _server_status(pod)
    end = _end(status) if status is not None else None
    if status is None or end is None or status.ready:
        return ""
    if end.reason == "OOMKilled" or any(text in end.message for text in _NO_MEMORY):
        return ""
    for line in end.message.splitlines():
        at = min((i for text in _BROKEN if (i := line.find(text)) >= 0), default=-1)
        if at >= 0:
            return line[at:].strip()[:_LONGEST]
    return ""


def _data_missing(pod: Pod) -> bool:
    """Whether a server that is not up found at its last start that its files are gone."""
    status = _server_status(pod)
    end = _end(status) if status is not None else None
    return (
        status is not None and end is not None and not status.ready and DATA_MISSING in end.message
    )


def _is_drained(node: Node) -> bool:
    return node.spec.unschedulable or any(t.key in _DRAINED for t in node.spec.taints or ())


def has_ended(pod: Pod) -> bool:
    """Whether the kubelet reports that the server's container does not run."""
    for status in pod.status.container_statuses or ():
        if status.name == SERVER:
            ended = status.state.terminated is not None
            between = status.state.waiting is not None and status.last_state.terminated is not None
            return ended or between
    return False


def workload_seen(layout: Layout, database: str, found: StatefulSet) -> seen.Workload | None:
    """Return a group's StatefulSet as planning sees it."""
    shard = layout.group_labelled(found.metadata.labels or {})
    if shard is None or found.metadata.name != layout.workload(database, shard):
        return None
    current = found.status.observed_generation >= found.metadata.generation
    return seen.Workload(
        shard=shard,
        name=found.metadata.name,
        uid=found.metadata.uid,
        pods=found.spec.replicas or 0,
        revision=found.status.update_revision if current else "",
        current=current,
        shape=found.metadata.annotation(names.SHAPE_ANNOTATION),
        resources=_resources(found.spec.template.spec),
        stamp=found.metadata.annotation(names.INTENT_ANNOTATION),
        deleting=found.metadata.is_deleting,
    )


def volume_seen(
    layout: Layout,
    database: str,
    claim: PersistentVolumeClaim,
    classes: Mapping[str, StorageClass] | None,
) -> seen.Volume | None:
    """Return a pod's claim as planning sees it."""
    pod = claim.metadata.name.removeprefix("data-")
    if layout.place_of(database, pod) is None:
        return None
    asked = (claim.spec.resources.requests or {}).get("storage", 0)
    given = (claim.status.capacity or {}).get("storage", 0)
    found = (classes or {}).get(claim.spec.storage_class_name or "")
    expandable = found is not None and bool(found.allow_volume_expansion)
    return seen.Volume(
        name=claim.metadata.name,
        pod=pod,
        uid=claim.metadata.uid,
        requested=int(parse_quantity(asked) or 0),
        capacity=int(parse_quantity(given) or 0),
        expandable=None if classes is None else expandable,
        deleting=claim.metadata.is_deleting,
        needs_restart=any(
            c.type == "FileSystemResizePending" and c.is_true for c in claim.status.conditions or ()
        ),
        labels=tuple(sorted((claim.metadata.labels or {}).items())),
    )
