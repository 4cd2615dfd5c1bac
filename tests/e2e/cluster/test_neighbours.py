"""Five thousand foreign objects beside a database cost nothing, and none of them is touched. K-23

Some of them carry our own label, belong to nobody or to somebody else, and are named as badly as
names go.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import cpu_seconds
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from kubecontroller.client.scheme import Kind

pytestmark = pytest.mark.e2e

_LABEL = "redisoperator.dev/database"
_AT_ONCE = 16
_PLAIN = 4900
_HOSTILE = 100
_KINDS: dict[str, Kind[Manifest]] = {
    "ConfigMap": CONFIG_MAPS.plain(),
    "Secret": SECRETS.plain(),
    "ServiceAccount": SERVICE_ACCOUNTS.plain(),
}


def neighbours(namespace: str) -> Iterator[tuple[str, Manifest]]:
    """Yield what others keep in the namespace: large, many, and some that look like ours."""
    for number in range(_PLAIN):
        kind = ("ConfigMap", "ConfigMap", "Secret", "ServiceAccount")[number % 4]
        labels = {"app.kubernetes.io/managed-by": "somebody", "app.kubernetes.io/name": "redis"}
        obj: Manifest = {
            "metadata": {"namespace": namespace, "name": f"theirs-{number}", "labels": labels}
        }
        if kind == "ConfigMap":
            obj["data"] = {"payload": "x" * 2048}
        yield kind, obj
    for number in range(_HOSTILE):
        kind = ("ConfigMap", "Secret")[number % 2]
        labels = {_LABEL: ("cache", "other", "cache.config", "x" * 63)[number // 2 % 4]}
        meta = {"namespace": namespace, "name": f"cache-{number}-theirs", "labels": labels}
        yield kind, {"metadata": meta}


async def fill(client: Any, namespace: str) -> None:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def create(kind: str, obj: Manifest) -> None:
        async with gate:
            await client.create(_KINDS[kind], obj)

    await asyncio.gather(*(create(kind, obj) for kind, obj in neighbours(namespace)))


async def versions(client: Any, namespace: str) -> dict[tuple[str, str], str]:
    found = {}
    for name, kind in _KINDS.items():
        page = await client.list(kind, namespace=namespace)
        for obj in page.items:
            meta = obj["metadata"]
            if "theirs" in meta["name"]:
                found[name, meta["name"]] = meta["resourceVersion"]
    return found


def resident_mebibytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def at_rest(pid: int, seconds: float = 12.0) -> float:
    """Return the seconds of CPU an operator uses while nothing happens: more than one interval."""
    before = cpu_seconds(pid)
    await asyncio.sleep(seconds)
    return cpu_seconds(pid) - before


async def test_five_thousand_foreign_objects_cost_nothing_and_are_not_touched(
    database: Any, cluster: Any
) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    application = await cache.fill(100)
    pid = cluster.operator_pid()
    memory, cpu = resident_mebibytes(pid), await at_rest(pid)
    await fill(cache.client, cache.namespace)
    theirs = await versions(cache.client, cache.namespace)
    assert len(theirs) == _PLAIN + _HOSTILE
    assert await at_rest(pid) <= 2 * cpu + 0.2
    assert resident_mebibytes(pid) - memory < 10
    cluster.kill_operator()  # one that starts among them lists no more than its own
    await cache.patch(service={"annotations": {"example.com/ours": "one"}})
    await cache.wait_ready(seconds=60)
    again = cluster.operator_pid()
    assert resident_mebibytes(again) - memory < 10
    primary = await cache.primary_of(0)
    await cache.crash(primary)
    await cache.wait_new_primary(0, primary)
    await cache.wait_ready()
    assert await versions(cache.client, cache.namespace) == theirs
    assert await cache.uids() == uids
    assert await cache.check(application) == []
