"""Slots that lost every copy of their data: started empty, or held until a person decides."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from redis_operator.api.status import DataLoss, Phase, RedisStatus
from redis_operator.planning.advice import Wanted
from redis_operator.planning.cluster.actions import Failover, FailoverMode
from redis_operator.planning.cluster.topology import ClusterTopology
from redis_operator.planning.plan import plan
from redis_operator.planning.reporting.announcements import announcements
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.losses import until_recorded
from redis_operator.planning.reporting.status import status
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet, even_shares, key_slot
from redis_testing.cluster.database import SimulatedDatabase
from support.situations import WANTED, assert_serves_all, whole_database

IN_MEMORY = replace(WANTED, persistent=False, volatile=True)
CACHE = replace(IN_MEMORY, start_empty=True)
HELD = IN_MEMORY


def reported(
    database: SimulatedDatabase,
    before: RedisStatus | None = None,
    now: str = "2030-01-01T00:00:00Z",
) -> RedisStatus:
    context = Context(
        previous=before or RedisStatus(),
        generation=1,
        now=now,
        binding="db-conn",
    )
    return status(database.wanted, database.observe(), database.plan(), context)


def condition(found: RedisStatus, kind: str) -> tuple[str, str]:
    return next((c.status, c.reason) for c in found.conditions if c.type == kind)


def served(database: SimulatedDatabase) -> SlotSet:
    slots = NO_SLOTS
    for server in database.servers:
        if server.is_primary and server.alive:
            slots |= server.slots
    return slots


def lose_process(database: SimulatedDatabase, *places: tuple[int, int]) -> None:
    for place in places:
        database.world.kill(database.server(*place).name)
    for place in places:
        database.world.start(database.server(*place).name)
    for shard, _ in places:
        for slot in even_shares(3)[shard]:
            for key in [k for k in database.world.acknowledged if key_slot(k[1]) == slot]:
                del database.world.acknowledged[key]


ALL_PLACES = tuple((shard, ordinal) for shard in range(3) for ordinal in range(2))


@pytest.mark.parametrize(
    "places", [ALL_PLACES, ((1, 0), (1, 1))], ids=["every server", "one shard"]
)
def test_slots_that_lost_every_copy_are_started_empty_in_memory(
    places: tuple[tuple[int, int], ...],
) -> None:
    """CL-31, CL-32"""
    database = whole_database(CACHE)
    lose_process(database, *places)
    assert database.reconcile(patience=30).settled
    assert served(database) == ALL_SLOTS
    assert_serves_all(database)
    assert condition(reported(database), "Degraded")[0] == "False"


@pytest.mark.parametrize(
    "places", [ALL_PLACES, ((1, 0), (1, 1))], ids=["every server", "one shard"]
)
def test_a_loss_that_is_held_is_reported_until_it_is_accepted_by_its_slots(
    places: tuple[tuple[int, int], ...],
) -> None:
    """CL-31, CL-32, CL-36"""
    database = whole_database(HELD)
    lost = NO_SLOTS
    for shard, _ in places:
        lost |= even_shares(3)[shard]
    lose_process(database, *places)
    database.reconcile(patience=30)
    assert served(database) == ALL_SLOTS - lost
    found = reported(database)
    assert found.phase is Phase.FAILED
    assert condition(found, "Degraded") == ("True", "DataLost")
    assert condition(found, "Available") == ("False", "DataLost")
    loss = found.last_data_loss
    assert loss is not None
    assert SlotSet.parse(loss.slots) == lost
    assert f"redisoperator.dev/accept-data-loss={lost}" in loss.action
    database.wanted = replace(HELD, accepted_loss=SlotSet.parse(loss.slots))
    assert database.reconcile(patience=30).settled
    assert served(database) == ALL_SLOTS
    assert_serves_all(database)


def test_accepting_other_slots_than_the_lost_ones_changes_nothing() -> None:
    database = whole_database(HELD)
    lose_process(database, (1, 0), (1, 1))
    database.wanted = replace(HELD, accepted_loss=even_shares(3)[0])
    database.reconcile(patience=30)
    assert served(database) == ALL_SLOTS - even_shares(3)[1]
    assert condition(reported(database), "Degraded") == ("True", "DataLost")


def test_a_replica_that_restarted_empty_is_never_promoted() -> None:
    """CL-32: it still follows its dead primary, and holds nothing of it."""
    for wanted in (CACHE, HELD, replace(HELD, accepted_loss=ALL_SLOTS)):
        database = whole_database(wanted)
        lose_process(database, (0, 1))
        database.world.kill("db-0-0")
        for _ in range(10):
            advice = database.plan()
            assert not any(isinstance(step, Failover) for step in advice.steps), advice
            database.advance(0.5)


def test_nothing_is_given_up_while_a_silent_server_may_hold_a_copy() -> None:
    database = whole_database(replace(CACHE, replicas=2))
    database.server(1, 2).stopped = True
    lose_process(database, (1, 0), (1, 1))
    for _ in range(20):
        advice = database.plan()
        assert not advice.losses
        for step in advice.steps:
            database.execute(step)
        database.advance(0.5)
    database.server(1, 2).stopped = False
    database.reconcile(patience=40)
    assert served(database) == ALL_SLOTS
    assert not reported(database).last_data_loss


def test_a_dead_server_in_memory_holds_no_copy_that_is_waited_for() -> None:
    database = whole_database(CACHE)
    lose_process(database, (1, 0), (1, 1))
    database.world.kill("db-2-1")
    database.reconcile(patience=20)
    assert served(database) == ALL_SLOTS


def test_with_storage_nothing_is_given_up_while_a_pod_is_away() -> None:
    database = whole_database(replace(WANTED, start_empty=True))
    for ordinal in (0, 1):
        database.remove_pod(1, ordinal, comes_back_after=30.0)
    for _ in range(20):
        assert not database.plan().losses
        database.advance(0.5)


def test_the_loss_is_recorded_with_time_slots_reason_and_action_and_stays_recorded() -> None:
    database = whole_database(CACHE)
    before = reported(database)
    lose_process(database, (1, 0), (1, 1))
    seen: list[RedisStatus] = []
    for _ in range(30):
        after = reported(database, before)
        if after.last_data_loss != before.last_data_loss:
            seen.append(after)
            news = announcements(before, after)
            assert any(n.warning and n.reason == "DataLost" for n in news), news
        before = after
        for stage in database.plan().stages:
            for step in stage:
                database.execute(step)
        database.advance(0.5)
    (first,) = seen
    assert first.last_data_loss is not None
    assert first.last_data_loss.slots == str(even_shares(3)[1])
    assert first.last_data_loss.time == "2030-01-01T00:00:00Z"
    assert "every copy" in first.last_data_loss.reason
    assert first.last_data_loss.action.startswith("StartedEmpty")
    assert before.phase is Phase.READY
    assert before.last_data_loss == first.last_data_loss


def live(
    database: SimulatedDatabase,
    status: RedisStatus,
    seconds: range,
    starts: dict[int, tuple[tuple[int, int], ...]],
) -> tuple[RedisStatus, list[DataLoss]]:
    """Return the last status, and each loss that was recorded, which is the one that has an event.

    Servers start at the given seconds.
    """
    lost: list[DataLoss] = []
    for second in seconds:
        for place in starts.get(second, ()):
            database.world.start(database.server(*place).name)
        after = reported(database, status, f"2030-01-01T00:00:{second:02}Z")
        news = [n for n in announcements(status, after) if n.reason == "DataLost"]
        if after.last_data_loss is not None and after.last_data_loss != status.last_data_loss:
            lost.append(after.last_data_loss)
        assert len(news) == (after.last_data_loss != status.last_data_loss), news
        status = after
        for stage in until_recorded(database.plan(), status).stages:
            for step in stage:
                database.execute(step)
        database.advance(1.0)
    return status, lost


def kill(database: SimulatedDatabase, *places: tuple[int, int]) -> None:
    for place in places:
        database.world.kill(database.server(*place).name)
    database.world.acknowledged.clear()


@pytest.mark.parametrize(
    "starts",
    [{2: ALL_PLACES}, {2: ALL_PLACES[1::2], 7: ALL_PLACES[::2]}],
    ids=["all at once", "replicas first"],
)
def test_servers_that_end_together_are_one_loss_however_they_start_again(
    starts: dict[int, tuple[tuple[int, int], ...]],
) -> None:
    """CL-31: the containers restart in place, a primary a moment after its replica."""
    database = whole_database(CACHE)
    before = reported(database)
    kill(database, *ALL_PLACES)
    status, lost = live(database, before, range(40), starts)
    assert [loss.slots for loss in lost] == ["0-16383"], lost
    assert status.phase is Phase.READY


def test_a_loss_whose_servers_start_one_after_the_other_names_all_its_slots_at_the_end() -> None:
    """CL-31: each container has its own delay of restarts (CrashLoopBackOff)."""
    database = whole_database(CACHE)
    before = reported(database)
    kill(database, *ALL_PLACES)
    starts = {2 + 5 * number: (place,) for number, place in enumerate(ALL_PLACES)}
    status, lost = live(database, before, range(60), starts)
    assert {loss.slots for loss in lost} == {"0-16383"}, lost
    assert len(lost) <= 3, lost
    assert status.phase is Phase.READY


def test_slots_that_were_served_since_their_loss_are_lost_again() -> None:
    """Another shard is still away: the database as a whole was not available in between."""
    database = whole_database(CACHE)
    before = reported(database)
    kill(database, *ALL_PLACES)
    status, lost = live(database, before, range(20), {2: ALL_PLACES[:4]})
    assert [loss.slots for loss in lost] == ["0-16383"], lost
    assert status.shards[0].primary
    assert condition(status, "Available")[0] == "False"
    kill(database, *ALL_PLACES[:2])
    status, lost = live(database, status, range(20, 40), {22: ALL_PLACES[:2]})
    assert lost
    assert status.shards[0].primary


def test_degraded_is_never_false_while_a_slot_is_not_served() -> None:
    for wanted in (CACHE, HELD, WANTED):
        database = whole_database(wanted)
        lose_process(database, *ALL_PLACES)
        for _ in range(40):
            found = reported(database)
            if condition(found, "Available")[0] == "False":
                assert condition(found, "Degraded")[0] == "True", found
            for stage in database.plan().stages:
                for step in stage:
                    database.execute(step)
            database.advance(0.25)


def _dead_majority(wanted: Wanted) -> SimulatedDatabase:
    database = whole_database(wanted)
    for shard in (0, 1):
        database.world.kill(f"db-{shard}-0")
    return database


def test_a_lost_majority_in_memory_is_taken_over_because_nothing_can_come_back() -> None:
    """CL-14: the processes are dead, and what they held died with them."""
    for wanted in (CACHE, HELD):
        advice = _dead_majority(wanted).plan()
        (step,) = [s for s in advice.steps if isinstance(s, Failover)]
        assert step.mode is FailoverMode.TAKEOVER


def test_a_lost_majority_with_storage_waits_for_the_slots_to_be_accepted() -> None:
    """CL-14"""
    database = _dead_majority(replace(WANTED, start_empty=True))
    advice = database.plan()
    assert not any(isinstance(step, Failover) for step in advice.steps)
    slots = even_shares(3)[0] | even_shares(3)[1]
    assert any(f"accept-data-loss={slots}" in reason for reason in advice.blocked)
    accepted = replace(WANTED, accepted_loss=slots)
    advice = plan(accepted, database.observe(), database.world.now)
    (step,) = [s for s in advice.steps if isinstance(s, Failover)]
    assert step.mode is FailoverMode.TAKEOVER
    part = replace(WANTED, accepted_loss=even_shares(3)[0])
    advice = plan(part, database.observe(), database.world.now)
    assert not any(isinstance(step, Failover) for step in advice.steps)
    assert ClusterTopology(part, database.observe(), 0.0).claims
