"""A schedule archives the stream of a database all the time, whatever ends meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.harness import until
from e2e.standalone.conftest import Alone

pytestmark = pytest.mark.e2e

FAILOVER: dict[str, Any] = {"mode": "Failover", "shards": 1, "replicas": 2}
WORKER = "redisoperator.dev/archive=hourly"


def schedule(**spec: Any) -> dict[str, Any]:
    template = {"storage": {"claim": {"name": "backups"}}}
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "RedisBackupSchedule",
        "metadata": {"name": "hourly"},
        "spec": {"redis": "cache", "schedule": "@yearly", "template": template, **spec},
    }


def status(store: Any) -> dict[str, Any]:
    return dict(store.get("redisbackupschedule", "hourly").get("status") or {})


def objects(store: Any) -> list[str]:
    """Return what the archive of the schedule consists of in the cluster."""
    text = store.cluster.kubectl(
        "get", "deployments,configmaps,pods", "-l", WORKER, "-o", "json", "-n", store.namespace
    )
    return [f"{one['kind']}/{one['metadata']['name']}" for one in json.loads(text)["items"]]


def worker(store: Any) -> str:
    [name] = [one.partition("/")[2] for one in objects(store) if one.startswith("Pod/")]
    return name


def events(store: Any) -> list[str]:
    text = store.cluster.kubectl("get", "events", "-o", "json", "-n", store.namespace)
    return [
        f"{one['reason']}: {one['message']}"
        for one in json.loads(text)["items"]
        if one["involvedObject"]["kind"] == "RedisBackupSchedule"
    ]


async def later(store: Any, than: str, *, seconds: float = 90.0) -> dict[str, Any]:
    """Wait until the window reaches beyond a time, and the condition says that it goes on."""

    async def advanced() -> dict[str, Any] | None:
        told = status(store)
        window = told.get("window") or {}
        [state] = [c["status"] for c in told.get("conditions", ()) if c["type"] == "Archiving"]
        return window if window.get("newest", "") > than and state == "True" else None

    try:
        found: dict[str, Any] = await until(
            advanced, seconds=seconds, what=f"a window beyond {than or 'nothing'}", every=0.5
        )
    except (AssertionError, ValueError) as error:
        told = f"{status(store)}; {objects(store)}; {events(store)}"
        raise AssertionError(f"{error}; {told}") from error
    return found


async def test_the_window_goes_on_whoever_is_killed_and_ends_when_it_is_turned_off(
    database: Any, store: Any, cluster: Any
) -> None:
    cache = Alone(await database(**FAILOVER))
    await cache.wait_ready(seconds=90)
    store.apply(schedule(continuous=True))
    async with cache.under_load():
        first = await later(store, "", seconds=120)
        window = await later(store, first["newest"])
        assert window["oldest"] == first["oldest"]
        [shard] = window["shards"]
        primary = (await cache.status())["primary"]
        assert shard["pod"] not in ("", primary)
        await cache.crash(primary)
        window = await later(store, window["newest"])
        store.cluster.kubectl("delete", "pod", worker(store), "-n", store.namespace, "--force")
        window = await later(store, window["newest"])
        cluster.kill_operator()
        window = await later(store, window["newest"])
    assert (window["gaps"], window["oldest"]) == (0, first["oldest"])
    shown = store.cluster.kubectl("get", "rdbs", "-n", store.namespace)
    assert "ARCHIVED" in shown
    store.apply(schedule(continuous=False))

    async def gone() -> bool:
        return not objects(store)

    await until(gone, seconds=90, what="the worker to be gone", every=0.5)
    told = status(store)
    assert told["window"]["newest"] >= window["newest"]  # what was archived is still there
    [archiving] = [c for c in told["conditions"] if c["type"] == "Archiving"]
    assert (archiving["status"], archiving["reason"]) == ("False", "TurnedOff")


async def test_every_shard_of_a_cluster_is_archived_also_one_that_comes_later(
    database: Any, store: Any
) -> None:
    cache = await database(mode="Cluster", shards=3, replicas=1)
    await cache.wait_ready(seconds=120)
    store.apply(schedule(continuous=True))
    async with cache.under_load(writes_per_second=50.0):
        window = await later(store, "", seconds=120)
        assert [shard["name"] for shard in window["shards"]] == ["shard-0", "shard-1", "shard-2"]
        running = worker(store)
        await cache.patch(shards=4)
        await cache.wait_ready(seconds=120, shards=4)

        async def four() -> bool:
            return len(status(store)["window"]["shards"]) == 4

        await until(four, seconds=60, what="the new shard to be archived", every=0.5)
        window = await later(store, window["newest"], seconds=120)
    assert window["gaps"] == 0
    assert all(shard["pod"].endswith("-1") for shard in window["shards"]), window  # replicas
    assert worker(store) == running  # it was not restarted


async def test_a_lone_primary_is_archived_and_a_base_is_taken_on_request(
    database: Any, store: Any
) -> None:
    cache = Alone(await database(mode="Standalone", shards=1, replicas=0))
    await cache.wait_ready(seconds=90)
    store.apply(schedule(continuous=True))
    async with cache.under_load():
        window = await later(store, "", seconds=120)
        base = window["lastBase"]
        wanted = f"redisoperator.dev/base={window['time']}"
        store.cluster.kubectl("annotate", "rdbs", "hourly", wanted, "-n", store.namespace)

        async def based() -> bool:
            return bool(status(store)["window"]["lastBase"] > base)

        await until(based, seconds=90, what="another base", every=0.5)
        ready = (await cache.status())["phase"]
    assert ready == "Ready"  # the worker is not taken for a replica
    store.cluster.kubectl("delete", "rdbs", "hourly", "-n", store.namespace)

    async def gone() -> bool:
        return not objects(store)

    await until(gone, seconds=90, what="the worker to go with its schedule", every=0.5)
