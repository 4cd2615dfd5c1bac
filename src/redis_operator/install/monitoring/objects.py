"""ServiceMonitors, PrometheusRule and dashboard, for clusters that have these kinds. Pure."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

from redis_operator.install.options import Options
from redis_operator.install.rights import OPERATOR
from redis_operator.install.workload import METRICS_LABELS
from redis_operator.manifests.names import DATABASE_LABEL

from .alerts import ALERTS, Alert
from .dashboard import dashboard_json

__all__ = ["DASHBOARD_LABEL", "MONITORING_GROUP", "monitoring"]

MONITORING_GROUP: Final = "monitoring.coreos.com"
DASHBOARD_LABEL: Final = "grafana_dashboard"
"""The label by which Grafana's sidecar finds dashboards."""
_API_VERSION: Final = f"{MONITORING_GROUP}/v1"
_META_DATABASE: Final = "__meta_kubernetes_service_label_redisoperator_dev_database"


def monitoring(options: Options) -> list[dict[str, Any]]:
    """Return the objects of monitoring; none if it is switched off."""
    if not options.monitoring.install:
        return []
    return [
        _dashboard(options),
        _operator_monitor(options),
        _exporter_monitor(options),
        _rule(options),
    ]


def _metadata(options: Options, name: str) -> dict[str, Any]:
    labels = dict(options.monitoring.labels)
    found: dict[str, Any] = {"namespace": options.namespace, "name": name}
    return {**found, "labels": labels} if labels else found


def _operator_monitor(options: Options) -> dict[str, Any]:
    """Return the ServiceMonitor of the operator's pods.

    The operator's labels `namespace` and `pod` name databases and servers, not the scraped pod.
    """
    return {
        "apiVersion": _API_VERSION,
        "kind": "ServiceMonitor",
        "metadata": _metadata(options, OPERATOR),
        "spec": {
            "selector": {"matchLabels": dict(METRICS_LABELS)},
            "endpoints": [{**_endpoint(), **_secured(options), "honorLabels": True}],
        },
    }


def _exporter_monitor(options: Options) -> dict[str, Any]:
    """Return the ServiceMonitor of the exporters beside servers, where databases have them."""
    watched = list(options.watch_namespaces)
    relabelled = [{"sourceLabels": [_META_DATABASE], "targetLabel": "name"}]
    exists = [{"key": DATABASE_LABEL, "operator": "Exists"}]
    return {
        "apiVersion": _API_VERSION,
        "kind": "ServiceMonitor",
        "metadata": _metadata(options, f"{OPERATOR}-exporters"),
        "spec": {
            "namespaceSelector": {"matchNames": watched} if watched else {"any": True},
            "selector": {"matchExpressions": exists},
            "endpoints": [{**_endpoint(), "relabelings": relabelled}],
        },
    }


def _endpoint() -> dict[str, Any]:
    return {"port": "metrics", "path": "/metrics", "interval": "30s", "scrapeTimeout": "10s"}


def _secured(options: Options) -> dict[str, Any]:
    """Return the access to secured metrics: by the token of the Prometheus itself.

    The certificate is one that each pod makes for itself, so it cannot be verified.
    """
    if not options.monitoring.secured:
        return {}
    return {
        "scheme": "https",
        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "tlsConfig": {"insecureSkipVerify": True},
    }


def _rule(options: Options) -> dict[str, Any]:
    groups = [
        {"name": group.value, "rules": [_alert(alert, options) for alert in alerts]}
        for group, alerts in groupby(ALERTS, key=lambda alert: alert.group)
    ]
    return {
        "apiVersion": _API_VERSION,
        "kind": "PrometheusRule",
        "metadata": _metadata(options, OPERATOR),
        "spec": {"groups": groups},
    }


def _alert(alert: Alert, options: Options) -> dict[str, Any]:
    pages = options.monitoring.runbook_url.rstrip("/")
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.lasting,
        "labels": {"severity": alert.severity.value},
        "annotations": {
            "summary": alert.summary,
            "runbook_url": f"{pages}/{alert.name}.md",
        },
    }


def _dashboard(options: Options) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": options.namespace,
            "name": f"{OPERATOR}-dashboard",
            "labels": {DASHBOARD_LABEL: "1"},
        },
        "data": {"redis-operator.json": dashboard_json()},
    }
