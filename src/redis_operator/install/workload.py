"""The operator's own pods: Deployment, disruption budget, Services, NetworkPolicy. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from redis_operator.api.webhooks import SERVICE

from .options import EVERYWHERE, Options
from .rights import OPERATOR

__all__ = [
    "METRICS_LABELS",
    "POD_LABELS",
    "PORT",
    "WEBHOOK_PORT",
    "budget",
    "deployment",
    "from_pod",
    "metrics_port",
    "metrics_service",
    "network_policy",
    "probes",
    "restricted_container",
    "restricted_pod",
    "scrapers",
    "webhook_service",
]

T = TypeVar("T")
POD_LABELS: Final = {"app.kubernetes.io/name": OPERATOR}
"""These labels, which never change, select the pods for Deployment, budget, Service and
policies."""
METRICS_LABELS: Final = {"redisoperator.dev/service": "metrics"}
"""On the Service that is scraped, and on no other."""
SCRAPER_LABELS: Final = {"metrics": "enabled"}
"""Namespaces with these labels may read metrics too, without a change of the installation."""
PORT: Final = 8080
WEBHOOK_PORT: Final = 9443
SECURED_PORT: Final = 8443
_SECURED: Final = "secured-metrics"
_USER: Final = 65532
_STOP_SECONDS: Final = 45  # longer than a graceful stop takes


def deployment(options: Options) -> dict[str, Any]:
    """Return the Deployment: several pods with one leader, under `restricted` pod security."""
    pod: dict[str, Any] = {
        "serviceAccountName": OPERATOR,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _STOP_SECONDS,
        "securityContext": restricted_pod(),
        "topologySpreadConstraints": [
            _spread("topology.kubernetes.io/zone"),
            _spread("kubernetes.io/hostname"),
        ],
        "containers": [_container(options)],
        **options.placement,
    }
    if options.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in options.pull_secrets]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": options.namespace, "name": OPERATOR},
        "spec": {
            "replicas": options.replicas,
            "revisionHistoryLimit": 3,
            "progressDeadlineSeconds": 300,
            "selector": {"matchLabels": dict(POD_LABELS)},
            # a new pod is ready, its caches filled, before an old one hands over
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "template": {
                "metadata": {
                    "labels": dict(POD_LABELS),
                    "annotations": {
                        "prometheus.io/scrape": "true",
                        "prometheus.io/port": str(metrics_port(options)),
                        **dict(_secured(options, ("prometheus.io/scheme", "https"))),
                        "kubectl.kubernetes.io/default-container": "operator",
                    },
                },
                "spec": pod,
            },
        },
    }


def _container(options: Options) -> dict[str, Any]:
    return {
        "name": "operator",
        "image": options.image,
        "imagePullPolicy": options.pull_policy,
        "command": ["redis-operator"],
        "args": [
            *("run", "--log", "json"),
            *_webhook_arguments(options),
            *_secured(options, "--secured-metrics-port", str(SECURED_PORT)),
            *options.arguments,
        ],
        "env": [
            from_pod("POD_NAME", "metadata.name"),
            from_pod("POD_NAMESPACE", "metadata.namespace"),
            {"name": "WATCH_NAMESPACES", "value": ",".join(options.watch_namespaces)},
            {"name": "WORKER_IMAGE", "value": options.image},
        ],
        "ports": [
            {"name": "metrics", "containerPort": PORT, "protocol": "TCP"},
            *([_webhook_port()] if options.webhooks else ()),
            *_secured(
                options, {"name": _SECURED, "containerPort": SECURED_PORT, "protocol": "TCP"}
            ),
        ],
        # caches of a big cluster take a while to fill; that is readiness, not life
        **probes(),
        "resources": {part: dict(amounts) for part, amounts in options.resources.items()},
        "securityContext": restricted_container(),
    }


def _secured(options: Options, *given: T) -> tuple[T, ...]:
    """Return the value where metrics are secured, else nothing."""
    return given if options.monitoring.secured else ()


def metrics_port(options: Options) -> int:
    """Return where the operator's metrics are served."""
    return SECURED_PORT if options.monitoring.secured else PORT


def _metrics_name(options: Options) -> str:
    return _SECURED if options.monitoring.secured else "metrics"


def _webhook_arguments(options: Options) -> list[str]:
    if not options.webhooks:
        return []
    issued = [] if options.issuer is None else ["--webhook-certificate=issued"]
    return ["--webhook-port", str(WEBHOOK_PORT), *issued]


def _webhook_port() -> dict[str, Any]:
    return {"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"}


def restricted_pod() -> dict[str, Any]:
    """Return the security context of pods: an ordinary user without a name."""
    return {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def restricted_container() -> dict[str, Any]:
    """Return the security context of containers: no capabilities, and no writable disk."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def from_pod(name: str, path: str) -> dict[str, Any]:
    """Return a variable with a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def probes() -> dict[str, Any]:
    """Return the probes of the programs."""
    return {
        "startupProbe": {**_asked("/healthz"), "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {**_asked("/healthz"), "periodSeconds": 10, "timeoutSeconds": 5},
        "readinessProbe": {**_asked("/readyz"), "periodSeconds": 2, "timeoutSeconds": 2},
    }


def _asked(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "metrics", "scheme": "HTTP"}}


def _spread(key: str) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(POD_LABELS)},
    }


def budget(options: Options) -> dict[str, Any]:
    """Return the disruption budget: a drain of nodes takes the operator's pods one by one.

    A pod that is not ready may always be evicted, so that a broken operator never blocks a drain.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": options.namespace, "name": OPERATOR},
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": dict(POD_LABELS)},
        },
    }


def metrics_service(options: Options) -> dict[str, Any]:
    """Return the headless Service that metrics are scraped through."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "namespace": options.namespace,
            "name": f"{OPERATOR}-metrics",
            "labels": dict(METRICS_LABELS),
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": dict(POD_LABELS),
            "ports": [
                {
                    "name": "metrics",
                    "port": metrics_port(options),
                    "targetPort": _metrics_name(options),
                    "protocol": "TCP",
                }
            ],
        },
    }


def webhook_service(options: Options) -> dict[str, Any]:
    """Return the Service through which the API server reaches any replica that is ready."""
    port = {"name": "webhook", "port": WEBHOOK_PORT, "targetPort": "webhook", "protocol": "TCP"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": options.namespace, "name": SERVICE},
        "spec": {"selector": dict(POD_LABELS), "ports": [port]},
    }


def network_policy(
    options: Options, name: str = OPERATOR, labels: Mapping[str, str] = POD_LABELS
) -> dict[str, Any]:
    """Return the NetworkPolicy of the pods: webhooks are open to all, metrics to some.

    No label selects the API server, so the port of the webhooks is open; requests to it need no
    secret. A kubelet reaches the pods of its own node in spite of any policy.
    """
    served = _metrics_name(options) if name == OPERATOR else "metrics"
    figures: dict[str, Any] = {"ports": [{"port": served, "protocol": "TCP"}]}
    if EVERYWHERE not in options.monitoring.scrape_namespaces:
        figures["from"] = scrapers(options)
    ingress = [figures]
    if name == OPERATOR and options.webhooks:
        ingress.append({"ports": [{"port": "webhook", "protocol": "TCP"}]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"namespace": options.namespace, "name": name},
        "spec": {
            "podSelector": {"matchLabels": dict(labels)},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }


def scrapers(options: Options) -> list[dict[str, Any]]:
    """Return which pods may read metrics: of the own namespace, of those named, of those
    labelled."""
    named = {
        "key": "kubernetes.io/metadata.name",
        "operator": "In",
        "values": list(options.monitoring.scrape_namespaces),
    }
    by_name = [{"namespaceSelector": {"matchExpressions": [named]}}] if named["values"] else []
    return [
        {"podSelector": {}},
        {"namespaceSelector": {"matchLabels": dict(SCRAPER_LABELS)}},
        *by_name,
    ]
