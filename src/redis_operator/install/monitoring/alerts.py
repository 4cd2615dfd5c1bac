"""The alerts, as one table. Pure.

Every replica of the operator has the series of databases, and only the leader those of servers. So
all of them are aggregated by database or pod: an alert neither fires twice nor starts its time
again when another replica becomes the leader.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

__all__ = ["ALERTS", "JOB", "Alert", "Group", "Severity"]

JOB: Final = "redis-operator-metrics"
"""The name of the Service that is scraped, which Prometheus uses as the job label."""

_OURS: Final = f'job="{JOB}"'
_DATABASE: Final = "namespace, name"
_SERVER: Final = "namespace, name, pod"
_FAILED_OVER: Final = "redis_operator_database_last_failover_timestamp_seconds"


class Severity(StrEnum):
    """How urgent an alert is."""

    CRITICAL = "critical"
    WARNING = "warning"


class Group(StrEnum):
    """What an alert is about."""

    DATABASES = "redis-databases"
    SERVERS = "redis-servers"
    OPERATOR = "redis-operator"


class Alert(Struct, frozen=True):
    """One alert. What to do about it is in docs/runbooks, in a page of its name."""

    name: str
    group: Group
    severity: Severity
    expression: str
    lasting: str  # how long it has to hold before the alert fires
    summary: str


def _most(labels: str, figure: str) -> str:
    return f"max by ({labels}) ({figure})"


def _least(labels: str, figure: str) -> str:
    return f"min by ({labels}) ({figure})"


def _in_phase(*phases: str) -> str:
    chosen = "|".join(phases)
    return _most(_DATABASE, f'redis_operator_database_phase{{phase=~"{chosen}"}}')


_OF_DATABASES: Final = (
    Alert(
        "RedisDatabaseUnavailable",
        Group.DATABASES,
        Severity.CRITICAL,
        f"{_most(_DATABASE, 'redis_operator_database_available')} == 0 "
        f"unless on ({_DATABASE}) "
        f"{_in_phase('Pending', 'Creating', 'Following', 'Hibernated', 'Waking', 'Deleting')}",
        "2m",
        "Redis {{ $labels.namespace }}/{{ $labels.name }} does not serve all its data",
    ),
    Alert(
        "RedisDataLost",
        Group.DATABASES,
        Severity.CRITICAL,
        "time() - "
        f"{_most(_DATABASE, 'redis_operator_database_last_data_loss_timestamp_seconds > 0')} "
        "< 86400",
        "0m",
        "Redis {{ $labels.namespace }}/{{ $labels.name }} lost every copy of some data within the "
        "last day",
    ),
    Alert(
        "RedisDatabaseDegraded",
        Group.DATABASES,
        Severity.WARNING,
        f"{_most(_DATABASE, 'redis_operator_database_degraded')} == 1",
        "15m",
        "Something is wrong with Redis {{ $labels.namespace }}/{{ $labels.name }} and does not "
        "heal by itself",
    ),
    Alert(
        "RedisDatabaseNotReady",
        Group.DATABASES,
        Severity.WARNING,
        f"{_most(_DATABASE, 'redis_operator_database_ready')} == 0 "
        f"unless on ({_DATABASE}) {_in_phase('Following', 'Hibernated', 'Deleting')}",
        "30m",
        "Redis {{ $labels.namespace }}/{{ $labels.name }} has not matched its spec for half an "
        "hour",
    ),
    Alert(
        "RedisFailoversTooOften",
        Group.DATABASES,
        Severity.WARNING,
        _most(_DATABASE, f"changes({_FAILED_OVER}[1h])") + " > 3",
        "0m",
        "Primaries of Redis {{ $labels.namespace }}/{{ $labels.name }} changed {{ $value }} times "
        "within an hour",
    ),
    Alert(
        "RedisVersionUnsupported",
        Group.DATABASES,
        Severity.WARNING,
        f"{_least(_DATABASE, 'redis_operator_database_version_supported')} == 0",
        "1h",
        "Redis {{ $labels.namespace }}/{{ $labels.name }} runs a version that is deprecated or has "
        "faults that can lose data",
    ),
)

_SCHEDULE: Final = "namespace, name, schedule"
_ARCHIVE: Final = "redis_operator_backup_schedule_archive"
_OF_BACKUPS: Final = (
    Alert(
        "RedisBackupTooOld",
        Group.DATABASES,
        Severity.WARNING,
        "time() - "
        f"{_most(_SCHEDULE, 'redis_operator_backup_schedule_late_after_timestamp_seconds')} > 0",
        "5m",
        "Redis {{ $labels.namespace }}/{{ $labels.name }} has no good backup of schedule "
        "{{ $labels.schedule }} for longer than it should",
    ),
    Alert(
        "RedisBackupFailed",
        Group.DATABASES,
        Severity.WARNING,
        f"{_most(_SCHEDULE, 'redis_operator_backup_schedule_last_failed')} == 1",
        "5m",
        "The last backup of Redis {{ $labels.namespace }}/{{ $labels.name }} by schedule "
        "{{ $labels.schedule }} failed",
    ),
    Alert(
        "RedisArchiveBehind",
        Group.DATABASES,
        Severity.WARNING,
        f"time() - {_most(_SCHEDULE, f'{_ARCHIVE}_late_after_timestamp_seconds')} > 0",
        "10m",
        "The archive of Redis {{ $labels.namespace }}/{{ $labels.name }} by schedule "
        "{{ $labels.schedule }} has made no progress for 5 minutes",
    ),
    Alert(
        "RedisArchiveGap",
        Group.DATABASES,
        Severity.WARNING,
        f"time() - {_most(_SCHEDULE, f'{_ARCHIVE}_last_gap_timestamp_seconds')} < 3600",
        "1m",
        "The archive of Redis {{ $labels.namespace }}/{{ $labels.name }} by schedule "
        "{{ $labels.schedule }} has a new gap",
    ),
    Alert(
        "RedisRestoreRollingBack",
        Group.DATABASES,
        Severity.CRITICAL,
        f"{_most(_DATABASE, 'redis_operator_restore_rolling_back')} == 1",
        "0m",
        "A restore of Redis {{ $labels.namespace }}/{{ $labels.name }} failed: its previous "
        "data is put back, and clients cannot connect until that is done",
    ),
    Alert(
        "RedisRestoreFailed",
        Group.DATABASES,
        Severity.WARNING,
        "time() - "
        f"{_most(_DATABASE, 'redis_operator_restore_last_failure_timestamp_seconds > 0')} < 86400",
        "0m",
        "The last restore of Redis {{ $labels.namespace }}/{{ $labels.name }} failed within the "
        "last day",
    ),
)

_OF_SERVERS: Final = (
    Alert(
        "RedisServerDown",
        Group.SERVERS,
        Severity.WARNING,
        f"{_most(_SERVER, 'redis_operator_server_up')} == 0",
        "5m",
        "Server {{ $labels.pod }} of Redis {{ $labels.namespace }}/{{ $labels.name }} does not "
        "respond",
    ),
    Alert(
        "RedisPersistenceFailing",
        Group.SERVERS,
        Severity.CRITICAL,
        f"{_least(_SERVER, 'redis_operator_server_append_only_file_ok')} == 0 "
        f"or {_least(_SERVER, 'redis_operator_server_snapshot_ok')} == 0",
        "5m",
        "Server {{ $labels.pod }} of Redis {{ $labels.namespace }}/{{ $labels.name }} cannot "
        "write its files",
    ),
    Alert(
        "RedisMemoryAlmostFull",
        Group.SERVERS,
        Severity.WARNING,
        f"{_most(_SERVER, 'redis_operator_server_memory_used_bytes')} / "
        f"({_most(_SERVER, 'redis_operator_server_memory_max_bytes')} > 0) > 0.9 "
        f"and on ({_SERVER}) {_most(_SERVER, 'redis_operator_server_evicts')} == 0",
        "10m",
        "Server {{ $labels.pod }} of Redis {{ $labels.namespace }}/{{ $labels.name }} uses "
        "{{ $value | humanizePercentage }} of its memory, and refuses writes when it is full",
    ),
    Alert(
        "RedisReplicaDisconnected",
        Group.SERVERS,
        Severity.WARNING,
        f"{_most(_SERVER, 'redis_operator_server_replication_link_up')} == 0",
        "10m",
        "Replica {{ $labels.pod }} of Redis {{ $labels.namespace }}/{{ $labels.name }} does not "
        "get what is written",
    ),
    Alert(
        "RedisReplicaLagging",
        Group.SERVERS,
        Severity.WARNING,
        f"{_least(_SERVER, 'redis_operator_server_replication_lag_bytes')} > 104857600",
        "15m",
        "Replica {{ $labels.pod }} of Redis {{ $labels.namespace }}/{{ $labels.name }} is "
        "{{ $value | humanize1024 }}B behind its primary",
    ),
    Alert(
        "RedisSentinelDown",
        Group.SERVERS,
        Severity.WARNING,
        f"{_most(_SERVER, 'redis_operator_sentinel_up')} == 0",
        "10m",
        "Sentinel {{ $labels.pod }} of Redis {{ $labels.namespace }}/{{ $labels.name }} does not "
        "respond",
    ),
)

_OF_THE_OPERATOR: Final = (
    Alert(
        "RedisOperatorNotLeading",
        Group.OPERATOR,
        Severity.CRITICAL,
        f'absent(leader_election_master_status{{{_OURS}, name="redis-operator"}} == 1)',
        "5m",
        "No redis-operator leads: databases serve, but they are neither repaired nor changed",
    ),
    Alert(
        "RedisDatabaseNotObserved",
        Group.OPERATOR,
        Severity.WARNING,
        f"time() - {_most(_DATABASE, 'redis_operator_server_observed_timestamp_seconds')} > 180",
        "5m",
        "redis-operator has not observed Redis {{ $labels.namespace }}/{{ $labels.name }} for "
        "{{ $value | humanizeDuration }}",
    ),
    Alert(
        "RedisOperatorReplicaDown",
        Group.OPERATOR,
        Severity.WARNING,
        f"max by (namespace, pod) (up{{{_OURS}}}) == 0",
        "15m",
        "redis-operator pod {{ $labels.pod }} cannot be scraped",
    ),
    Alert(
        "RedisOperatorReconcileErrors",
        Group.OPERATOR,
        Severity.WARNING,
        f"sum by (controller) (rate(controller_runtime_reconcile_errors_total{{{_OURS}}}[10m])) "
        "> 0.1",
        "15m",
        "Controller {{ $labels.controller }} of redis-operator fails {{ $value | humanize }} "
        "times per second",
    ),
    Alert(
        "RedisOperatorFault",
        Group.OPERATOR,
        Severity.WARNING,
        "sum by (controller) "
        f"(increase(controller_runtime_reconcile_panics_total{{{_OURS}}}[1h]) "
        f"+ increase(controller_runtime_reconcile_timeouts_total{{{_OURS}}}[1h])) > 0",
        "0m",
        "A reconcile of controller {{ $labels.controller }} of redis-operator ended with "
        "a bug, or took too long",
    ),
    Alert(
        "RedisOperatorApiErrors",
        Group.OPERATOR,
        Severity.WARNING,
        f'sum(rate(rest_client_requests_total{{{_OURS}, code=~"5..|<error>"}}[10m])) '
        f"/ sum(rate(rest_client_requests_total{{{_OURS}}}[10m])) > 0.1",
        "15m",
        "{{ $value | humanizePercentage }} of redis-operator's requests to the API server fail",
    ),
    Alert(
        "RedisOperatorSlow",
        Group.OPERATOR,
        Severity.WARNING,
        "histogram_quantile(0.99, sum by (pod, le) "
        f"(rate(event_loop_lag_seconds_bucket{{{_OURS}}}[10m]))) > 1",
        "15m",
        "redis-operator pod {{ $labels.pod }} has too little CPU: it is {{ $value | humanize }} s "
        "late",
    ),
)

ALERTS: Final[tuple[Alert, ...]] = (*_OF_DATABASES, *_OF_BACKUPS, *_OF_SERVERS, *_OF_THE_OPERATOR)
"""Every alert there is."""
