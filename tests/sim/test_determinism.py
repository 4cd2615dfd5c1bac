"""The same seed gives the same history, in whichever process: else no failure could be replayed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from redis_testing.simulation.scenarios import SNAPSHOTS

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine

HISTORY = """
import hashlib, sys
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.soak import soak
from redis_testing.simulation.system import database, simulate

async def run(simulation):
    told = await soak(simulation, seconds=float(sys.argv[1]), pause=6.0)
    found = simulation.world.servers.values()
    servers = [(s.name, s.id, s.ip, s.me.epoch, s.offset) for s in found]
    return [*told, *map(str, simulation.journal.effects), *map(str, servers),
            str(sorted(simulation.ledger.promised.items())),
            str(simulation.server.core.store.version)]

lines = simulate(run, seed=int(sys.argv[2]), snapshot=formed(database()))
print(len(lines), hashlib.sha256("\\n".join(lines).encode()).hexdigest())
"""


def histories(*, seconds: float, seed: int) -> list[str]:
    """Live through the same trouble in two processes that order their sets differently, each from
    a database that it formed itself."""
    alone = {name: value for name, value in os.environ.items() if name != SNAPSHOTS}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", HISTORY, str(seconds), str(seed)],
            env=alone | {"PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    found = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    return found


def test_the_same_seed_gives_the_same_history_in_another_process() -> None:
    one, other = histories(seconds=20.0, seed=3)
    assert one == other
    assert int(one.split()[0]) > 20


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10, 15))
def test_long_histories_are_the_same_in_another_process(seed: int) -> None:
    one, other = histories(seconds=300.0, seed=seed)
    assert one == other
