from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Any

import pytest

from e2e.harness import REDISES, until
from kubecontroller.client.objects import PODS
from kubecontroller.client.patches import MergePatch

pytestmark = pytest.mark.e2e


async def test_ten_lines_of_yaml_become_a_database_that_serves(database: Any) -> None:
    cache = await database()
    status = await cache.wait_ready()
    assert status["slots"] == "16384/16384"
    assert status["ready"] == "6/6"
    assert status["binding"] == {"name": "cache-conn"}
    assert [len(s["replicas"]) for s in status["shards"]] == [1, 1, 1]
    application = await cache.fill(200)
    assert await cache.check(application) == []


_OURS = (
    *("redis", "services", "configmaps", "secrets", "serviceaccounts", "statefulsets"),
    *("roles", "rolebindings", "poddisruptionbudgets", "networkpolicies", "persistentvolumeclaims"),
)
_READS = {"GET", "LIST", "WATCH", "CONNECT"}
_COUNTED = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)


def _writes(cluster: Any) -> Counter[str]:
    """Return how many writes the API server has answered, by resource, whatever they changed."""
    found: Counter[str] = Counter()
    for labels, number in _COUNTED.findall(cluster.kubectl("get", "--raw", "/metrics")):
        told = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        told["resource"] = told["resource"].partition(".")[0]
        # What controllers of Kubernetes report of the objects is not the operator's.
        by_others = told.get("resource") != "redis" and told.get("subresource")
        if told.get("resource") in _OURS and told.get("verb") not in _READS and not by_others:
            found[told["resource"]] += round(float(number))
    return found


async def _versions(cache: Any) -> dict[str, str]:
    found = {n: p.metadata.resource_version for n, p in (await cache.pods()).items()}
    return {**found, "redis": (await cache.get())["metadata"]["resourceVersion"]}


async def _is_quiet(cache: Any, seconds: float = 3.0) -> bool:
    before = await _versions(cache), _writes(cache.cluster)
    await asyncio.sleep(seconds)
    return before == (await _versions(cache), _writes(cache.cluster))


async def test_a_database_at_rest_is_written_to_never_whatever_others_write_to_it(
    database: Any, cluster: Any
) -> None:
    if cluster.only_namespace:
        pytest.skip("writes of the whole cluster are counted, and other runs may share it")
    cache = await database()
    await cache.wait_ready()
    await until(lambda: _is_quiet(cache), seconds=60, what="everything to be reported")
    uids = await cache.uids()
    before, writes = await _versions(cache), _writes(cluster)
    await asyncio.sleep(15)  # longer than the interval at which servers are observed
    assert await _versions(cache) == before
    assert _writes(cluster) == writes
    await cache.annotate(**{"example.com/note": "one"})
    await cache.client.patch(
        REDISES, cache.key, MergePatch({"metadata": {"labels": {"example.com/team": "blue"}}})
    )
    other = {"metadata": {"labels": {"example.com/team": "blue"}}}
    await cache.client.patch(PODS, (cache.namespace, "cache-0-0"), MergePatch(other))
    await asyncio.sleep(12)
    assert _writes(cluster) - writes == Counter(redis=2)  # the two above
    status = MergePatch({"status": {"message": "by somebody else"}})
    await cache.client.patch(REDISES, cache.key, status, subresource="status")
    await asyncio.sleep(12)
    more = _writes(cluster) - writes - Counter(redis=3)
    assert more <= Counter(redis=1), more  # at most the status is put right
    assert await cache.uids() == uids
    assert await cache.restarts() == 0
