"""The status of a pod, as a kubelet writes it.

Pure: from the pod and the state of its containers to the `status` object. Conditions of other
controllers (readiness gates, `DisruptionTarget`) are read and never written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from kubecontroller.custom import dated
from kubelocal.apiserver.objects.prepare import quality_of_service
from kubelocal.node.pod.states import Container, Role, Running, Terminated, Waiting, instant

__all__ = ["RUNTIME", "PodState", "phase_of", "pod_status"]

RUNTIME = "process"
"""The scheme of container ids, where a cluster has `containerd`."""


class PodState(Struct, frozen=True, kw_only=True):
    """The state of a pod on this node, beside its containers."""

    containers: Sequence[Container]
    host_ip: str
    pod_ip: str | None = None
    start_time: datetime | None = None
    is_terminal: bool = False
    failed: tuple[str, str] | None = None
    """Reason and message, when the node itself failed the pod."""


def phase_of(pod: Mapping[str, Any], state: PodState) -> str:
    """Return the phase that follows from the containers and the restart policy."""
    if state.failed is not None:
        return "Failed"
    policy = pod["spec"].get("restartPolicy", "Always")
    inits = [c for c in state.containers if c.role is not Role.MAIN]
    mains = [c for c in state.containers if c.role is Role.MAIN]
    if policy == "Never" and any(_failed_init(c) for c in inits):
        return "Failed"
    begun = any(not isinstance(c.state, Waiting) or c.last is not None for c in mains)
    if not begun and any(_is_pending_init(c) for c in inits):
        return "Pending"
    beside = any(c.role is Role.SIDECAR and isinstance(c.state, Running) for c in inits)
    return _phase_of_mains(mains, policy, beside=beside, is_terminal=state.is_terminal)


def _failed_init(container: Container) -> bool:
    ended = container.state
    return container.role is Role.INIT and isinstance(ended, Terminated) and ended.code != 0


def _is_pending_init(container: Container) -> bool:
    if container.role is Role.SIDECAR:
        return not container.started
    return not container.succeeded


def _phase_of_mains(
    mains: Sequence[Container], policy: str, *, beside: bool, is_terminal: bool
) -> str:
    running = sum(isinstance(c.state, Running) for c in mains)
    ended = [c for c in mains if isinstance(c.state, Terminated) or _is_between(c)]
    if len(ended) + running < len(mains):
        return "Pending"
    if running or beside:
        return "Running"
    all_well = all(c.succeeded for c in ended)
    if is_terminal:
        return "Succeeded" if all_well else "Failed"
    if policy == "Always":
        return "Running"
    if all_well:
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def _is_between(container: Container) -> bool:
    """Whether a container ended and waits for its restart."""
    return isinstance(container.state, Waiting) and container.last is not None


def pod_status(pod: Mapping[str, Any], state: PodState, *, now: datetime) -> dict[str, Any]:
    """Return the whole status that the node is responsible for."""
    phase = phase_of(pod, state)
    generation = pod["metadata"].get("generation")
    status: dict[str, Any] = {"phase": phase}
    if generation:
        status["observedGeneration"] = generation
    if state.failed is not None:
        status["reason"], status["message"] = state.failed
    status["conditions"] = _conditions(pod, state, phase, now)
    status["hostIP"] = state.host_ip
    status["hostIPs"] = [{"ip": state.host_ip}]
    if state.pod_ip is not None:
        status["podIP"] = state.pod_ip
        status["podIPs"] = [{"ip": state.pod_ip}]
    if state.start_time is not None:
        status["startTime"] = instant(state.start_time)
    inits = [c for c in state.containers if c.role is not Role.MAIN]
    if inits:
        status["initContainerStatuses"] = [_container_status(pod, c) for c in inits]
    mains = sorted((c for c in state.containers if c.role is Role.MAIN), key=lambda c: c.name)
    status["containerStatuses"] = [_container_status(pod, c) for c in mains]
    status["qosClass"] = (pod.get("status") or {}).get("qosClass") or quality_of_service(
        pod["spec"]
    )
    return status


def _container_status(pod: Mapping[str, Any], container: Container) -> dict[str, Any]:
    spec = _spec_of(pod, container.name)
    status: dict[str, Any] = {
        "name": container.name,
        "state": _state_value(container.state),
        "lastState": _state_value(container.last) if container.last is not None else {},
        "ready": container.ready,
        "restartCount": container.restarts,
        "image": container.image,
        "imageID": container.image_identity,
        "started": container.started,
    }
    if container.identity:
        status["containerID"] = f"{RUNTIME}://{container.identity}"
        resources = spec.get("resources") or {}
        status["resources"] = {
            key: resources[key] for key in ("limits", "requests") if resources.get(key)
        }
        if resources.get("requests"):
            status["allocatedResources"] = resources["requests"]
    mounts = [_mount_value(mount) for mount in spec.get("volumeMounts") or ()]
    if mounts:
        status["volumeMounts"] = mounts
    return status


def _mount_value(mount: Mapping[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if mount.get("readOnly"):
        value |= {"readOnly": True, "recursiveReadOnly": "Disabled"}
    return value


def _spec_of(pod: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    spec = pod["spec"]
    found: Mapping[str, Any] = next(
        c for c in (*spec["containers"], *(spec.get("initContainers") or ())) if c["name"] == name
    )
    return found


def _state_value(state: Waiting | Running | Terminated) -> dict[str, Any]:
    match state:
        case Waiting(reason, message):
            value: dict[str, Any] = {"reason": reason}
            if message:
                value["message"] = message
            return {"waiting": value}
        case Running(started):
            return {"running": {"startedAt": instant(started)}}
        case Terminated():
            ended: dict[str, Any] = {
                "exitCode": state.code,
                "reason": state.reason,
                "startedAt": instant(state.started) if state.started else None,
                "finishedAt": instant(state.finished),
            }
            if state.message:
                ended["message"] = state.message
            if state.identity:
                ended["containerID"] = f"{RUNTIME}://{state.identity}"
            return {"terminated": ended}


def _conditions(
    pod: Mapping[str, Any], state: PodState, phase: str, now: datetime
) -> list[dict[str, Any]]:
    existing = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or ()}
    ready_containers = _containers_ready(state, phase)
    wanted = (
        ("PodReadyToStartContainers", state.pod_ip is not None and not state.is_terminal, "", ""),
        ("Initialized", *_initialized(state, phase)),
        ("Ready", *_ready(pod, existing, ready_containers)),
        ("ContainersReady", *ready_containers),
    )
    generation = pod["metadata"].get("generation")
    conditions = []
    for kind, holds, reason, message in wanted:
        condition: dict[str, Any] = {
            "type": kind,
            "status": "True" if holds else "False",
            "lastProbeTime": None,
        }
        if generation:
            condition["observedGeneration"] = generation
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        conditions.append(dated(condition, existing.get(kind), instant(now)))
    return conditions


def _names(containers: Sequence[Container]) -> str:
    return "[" + " ".join(container.name for container in containers) + "]"


def _initialized(state: PodState, phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return True, "PodCompleted", ""
    pending = [c for c in state.containers if c.role is not Role.MAIN and _is_pending_init(c)]
    mains = [c for c in state.containers if c.role is Role.MAIN]
    begun = any(not isinstance(c.state, Waiting) or c.last is not None for c in mains)
    if pending and not begun:
        message = f"containers with incomplete status: {_names(pending)}"
        return False, "ContainersNotInitialized", message
    return True, "", ""


def _containers_ready(state: PodState, phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return False, "PodCompleted", ""
    if phase == "Failed":
        return False, "PodFailed", ""
    counted = [c for c in state.containers if c.role is not Role.INIT]
    unready = [c for c in counted if not c.ready]
    if unready:
        message = f"containers with unready status: {_names(unready)}"
        return False, "ContainersNotReady", message
    return True, "", ""


def _ready(
    pod: Mapping[str, Any],
    existing: Mapping[str, Mapping[str, Any]],
    containers: tuple[bool, str, str],
) -> tuple[bool, str, str]:
    if not containers[0]:
        return containers
    problems = []
    for gate in pod["spec"].get("readinessGates") or ():
        name = gate["conditionType"]
        condition = existing.get(name)
        if condition is None:
            problems.append(
                f'corresponding condition of pod readiness gate "{name}" does not exist.'
            )
        elif condition.get("status") != "True":
            problems.append(
                f'the status of pod readiness gate "{name}" is not "True", but '
                f"{condition.get('status')}"
            )
    if problems:
        return False, "ReadinessGatesNotReady", ", ".join(problems)
    return True, "", ""
