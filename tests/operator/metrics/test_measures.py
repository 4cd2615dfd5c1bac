from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from redis_operator.operator.metrics.backups import BackupCollector
from redis_operator.operator.metrics.databases import DatabaseCollector, actions_counter
from redis_operator.operator.metrics.restores import RestoreCollector
from redis_operator.operator.metrics.schedules import ScheduleCollector


def test_what_people_alert_on_is_read_from_the_status() -> None:
    registry = CollectorRegistry()
    replicas = [{"pod": "b", "link": "up", "lagBytes": 1048576}, {"pod": "c", "link": "down"}]
    status = {
        "phase": "Degraded",
        "conditions": [
            {"type": "Available", "status": "True"},
            {"type": "Ready", "status": "False"},
        ],
        "slots": "16384/16384",
        "shardCount": 3,
        "shards": [{"replicas": replicas, "lastFailoverTime": "2026-01-01T00:00:00Z"}],
    }
    databases = [
        {"metadata": {"namespace": "n", "name": "cache"}, "status": status},
        {"metadata": {"namespace": "n", "name": "new"}},
    ]
    registry.register(DatabaseCollector(lambda: databases))
    actions_counter(registry).labels("assist").inc()
    text = generate_latest(registry).decode()
    for line in (
        'redis_operator_databases{phase="Degraded"} 1.0',
        'redis_operator_databases{phase="Ready"} 0.0',
        'redis_operator_database_ready{name="cache",namespace="n"} 0.0',
        'redis_operator_database_available{name="cache",namespace="n"} 1.0',
        'redis_operator_database_slots_served{name="cache",namespace="n"} 16384.0',
        'redis_operator_database_replicas_in_sync{name="cache",namespace="n"} 1.0',
        'redis_operator_database_replica_lag_bytes{name="cache",namespace="n"} 1.048576e+06',
        'redis_operator_database_slots_served{name="new",namespace="n"} 0.0',
        'redis_operator_plans_total{rule="assist"} 1.0',
    ):
        assert line in text


def test_a_database_without_slots_has_no_figures_of_slots() -> None:
    """An alert on slots that are not served would be about nothing."""
    raw = {"metadata": {"namespace": "n", "name": "one"}, "spec": {"mode": "Failover"}}
    registry = CollectorRegistry()
    registry.register(DatabaseCollector(lambda: [raw]))
    text = generate_latest(registry).decode()
    assert 'redis_operator_database_ready{name="one"' in text
    assert "redis_operator_database_slots_served{" not in text
    assert "redis_operator_database_shards{" not in text


def schedule(name: str, suspend: bool = False, **status: object) -> dict[str, object]:
    template = {"storage": {"claim": {"name": "backups"}}}
    spec = {"redis": "cache", "schedule": "0 3 * * 1-5", "template": template, "suspend": suspend}
    return {"metadata": {"namespace": "n", "name": name}, "spec": spec, "status": status}


def test_a_schedule_is_late_when_two_backups_in_a_row_are_missing() -> None:
    known = {"since": "2026-01-01T00:00:00Z", "nextTime": "2026-01-12T03:00:00Z"}
    failed = [{"type": "LastSucceeded", "status": "False", "reason": "BackupFailed"}]
    schedules = [
        schedule("weekdays", **known, lastSuccessTime="2026-01-09T03:01:00Z", conditions=failed),
        schedule("asleep", True, **known),
        schedule("new"),
        {"metadata": {"namespace": "n", "name": "wrong"}, "spec": {"schedule": "no"}},
    ]
    registry = CollectorRegistry()
    registry.register(ScheduleCollector(lambda: schedules))
    text = generate_latest(registry).decode()
    labels = 'name="cache",namespace="n",schedule='
    late = datetime(2026, 1, 9, 3, 1, tzinfo=UTC) + timedelta(hours=2 * 72 + 1)
    found = registry.get_sample_value(
        "redis_operator_backup_schedule_late_after_timestamp_seconds",
        {"namespace": "n", "name": "cache", "schedule": "weekdays"},
    )
    assert found == late.timestamp()
    assert f'redis_operator_backup_schedule_last_failed{{{labels}"weekdays"}} 1.0' in text
    assert f'redis_operator_backup_schedule_suspended{{{labels}"asleep"}} 1.0' in text
    assert f'late_after_timestamp_seconds{{{labels}"asleep"}}' not in text
    assert f'late_after_timestamp_seconds{{{labels}"new"}}' not in text
    assert '"wrong"' not in text


def test_an_archive_is_late_also_where_its_worker_is_silent() -> None:
    def archive(name: str, status: str, reason: str, **window: object) -> dict[str, object]:
        since = "2026-01-05T10:00:00Z"
        condition = {"type": "Archiving", "status": status, "reason": reason}
        told = {"conditions": [{**condition, "lastTransitionTime": since}]}
        made = schedule(name, **told, **({"window": window} if window else {}))
        made["spec"] = {**made["spec"], "continuous": True}  # type: ignore[dict-item]  # a mapping
        return made

    gap = {"shard": "server-0", "before": "2026-01-05T09:00:00Z"}
    window = {"newest": "2026-01-05T12:00:00Z", "gaps": 1, "lastGap": gap, "spooledBytes": 7}
    schedules = [
        archive("well", "True", "Archiving", **window),
        archive("silent", "Unknown", "WorkerSilent", **window),
        archive("new", "False", "Starting"),
        archive("asleep", "False", "NotRunning", **window),
        schedule("other"),
    ]
    registry = CollectorRegistry()
    registry.register(ScheduleCollector(lambda: schedules))

    def figure(name: str, of: str) -> float | None:
        labels = {"namespace": "n", "name": "cache", "schedule": of}
        return registry.get_sample_value(f"redis_operator_backup_schedule_{name}", labels)

    late = datetime(2026, 1, 5, 12, 5, tzinfo=UTC).timestamp()
    assert figure("archive_late_after_timestamp_seconds", "well") == late
    assert figure("archive_late_after_timestamp_seconds", "silent") == late
    assert figure("archive_late_after_timestamp_seconds", "new") == late - 7200
    assert figure("archive_late_after_timestamp_seconds", "asleep") is None
    assert figure("archive_late_after_timestamp_seconds", "other") is None
    assert [figure("archiving", one) for one in ("well", "silent", "new")] == [1.0, None, 0.0]
    assert figure("archive_gaps", "well") == 1.0
    assert figure("archive_spooled_bytes", "well") == 7.0
    ended = datetime(2026, 1, 5, 9, tzinfo=UTC).timestamp()
    assert figure("archive_last_gap_timestamp_seconds", "well") == ended


def test_the_newest_good_backup_of_a_database_has_its_age_and_size() -> None:
    def backup(name: str, redis: str, **status: object) -> dict[str, object]:
        meta = {"namespace": "n", "name": name}
        return {"metadata": meta, "spec": {"redis": redis}, "status": status}

    good = {"phase": "Completed", "startTime": "2026-01-01T00:00:00Z", "size": 9, "stored": 4}
    found = {"type": "Verified", "status": "False", "reason": "BackupDamaged", "message": "x"}
    damaged = {"verified": "False", "conditions": [found]}
    backups = [
        backup("old", "cache", **good, completionTime="2026-01-01T00:00:05Z"),
        backup("new", "cache", **good | {"size": 10}, completionTime="2026-01-01T00:00:30Z"),
        backup("bad", "cache", phase="Failed", completionTime="2026-02-01T00:00:00Z"),
        backup("damaged", "cache", **good, completionTime="2026-03-01T00:00:00Z", **damaged),
        backup("first", "other"),
        backup("broken", "other", phase=5),
    ]
    registry = CollectorRegistry()
    registry.register(BackupCollector(lambda: backups))
    text = generate_latest(registry).decode()
    for line in (
        'redis_operator_backups{name="cache",namespace="n",phase="Completed"} 3.0',
        'redis_operator_backups{name="cache",namespace="n",phase="Failed"} 1.0',
        'redis_operator_backups{name="other",namespace="n",phase="Pending"} 2.0',
        'success_timestamp_seconds{name="cache",namespace="n"} 1.76722563e+09',
        'redis_operator_backup_last_duration_seconds{name="cache",namespace="n"} 30.0',
        'redis_operator_backup_last_size_bytes{name="cache",namespace="n"} 10.0',
        'redis_operator_backup_last_stored_bytes{name="cache",namespace="n"} 4.0',
    ):
        assert line in text
    assert 'redis_operator_backup_last_size_bytes{name="other"' not in text


def test_a_restore_that_rolls_back_or_failed_last_is_told() -> None:
    def restore(redis: str, phase: str, ended: str = "") -> dict[str, Any]:
        status = {"phase": phase, "completionTime": ended}
        return {"metadata": {"namespace": "n"}, "spec": {"redis": redis}, "status": status}

    restores = [
        restore("a", "RollingBack"),
        restore("a", "Completed", "2026-01-01T00:00:00Z"),
        restore("b", "Completed", "2026-01-01T00:00:00Z"),
        restore("b", "Failed", "2026-01-01T00:01:00Z"),
        restore("c", "Failed", "2026-01-01T00:00:00Z"),
        restore("c", "Completed", "2026-01-01T00:01:00Z"),
        restore("d", "Opening"),
    ]
    registry = CollectorRegistry()
    registry.register(RestoreCollector(lambda: restores))
    failed = "restore_last_failure_timestamp_seconds"
    for figure, name, value in (
        ("restore_rolling_back", "a", 1.0),
        ("restore_rolling_back", "b", 0.0),
        (failed, "a", 0.0),
        (failed, "b", 1767225660.0),
        (failed, "c", 0.0),
        (failed, "d", 0.0),
    ):
        labels = {"namespace": "n", "name": name}
        assert registry.get_sample_value(f"redis_operator_{figure}", labels) == value


def test_restores_are_counted_by_phase() -> None:
    def restore(phase: str | None) -> dict[str, Any]:
        status = {"phase": phase} if phase else {}
        return {"metadata": {"namespace": "n"}, "spec": {"redis": "cache"}, "status": status}

    registry = CollectorRegistry()
    registry.register(RestoreCollector(lambda: [restore(None), restore("Failed")]))
    text = generate_latest(registry).decode()
    for phase, count in (("Pending", "1.0"), ("Failed", "1.0"), ("Completed", "0.0")):
        line = f'redis_operator_restores{{name="cache",namespace="n",phase="{phase}"}} {count}'
        assert line in text
