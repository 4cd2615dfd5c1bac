"""Changes that a person asks for, while nothing is wrong: no Warning, and the operation named."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from redis_testing.simulation.failover import failover
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import NAMESPACE, Manifest, Simulation, database, simulate

pytestmark = pytest.mark.timeout(900)

CHANGES: list[tuple[str, Manifest, list[tuple[dict[str, Any], str]]]] = [
    (
        "replicas of a cluster",
        database(),
        [({"replicas": 2}, "Scaling"), ({"replicas": 1}, "Scaling")],
    ),
    (
        "sentinels",
        failover(),
        [
            ({"sentinel": {"replicas": 5}}, "Scaling"),
            ({"sentinel": {"replicas": 3}}, "Scaling"),
            ({"sentinel": {"replicas": 3, "downAfterMilliseconds": 9000}}, "Updating"),
        ],
    ),
    ("replicas", failover(), [({"replicas": 3}, "Scaling"), ({"replicas": 2}, "Scaling")]),
]


async def warnings(simulation: Simulation) -> list[str]:
    page = await simulation.client.list(BUILT_IN_KINDS["events"], namespace=NAMESPACE)
    found: list[Any] = list(page.items)
    of = [e for e in found if (e.get("regarding") or e["involvedObject"])["kind"] == "Redis"]
    return [f"{e['reason']}: {e['message']}" for e in of if e["type"] == "Warning"]


@pytest.mark.slow
@pytest.mark.parametrize(("made", "changes"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_a_change_warns_of_nothing_and_is_reported_as_what_it_is(
    made: Manifest, changes: list[tuple[dict[str, Any], str]]
) -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        for change, operation in changes:
            await simulation.change(**change)
            await asyncio.sleep(0.5)
            await simulation.until_ready(within=120.0)
            await asyncio.sleep(3.0)
            last = (await simulation.found())["status"]["lastOperation"]
            assert (last["type"], last["result"]) == (operation, "Succeeded"), change
        assert await warnings(simulation) == []

    simulate(scenario, snapshot=formed(made))
