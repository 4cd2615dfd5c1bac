"""Settings of a database in use, where servers have their own way with values. IN-26, IN-27"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from redis_operator.testing.simulation.scenarios import formed, mine
from redis_operator.testing.simulation.system import Simulation, database, simulate

pytestmark = pytest.mark.timeout(300)


def test_a_value_that_servers_spell_differently_is_set_and_let_be() -> None:
    """One whose spelling is known is set once; any other one twice, and other work goes on."""

    async def run(simulation: Simulation) -> None:
        for server in mine(simulation):
            server.spellings = {
                ("notify-keyspace-events", "Ex"): "xE",
                ("proc-title-template", "{title}"): "{title} as the engine calls it",
            }
        simulation.start_operator()
        await asyncio.sleep(3.0)
        config = {"notify-keyspace-events": "Ex", "proc-title-template": "{title}"}
        await simulation.change(config=config, replicas=0)
        await simulation.until_ready()
        await asyncio.sleep(30.0)
        done = [str(effect) for effect in simulation.journal.effects]
        sets = Counter(text.split("redis ")[1] for text in done if "CONFIG SET" in text)
        assert len(mine(simulation)) == 3
        events = [times for what, times in sets.items() if "notify-keyspace-events" in what]
        titles = [times for what, times in sets.items() if "proc-title-template" in what]
        assert events
        assert titles
        assert set(events) == {1}
        assert max(titles) <= 2

    simulate(run, snapshot=formed(database()))
