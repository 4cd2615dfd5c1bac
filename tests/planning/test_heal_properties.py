"""Any breakage, any interruption: no key is lost, no invariant broken, and it arrives. I1-I14"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redis_operator.planning.advice import Wanted
from redis_operator.testing.cluster.breakages import BREAKAGES, Breakage
from redis_operator.testing.cluster.trial import Trial

TIMEOUT = (("cluster-node-timeout", "2000"),)


def wanted(replicas: int = 1, *, persistent: bool = True) -> Wanted:
    return Wanted(
        name="db",
        shards=3,
        replicas=replicas,
        persistent=persistent,
        volatile=not persistent,  # a lost majority does not come back then
        start_empty=not persistent,
        node_timeout_ms=2000,
        config=TIMEOUT,
    )


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    breakages=st.lists(st.sampled_from(BREAKAGES), min_size=1, max_size=3),
    replicas=st.sampled_from([1, 1, 2]),
    persistent=st.sampled_from([True, True, True, False]),
    rivals=st.booleans(),
)
def test_a_broken_database_interrupted_anywhere_loses_nothing_and_arrives(
    seed: int, breakages: list[Breakage], replicas: int, persistent: bool, rivals: bool
) -> None:
    shape = wanted(replicas, persistent=persistent)
    trial = Trial(seed=seed, wanted=shape, breakages=breakages, rivals=rivals)
    trial.run()
    assert not trial.verdict, trial.explain()


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda b: b.__name__)
def test_each_breakage_alone_is_healed(breakage: Breakage) -> None:
    for seed in range(2):
        trial = Trial(seed=seed, wanted=wanted(), breakages=[breakage])
        trial.run()
        assert not trial.verdict, trial.explain()
        assert trial.last.settled, trial.explain()


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_a_thousand_broken_databases() -> None:
    for seed in range(1000):
        random = Random(seed)
        breakages = random.choices(BREAKAGES, k=random.choice([1, 2, 3, 4]))
        shape = wanted(random.choice([1, 2]), persistent=random.random() < 0.8)
        trial = Trial(seed=seed, wanted=shape, breakages=breakages, rivals=random.random() < 0.3)
        trial.run()
        assert not trial.verdict, trial.explain()
