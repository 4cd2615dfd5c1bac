"""Metrics of backups, read from the `RedisBackup`s at every scrape: nothing is stored.

Labels are the namespace and name of a database: a series for each backup would never end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kubecontroller import Manifest
from redis_operator.api.redisbackup import BackupPhase, RedisBackupStatus
from redis_operator.api.redisbackup_validation import load_redisbackup_status
from redis_operator.planning.backups.schedules import is_good

__all__ = ["BackupCollector"]

_LABELS = ("namespace", "name")


class BackupCollector(Collector):
    """How many backups there are, and the newest good one of each database."""

    def __init__(self, backups: Callable[[], Iterable[Manifest]]) -> None:
        self._backups = backups

    def collect(self) -> Iterator[Metric]:
        """Read all backups."""
        found = [(_database(raw), load_redisbackup_status(raw)) for raw in self._backups()]
        phases = Counter((key, (s.phase or BackupPhase.PENDING).value) for key, s in found)
        count = GaugeMetricFamily(
            "redis_operator_backups",
            "Backups of the database, by phase.",
            labels=(*_LABELS, "phase"),
        )
        for key in sorted({key for key, _ in found}):
            for phase in BackupPhase:
                count.add_metric([*key, phase.value], phases.get((key, phase.value), 0))
        yield count
        newest: dict[tuple[str, str], RedisBackupStatus] = {}
        for key, status in found:
            known = newest.get(key)
            if is_good(status) and (
                known is None or status.completion_time > known.completion_time
            ):
                newest[key] = status
        for name, text, value in _GAUGES:
            family = GaugeMetricFamily(f"redis_operator_backup_last_{name}", text, labels=_LABELS)
            for key, status in sorted(newest.items()):
                family.add_metric(key, value(status))
            yield family


def _database(raw: Manifest) -> tuple[str, str]:
    return str(raw["metadata"]["namespace"]), str((raw.get("spec") or {}).get("redis", ""))


def _seconds(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


_GAUGES: tuple[tuple[str, str, Callable[[RedisBackupStatus], float]], ...] = (
    (
        "success_timestamp_seconds",
        "When the newest good backup ended.",
        lambda status: _seconds(status.completion_time),
    ),
    (
        "duration_seconds",
        "How long the newest good backup took, failed attempts included.",
        lambda status: max(0.0, _seconds(status.completion_time) - _seconds(status.start_time)),
    ),
    (
        "size_bytes",
        "Bytes of the snapshots of the newest good backup.",
        lambda status: float(status.size),
    ),
    (
        "stored_bytes",
        "Bytes that the newest good backup takes in its store.",
        lambda status: float(status.stored),
    ),
)
