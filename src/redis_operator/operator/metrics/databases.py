"""Metrics of databases, read from their statuses at every scrape: nothing is stored.

Labels are the namespace and name of a database, which bound the number of series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client import Counter as CounterMetric
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kubecontroller import Manifest
from redis_operator.api.status import Phase
from redis_operator.planning.modes import is_sharded

__all__ = ["DatabaseCollector", "actions_counter", "losses_counter"]

_LABELS = ("namespace", "name")


def actions_counter(registry: CollectorRegistry) -> CounterMetric:
    """Return the counter of plans carried out, by the rule that made them."""
    return CounterMetric(
        "redis_operator_plans", "Plans executed, by rule.", ["rule"], registry=registry
    )


def losses_counter(registry: CollectorRegistry) -> CounterMetric:
    """Return the counter of losses: slots of a database that lost every copy of their data."""
    return CounterMetric(
        "redis_operator_data_loss",
        "Times that slots of a database lost every copy of their data.",
        _LABELS,
        registry=registry,
    )


class DatabaseCollector(Collector):
    """One gauge for each thing that a person would alert on."""

    def __init__(self, databases: Callable[[], Iterable[Manifest]]) -> None:
        self._databases = databases

    def collect(self) -> Iterator[Metric]:
        """Read all databases."""
        found = [
            (_labels(raw), raw.get("status") or {}, _has_slots(raw)) for raw in self._databases()
        ]
        phases = Counter(status.get("phase", "") for _, status, _ in found)
        by_phase = GaugeMetricFamily(
            "redis_operator_databases", "Databases, by phase.", labels=["phase"]
        )
        for phase in Phase:
            by_phase.add_metric([phase.value], phases.get(phase.value, 0))
        yield by_phase
        own_phase = GaugeMetricFamily(
            "redis_operator_database_phase",
            "The phase of the database: 1.",
            labels=[*_LABELS, "phase"],
        )
        for labels, status, _ in found:
            if status.get("phase"):
                own_phase.add_metric([*labels, status["phase"]], 1.0)
        yield own_phase
        for name, text, value in _GAUGES:
            family = GaugeMetricFamily(f"redis_operator_database_{name}", text, labels=_LABELS)
            for labels, status, has_slots in found:
                if has_slots or name not in _OF_SLOTS:
                    family.add_metric(labels, value(status))
            yield family


def _has_slots(raw: Manifest) -> bool:
    mode = (raw.get("spec") or {}).get("mode")
    return mode is None or is_sharded(mode)


def _labels(raw: Manifest) -> list[str]:
    return [str(raw["metadata"]["namespace"]), str(raw["metadata"]["name"])]


def _condition(kind: str) -> Callable[[Manifest], float]:
    def value(status: Manifest) -> float:
        return float(
            any(c["type"] == kind and c["status"] == "True" for c in status.get("conditions", ()))
        )

    return value


def _version_supported(status: Manifest) -> float:
    """1 unless it is known to be unsupported: an unknown version raises no alert."""
    conditions = status.get("conditions", ())
    return float(
        not any(c["type"] == "VersionSupported" and c["status"] == "False" for c in conditions)
    )


def _last_loss(status: Manifest) -> float:
    time = (status.get("lastDataLoss") or {}).get("time")
    return datetime.fromisoformat(time).timestamp() if time else 0.0


def _replicas(status: Manifest) -> Iterator[dict[str, Any]]:
    for shard in status.get("shards", ()):
        yield from shard.get("replicas", ())


def _served(status: Manifest) -> float:
    return float((status.get("slots") or "0").partition("/")[0])


def _last_failover(status: Manifest) -> float:
    times = [s["lastFailoverTime"] for s in status.get("shards", ()) if s.get("lastFailoverTime")]
    return max((datetime.fromisoformat(t).timestamp() for t in times), default=0.0)


_OF_SLOTS = ("slots_served", "shards")  # a database without slots would seem to serve none

_GAUGES: tuple[tuple[str, str, Callable[[Manifest], float]], ...] = (
    ("ready", "Whether the database matches its spec.", _condition("Ready")),
    ("available", "Whether every slot is served.", _condition("Available")),
    ("degraded", "Whether something is wrong.", _condition("Degraded")),
    ("slots_served", "Slots that are served, of 16384.", _served),
    ("shards", "Shards that own slots.", lambda status: float(status.get("shardCount", 0))),
    (
        "replicas_in_sync",
        "Replicas whose link to their primary is up.",
        lambda status: float(sum(r.get("link") == "up" for r in _replicas(status))),
    ),
    (
        "replica_lag_bytes",
        "The largest lag of a replica, in whole MiB.",
        lambda status: float(max((r.get("lagBytes", 0) for r in _replicas(status)), default=0)),
    ),
    (
        "last_failover_timestamp_seconds",
        "When a shard last changed its primary; 0 when none did.",
        _last_failover,
    ),
    (
        "last_data_loss_timestamp_seconds",
        "When every copy of some data was last lost; 0 when that never happened.",
        _last_loss,
    ),
    (
        "version_supported",
        "0: the version is deprecated, or a patch level with faults that can lose data.",
        _version_supported,
    ),
)
