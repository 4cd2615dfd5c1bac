"""Which version a database runs: the one it names, else the one it was made with. IN-29"""

from __future__ import annotations

from typing import Any

import pytest

from redis_operator.api.redis import (
    Engine,
    Mode,
    Monitoring,
    RedisSpec,
    Sentinel,
    SentinelExporter,
)
from redis_operator.api.version import CATALOG, RedisVersionSpec, exporter_problems, find_version


def entry(version: str, *, deprecated: bool = False) -> RedisVersionSpec:
    return RedisVersionSpec(Engine.VALKEY, version, f"mine:{version}", deprecated=deprecated)


NEWER = [entry("9.2"), entry("10.0")]
OLDER = [entry("8.0")]


@pytest.mark.parametrize(
    ("spec", "entries", "chosen", "found"),
    [
        pytest.param({}, [], "", "9.1", id="a new database gets the default"),
        pytest.param({}, NEWER, "", "10.0", id="of the cluster's own, the newest"),
        pytest.param({}, NEWER[::-1], "", "10.0", id="in whatever order they come"),
        pytest.param({}, [entry("9.9", deprecated=True)], "", "9.1", id="never a deprecated one"),
        pytest.param({}, NEWER, "9.1", "9.1", id="a newer entry changes nothing"),
        pytest.param({}, OLDER, "9.1", "9.1", id="an older entry changes nothing"),
        pytest.param({}, [entry("8.0", deprecated=True)], "8.0", "8.0", id="what it has stays"),
        pytest.param({"version": "8.1"}, NEWER, "9.1", "8.1", id="the spec's word counts"),
    ],
)
def test_the_version_is_chosen_once(
    spec: dict[str, str], entries: list[RedisVersionSpec], chosen: str, found: str
) -> None:
    result = find_version(RedisSpec(mode=Mode.CLUSTER, **spec), entries, chosen=chosen)
    assert isinstance(result, RedisVersionSpec)
    assert result.version == found


def test_a_version_that_is_described_no_more_is_told() -> None:
    result = find_version(RedisSpec(mode=Mode.CLUSTER), [], chosen="9.9")
    assert isinstance(result, str)
    assert "valkey 9.9" in result


def test_an_exporter_that_nobody_has_an_image_of_is_refused_with_the_field() -> None:
    bare = RedisVersionSpec(Engine.VALKEY, "9.1", "valkey:9.1")
    asked = RedisSpec(mode=Mode.CLUSTER, monitoring=Monitoring(exporter=True))
    [problem] = exporter_problems(asked, bare)
    assert problem.path == "spec.monitoring.exporterImage"
    given = Monitoring(exporter=True, exporter_image="mine:1")
    assert exporter_problems(RedisSpec(mode=Mode.CLUSTER, monitoring=given), bare) == []
    assert exporter_problems(RedisSpec(mode=Mode.CLUSTER), bare) == []
    assert exporter_problems(asked, CATALOG[0]) == []


def test_an_exporter_of_sentinels_without_an_image_is_refused_with_the_field() -> None:
    bare = RedisVersionSpec(Engine.VALKEY, "9.1", "valkey:9.1")

    def asked(monitoring: Monitoring, **exporter: Any) -> RedisSpec:
        sentinel = Sentinel(exporter=SentinelExporter(enabled=True, **exporter))
        return RedisSpec(mode=Mode.FAILOVER, sentinel=sentinel, monitoring=monitoring)

    [problem] = exporter_problems(asked(Monitoring()), bare)
    assert problem.path == "spec.sentinel.exporter.image"
    assert exporter_problems(asked(Monitoring(), image="mine:1"), bare) == []
    assert exporter_problems(asked(Monitoring(exporter_image="mine:1")), bare) == []
    assert exporter_problems(asked(Monitoring()), CATALOG[0]) == []
