"""Defaults of built-in kinds, by definition, as Kubernetes' Go code sets them.

Plain defaults are in `defaults.json`; the others are functions. `filling` applies them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import msgspec

__all__ = ["DEFAULTS", "SPECIAL"]

_CORE = "io.k8s.api.core.v1."
_APPS = "io.k8s.api.apps.v1."
_CRDS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_RBAC = "rbac.authorization.k8s.io"

DEFAULTS: dict[str, dict[str, Any]] = msgspec.json.decode(
    files(__package__).joinpath("defaults.json").read_bytes()
)


def _pull_policy(container: dict[str, Any]) -> None:
    if container.get("imagePullPolicy"):
        return
    image = container.get("image", "")
    tail = image.rpartition("/")[2]
    is_pinned = "@" in image or (":" in tail and not tail.endswith(":latest"))
    container["imagePullPolicy"] = "IfNotPresent" if is_pinned else "Always"


def _pod_spec(spec: dict[str, Any]) -> None:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    if not spec.get("hostNetwork"):
        return
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        for port in container.get("ports", ()):
            port.setdefault("hostPort", port.get("containerPort"))


def _pod(pod: dict[str, Any]) -> None:
    """Set requests from limits, which only a pod has (not a template), and service variables."""
    spec = pod["spec"]
    spec.setdefault("enableServiceLinks", True)
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        for name, amount in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, amount)


def _pod_status(status: dict[str, Any]) -> None:
    """Keep a pod's first address and the list of its addresses consistent."""
    if status.get("podIPs"):
        status["podIP"] = status["podIPs"][0].get("ip", "")
    elif status.get("podIP"):
        status["podIPs"] = [{"ip": status["podIP"]}]


def _volume(volume: dict[str, Any]) -> None:
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}


def _service_spec(spec: dict[str, Any]) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    else:
        config = spec.setdefault("sessionAffinityConfig", {})
        config.setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports", ()):
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port")
    if spec["type"] in {"NodePort", "LoadBalancer"}:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _stateful_set_strategy(strategy: dict[str, Any]) -> None:
    """Set the partition only where the strategy is not named."""
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)


def _deployment_strategy(strategy: dict[str, Any]) -> None:
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxSurge", "25%")
        rolling.setdefault("maxUnavailable", "25%")


def _stateful_set_spec(spec: dict[str, Any]) -> None:
    for template in spec.get("volumeClaimTemplates", ()):
        template.setdefault("apiVersion", "v1")
        template.setdefault("kind", "PersistentVolumeClaim")


def _job_spec(spec: dict[str, Any]) -> None:
    if "completions" not in spec and spec["parallelism"] == 1:
        spec["completions"] = 1
    if "backoffLimitPerIndex" not in spec:
        spec.setdefault("backoffLimit", 6)
    spec.setdefault("backoffLimit", 2**31 - 1)
    rule = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", rule)


def _secret(secret: dict[str, Any]) -> None:
    for name, text in (secret.pop("stringData", None) or {}).items():
        encoded = base64.b64encode(text.encode()).decode()
        secret.setdefault("data", {})[name] = encoded


def _namespace(namespace: dict[str, Any]) -> None:
    name = namespace.get("metadata", {}).get("name")
    if name:
        labels = namespace["metadata"].setdefault("labels", {})
        labels.setdefault("kubernetes.io/metadata.name", name)


def _network_policy_spec(spec: dict[str, Any]) -> None:
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _subject(subject: dict[str, Any]) -> None:
    if subject.get("kind") in {"User", "Group"}:
        subject.setdefault("apiGroup", _RBAC)


def _definition_spec(spec: dict[str, Any]) -> None:
    names = spec.get("names", {})
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")


SPECIAL: dict[str, Callable[[dict[str, Any]], None]] = {
    _CORE + "Container": _pull_policy,
    _CORE + "EphemeralContainer": _pull_policy,
    _CORE + "PodSpec": _pod_spec,
    _CORE + "Pod": _pod,
    _CORE + "PodStatus": _pod_status,
    _CORE + "Volume": _volume,
    _CORE + "ServiceSpec": _service_spec,
    _CORE + "Secret": _secret,
    _CORE + "Namespace": _namespace,
    _APPS + "StatefulSetUpdateStrategy": _stateful_set_strategy,
    _APPS + "DeploymentStrategy": _deployment_strategy,
    _APPS + "StatefulSetSpec": _stateful_set_spec,
    "io.k8s.api.batch.v1.JobSpec": _job_spec,
    "io.k8s.api.networking.v1.NetworkPolicySpec": _network_policy_spec,
    "io.k8s.api.rbac.v1.Subject": _subject,
    _CRDS + "CustomResourceDefinitionSpec": _definition_spec,
}
