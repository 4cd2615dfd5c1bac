"""A backup takes the place of the data of a database in use; what it had is kept and can be had."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from e2e.backup.test_restore import damage
from e2e.harness import until
from e2e.standalone.conftest import Alone
from e2e.writing import Peer
from redis_operator.redis.slots import key_slot

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


def addresses(cache: Any, status: dict[str, Any], pods: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the address of each primary, and the slots that it owns."""
    found = []
    for shard in status["shards"]:
        first, _, last = shard["slots"].partition("-")
        owned = range(int(first), int(last) + 1)
        found.append((pods[shard["primary"]].status.pod_ip, owned))
    return found


class Sharded:
    """A database of several shards, as somebody sees it who asks each primary by itself."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self.acknowledged: dict[str, int] = {}

    async def connect(self, host: str) -> Peer:
        seeds = await self.cache.seeds()
        return await Peer.open((host, 6379), seeds.username, seeds.password)

    async def primaries(self) -> list[tuple[str, Any]]:
        return addresses(self.cache, await self.cache.status(), await self.cache.pods())

    async def content(self) -> dict[str, str]:
        found = {}
        for host, _ in await self.primaries():
            peer = await self.connect(host)
            try:
                for key in await peer.ask("KEYS", "*"):
                    if not key.startswith("tick"):
                        found[key] = await peer.ask("GET", key)
            finally:
                peer.close()
        return found

    @contextlib.asynccontextmanager
    async def counting(self) -> AsyncIterator[None]:
        """Count up in a key of each shard all the time, over every interruption."""
        work = []
        for host, owned in await self.primaries():
            key = next(k for n in range(999) if key_slot(k := f"tick{n}") in owned)
            self.acknowledged[key] = 0
            work.append(asyncio.ensure_future(self._count(host, key)))
        try:
            yield
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _count(self, host: str, key: str) -> None:
        while True:
            try:
                peer = await self.connect(host)
            except (OSError, TimeoutError, AssertionError):
                await asyncio.sleep(0.05)
                continue
            try:
                while await peer.ask("SET", key, str(self.acknowledged[key] + 1)) == "OK":
                    self.acknowledged[key] += 1
                    await asyncio.sleep(0.005)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.05)
            finally:
                peer.close()


async def test_three_shards_have_the_backup_and_every_write_since_is_kept_though_the_operator_dies(
    database: Any, store: Any, restores: Restores, cluster: Any
) -> None:
    cache = await database(mode="Cluster", shards=3, replicas=1)
    await cache.wait_ready(seconds=90)
    await cache.fill(1500)
    sharded = Sharded(cache)
    before = await sharded.content()
    store.take("monday")
    await store.wait("monday", "Completed")
    async with sharded.counting():
        await cache.fill(500)
        since = await sharded.content()
        restores.ask("back", **{"from": {"name": "monday"}})
        await restores.wait("back", "Restoring")
        held = dict(sharded.acknowledged)
        cluster.kill_operator()
        status = await restores.wait("back", "Completed", seconds=180)
        await cache.wait_ready(seconds=90)
        assert await sharded.content() == before
    assert since != before
    assert min(held.values()) > 0

    begins = {"bootstrap": {"fromBackup": {"name": status["kept"]}}}
    copy = Alone(await database("copy", **ALONE, **begins))
    await copy.wait_ready(seconds=120)
    copy.acknowledged = since
    assert await copy.lost() == []
    for key, number in held.items():
        assert int(await copy.run("GET", key)) in (number, number + 1)  # one was on its way


async def test_nothing_happens_without_consent_or_with_a_damaged_backup(
    database: Any, store: Any, restores: Restores
) -> None:
    cache = Alone(await database(**ALONE))
    await cache.wait_ready(seconds=90)
    await cache.write(200)
    told = restores.ask("back", check=False, discard=None, **{"from": {"name": "monday"}})
    assert "spec.discard" in told
    assert "to agree, set discard.database" in told
    told = restores.ask(
        "back", check=False, discard={"database": "other"}, **{"from": {"name": "monday"}}
    )
    assert "to agree, set discard.database" in told
    restores.ask("early", **{"from": {"name": "monday"}})
    status = await restores.wait("early", "Failed")
    assert "spec.from: RedisBackup monday does not exist" in status["message"]

    store.take("monday")
    await store.wait("monday", "Completed")
    damage(store)
    uninterrupted = await cache.connect()
    restores.ask("back", **{"from": {"name": "monday"}})
    status = await restores.wait("back", "Failed")
    assert status["conditions"][0]["reason"] == "BackupDamaged"
    assert "nothing was changed" in status["message"]
    assert await uninterrupted.ask("SET", "more", "1") == "OK"  # no client was shut out
    uninterrupted.close()
    assert await cache.lost() == []


async def test_a_database_that_is_too_small_for_the_backup_has_again_what_it_had(
    database: Any, store: Any, restores: Restores
) -> None:
    large = Alone(await database("large", **ALONE))
    await large.wait_ready(seconds=90)
    many = "for i = 1, 8000 do redis.call('SET', i, string.rep('x', 1000)) end"
    await large.run("EVAL", many, "0")
    store.take("monday", redis="large")
    await store.wait("monday", "Completed")
    cache = Alone(await database(**ALONE, config={"maxmemory": "4mb"}))
    await cache.wait_ready(seconds=90)
    await cache.write(200)
    restores.ask("back", **{"from": {"name": "monday"}})
    await restores.wait("back", "RollingBack", seconds=180)
    status = await restores.wait("back", "Failed")
    await cache.wait_ready(seconds=60)
    assert "OOM" in status["message"]
    assert "the database has again what it had" in status["message"]
    assert await cache.lost() == []
    assert await cache.run("DBSIZE") == 200


async def test_a_primary_that_dies_meanwhile_is_replaced_by_one_that_has_all_of_the_backup(
    database: Any, store: Any, restores: Restores
) -> None:
    cache = Alone(await database(mode="Failover", shards=1, replicas=2))
    await cache.wait_ready(seconds=120)
    await cache.write(300)
    before = dict(cache.acknowledged)
    store.take("monday")
    await store.wait("monday", "Completed")
    await cache.write(100)
    restores.ask("back", **{"from": {"name": "monday"}})
    await restores.wait("back", "Restoring")
    await cache.crash((await cache.status())["primary"])
    await restores.wait("back", "Completed", seconds=180)
    await cache.wait_ready(seconds=120)
    cache.acknowledged = before
    assert await cache.lost() == []
    assert await cache.run("DBSIZE") == 300
