"""A second primary that took writes of its own: kept where there are volumes, else told."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    IN_MEMORY,
    NOW,
    WANTED,
    WHOLE,
    dead,
    made,
    of,
    sentinel,
    server,
    steps,
)
from redis_operator.manifests.failover_scripts import STOP_SERVER
from redis_operator.planning.actions import ConfigSet, DeletePod
from redis_operator.planning.failover.actions import Follow
from redis_operator.planning.failover.set_aside import MARK
from redis_operator.planning.failover.tails import tail
from redis_operator.planning.observed import Seen
from redis_operator.planning.plan import plan
from redis_operator.planning.repeats import after_attempt
from redis_operator.planning.sentinels import SentinelFlag


def second(offset: int = 130, **link: Any) -> Seen:
    """A server that was promoted at offset 100, and went on."""
    own = {"id": "own", "id2": "history", "id2_offset": 101, "offset": offset, **link}
    return server(1, link=own, pod={"role_label": "replica"})


LEADS, FOLLOWS = server(0, link={"offset": 120}), server(2, of(0))


def test_its_files_are_put_aside_by_a_restart() -> None:
    mark, delete = steps(made(LEADS, second(), FOLLOWS))
    assert isinstance(mark, ConfigSet)
    assert (mark.node.pod, mark.values) == ("db-1", (("replica-priority", MARK),))
    assert isinstance(delete, DeletePod)
    assert (delete.pod, delete.expect_id) == ("db-1", "run-1")
    why = plan(WANTED, made(LEADS, second(), FOLLOWS), NOW).why
    assert "db-1 accepted 30 bytes of writes after offset 100 beside the primary db-0" in why


def test_its_writes_are_not_dropped_while_its_restart_is_refused_or_has_no_effect() -> None:
    observed = made(LEADS, second(), FOLLOWS)
    for now in range(5):
        found = plan(WANTED, observed, NOW + now)
        assert [type(step) for step in found.steps] == [ConfigSet, DeletePod]
        attempts = after_attempt(observed.attempts, found, NOW + now, ("the API is away",))
        observed = replace(observed, attempts=attempts)
    found = plan(WANTED, observed, NOW + 4.5)
    assert not any(isinstance(step, Follow) for step in found.steps)
    assert any("db-1 accepted 30 bytes" in reason for reason in found.blocked)


def test_a_server_that_writes_its_append_only_file_is_restarted_afterwards() -> None:
    found = plan(WANTED, made(LEADS, replace(second(), saving=True), FOLLOWS), NOW)
    assert not any(isinstance(step, Follow | DeletePod) for step in found.steps)
    assert not any("this is a bug" in reason for reason in found.blocked)
    assert any("once its append-only file is written" in reason for reason in found.blocked)


def test_without_volumes_what_is_dropped_is_told() -> None:
    found = plan(IN_MEMORY, made(LEADS, second(), FOLLOWS), NOW)
    assert [type(step) for step in found.steps] == [Follow]
    assert "db-1 drops 30 bytes of writes after offset 100" in found.why


def test_who_took_nothing_simply_follows() -> None:
    (step,) = steps(made(LEADS, second(offset=100), FOLLOWS))
    assert isinstance(step, Follow)


def test_those_that_follow_it_leave_first() -> None:
    (step,) = steps(made(LEADS, second(), server(2, of(1))))
    assert isinstance(step, Follow)
    assert (step.node.pod, step.primary.pod) == ("db-2", "db-0")


def test_an_election_is_not_disturbed() -> None:
    begun = tuple(sentinel(n, flags=frozenset({SentinelFlag.FAILOVER})) for n in range(3))
    assert steps(made(LEADS, second(), FOLLOWS, sentinels=begun)) == ()


def test_nothing_is_restarted_while_it_is_not_known_who_leads() -> None:
    assert not any(isinstance(s, DeletePod) for s in steps(made(dead(0), second(), FOLLOWS)))


@pytest.mark.parametrize(
    ("mine", "other", "told"),
    [
        ({"id": "a", "offset": 90}, {"id": "b", "id2": "a", "id2_offset": 81}, "10 bytes"),
        ({"id": "a", "offset": 80}, {"id": "b", "id2": "a", "id2_offset": 81}, ""),
        ({"id": "a", "offset": 90}, {"id": "a", "offset": 80}, "10 bytes"),
        ({"id": "a", "offset": 80}, {"id": "a", "offset": 80}, ""),
        (
            {"id": "a", "id2": "c", "id2_offset": 71, "offset": 90},
            {"id": "b", "id2": "c", "id2_offset": 61},
            "30 bytes of writes after offset 60",
        ),
        ({"id": "a", "offset": 90}, {"id": "b"}, "5 keys of a history of its own"),
    ],
    ids=["old primary", "old primary at rest", "ahead", "equal", "both promoted", "foreign"],
)
def test_what_is_not_common_is_told_by_histories_and_offsets(
    mine: dict[str, Any], other: dict[str, Any], told: str
) -> None:
    found = tail(server(1, link=mine), server(0, link=other))
    assert found.startswith(told)
    assert bool(found) == bool(told)


def test_an_empty_server_and_a_replica_have_nothing_of_their_own() -> None:
    assert tail(replace(second(), keys=0), LEADS) == ""
    assert tail(FOLLOWS, LEADS) == ""


def test_a_mark_that_was_left_behind_is_taken_off() -> None:
    marked = server(1, of(0), link={"priority": int(MARK)})
    observed = replace(WHOLE, nodes=(server(0), marked, server(2, of(0))))
    (step,) = steps(observed)
    assert isinstance(step, ConfigSet)
    assert (step.node.pod, step.values) == ("db-1", (("replica-priority", "100"),))


def test_the_script_in_the_pod_knows_the_mark() -> None:
    assert f"*replica-priority*{MARK}*" in STOP_SERVER
