"""Metrics of restores, read from the `RedisRestore`s at every scrape: nothing is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kubecontroller import Manifest
from redis_operator.api.redisrestore import RedisRestoreStatus, RestorePhase
from redis_operator.api.redisrestore_validation import load_redisrestore_status

__all__ = ["RestoreCollector"]

_LABELS = ("namespace", "name")
_Database = tuple[str, str]


class RestoreCollector(Collector):
    """How many restores there are of each database, and what is wrong with them."""

    def __init__(self, restores: Callable[[], Iterable[Manifest]]) -> None:
        self._restores = restores

    def collect(self) -> Iterator[Metric]:
        """Read all restores."""
        found = [(_database(raw), load_redisrestore_status(raw)) for raw in self._restores()]
        databases = sorted({key for key, _ in found})
        yield _counts(databases, found)
        back = GaugeMetricFamily(
            "redis_operator_restore_rolling_back",
            "Whether a restore failed and gives the database back what it had: clients wait.",
            labels=_LABELS,
        )
        failed = GaugeMetricFamily(
            "redis_operator_restore_last_failure_timestamp_seconds",
            "When the restore of the database that ended last failed; 0 if it did not.",
            labels=_LABELS,
        )
        for key in databases:
            known = [status for place, status in found if place == key]
            back.add_metric(key, any(s.phase is RestorePhase.ROLLING_BACK for s in known))
            failed.add_metric(key, _failed(known))
        yield back
        yield failed


def _counts(
    databases: list[_Database], found: list[tuple[_Database, RedisRestoreStatus]]
) -> Metric:
    phases = Counter((key, status.phase or RestorePhase.PENDING) for key, status in found)
    count = GaugeMetricFamily(
        "redis_operator_restores",
        "Restores into the database while it is in use, by phase.",
        labels=(*_LABELS, "phase"),
    )
    for key in databases:
        for phase in RestorePhase:
            count.add_metric([*key, phase.value], phases.get((key, phase), 0))
    return count


def _failed(known: list[RedisRestoreStatus]) -> float:
    """Return when the last restore ended, if it failed."""
    last = max((s for s in known if s.completion_time), key=_ended, default=None)
    if last is None or last.phase is not RestorePhase.FAILED:
        return 0.0
    try:
        return datetime.fromisoformat(last.completion_time).timestamp()
    except ValueError:
        return 0.0


def _ended(status: RedisRestoreStatus) -> str:
    return status.completion_time


def _database(raw: Manifest) -> _Database:
    return str(raw["metadata"]["namespace"]), str((raw.get("spec") or {}).get("redis", ""))
