"""The status of a pod as one word in `kubectl get pods`, and its counts."""

from __future__ import annotations

from typing import Any

from kubelocal.apiserver.storage.entries import Object

__all__ = ["container_counts", "shown_status"]


def _is_sidecar(pod: Object, name: str) -> bool:
    for one in (pod.get("spec") or {}).get("initContainers") or ():
        if one["name"] == name:
            return bool(one.get("restartPolicy") == "Always")
    return False


def container_counts(pod: Object) -> tuple[int, int, int, str | None]:
    """Return how many containers are ready, how many there are, restarts, and the last restart."""
    status = pod.get("status") or {}
    ready, restarts = 0, 0
    last: str | None = None
    sidecars = [
        one for one in status.get("initContainerStatuses") or () if _is_sidecar(pod, one["name"])
    ]
    total = len((pod.get("spec") or {}).get("containers") or ())
    total += sum(
        one.get("restartPolicy") == "Always"
        for one in (pod.get("spec") or {}).get("initContainers") or ()
    )
    for one in [*sidecars, *(status.get("containerStatuses") or ())]:
        restarts += one.get("restartCount", 0)
        ended = ((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        if ended and (last is None or ended > last):
            last = ended
        if one.get("ready") and (one.get("state") or {}).get("running") is not None:
            ready += 1
    return ready, total, restarts, last


def shown_status(pod: Object) -> str:
    """Return the status of a pod as one word."""
    status = pod.get("status") or {}
    shown: str = status.get("reason") or status.get("phase", "")
    conditions = status.get("conditions") or ()
    if any(
        one["type"] == "PodScheduled" and one.get("reason") == "SchedulingGated"
        for one in conditions
    ):
        shown = "SchedulingGated"
    initial = _initial(pod, status)
    shown = initial or _running(status, shown, conditions)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in {"Failed", "Succeeded"}:
            return "Terminating"
    return shown


def _ended(ended: Object, prefix: str = "") -> str:
    if ended.get("reason"):
        return f"{prefix}{ended['reason']}"
    if ended.get("signal"):
        return f"{prefix}Signal:{ended['signal']}"
    return f"{prefix}ExitCode:{ended.get('exitCode', 0)}"


def _initial(pod: Object, status: Object) -> str:
    """Return the status of a pod that still initializes, or nothing."""
    total = len((pod.get("spec") or {}).get("initContainers") or ())
    for number, one in enumerate(status.get("initContainerStatuses") or ()):
        state = one.get("state") or {}
        ended = state.get("terminated")
        waits = state.get("waiting") or {}
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if _is_sidecar(pod, one["name"]) and one.get("started"):
            continue
        if ended is not None:
            return _ended(ended, "Init:")
        if waits.get("reason") and waits["reason"] != "PodInitializing":
            return f"Init:{waits['reason']}"
        return f"Init:{number}/{total}"
    return ""


def _running(status: Object, shown: str, conditions: Any) -> str:
    has_running = False
    for one in reversed(status.get("containerStatuses") or ()):
        state = one.get("state") or {}
        waits, ended = state.get("waiting") or {}, state.get("terminated")
        if waits.get("reason"):
            shown = waits["reason"]
        elif ended is not None:
            shown = _ended(ended)
        elif one.get("ready") and state.get("running") is not None:
            has_running = True
    if shown == "Completed" and has_running:
        is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        return "Running" if is_ready else "NotReady"
    return shown
