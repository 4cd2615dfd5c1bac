"""What is not known, or not better elsewhere, is neither acted on nor reported as well."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from redis_operator.api.status import RedisStatus
from redis_operator.planning.advice import Switchover
from redis_operator.planning.cluster.actions import Failover
from redis_operator.planning.cluster.election import limitation
from redis_operator.planning.cluster.topology import ClusterTopology
from redis_operator.planning.observed import Election, Observed, Volume
from redis_operator.planning.plan import plan
from redis_operator.planning.reporting.announcements import announcements
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.status import status
from redis_testing.cluster.database import SimulatedDatabase
from support.situations import WANTED, whole_database


def _ready(database: SimulatedDatabase, observed: Observed, unseen: str = "") -> tuple[str, str]:
    found = _status(database, observed, unseen)
    return next((c.status, c.message) for c in found.conditions if c.type == "Ready")


def _status(database: SimulatedDatabase, observed: Observed, unseen: str = "") -> RedisStatus:
    context = Context(
        previous=RedisStatus(),
        generation=2,
        now="2030-01-01T00:00:00Z",
        binding="c",
        unseen=unseen,
    )
    advice = plan(database.wanted, observed, database.world.now)
    return status(database.wanted, observed, advice, context)


def test_a_workload_whose_controller_has_yet_to_act_is_not_up_to_date() -> None:
    """A generation is ready only when everything it asks for was seen in place."""
    database = whole_database()
    observed = database.observe()
    assert _ready(database, observed)[0] == "True"
    first, *others = observed.workloads
    late = replace(observed, workloads=(replace(first, revision="", current=False), *others))
    ready, message = _ready(database, late)
    assert ready == "False"
    assert "db-0" in message


def test_objects_that_were_written_and_are_not_observed_yet_are_waited_for() -> None:
    database = whole_database()
    ready, message = _ready(database, database.observe(), "the cache of statefulsets is behind")
    assert (ready, message) == ("False", "the cache of statefulsets is behind")


def test_the_moment_until_what_was_written_is_observed_is_no_event() -> None:
    database = whole_database()
    well = _status(database, database.observe())
    behind = _status(database, database.observe(), "the cache of statefulsets is behind")
    assert announcements(well, behind) == ()


@pytest.mark.parametrize("back", [0.0, 3600.0, 86400.0])
def test_a_clock_that_was_set_back_delays_an_election_by_its_own_span_at_most(back: float) -> None:
    database = whole_database()
    replica, primary = database.observe().seen[1], database.observe().seen[0]
    now = database.world.now + 1e6
    observed = replace(
        database.observe(), elections=(Election(node=replica.id, at=now, over=primary.id),)
    )
    reason = limitation(ClusterTopology(WANTED, observed, now - back), replica, primary.id)
    assert reason is not None
    assert float(reason.split("must wait ")[1].split(" s")[0]) <= 4 * 2.0


def test_a_replica_of_the_history_before_the_failover_does_not_replace_an_emptied_primary() -> None:
    """It is only reconnecting: its keys were deleted, and would come back."""
    database = whole_database()
    primary, replica = database.server(0, 0), database.server(0, 1)
    observed = database.observe()
    changed = {}
    for node in observed.seen:
        link = node.replication
        if node.pod.name == primary.name:
            link = replace(link, id="new", id2="old")
            changed[node.id] = replace(node, keys=0, replication=link)
        elif node.pod.name == replica.name:
            changed[node.id] = replace(node, replication=replace(link, id="old", link_up=False))
    nodes = tuple(changed.get(node.id, node) for node in observed.seen)
    advice = plan(WANTED, replace(observed, nodes=nodes), database.world.now)
    assert not any(isinstance(step, Failover) for step in advice.steps), advice


def test_a_database_all_of_whose_nodes_are_cordoned_stays_ready() -> None:
    database = whole_database()
    observed = database.observe()
    cordoned = replace(
        observed, nodes=tuple(replace(n, pod=replace(n.pod, draining=True)) for n in observed.nodes)
    )
    assert not plan(WANTED, cordoned, database.world.now).blocked
    assert _ready(database, cordoned)[0] == "True"


def test_volumes_that_grow_at_a_restart_do_not_hold_up_the_others_and_are_named() -> None:
    wanted = replace(WANTED, volume_size=20)
    database = whole_database(wanted)
    offline = Volume("data-db-0-0", "db-0-0", "u1", 20, 10, expandable=True, needs_restart=True)
    small = Volume("data-db-0-1", "db-0-1", "u2", 10, 10, expandable=True)
    observed = replace(database.observe(), volumes=(offline, small))
    advice = plan(wanted, observed, database.world.now)
    assert [step.claim for step in advice.steps if hasattr(step, "claim")] == ["data-db-0-1"]
    advice = plan(wanted, replace(observed, volumes=(offline,)), database.world.now)
    assert any("db-0-0" in reason and "started again" in reason for reason in advice.blocked)


@pytest.mark.parametrize(
    ("replicas", "needed", "announced"), [(1, 0, False), (1, 1, True), (2, 1, False), (2, 2, True)]
)
def test_a_roll_that_interrupts_writes_announces_it(
    replicas: int, needed: int, announced: bool
) -> None:
    """CL-37"""
    wanted = replace(WANTED, replicas=replicas, min_replicas_to_write=needed)
    database = whole_database(wanted)
    database.apply_spec(wanted, revision="2")
    advice = database.plan()
    assert advice.is_announced
    assert ("refuses writes" in advice.why) is announced


def test_a_replica_that_holds_another_primarys_data_is_not_switched_to() -> None:
    wanted = replace(WANTED, switchover=Switchover("db-0-1"))
    database = whole_database()
    observed = database.observe()
    other = next(n for n in observed.seen if n.pod.name == "db-1-0").replication.id
    nodes = tuple(
        replace(n, replication=replace(n.replication, id=other)) if n.pod.name == "db-0-1" else n
        for n in observed.seen
    )
    advice = plan(wanted, replace(observed, nodes=nodes), database.world.now)
    assert not advice.steps
    assert any("still holds the data of db-1-0" in reason for reason in advice.blocked)
    assert not any("this is a bug" in reason for reason in advice.blocked)
