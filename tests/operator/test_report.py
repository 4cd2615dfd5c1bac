"""What is written of a database of which much happens at once."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from kubecontroller.runtime.applier import Applier
from kubecontroller.runtime.events import Recorder
from redis_operator.api.status import RedisStatus
from redis_operator.api.validation import load_status
from redis_operator.operator.report import Reporter
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import DATABASE, NAMESPACE, Simulation, database, simulate

KEY = (NAMESPACE, DATABASE)


async def told_in_turn(simulation: Simulation, *, times: int, pause: float) -> tuple[int, str]:
    """Report so many statuses; return how many were written, and what stands in the end."""
    client = simulation.client
    recorder = Recorder(client, component="test")
    reporter = Reporter(client, Applier(client, annotation="intent"), recorder)
    raw = await simulation.redis()
    told: RedisStatus = load_status(raw)
    writes = 0
    for number in range(times):
        before = told
        told = await reporter.report(raw, told, replace(told, message=f"look {number}"))
        writes += told != before
        await asyncio.sleep(pause)
    while reporter.is_behind(KEY):
        await asyncio.sleep(0.25)
        told = await reporter.report(raw, told, replace(told, message=f"look {times - 1}"))
        writes += 1
    return writes, load_status(await simulation.redis()).message


def test_a_hundred_changes_within_a_second_are_a_few_writes_and_the_last_one_stands() -> None:
    async def scenario(simulation: Simulation) -> tuple[int, str]:
        return await told_in_turn(simulation, times=100, pause=0.01)

    writes, stands = simulate(scenario, snapshot=formed(database()))
    assert stands == "look 99"
    assert writes <= 15


def test_a_few_changes_in_a_row_are_written_as_they_come() -> None:
    async def scenario(simulation: Simulation) -> tuple[int, str]:
        return await told_in_turn(simulation, times=6, pause=0.0)

    assert simulate(scenario, snapshot=formed(database())) == (6, "look 5")
