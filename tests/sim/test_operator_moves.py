"""Slot moves that fail: told, tried again with growing pauses, and finished once they can be."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from redis_testing.simulation.process import Effect, Strike
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import Simulation, database, simulate

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine

REFUSAL = "NOPERM this user has no permissions to run the 'migrate' command"


@pytest.mark.slow
def test_a_move_that_servers_refuse_is_told_of_tried_again_with_pauses_and_then_finished() -> None:
    """CL-09."""

    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        simulation.write_on()
        simulation.network.refused = {"MIGRATE": REFUSAL, "EVALSHA": REFUSAL}
        await simulation.change(shards=4)
        await asyncio.sleep(120.0)
        simulation.check()
        effects = simulation.journal.effects
        tries = [e for e in effects if e.kind in ("redis MIGRATE", "redis EVALSHA")]
        assert 1 <= len(tries) <= 60, "three sources, each tried after 1, 2, 4, ... seconds"
        writes = [e for e in effects if e.kind == "api PATCH redis/status"]
        assert len(writes) <= 90, "each try is announced and its end told, and that wakes nobody"
        status = (await simulation.redis())["status"]
        told = [c["message"] for c in status["conditions"]]
        assert any("NOPERM" in message for message in told), told
        assert not simulation.is_ready(await simulation.redis())
        simulation.network.refused = {}
        await simulation.until_ready(within=300.0)
        await asyncio.sleep(15.0)
        simulation.check_end()

    simulate(run, seed=11, snapshot=formed(database()))


@pytest.mark.slow
def test_a_move_that_stands_still_is_not_news_all_the_time() -> None:
    """A report that changes by the clock alone would bring about the next one at once."""
    struck: list[Effect] = []

    def lose_an_answer(effect: Effect) -> Strike | None:
        if struck or not effect.kind.endswith("SETSLOT IMPORTING") or effect.number < 800:
            return None
        struck.append(effect)
        return Strike.LOST_REPLY

    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        simulation.journal.decide = lose_an_answer
        await simulation.change(shards=4)
        await asyncio.sleep(60.0)
        simulation.check()
        assert struck
        effects = simulation.journal.effects
        seconds = Counter(int(e.at) for e in effects if e.kind == "api PATCH redis/status")
        assert max(seconds.values()) <= 20, seconds.most_common(5)
        await simulation.until_ready(within=120.0)

    simulate(run, seed=1, snapshot=formed(database()))
