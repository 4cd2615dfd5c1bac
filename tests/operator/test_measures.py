from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from redis_operator.operator.measures import DatabaseCollector, actions_counter


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
