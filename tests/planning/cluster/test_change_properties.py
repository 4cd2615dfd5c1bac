"""Any change, overlapping with others and with breakages, interrupted anywhere: nothing is lost."""

from __future__ import annotations

import pytest

from planning.trials import changed, drawn, wanted
from redis_testing.cluster.changes import CHANGES, Change
from redis_testing.cluster.trial import Trial


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_changes_that_overlap_and_are_interrupted_lose_nothing_and_arrive(part: int) -> None:
    for trial in drawn(changed, part, 8):
        trial.run()
        assert not trial.verdict, trial.explain()


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_each_change_alone_is_made(change: Change) -> None:
    trial = Trial(seed=1, wanted=wanted(), changes=[change])
    trial.run()
    assert not trial.verdict, trial.explain()


@pytest.mark.campaign
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(4))
def test_thousands_of_changed_databases(part: int) -> None:
    for seed in range(part * 1000, (part + 1) * 1000):
        trial = changed(seed)
        trial.run()
        assert not trial.verdict, trial.explain()


def test_new_servers_take_no_epoch_of_a_primary_that_is_down() -> None:
    """They meet each other after they heard the cluster's epoch: else one takes epoch 1, and the
    dead primary with that epoch comes back with a higher one, over the replica promoted for it."""
    trial = changed(3695744560)
    trial.run()
    assert not trial.verdict, trial.explain()
