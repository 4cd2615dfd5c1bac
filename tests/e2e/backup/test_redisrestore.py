"""A backup takes the place of the data of a database in use; what it had is kept and can be had."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from e2e.harness import until
from e2e.standalone.conftest import Alone

pytestmark = pytest.mark.e2e

ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}


class Restores:
    """Who asks for restores: kubectl."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def ask(self, name: str, *, check: bool = True, redis: str = "cache", **spec: Any) -> str:
        kind = {"apiVersion": "redisoperator.dev/v1", "kind": "RedisRestore"}
        wanted = {"redis": redis, "discard": {"database": redis}, **spec}
        found: str = self.store.apply(
            {**kind, "metadata": {"name": name}, "spec": wanted}, check=check
        )
        return found

    def status(self, name: str) -> dict[str, Any]:
        return dict(self.store.get("redisrestore", name).get("status") or {})

    async def wait(self, name: str, *phases: str, seconds: float = 120.0) -> dict[str, Any]:
        async def there() -> dict[str, Any] | None:
            status = self.status(name)
            return status if status.get("phase") in phases else None

        try:
            found: dict[str, Any] = await until(
                there, seconds=seconds, what=f"restore {name} to be {phases}", every=0.3
            )
        except AssertionError as error:
            raise AssertionError(f"{error}; status: {self.status(name)}") from error
        return found


@pytest.fixture
def restores(store: Any) -> Restores:
    return Restores(store)


@contextlib.asynccontextmanager
async def counting(cache: Alone) -> AsyncIterator[list[int]]:
    """Count up in a key all the time, over one connection as long as it lasts."""
    acknowledged = [0]

    async def count() -> None:
        while True:
            try:
                peer = await cache.connect()
            except (OSError, TimeoutError, AssertionError):
                await asyncio.sleep(0.05)
                continue
            try:
                while await peer.ask("SET", "tick", str(acknowledged[0] + 1)) == "OK":
                    acknowledged[0] += 1
                    await asyncio.sleep(0.005)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.05)
            finally:
                peer.close()

    task = asyncio.ensure_future(count())
    try:
        yield acknowledged
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_one_server_has_what_it_had_and_what_came_after_is_kept(
    database: Any, store: Any, restores: Restores
) -> None:
    cache = Alone(await database(**ALONE))
    await cache.wait_ready(seconds=90)
    await cache.write(300)
    before = dict(cache.acknowledged)
    store.take("monday")
    await store.wait("monday", "Completed")
    async with counting(cache) as ticks:
        await cache.write(200)
        after = dict(cache.acknowledged)
        await cache.run("SET", next(iter(before)), "changed")
        restores.ask("back", **{"from": {"name": "monday"}})
        await restores.wait("back", "Saving", "Restoring", "Completed")
        last = ticks[0]
        status = await restores.wait("back", "Completed")
        await cache.wait_ready(seconds=60)
    assert status["keys"] == 300
    cache.acknowledged = before
    assert await cache.lost() == []
    assert await cache.run("DBSIZE") in (300, 301)  # it counts again
    assert await cache.run("EXISTS", next(iter(set(after) - set(before)))) == 0

    kept = status["kept"]
    assert store.status(kept)["phase"] == "Completed"
    copy = Alone(await database("copy", **ALONE, bootstrap={"fromBackup": {"name": kept}}))
    await copy.wait_ready(seconds=90)
    copy.acknowledged = after | {next(iter(before)): "changed"}
    assert await copy.lost() == []
    assert int(await copy.run("GET", "tick")) >= last > 0
    assert "back-replace-1" not in store.cluster.kubectl("get", "jobs", "-n", store.namespace)
