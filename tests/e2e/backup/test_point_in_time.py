"""A database goes back to a time or to a restore point, while an application writes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.harness import until
from e2e.standalone.conftest import Alone
from e2e.writing import Peer
from redis_operator.redis.slots import SlotSet, key_slot

pytestmark = pytest.mark.e2e

ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}
FAILOVER: dict[str, Any] = {"mode": "Failover", "shards": 1, "replicas": 1}
CLUSTER: dict[str, Any] = {"mode": "Cluster", "shards": 3, "replicas": 0}
CLAIM: dict[str, Any] = {"claim": {"name": "backups"}}
SLACK = 1.0  # 0.1 s on a machine that answers samples in time


class Counting:
    """An application that writes the keys 1, 2, 3, ...: when each was asked for and taken."""

    def __init__(self, cache: Alone) -> None:
        self.cache = cache
        self.asked: list[float] = []
        self.taken: list[float] = []

    @asynccontextmanager
    async def going(self) -> AsyncIterator[None]:
        """Count on until the end of the context, which waits for what was asked for."""
        stop = asyncio.Event()
        task = asyncio.create_task(self._count(stop))
        try:
            yield
        finally:
            stop.set()
            await task

    async def _count(self, stop: asyncio.Event) -> None:
        peer = await self.cache.connect()
        try:
            while not stop.is_set():
                self.asked.append(time.time())
                number = str(len(self.asked))
                assert await peer.ask("SET", number, number) == "OK"
                self.taken.append(time.time())
                await asyncio.sleep(0.002)
        finally:
            peer.close()


async def keys_of(copy: Alone) -> set[int]:
    return {int(key) for key in await copy.run("KEYS", "*")}


class Nightly:
    """The schedule, as kubectl shows it."""

    def __init__(self, store: Any) -> None:
        self.store = store
        template = {"storage": CLAIM}
        spec = {"redis": "cache", "schedule": "@yearly", "template": template, "continuous": True}
        kind = {"apiVersion": "redisoperator.dev/v1", "kind": "RedisBackupSchedule"}
        store.apply({**kind, "metadata": {"name": "nightly"}, "spec": spec})

    def status(self) -> dict[str, Any]:
        return dict(self.store.get("redisbackupschedule", "nightly").get("status") or {})

    async def archived(self, moment: float) -> dict[str, Any]:
        """Wait until the window reaches beyond a moment."""

        async def beyond() -> dict[str, Any] | None:
            window = self.status().get("window") or {}
            return window if window.get("newest", "") > said(moment) else None

        found: dict[str, Any] = await until(
            beyond, seconds=120, what=f"a window beyond {said(moment)}", every=0.5
        )
        return found

    async def point(self, name: str, phase: str) -> dict[str, Any]:
        """Ask for a restore point, and wait until it is there or refused."""
        words = ("annotate", "redisbackupschedule", "nightly", "-n", self.store.namespace)
        asked = f"redisoperator.dev/restore-point={name}"
        self.store.cluster.kubectl(*words, "--overwrite", asked)

        async def ended() -> dict[str, Any] | None:
            told = self.status().get("restorePoint") or {}
            return told if (told.get("name"), told.get("phase")) == (name, phase) else None

        try:
            found: dict[str, Any] = await until(
                ended, seconds=90, what=f"{name} {phase}", every=0.5
            )
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.status()}") from error
        return found


def said(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


async def test_what_was_there_at_a_time_and_at_a_restore_point_comes_back(
    database: Any, store: Any
) -> None:
    cache = Alone(await database(**FAILOVER))
    await cache.wait_ready(seconds=90)
    nightly, counting = Nightly(store), Counting(cache)
    async with counting.going():
        await nightly.archived(time.time())
        moment = float(int(time.time()))
    await nightly.point("release", "Completed")
    kept = set(range(1, len(counting.taken) + 1))
    async with counting.going():
        window = await nightly.archived(time.time())

        early = {"fromBackup": {"schedule": "nightly", "at": "2020-01-01T00:00:00Z"}}
        none = await database("none", **ALONE, bootstrap=early)
        back = {"fromBackup": {"schedule": "nightly", "at": said(moment)}}
        copy = Alone(await database("copy", **ALONE, bootstrap=back))
        await copy.wait_ready(seconds=120)
    found = await keys_of(copy)
    assert found == set(range(1, len(found) + 1))
    assert counting.asked[len(found) - 1] <= moment
    assert counting.taken[len(found)] > moment - SLACK

    async def told() -> bool:
        message = (await none.condition("Available")).get("message", "")
        return "fromBackup.at: 2020-01-01T00:00:00.000Z is before what the archive has" in message

    await until(told, seconds=60, what="the reason")
    refused = await nightly.point("Release!", "Failed")
    assert "cannot be the name of a restore point" in refused["message"]

    await back_in_place(store, {"schedule": "nightly", "at": said(moment)})
    await cache.wait_ready(seconds=60)  # clients are let in
    assert await keys_of(cache) == found

    for kind, name in (("redisbackupschedule", "nightly"), ("redis", "cache"), ("redis", "none")):
        store.cluster.kubectl("delete", kind, name, "-n", store.namespace)
    there = {"storage": CLAIM, "path": window["path"], "restorePoint": "release"}
    last = await database("last", **CLUSTER, bootstrap={"fromBackup": there})
    status = await last.wait_ready(seconds=180)
    assert status["restore"]["keys"] == len(kept)
    held = set()
    for pod in (await last.pods()).values():
        held |= {int(key) for key in await on_pod(last, pod, "KEYS", "*")}
    assert held == kept


async def back_in_place(store: Any, origin: dict[str, Any]) -> None:
    """Have a moment take the place of what the database has."""
    kind = {"apiVersion": "redisoperator.dev/v1", "kind": "RedisRestore"}
    spec = {"redis": "cache", "from": origin, "discard": {"database": "cache"}}
    store.apply({**kind, "metadata": {"name": "undo"}, "spec": spec})

    async def done() -> bool:
        phase = (store.get("redisrestore", "undo").get("status") or {}).get("phase")
        return bool(phase == "Completed")

    try:
        await until(done, seconds=120, what="the restore", every=0.5)
    except AssertionError as error:
        raise AssertionError(f"{error}; {store.get('redisrestore', 'undo')['status']}") from error


async def on_pod(copy: Any, pod: Any, *words: str) -> Any:
    """Ask one server."""
    seeds = await copy.seeds()
    peer = await Peer.open((pod.status.pod_ip, 6379), seeds.username, seeds.password)
    try:
        return await peer.ask(*words)
    finally:
        peer.close()


class Rounds:
    """An application that writes 1, 2, 3, ... to a key of each shard, one shard after another."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self.asked: list[float] = []
        self.taken: list[float] = []

    async def open(self) -> None:
        pods, shards = await self.cache.pods(), (await self.cache.status())["shards"]
        self.keys = [_key_in(SlotSet.parse(shard["slots"])) for shard in shards]
        seeds = await self.cache.seeds()
        self.peers = [
            await Peer.open(
                (pods[shard["primary"]].status.pod_ip, 6379), seeds.username, seeds.password
            )
            for shard in shards
        ]

    @asynccontextmanager
    async def going(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        task = asyncio.create_task(self._write(stop))
        try:
            yield
        finally:
            stop.set()
            await task

    async def _write(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.asked.append(time.time())
            for number, key in enumerate(self.keys):
                await self._set(number, key, str(len(self.asked)))
            self.taken.append(time.time())
            await asyncio.sleep(0.002)

    async def _set(self, number: int, key: str, value: str) -> None:
        """Write to the primary of a shard; to another one where the shard has failed over."""
        reply = await self.peers[number].ask("SET", key, value)
        if str(reply).startswith("MOVED "):
            host, _, port = str(reply).rpartition(" ")[2].rpartition(":")
            self.peers[number].close()
            seeds = await self.cache.seeds()
            self.peers[number] = await Peer.open((host, int(port)), seeds.username, seeds.password)
            reply = await self.peers[number].ask("SET", key, value)
        assert reply == "OK"

    def close(self) -> None:
        for peer in self.peers:
            peer.close()


def _key_in(slots: SlotSet) -> str:
    return next(key for key in map(str, range(10_000)) if key_slot(key) in slots)


async def test_all_shards_come_back_as_of_one_moment(database: Any, store: Any) -> None:
    cache = await database(**CLUSTER | {"replicas": 1})
    await cache.wait_ready(seconds=120)
    nightly, rounds = Nightly(store), Rounds(cache)
    await rounds.open()
    async with rounds.going():
        await nightly.archived(time.time())
        moment = float(int(time.time()))
        await nightly.point("release", "Completed")
        await nightly.archived(time.time())
        point = {"fromBackup": {"schedule": "nightly", "restorePoint": "release"}}
        back = {"fromBackup": {"schedule": "nightly", "at": said(moment), "bound": "Include"}}
        one = Alone(await database("one", **ALONE, bootstrap=point))
        five = await database("five", **CLUSTER | {"shards": 5}, bootstrap=back)
        await one.wait_ready(seconds=180)
        await five.wait_ready(seconds=180)
    rounds.close()
    a, b, c = [int(await one.run("GET", key)) for key in rounds.keys]
    assert a >= b >= c >= a - 1, (a, b, c)
    shards = (await five.status())["shards"]
    pods = await five.pods()
    for key in rounds.keys:
        [owner] = [s for s in shards if key_slot(key) in SlotSet.parse(s["slots"])]
        found = await on_pod(five, pods[owner["primary"]], "GET", key)
        assert rounds.taken[int(found)] > moment  # the round after it was not whole by then
        assert rounds.asked[int(found) - 1] < moment + SLACK
