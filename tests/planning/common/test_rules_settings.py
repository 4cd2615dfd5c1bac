"""Settings, volumes and sleep of a database in use, on the simulated cluster."""

from __future__ import annotations

from msgspec.structs import replace

from planning.cluster.test_rules_change import carry_out, steps_of
from planning.cluster.test_rules_heal import WANTED, assert_serves_all, whole_database
from redis_operator.planning.actions import ConfigSet, GrowVolume, ScaleWorkload
from redis_operator.planning.advice import PlanPhase
from redis_operator.planning.observed import Volume


def test_a_setting_goes_to_one_replica_first_and_then_to_all() -> None:
    database = whole_database()
    config = (*WANTED.config, ("maxmemory-policy", "allkeys-lru"))
    database.apply_spec(replace(WANTED, config=config))
    first, rest = database.plan().stages
    assert [type(step) for step in first] == [ConfigSet]
    assert not database.world.servers[first[0].node.pod].is_primary
    assert len(rest) == 5
    assert database.reconcile().settled


def test_a_value_the_engine_refuses_goes_no_further_than_one_replica() -> None:
    """IN-17"""
    database = whole_database()
    config = (*WANTED.config, ("maxmemory-policy", ""))
    database.apply_spec(replace(WANTED, config=config))
    for _ in range(3):
        carry_out(database)
        database.advance(0.5)
    assert {s.config["maxmemory-policy"] for s in database.servers} == {"noeviction"}


def test_maxmemory_goes_down_only_when_the_data_fits() -> None:
    database = whole_database()
    for server in database.servers:
        server.used_memory = 5000
    database.apply_spec(replace(WANTED, config=(*WANTED.config, ("maxmemory", "4000"))))
    advice = database.plan()
    assert not advice.steps
    assert any("db-0-0 uses 5000 bytes, maxmemory" in reason for reason in advice.blocked)
    database.apply_spec(replace(WANTED, config=(*WANTED.config, ("maxmemory", "6000"))))
    assert database.reconcile().settled
    assert {server.config["maxmemory"] for server in database.servers} == {"6000"}


def test_drift_goes_back() -> None:
    database = whole_database()
    database.server(1, 1).config["cluster-node-timeout"] = "500"
    (step,) = steps_of(database, ConfigSet)
    assert step.values == (("cluster-node-timeout", "2000"),)


def test_a_value_that_the_server_spells_in_another_way_is_no_drift() -> None:
    database = whole_database()
    for server in database.servers:
        server.config["repl-backlog-size"] = "67108864"
    config = (*WANTED.config, ("repl-backlog-size", "64mb"))
    database.apply_spec(replace(WANTED, config=config))
    assert database.plan().settled


def test_volumes_grow_one_by_one_where_the_class_allows() -> None:
    """IN-03"""
    database = whole_database(replace(WANTED, volume_size=200))
    names = [f"data-db-{s}-{o}" for s in range(3) for o in range(2)]
    for name in names:
        database.volumes[name] = Volume(name, name[5:], name, 100, 100, expandable=True)
    (step,) = steps_of(database, GrowVolume)
    assert step.size == 200
    assert database.reconcile().settled
    assert {v.capacity for v in database.volumes.values()} == {200}
    database.wanted = replace(database.wanted, volume_size=300)
    for name in names:
        database.volumes[name] = replace(database.volumes[name], expandable=False)
    assert any("ExpansionUnsupported" in reason for reason in database.plan().blocked)


def test_growth_is_tried_where_nobody_knows_whether_the_class_allows_it() -> None:
    database = whole_database(replace(WANTED, volume_size=200))
    database.volumes["data-db-0-0"] = Volume(
        "data-db-0-0", "db-0-0", "u", 100, 100, expandable=None
    )
    assert steps_of(database, GrowVolume)


def test_a_database_that_shrank_in_its_sleep_wakes_and_lets_the_shard_go() -> None:
    """The leaving shard's replica never hears what happened since: its old news are nothing."""
    database = whole_database(replace(WANTED, shards=4))
    database.apply_spec(replace(WANTED, shards=4, hibernate=True))
    database.reconcile()
    assert not database.pods
    database.apply_spec(WANTED)
    assert database.reconcile(patience=80).settled
    assert {pod.shard for pod in database.pods} == {0, 1, 2}
    assert_serves_all(database)


def test_hibernation_keeps_data_and_identity() -> None:
    database = whole_database()
    before = {server.name: server.id for server in database.servers}
    database.apply_spec(replace(WANTED, hibernate=True))
    assert database.reconcile().settled
    assert database.pods == ()
    assert database.plan().phase is PlanPhase.HIBERNATED
    database.apply_spec(WANTED)
    assert database.reconcile(patience=40).settled
    assert {server.name: server.id for server in database.servers} == before
    assert_serves_all(database)


def test_hibernation_without_storage_is_refused() -> None:
    database = whole_database(replace(WANTED, persistent=False))
    database.apply_spec(replace(database.wanted, hibernate=True))
    assert not steps_of(database, ScaleWorkload)
    assert any("would lose all data" in reason for reason in database.plan().blocked)
