"""What a client of a watch reads, and when: the same over HTTP and within the process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from tests.kubelocal.apiserver.conftest import Cluster

from kubecontroller.testing.loop import run
from kubelocal.apiserver.pump import FeedWriter, pump
from kubelocal.apiserver.storage.watch import Watch

MAPS = "/api/v1/namespaces/default/configmaps"
Seen = list[tuple[float, str]]
Read = Callable[[Watch, Callable[[bytes], None]], Awaitable[None]]


async def read_as_a_task(watch: Watch, take: Callable[[bytes], None]) -> None:
    async for piece in pump(watch):
        take(piece)


async def read_by_callbacks(watch: Watch, take: Callable[[bytes], None]) -> None:
    done = asyncio.Event()
    writer = FeedWriter(watch, asyncio.get_running_loop(), take, done.set, lambda: True)
    writer.flush()
    await done.wait()


READERS = [read_as_a_task, read_by_callbacks]


def collector(seen: Seen) -> Callable[[bytes], None]:
    def take(piece: bytes) -> None:
        now = round(asyncio.get_running_loop().time(), 3)
        seen.extend((now, json.loads(line)["type"]) for line in piece.splitlines())

    return take


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_changes_come_at_once_bookmarks_every_minute_and_shortly_before_the_end(read: Read):
    cluster, seen = Cluster(), Seen()

    async def play() -> None:
        watch = cluster.watch(
            MAPS,
            resourceVersion=cluster.store.version,
            allowWatchBookmarks="true",
            timeoutSeconds="150",
        )
        reading = asyncio.ensure_future(read(watch, collector(seen)))
        await asyncio.sleep(70)
        cluster.post(MAPS, {"metadata": {"name": "a"}})
        await reading
        assert asyncio.get_running_loop().time() == pytest.approx(150)
        assert watch.ended

    run(play())
    assert seen == [(60, "BOOKMARK"), (70, "ADDED"), (120, "BOOKMARK"), (148, "BOOKMARK")]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_a_reader_without_bookmarks_gets_changes_alone(read: Read):
    cluster, seen = Cluster(), Seen()

    async def play() -> None:
        watch = cluster.watch(MAPS, resourceVersion=cluster.store.version, timeoutSeconds="100")
        reading = asyncio.ensure_future(read(watch, collector(seen)))
        await asyncio.sleep(99)
        cluster.post(MAPS, {"metadata": {"name": "a"}})
        await reading

    run(play())
    assert seen == [(99, "ADDED")]


def test_nothing_is_written_to_a_client_that_does_not_read_until_it_does():
    cluster, seen, room = Cluster(), Seen(), False

    async def play() -> None:
        nonlocal room
        done = asyncio.Event()
        watch = cluster.watch(
            MAPS,
            resourceVersion=cluster.store.version,
            allowWatchBookmarks="true",
            timeoutSeconds="200",
        )
        loop = asyncio.get_running_loop()
        writer = FeedWriter(watch, loop, collector(seen), done.set, lambda: room)
        writer.flush()
        cluster.post(MAPS, {"metadata": {"name": "a"}})
        await asyncio.sleep(90)
        assert seen == []
        room = True
        writer.flush()
        await asyncio.sleep(0)
        assert seen == [(90, "ADDED"), (90, "BOOKMARK")]
        room = False
        await done.wait()
        assert loop.time() == pytest.approx(200, abs=2)

    run(play())
    assert len(seen) == 2
