from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

pytestmark = pytest.mark.e2e


async def test_an_operator_killed_again_and_again_while_it_forms_a_database_still_forms_it(
    database: Any, cluster: Any
) -> None:
    seed = 7
    chance = random.Random(seed)
    cache = await database()
    for _ in range(4):
        await asyncio.sleep(chance.uniform(0.2, 1.5))
        cluster.kill_operator()
        await asyncio.sleep(1.0)
    status = await cache.wait_ready(seconds=90)
    assert status["slots"] == "16384/16384"
    application = await cache.fill(100)
    assert await cache.check(application) == []
