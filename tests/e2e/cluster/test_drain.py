"""Nodes are emptied, one and two at a time, as `kubectl drain` does it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness import until

_NEEDED = 3
_NODES = int(os.environ.get("E2E_NODES", _NEEDED))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(_NODES < _NEEDED, reason=f"needs {_NEEDED} nodes; E2E_NODES is {_NODES}"),
]

_DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s", "--force")


@pytest.fixture
def nodes(cluster: Any) -> Iterator[list[str]]:
    """Return the nodes; all of them take pods again at the end."""
    found = cluster.kubectl("get", "nodes", "-o", "name").split()
    names = [name.removeprefix("node/") for name in found]
    yield names
    for name in names:
        cluster.kubectl("uncordon", name)


async def _primaries_on(cache: Any, *nodes: str) -> list[str]:
    pods = await cache.pods()
    leaders = [await cache.primary_of(shard) for shard in range(3)]
    return [name for name in leaders if pods[name].spec.node_name in nodes]


async def _drain(cache: Any, *nodes: str) -> None:
    """Drain nodes at the same time, with only this test's pods in mind."""
    words = ("drain", *_DRAIN, f"--pod-selector=redisoperator.dev/database={cache.name}")
    await asyncio.gather(
        *(asyncio.to_thread(cache.cluster.kubectl, *words, node) for node in nodes)
    )


async def test_a_cordoned_node_gives_its_primaries_away_before_it_is_drained(
    database: Any, cluster: Any, nodes: list[str]
) -> None:
    cache = await database()
    await cache.wait_ready()
    node = (await cache.pods())[await cache.primary_of(0)].spec.node_name
    async with cache.under_load() as application:
        cluster.kubectl("cordon", node)

        async def given_away() -> bool:
            return not await _primaries_on(cache, node)

        try:
            await until(given_away, seconds=60, what=f"primaries to leave {node}")
        except AssertionError as error:
            places = {name: pod.spec.node_name for name, pod in (await cache.pods()).items()}
            raise AssertionError(f"{error}; {places}; {await cache.status()}") from error
        await _drain(cache, node)
        await cache.wait_ready(seconds=90)
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 2, report
    assert all(pod.spec.node_name != node for pod in (await cache.pods()).values())


async def test_a_primary_whose_pod_is_deleted_serves_until_its_replica_leads(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    primary = await cache.primary_of(1)
    async with cache.under_load() as application:
        old = (await cache.uids())[primary]
        await cache.delete_pods(primary)

        async def recreated() -> bool:
            return (await cache.uids()).get(primary, old) != old

        await until(recreated, seconds=60, what=f"another {primary}")
        await cache.wait_ready(seconds=90)
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 2, report
    assert await cache.primary_of(1) != primary


async def test_two_nodes_drained_at_once_never_take_both_copies_of_a_shard(
    database: Any, nodes: list[str]
) -> None:
    cache = await database()
    await cache.wait_ready()
    away = nodes[:2]
    async with cache.under_load() as application:
        for node in away:
            cache.cluster.kubectl("cordon", node)
        await asyncio.sleep(2)  # a person takes longer
        await _drain(cache, *away)
        await cache.wait_ready(seconds=120)
    report = await application.verify()
    assert report.lost == (), report
    assert all(pod.spec.node_name not in away for pod in (await cache.pods()).values())


async def test_a_node_that_stays_cordoned_sees_each_primary_go_once_and_none_come_back(
    database: Any, cluster: Any, nodes: list[str]
) -> None:
    """CL-34. A minute without an election is calm, and calm is when primaries are evened out."""
    cache = await database()
    await cache.wait_ready()
    leaders = [[await cache.primary_of(shard)] for shard in range(3)]
    node = (await cache.pods())[leaders[0][0]].spec.node_name
    async with cache.under_load() as application:
        cluster.kubectl("cordon", node)
        for _ in range(180):
            for shard, led in enumerate(leaders):
                primary = await cache.primary_of(shard)
                if primary not in ("", led[-1]):
                    led.append(primary)
            await asyncio.sleep(0.5)
        assert not await _primaries_on(cache, node)
    report = await application.verify()
    assert report.lost == (), report
    assert all(len(led) <= 2 for led in leaders), leaders
    assert len(leaders[0]) == 2, leaders
