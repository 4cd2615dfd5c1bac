"""Any breakage, any interruption: no key is lost, no invariant broken, and it arrives. I1-I14"""

from __future__ import annotations

import pytest

from planning.trials import broken, drawn, wanted
from redis_testing.cluster.breakages import BREAKAGES, Breakage
from redis_testing.cluster.trial import Trial


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_broken_database_interrupted_anywhere_loses_nothing_and_arrives(part: int) -> None:
    for trial in drawn(broken, part, 10):
        trial.run()
        assert not trial.verdict, trial.explain()


@pytest.mark.slow
@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda b: b.__name__)
def test_each_breakage_alone_is_healed(breakage: Breakage) -> None:
    for seed in range(2):
        trial = Trial(seed=seed, wanted=wanted(), breakages=[breakage])
        trial.run()
        assert not trial.verdict, trial.explain()


@pytest.mark.campaign
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(4))
def test_thousands_of_broken_databases(part: int) -> None:
    for seed in range(part * 1500, (part + 1) * 1500):
        trial = broken(seed)
        trial.run()
        assert not trial.verdict, trial.explain()
