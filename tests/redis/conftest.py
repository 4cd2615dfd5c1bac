from __future__ import annotations

import pytest

from redis_testing.servers import EngineBinary, find_engines


@pytest.fixture(params=find_engines(), ids=lambda b: b.name)
def binary(request: pytest.FixtureRequest) -> EngineBinary:
    return request.param
