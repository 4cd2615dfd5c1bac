"""The same seed gives the same history, in whichever process: else no failure could be replayed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from redis_testing.simulation.scenarios import SNAPSHOTS, formed
from redis_testing.simulation.soak import soak
from redis_testing.simulation.system import Simulation, database, simulate

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine

ELSEWHERE = "import sys; from sim.test_determinism import history; history(*map(int, sys.argv[1:]))"


def history(seconds: int, seed: int) -> list[str]:
    """Live through some trouble, and print all that happened."""

    async def run(simulation: Simulation) -> list[str]:
        told = await soak(simulation, seconds=float(seconds), pause=6.0)
        found = simulation.world.servers.values()
        servers = [(s.name, s.id, s.ip, s.me.epoch, s.offset) for s in found]
        effects = map(str, simulation.journal.effects)
        promised = sorted(simulation.ledger.promised.items())
        version = simulation.server.core.store.version
        return [*told, *effects, *map(str, servers), str(promised), str(version)]

    lines = simulate(run, seed=seed, snapshot=formed(database()))
    text = "\n".join(lines)
    print(text)
    return text.splitlines()


def histories(*, seconds: int, seed: int) -> list[list[str]]:
    """Live through the same trouble here, and in a process that orders its sets differently, from
    a database that it formed itself."""
    alone = {name: value for name, value in os.environ.items() if name != SNAPSHOTS}
    order = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    with subprocess.Popen(
        [sys.executable, "-c", ELSEWHERE, str(seconds), str(seed)],
        env=alone | {"PYTHONHASHSEED": order, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        here = history(seconds, seed)
        there = process.communicate()[0].splitlines()
    assert process.returncode == 0
    return [here, there]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_history_in_another_process() -> None:
    one, other = histories(seconds=20, seed=3)
    assert one == other
    assert len(one) > 20


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10, 15))
def test_long_histories_are_the_same_in_another_process(seed: int) -> None:
    one, other = histories(seconds=300, seed=seed)
    assert one == other
