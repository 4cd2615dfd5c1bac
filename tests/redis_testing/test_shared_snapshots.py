"""A database that several workers begin with is formed by one of them."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from redis_testing.cluster.world import SimulatedCluster
from redis_testing.simulation import scenarios
from redis_testing.simulation.snapshot import Snapshot
from redis_testing.simulation.system import database


def test_a_worker_waits_for_the_one_that_forms_the_same_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(scenarios.SNAPSHOTS, str(tmp_path))
    theirs = Snapshot(123.0, 1, {}, SimulatedCluster(seed=1), ())
    with ThreadPoolExecutor(1) as other, (tmp_path / "base.lock").open("w") as turn:
        flock(turn, LOCK_EX)
        waiting = other.submit(scenarios._shared, database(), "base")
        with pytest.raises(NotYet):
            waiting.result(timeout=0.2)
        (tmp_path / "base").write_bytes(pickle.dumps(theirs))
        turn.close()
        assert waiting.result(timeout=60).time == theirs.time
