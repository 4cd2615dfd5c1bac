"""Rounds of pings that carry no news are not sent one by one: no history is another for that."""

from __future__ import annotations

import pytest

from kubecontroller.testing.seeds import derive, run_seed
from redis_testing.cluster.trial import Trial
from redis_testing.simulation.histories import play_trial

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine


def history(trial: Trial) -> list[object]:
    """Return all that happened, and everything that every server knows in the end."""
    effects = map(str, trial.database.operator.journal.effects)
    return [trial.log, trial.world.now, trial.world.random.getstate(), *effects] + [
        vars(server) for server in trial.world.servers.values()
    ]


@pytest.mark.parametrize("number", range(4))
def test_a_trial_is_the_same_with_every_ping_sent(number: int) -> None:
    seed = derive("quiet", number)
    short, whole = (play_trial(seed, sends_every_ping=every) for every in (False, True))
    assert history(short) == history(whole), f"trial {seed}, SEED={run_seed()}"
