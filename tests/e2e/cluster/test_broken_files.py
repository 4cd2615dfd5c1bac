"""Files that cannot be loaded: a replica copies its primary again, a last copy is kept. ST-07"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.objects import PERSISTENT_VOLUME_CLAIMS

pytestmark = pytest.mark.e2e

STORAGE = {"size": "64Mi"}
# The file that a start reads first, whatever the version: garbage at its head.
BREAK = """
cd "$DATA"
for file in appendonlydir/*.base.rdb appendonly.aof; do
    if [ -e "$file" ]; then printf 'this is no data' >"$file"; fi
done
"""


async def break_files(cache: Any, pod: str) -> None:
    """Overwrite a server's data on disk, and end it: it cannot start again."""
    cache.cluster.kubectl(
        "-n", cache.namespace, "exec", pod, "-c", "server", "--", "sh", "-c", BREAK
    )
    await cache.crash(pod)


async def claim_uids(cache: Any) -> dict[str, str]:
    page = await cache.client.list(PERSISTENT_VOLUME_CLAIMS, namespace=cache.namespace)
    return {claim.metadata.name: claim.metadata.uid for claim in page.items}


async def test_a_replica_with_broken_files_copies_its_primary_again(database: Any) -> None:
    cache = await database(storage=STORAGE)
    await cache.wait_ready()
    uids, claims = await cache.uids(), await claim_uids(cache)
    application = await cache.fill(300)
    primary = await cache.primary_of(0)
    replica = next(n for n in uids if n.startswith("cache-0-") and n != primary)
    await break_files(cache, replica)
    await until(lambda: _is_new(cache, replica, uids), seconds=120, what=f"a new {replica}")
    await cache.wait_ready(seconds=120)
    now = await claim_uids(cache)
    assert [name for name in claims if now[name] != claims[name]] == [f"data-{replica}"]
    pods = await cache.uids()
    assert [name for name in uids if pods[name] != uids[name]] == [replica]
    await asyncio.sleep(3)  # until then not all have heard that it is a replica again
    await cache.crash(primary)  # what it copied is all there is now
    assert await cache.wait_new_primary(0, primary) == replica
    assert await cache.check(application) == []


async def test_a_primary_with_broken_files_is_replaced_and_then_copies_its_successor(
    database: Any,
) -> None:
    cache = await database(storage=STORAGE)
    await cache.wait_ready()
    uids = await cache.uids()
    application = await cache.fill(300)
    await asyncio.sleep(1)  # replicas have it all
    primary = await cache.primary_of(1)
    await break_files(cache, primary)
    await until(lambda: _is_new(cache, primary, uids), seconds=120, what=f"a new {primary}")
    await cache.wait_ready(seconds=120)
    assert await cache.primary_of(1) != primary
    assert await cache.check(application) == []


async def test_the_last_copy_is_kept_though_it_cannot_be_loaded_and_the_status_says_what_to_do(
    database: Any,
) -> None:
    cache = await database(storage=STORAGE, replicas=0)
    await cache.wait_ready()
    await cache.fill(300)
    uids, claims = await cache.uids(), await claim_uids(cache)
    await break_files(cache, "cache-0-0")
    told = await cache.wait_condition("Degraded", "True", reason="CorruptData", seconds=60)
    for part in ("cache-0-0", "cannot load", "repair"):
        assert part in told["message"]
    await asyncio.sleep(10)  # it has tried more than once by now
    assert await cache.uids() == uids
    assert await claim_uids(cache) == claims
    shards = (await cache.status())["shards"]
    assert [s.get("primary") for s in shards][1:] == ["cache-1-0", "cache-2-0"]


async def _is_new(cache: Any, pod: str, old: dict[str, str]) -> bool:
    return bool((await cache.uids()).get(pod, old[pod]) != old[pod])
