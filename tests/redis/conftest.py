from __future__ import annotations

import pytest

from redis_operator.testing.servers import EngineBinary, find_engines


@pytest.fixture(params=find_engines() or [None], ids=lambda b: b.name if b else "no-engine")
def binary(request: pytest.FixtureRequest) -> EngineBinary:
    if request.param is None:
        pytest.skip("no redis-server or valkey-server was found")
    return request.param
