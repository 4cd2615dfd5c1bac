"""§6.3.1 and 6.3.2."""

from __future__ import annotations

import pytest

from kubecontroller.runtime.expectations import Expectations

OWNER = ("d", "owner")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def expectations(clock: Clock) -> Expectations[tuple[str, str]]:
    return Expectations(clock)


def test_nothing_expected_is_nothing_to_wait_for(expectations):
    assert expectations.limitation(OWNER) is None


def test_creations_are_waited_for_until_each_was_observed(expectations):
    expectations.expect_creations(OWNER, 2)
    assert "2 creations" in expectations.limitation(OWNER)
    expectations.creation_observed(OWNER)
    assert "1 creations" in expectations.limitation(OWNER)
    expectations.creation_observed(OWNER)
    assert expectations.limitation(OWNER) is None


def test_a_failed_creation_is_lowered_by_whoever_tried(expectations):
    expectations.expect_creations(OWNER, 1)
    expectations.creation_failed(OWNER)
    assert expectations.limitation(OWNER) is None


def test_more_observations_than_expected_do_not_count_against_later_expectations(expectations):
    expectations.expect_creations(OWNER, 1)
    for _ in range(3):
        expectations.creation_observed(OWNER)
    expectations.expect_creations(OWNER, 1)
    assert expectations.limitation(OWNER) is not None


def test_an_expectation_older_than_five_minutes_counts_as_met(expectations, clock):
    expectations.expect_creations(OWNER, 1)
    clock.now = 300.0
    assert expectations.limitation(OWNER) is not None
    clock.now = 300.1
    assert expectations.limitation(OWNER) is None


def test_an_expectation_set_after_an_old_one_ran_out_is_fresh(expectations, clock):
    expectations.expect_creations(OWNER, 5)
    clock.now = 301.0
    expectations.expect_creations(OWNER, 1)
    expectations.creation_observed(OWNER)
    assert expectations.limitation(OWNER) is None


def test_a_deletion_is_observed_once_by_its_first_sign(expectations):
    """An update with a deletion timestamp, and later the deletion, are one observation."""
    expectations.expect_deletions(OWNER, ["u-1", "u-2"])
    expectations.deletion_observed(OWNER, "u-1")
    expectations.deletion_observed(OWNER, "u-1")
    assert "u-2" in expectations.limitation(OWNER)
    expectations.deletion_observed(OWNER, "u-2")
    assert expectations.limitation(OWNER) is None


def test_the_deletion_of_another_object_of_the_same_name_does_not_count(expectations):
    expectations.expect_deletions(OWNER, ["u-1"])
    expectations.deletion_observed(OWNER, "u-9")
    assert expectations.limitation(OWNER) is not None
    expectations.deletion_failed(OWNER, "u-1")
    assert expectations.limitation(OWNER) is None


def test_nothing_is_expected_of_an_owner_that_is_gone(expectations):
    expectations.expect_creations(OWNER, 1)
    expectations.forget(OWNER)
    assert expectations.limitation(OWNER) is None
    expectations.creation_observed(OWNER)
