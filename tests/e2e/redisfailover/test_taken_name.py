"""A Redis of the same name that somebody else made is refused by name and never touched."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from e2e.redisfailover.conftest import redisfailover

pytestmark = pytest.mark.e2e


async def test_somebody_elses_redis_is_left_alone_and_its_end_makes_room(owner: Any) -> None:
    other = {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "Redis",
        "metadata": {"name": "cache"},
        "spec": {"mode": "Standalone", **owner.cluster.defaults()},
    }
    owner.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(other))
    await owner.redis.wait_ready()
    await owner.redis.run("SET", "mine", "yes")
    owner.apply(redisfailover(redis={"replicas": 2}))
    told = await owner.wait_reason("ChildRefused")
    assert told["message"].startswith("Redis cache already exists and does not belong to this")
    assert (await owner.redis.get())["spec"]["mode"] == "Standalone"
    assert await owner.redis.run("GET", "mine") == "yes"
    owner.kubectl("delete", "rf", "cache")
    assert await owner.redis.run("GET", "mine") == "yes"
    owner.apply(redisfailover(redis={"replicas": 2}))
    owner.kubectl("delete", "redis", "cache")
    status = owner.wait_ready()
    assert status["ready"] == "2/2"
