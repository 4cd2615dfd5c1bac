"""Setting a condition: the time moves with the status and with nothing else."""

from __future__ import annotations

from datetime import UTC, datetime

from kubecontroller.client.meta import Condition
from kubecontroller.custom.conditions import with_condition

FIRST, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


def ready(status: str, reason: str = "Any") -> Condition:
    return Condition(type="Ready", status=status, reason=reason)


def test_a_new_condition_has_the_time_of_now_and_comes_last() -> None:
    other = Condition(type="Available", status="True", last_transition_time=FIRST)
    found = with_condition([other], ready("True"), LATER)
    assert [(c.type, c.last_transition_time) for c in found] == [
        ("Available", FIRST),
        ("Ready", LATER),
    ]


def test_the_time_stays_while_the_status_is_the_same_though_its_reason_changes() -> None:
    first = with_condition((), ready("False", "Starting"), FIRST)
    (second,) = with_condition(first, ready("False", "Waiting"), LATER)
    assert (second.reason, second.last_transition_time) == ("Waiting", FIRST)


def test_the_time_moves_with_the_status() -> None:
    first = with_condition((), ready("False"), FIRST)
    (second,) = with_condition(first, ready("Unknown"), LATER)
    assert second.last_transition_time == LATER


def test_a_condition_without_a_time_gets_one() -> None:
    (found,) = with_condition([ready("True")], ready("True"), LATER)
    assert found.last_transition_time == LATER


def test_no_conditions_yet_is_none_or_empty() -> None:
    for before in (None, ()):
        assert len(with_condition(before, ready("True"), FIRST)) == 1


def test_plain_values_are_set_the_same_way_and_left_as_they_were() -> None:
    before = [{"type": "Ready", "status": "True", "lastTransitionTime": "then"}]
    same = with_condition(before, {"type": "Ready", "status": "True", "reason": "New"}, "now")
    other = with_condition(before, {"type": "Ready", "status": "False"}, "now")
    assert same == [
        {"type": "Ready", "status": "True", "reason": "New", "lastTransitionTime": "then"}
    ]
    assert other[0]["lastTransitionTime"] == "now"
    assert before == [{"type": "Ready", "status": "True", "lastTransitionTime": "then"}]
