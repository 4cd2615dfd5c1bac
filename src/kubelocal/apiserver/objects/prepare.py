"""Fields that the server sets on a new object of a built-in kind, beyond defaults, unmanaged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["prepare", "quality_of_service"]

_NO_EXECUTE = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300}


def prepare(group: str, kind: str, document: dict[str, Any]) -> None:
    """Complete a new object in place; its uid must be set."""
    special = _SPECIAL.get((group, kind))
    if special is not None:
        special(document)


def _pod(pod: dict[str, Any]) -> None:
    spec, status = pod["spec"], pod.setdefault("status", {})
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = spec["serviceAccountName"]
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append({**_NO_EXECUTE, "key": key})
    status["phase"] = "Pending"
    status["qosClass"] = quality_of_service(spec)


def _tolerates(toleration: dict[str, Any], key: str) -> bool:
    return toleration.get("key", "") in {"", key} and toleration.get("effect", "") in {
        "",
        "NoExecute",
    }


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """Return the QoS class of a pod."""
    asked = False
    guaranteed = True
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        wanted = {name for name in {*requests, *limits} if name in {"cpu", "memory"}}
        asked = asked or bool(wanted)
        both = {"cpu", "memory"} <= set(limits)
        guaranteed = (
            guaranteed and both and all(requests.get(n, limits[n]) == limits[n] for n in limits)
        )
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _service(service: dict[str, Any]) -> None:
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return
    is_bare = spec.get("clusterIP") == "None" and not spec.get("selector")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if is_bare else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if is_bare else "SingleStack")
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
    service.setdefault("status", {}).setdefault("loadBalancer", {})


def _protected(finalizer: str) -> Callable[[dict[str, Any]], None]:
    def special(document: dict[str, Any]) -> None:
        finalizers = document["metadata"].setdefault("finalizers", [])
        if finalizer not in finalizers:
            finalizers.append(finalizer)
        document.setdefault("status", {})["phase"] = "Pending"

    return special


def _namespace(namespace: dict[str, Any]) -> None:
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    namespace["status"] = {"phase": "Active"}


def _job(job: dict[str, Any]) -> None:
    """Set the selector of a job, by its own uid, unless it is given."""
    spec, metadata = job["spec"], job["metadata"]
    uid, name = metadata.get("uid"), metadata.get("name", "")
    if spec.get("manualSelector") or not uid:
        return
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    template["labels"] = {**(template.get("labels") or {}), **labels}
    if not metadata.get("labels"):
        metadata["labels"] = dict(template["labels"])
    wanted = spec.setdefault("selector", {}).setdefault("matchLabels", {})
    wanted["batch.kubernetes.io/controller-uid"] = uid


def _definition(crd: dict[str, Any]) -> None:
    status = crd.setdefault("status", {})
    status["storedVersions"] = [
        version["name"] for version in crd["spec"].get("versions") or () if version.get("storage")
    ]


def _role(role: dict[str, Any]) -> None:
    role["rules"] = role.get("rules") or None


_SPECIAL: dict[tuple[str, str], Callable[[dict[str, Any]], None]] = {
    ("", "Pod"): _pod,
    ("", "Service"): _service,
    ("", "Namespace"): _namespace,
    ("", "PersistentVolumeClaim"): _protected("kubernetes.io/pvc-protection"),
    ("", "PersistentVolume"): _protected("kubernetes.io/pv-protection"),
    ("batch", "Job"): _job,
    ("rbac.authorization.k8s.io", "Role"): _role,
    ("rbac.authorization.k8s.io", "ClusterRole"): _role,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}
