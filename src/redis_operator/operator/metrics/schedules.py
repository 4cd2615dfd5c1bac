"""Metrics of schedules of backups, read from them at every scrape: nothing is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kubecontroller import Manifest
from redis_operator.api.cron import Cron, read_cron
from redis_operator.api.metadata import Condition
from redis_operator.api.redisbackupschedule import ArchiveWindow, RedisBackupSchedule
from redis_operator.api.redisbackupschedule_validation import load_schedule
from redis_operator.planning.backups.archives import ARCHIVING

__all__ = ["ScheduleCollector"]

_LABELS = ("namespace", "name", "schedule")
_TIMES = 10  # scheduled times: the longest gap between two is how far apart backups may be
_GRACE = timedelta(hours=1)
_ARCHIVE_GRACE = timedelta(minutes=5)
_NOTHING_TO_ARCHIVE = ("NotRunning", "Suspended", "TurnedOff")


class ScheduleCollector(Collector):
    """When each schedule is due, whether its last backup failed, and when it is late."""

    def __init__(self, schedules: Callable[[], Iterable[Manifest]]) -> None:
        self._schedules = schedules

    def collect(self) -> Iterator[Metric]:
        """Read all valid schedules."""
        loaded = map(load_schedule, self._schedules())
        found = [one for one in loaded if isinstance(one, RedisBackupSchedule)]
        for name, text, value in _GAUGES:
            family = GaugeMetricFamily(
                f"redis_operator_backup_schedule_{name}", text, labels=_LABELS
            )
            for one in found:
                figure = value(one)
                if figure is not None:
                    meta = one.metadata
                    family.add_metric((meta.namespace, one.spec.redis, meta.name), figure)
            yield family


def _suspended(schedule: RedisBackupSchedule) -> float:
    return float(schedule.spec.suspend)


def _next(schedule: RedisBackupSchedule) -> float | None:
    return _seconds(schedule.status.next_time)


def _failed(schedule: RedisBackupSchedule) -> float | None:
    known = [c.status for c in schedule.status.conditions if c.type == "LastSucceeded"]
    return float("False" in known) if known else None


def _late_after(schedule: RedisBackupSchedule) -> float | None:
    """Return by when another backup must have succeeded: after that two in a row are missing."""
    status, spec = schedule.status, schedule.spec
    since = max(_seconds(status.last_success_time) or 0.0, _seconds(status.since) or 0.0)
    cron = read_cron(spec.schedule, spec.time_zone)
    if spec.suspend or not since or not isinstance(cron, Cron):
        return None
    times = [cron.after(datetime.fromtimestamp(_seconds(status.since) or since, UTC))]
    while len(times) < _TIMES:
        times.append(cron.after(times[-1]))
    apart = max(after - before for before, after in pairwise(times))
    late = 2 * apart + _GRACE + timedelta(seconds=spec.jitter_seconds)
    return since + late.total_seconds()


def _archiving(schedule: RedisBackupSchedule) -> float | None:
    """Return whether the archive makes progress; None if that is not known, or none is wanted."""
    state = _condition(schedule)
    if not schedule.spec.continuous or state is None or state.status == "Unknown":
        return None
    return float(state.status == "True")


def _archive_late_after(schedule: RedisBackupSchedule) -> float | None:
    """Return by when the archive must have made progress; also if the worker is silent."""
    state, spec = _condition(schedule), schedule.spec
    if not spec.continuous or spec.suspend or state is None or state.reason in _NOTHING_TO_ARCHIVE:
        return None
    window = schedule.status.window
    known = _seconds(window.newest) if window is not None else None
    since = known or _seconds(state.last_transition_time)
    return None if since is None else since + _ARCHIVE_GRACE.total_seconds()


def _condition(schedule: RedisBackupSchedule) -> Condition | None:
    return next((c for c in schedule.status.conditions if c.type == ARCHIVING), None)


def _of_window(
    figure: Callable[[ArchiveWindow], float | None],
) -> Callable[[RedisBackupSchedule], float | None]:
    def read(schedule: RedisBackupSchedule) -> float | None:
        window = schedule.status.window
        return figure(window) if window is not None else None

    return read


def _last_gap(window: ArchiveWindow) -> float | None:
    return _seconds(window.last_gap.before) if window.last_gap is not None else None


def _seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


_GAUGES: tuple[tuple[str, str, Callable[[RedisBackupSchedule], float | None]], ...] = (
    ("suspended", "Whether the schedule is suspended.", _suspended),
    ("next_timestamp_seconds", "When its next backup starts.", _next),
    ("last_failed", "Whether its last backup failed.", _failed),
    (
        "late_after_timestamp_seconds",
        "Time by which its next backup must have completed.",
        _late_after,
    ),
    ("archiving", "Whether its archive is running.", _archiving),
    (
        "archive_late_after_timestamp_seconds",
        "Time by which its archive must have progressed.",
        _archive_late_after,
    ),
    (
        "archive_oldest_timestamp_seconds",
        "Oldest time that can be restored.",
        _of_window(lambda window: _seconds(window.oldest)),
    ),
    (
        "archive_newest_timestamp_seconds",
        "Newest time that can be restored.",
        _of_window(lambda window: _seconds(window.newest)),
    ),
    (
        "archive_gaps",
        "Number of gaps in the archive.",
        _of_window(lambda window: float(window.gaps)),
    ),
    ("archive_last_gap_timestamp_seconds", "End of the last gap.", _of_window(_last_gap)),
    (
        "archive_last_base_timestamp_seconds",
        "When the last base was taken.",
        _of_window(lambda window: _seconds(window.last_base)),
    ),
    (
        "archive_spooled_bytes",
        "Bytes that wait on the disk of the worker.",
        _of_window(lambda window: float(window.spooled_bytes)),
    ),
    (
        "archive_stored_bytes",
        "Bytes stored since the worker started.",
        _of_window(lambda window: float(window.stored_bytes)),
    ),
)
