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
        raise AssertionError(f"{error}; {status(store)}; {objects(store)}") from error
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
