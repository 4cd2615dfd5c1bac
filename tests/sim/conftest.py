"""The servers that the contract of the simulation runs on: simulated ones, and all real engines.

`make test` runs it on the simulated ones, `make contract` on the real ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from redis_testing.servers import find_engines
from sim import fleet as f
from sim import sentinel_fleet as s

SIMULATED = (("redis", "6.2.14"), ("valkey", "9.1.2"))
KINDS = [
    *(pytest.param(kind, id=f"simulated-{kind[0]}") for kind in SIMULATED),
    *(pytest.param(e, id=e.name, marks=pytest.mark.contract) for e in find_engines()),
]


@pytest.fixture(params=KINDS)
async def fleet_of(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Any]]:
    started: list[f.RealFleet] = []

    async def make(count: int, **options: str) -> f.Fleet:
        if isinstance(request.param, tuple):
            return f.SimulatedFleet(count, *request.param, options=options)
        fleet = f.RealFleet(request.param, count, extra=options)
        started.append(fleet)
        await fleet.__aenter__()
        return fleet

    yield make
    for fleet in started:
        await fleet.__aexit__()


@pytest.fixture(params=KINDS)
async def group_of(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Any]]:
    """Plain servers, and sentinels that are started when they are to watch."""
    started: list[s.RealGroup] = []

    async def make(servers: int, sentinels: int) -> Any:
        if isinstance(request.param, tuple):
            return s.SimulatedGroup(servers, sentinels, *request.param)
        group = s.RealGroup(request.param, servers, sentinels)
        started.append(group)
        await group.__aenter__()
        return group

    yield make
    for group in started:
        await group.__aexit__()
