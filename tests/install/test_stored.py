"""Objects that are stored, compared with the definitions of the version to come."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from install.managed.test_managed import managed
from redis_operator.api.shape import Problem, shape_problems
from redis_operator.install.options import Options
from redis_operator.install.strategy import Strategy, generate
from redis_operator.operator.world import REDIS_VERSIONS
from support.small_cluster import of_version, small_cluster


def stricter(strategy: Strategy) -> Strategy:
    """Return a version that no longer knows single servers, and wants images by digest."""
    made = deepcopy(strategy)
    for listed in made.objects:
        if listed.item.name == "redis.redisoperator.dev":
            fields(listed.document)["mode"]["enum"] = ["Cluster", "Failover"]
        if listed.item.name == "redisversions.redisoperator.dev":
            fields(listed.document)["image"]["pattern"] = "@sha256:"
    return made


def fields(definition: dict[str, Any]) -> Any:
    [version] = definition["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


async def test_each_that_another_version_would_not_take_is_named_of_every_kind() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        await cluster.create_database("cache")
        entry = {"engine": "valkey", "version": "9.1", "image": "valkey:9.1"}
        await cluster.client.create(REDIS_VERSIONS, {"metadata": {"name": "ours"}, "spec": entry})
        cluster.told.clear()
        await cluster.installer().sync(of_version(stricter(generate(Options(replicas=3))), "2"))
        first = next(n for n, line in enumerate(cluster.told) if line.endswith(": applied"))
        said = [line for line in cluster.told[:first] if "does not accept its spec" in line]
        assert len(said) == 2, "before anything is written"
        assert said[0].startswith("Redis default/cache: version 2 does not accept")
        assert "spec.mode: must be one of Cluster, Failover, not 'Standalone'" in said[0]
        assert said[1].startswith("RedisVersion ours: ")
        assert "spec.image: must match @sha256:" in said[1]


async def test_what_fits_is_not_mentioned() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        await cluster.create_database("cache")
        cluster.told.clear()
        await cluster.installer().install(Options(replicas=3))
        assert not [line for line in cluster.told if "does not accept" in line]


async def test_a_redisoperator_says_it_in_its_status() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        status = await one.until("Deployed")
        assert status["message"] == "version 1 is installed"
        await one.cluster.create_database("cache", config={"maxmemory": "much"})
        one.cluster.change_strategy = stricter
        await one.say(image="redis-operator:2")
        status = await one.until("Deployed", says="Redis default/cache: version 2 does not accept")
        assert status["observedVersion"] == "2"


@pytest.mark.parametrize("schema", [{}, {"type": "number"}, {"type": "from the future"}])
def test_what_only_a_later_version_knows_of_schemas_is_left_alone(schema: dict[str, Any]) -> None:
    assert list(shape_problems(schema, 1.5, "spec.x")) == []
    outer = {"type": "object", "properties": {"x": schema, "y": {"type": "string"}}}
    found = list(shape_problems(outer, {"x": [1], "y": 2}, "spec"))
    assert found == [Problem("spec.y", "must be of type string, not integer")]
