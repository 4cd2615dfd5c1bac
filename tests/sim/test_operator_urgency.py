"""What was urgent once is not urgent for ever: some workers stay free for what is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubecontroller.runtime.workqueue import WorkQueue
from redis_testing.simulation.scenarios import formed, primary
from redis_testing.simulation.system import Simulation, database, simulate


def test_a_database_at_rest_is_not_urgent_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    add_after = WorkQueue.add_after

    def recorded(self: Any, key: Any, delay: float, *, priority: int = 0) -> None:
        asked.append(priority)
        add_after(self, key, delay, priority=priority)

    monkeypatch.setattr(WorkQueue, "add_after", recorded)

    async def scenario(sim: Simulation) -> tuple[int, list[int]]:
        sim.start_operator()
        await asyncio.sleep(3.0)
        sim.kill(primary(sim, 0).name)
        await asyncio.sleep(60.0)
        await sim.until_ready()
        urgent = max(asked)
        await asyncio.sleep(15.0)
        asked.clear()
        await asyncio.sleep(60.0)
        return urgent, asked

    urgent, later = simulate(scenario, snapshot=formed(database()))
    assert urgent > 0
    assert later
    assert max(later) <= 0
