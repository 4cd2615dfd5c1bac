"""Any change, overlapping with others and with breakages, interrupted anywhere: nothing is lost."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redis_operator.planning.advice import Wanted
from redis_operator.testing.cluster.breakages import BREAKAGES, Breakage
from redis_operator.testing.cluster.changes import CHANGES, Change
from redis_operator.testing.cluster.trial import Trial


def wanted(replicas: int = 1, *, persistent: bool = True) -> Wanted:
    return Wanted(
        name="db",
        shards=3,
        replicas=replicas,
        persistent=persistent,
        volatile=not persistent,  # a lost majority does not come back then
        start_empty=not persistent,
        node_timeout_ms=2000,
        config=(("cluster-node-timeout", "2000"),),
    )


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    changes=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3),
    breakages=st.lists(st.sampled_from(BREAKAGES), max_size=1),
    replicas=st.sampled_from([1, 1, 2]),
    persistent=st.sampled_from([True, True, True, False]),
    rivals=st.booleans(),
)
def test_changes_that_overlap_and_are_interrupted_lose_nothing_and_arrive(
    seed: int,
    changes: list[Change],
    breakages: list[Breakage],
    replicas: int,
    persistent: bool,
    rivals: bool,
) -> None:
    shape = wanted(replicas, persistent=persistent)
    trial = Trial(seed=seed, wanted=shape, breakages=breakages, changes=changes, rivals=rivals)
    trial.run()
    assert not trial.verdict, trial.explain()


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_each_change_alone_is_made(change: Change) -> None:
    trial = Trial(seed=1, wanted=wanted(), changes=[change])
    trial.run()
    assert not trial.verdict, trial.explain()
    assert trial.last.settled, trial.explain()


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_a_thousand_changed_databases() -> None:
    for seed in range(1000):
        random = Random(seed)
        trial = Trial(
            seed=seed,
            wanted=wanted(random.choice([1, 2]), persistent=random.random() < 0.8),
            breakages=random.choices(BREAKAGES, k=random.choice([0, 1, 2])),
            changes=random.choices(CHANGES, k=random.choice([1, 2, 3, 4])),
            rivals=random.random() < 0.3,
        )
        trial.run()
        assert not trial.verdict, trial.explain()
