"""The Grafana dashboard of the operator and its databases. Pure.

Rows of panels are a table; the position of each panel is computed from it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import Struct

from .alerts import JOB

__all__ = ["PANELS", "Panel", "Query", "dashboard", "dashboard_json"]

_WIDTH: Final = 24
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_CHOSEN: Final = 'namespace=~"$namespace", name=~"$name"'
_OURS: Final = f'job="{JOB}"'
_DATABASE: Final = "namespace, name"
_SERVER: Final = "namespace, name, pod"
_BY_DATABASE: Final = "{{namespace}}/{{name}}"
_BY_SERVER: Final = "{{namespace}}/{{pod}}"


class Query(Struct, frozen=True):
    """One expression, and the legend of its lines."""

    expression: str
    legend: str


class Panel(Struct, frozen=True):
    """One panel: metrics over time, or as one number (`stat`)."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8


def _of_databases(figure: str) -> str:
    return f"max by ({_DATABASE}) (redis_operator_database_{figure}{{{_CHOSEN}}})"


def _of_servers(figure: str) -> str:
    return f"max by ({_SERVER}) (redis_operator_server_{figure}{{{_CHOSEN}}})"


def _rates(counter: str) -> str:
    return f"max by ({_SERVER}) ({_rate(f'redis_operator_server_{counter}', _CHOSEN)})"


def _rate(counter: str, chosen: str = _OURS) -> str:
    return f"rate({counter}{{{chosen}}}[$__rate_interval])"


def _late(histogram: str, label: str) -> str:
    return f"histogram_quantile(0.99, sum by ({label}, le) ({_rate(f'{histogram}_bucket')}))"


def _databases(title: str, figure: str, unit: str = "short") -> Panel:
    return Panel(title, (Query(_of_databases(figure), _BY_DATABASE),), unit)


def _servers(title: str, figure: str, unit: str = "short") -> Panel:
    return Panel(title, (Query(_of_servers(figure), _BY_SERVER),), unit)


_HITS: Final = (
    f"sum by ({_DATABASE}) ({_rate('redis_operator_server_keyspace_hits_total', _CHOSEN)})"
)
_MISSES: Final = (
    f"sum by ({_DATABASE}) ({_rate('redis_operator_server_keyspace_misses_total', _CHOSEN)})"
)
_LEADS: Final = f'leader_election_master_status{{{_OURS}, name="redis-operator"}}'

PANELS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Databases",
        (
            Panel(
                "Databases by phase",
                (Query("max by (phase) (redis_operator_databases) > 0", "{{phase}}"),),
                kind="stat",
                width=12,
            ),
            Panel(
                "Not available",
                (Query(f"count({_of_databases('available')} == 0) or vector(0)", "databases"),),
                kind="stat",
                width=4,
            ),
            Panel(
                "Degraded",
                (Query(f"count({_of_databases('degraded')} == 1) or vector(0)", "databases"),),
                kind="stat",
                width=4,
            ),
            Panel(
                "Not ready",
                (Query(f"count({_of_databases('ready')} == 0) or vector(0)", "databases"),),
                kind="stat",
                width=4,
            ),
            _databases("Slots that are served", "slots_served"),
            _databases("Replicas in sync", "replicas_in_sync"),
            Panel(
                "Since a primary last changed",
                (
                    Query(
                        f"time() - ({_of_databases('last_failover_timestamp_seconds')} > 0)",
                        _BY_DATABASE,
                    ),
                ),
                "s",
            ),
        ),
    ),
    (
        "Servers",
        (
            _servers("Responding", "up"),
            _servers("Primary", "primary"),
            Panel("Commands per second", (Query(_rates("commands_total"), _BY_SERVER),), "ops"),
            _servers("Memory", "memory_used_bytes", "bytes"),
            Panel(
                "Memory used of maxmemory",
                (
                    Query(
                        f"{_of_servers('memory_used_bytes')} / "
                        f"({_of_servers('memory_max_bytes')} > 0)",
                        _BY_SERVER,
                    ),
                ),
                "percentunit",
            ),
            Panel("Evicted keys per second", (Query(_rates("evicted_keys_total"), _BY_SERVER),)),
            _servers("Keys", "keys"),
            _servers("Connections of clients", "connected_clients"),
            Panel(
                "Hit ratio",
                (Query(f"{_HITS} / ({_HITS} + {_MISSES} > 0)", _BY_DATABASE),),
                "percentunit",
            ),
            _servers("Replicas: bytes behind", "replication_lag_bytes", "bytes"),
            _servers("Replicas: link is up", "replication_link_up"),
            Panel(
                "Files are written",
                (
                    Query(_of_servers("append_only_file_ok"), f"{_BY_SERVER} append-only file"),
                    Query(_of_servers("snapshot_ok"), f"{_BY_SERVER} snapshot"),
                ),
            ),
        ),
    ),
    (
        "Operator",
        (
            Panel(
                "Leading",
                (
                    Query(
                        f"max by (pod) ({_LEADS})",
                        "{{pod}}",
                    ),
                ),
            ),
            Panel(
                "Reconciles per second, by result",
                (
                    Query(
                        "sum by (controller, result) "
                        f"({_rate('controller_runtime_reconcile_total')})",
                        "{{controller}} {{result}}",
                    ),
                ),
                "ops",
            ),
            Panel(
                "Duration of reconciles, 99 %",
                (
                    Query(
                        _late("controller_runtime_reconcile_time_seconds", "controller"),
                        "{{controller}}",
                    ),
                ),
                "s",
            ),
            Panel(
                "Plans executed, by rule",
                (
                    Query(
                        "sum by (rule) (increase(redis_operator_plans_total[$__rate_interval]))",
                        "{{rule}}",
                    ),
                ),
            ),
            Panel(
                "Waiting in queues",
                (Query(f"sum by (name) (workqueue_depth{{{_OURS}}})", "{{name}}"),),
            ),
            Panel(
                "Requests to the API server per second",
                (
                    Query(
                        f"sum by (code, method) ({_rate('rest_client_requests_total')})",
                        "{{method}} {{code}}",
                    ),
                ),
                "ops",
            ),
            Panel(
                "Delay of the event loop, 99 %",
                (
                    Query(
                        _late("event_loop_lag_seconds", "pod"),
                        "{{pod}}",
                    ),
                ),
                "s",
            ),
            Panel(
                "Memory of the operator",
                (Query(f"max by (pod) (process_resident_memory_bytes{{{_OURS}}})", "{{pod}}"),),
                "bytes",
            ),
            Panel(
                "CPU of the operator",
                (
                    Query(
                        f"sum by (pod) ({_rate('process_cpu_seconds_total')})",
                        "{{pod}}",
                    ),
                ),
            ),
        ),
    ),
)
"""Each row of the dashboard with its panels."""


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    line = 0
    for title, row in PANELS:
        place = {"x": 0, "y": line, "w": _WIDTH, "h": 1}
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "gridPos": place, "panels": []}
        )
        line, column = line + 1, 0
        for panel in row:
            if column + panel.width > _WIDTH:
                line, column = line + _HEIGHT, 0
            place = {"x": column, "y": line, "w": panel.width, "h": _HEIGHT}
            panels.append(_panel(panel, len(panels) + 1, place))
            column += panel.width
        line += _HEIGHT
    return {
        "uid": "redis-operator",
        "title": "Redis databases",
        "tags": ["redis", "redis-operator"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_source(), _variable("namespace"), _variable("name")]},
        "panels": panels,
    }


def dashboard_json() -> str:
    """Return the dashboard as a file."""
    return json.dumps(dashboard(), indent=1) + "\n"


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": dict(_SOURCE),
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": dict(_SOURCE),
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def _source() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"}


def _variable(label: str) -> dict[str, Any]:
    narrowed = '{namespace=~"$namespace"}' if label == "name" else ""
    query = f"label_values(redis_operator_database_ready{narrowed}, {label})"
    return {
        "name": label,
        "type": "query",
        "label": {"namespace": "Namespace", "name": "Database"}[label],
        "datasource": dict(_SOURCE),
        "query": {"query": query, "refId": label},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "sort": 1,
    }
