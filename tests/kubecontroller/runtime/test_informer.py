from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from kubecontroller.client.errors import ConnectionFailed
from kubecontroller.runtime.changes import Added, Updated
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.store import label_index


def told(changes: list[Any]) -> list[tuple[str, str]]:
    """What a handler heard, as (change, name)."""
    return [
        (type(c).__name__, (c.new if isinstance(c, Updated) else c.obj).metadata.name)
        for c in changes
    ]


async def test_the_cache_holds_what_is_there_and_follows_what_changes(
    client, kind, manifest, running
):
    await client.create(kind, manifest("a", data={"x": "1"}))
    informer = Informer(client, kind)
    heard: list[Any] = []
    informer.subscribe(heard.append)
    async with running(informer.run()):
        await informer.wait_synced()
        assert informer.cache.get(("default", "a")).data == {"x": "1"}
        await client.create(kind, manifest("b"))
        await client.apply(kind, manifest("a", data={"x": "2"}))
        await client.delete(kind, ("default", "b"))
        await asyncio.sleep(1)
        assert informer.cache.keys() == [("default", "a")]
        assert informer.cache.get(("default", "a")).data == {"x": "2"}
    assert told(heard) == [("Added", "a"), ("Added", "b"), ("Updated", "a"), ("Deleted", "b")]
    assert [c.initial for c in heard[:2]] == [True, False]


# §6.2.7


@pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "list"])
async def test_deletes_missed_while_disconnected_are_told_on_re_list(
    server, client, kind, manifest, running, watch_list
):
    for name in ("stays", "goes"):
        await client.create(kind, manifest(name))
    informer = Informer(client, kind, watch_list=watch_list)
    heard: list[Any] = []
    informer.subscribe(heard.append)
    async with running(informer.run()):
        await informer.wait_synced()
        await asyncio.sleep(30)
        heard.clear()
        server.remove("api/v1/configmaps", ("default", "goes"))
        server.forget_history()  # the watch gets 410 and never hears of it
        await asyncio.sleep(60)
        assert informer.cache.keys() == [("default", "stays")]
    assert told(heard) == [("Deleted", "goes")]
    assert heard[0].assumed


@pytest.mark.parametrize("missed", [False, True], ids=["seen", "missed"])
async def test_deleted_and_created_again_under_the_same_name_is_told_as_both(
    server, client, kind, manifest, running, missed
):
    first = await client.create(kind, manifest("a"))
    informer = Informer(client, kind)
    heard: list[Any] = []
    informer.subscribe(heard.append)
    async with running(informer.run()):
        await informer.wait_synced()
        await asyncio.sleep(30)
        heard.clear()
        server.remove("api/v1/configmaps", ("default", "a"))
        second = server.put("api/v1/configmaps", manifest("a"), bump_generation=True)
        if missed:
            server.forget_history()  # before the watch had its turn
        await asyncio.sleep(60)
    assert told(heard) == [("Deleted", "a"), ("Added", "a")]
    assert heard[0].obj.metadata.uid == first.metadata.uid
    assert heard[1].obj.metadata.uid == second["metadata"]["uid"]
    assert heard[0].assumed is missed


async def test_a_re_list_that_shows_nothing_new_tells_nothing(
    server, client, kind, manifest, running
):
    await client.create(kind, manifest("a"))
    informer = Informer(client, kind)
    heard: list[Any] = []
    informer.subscribe(heard.append)
    async with running(informer.run()):
        await informer.wait_synced()
        await asyncio.sleep(30)
        before = len(server.requests)
        server.version += 10
        server.forget_history()
        await client.create(kind, manifest("wakes-the-watch"))
        server.forget_history()
        await asyncio.sleep(60)
        assert len(server.requests) > before + 1, "it did list again"
    assert told(heard) == [("Added", "a"), ("Added", "wakes-the-watch")]


# §6.2.8


async def test_the_cache_is_changed_before_its_handlers_are_told(client, kind, manifest, running):
    informer = Informer(client, kind)
    seen: list[bool] = []
    informer.subscribe(lambda change: seen.append(change.obj.metadata.key in informer.cache))
    async with running(informer.run()):
        await informer.wait_synced()
        await client.create(kind, manifest("a"))
        await asyncio.sleep(1)
        await client.delete(kind, ("default", "a"))
        await asyncio.sleep(1)
    assert seen == [True, False]


async def test_who_is_told_of_a_change_finds_that_the_cache_has_reached_its_version(
    client, kind, manifest, running
):
    await client.create(kind, manifest("a"))
    informer = Informer(client, kind)
    behind: list[str] = []
    heard: list[Any] = []

    def told_of(change: Any) -> None:
        heard.append(change)
        version = change.obj.metadata.resource_version
        if int(informer.version or 0) < int(version):
            behind.append(version)

    informer.subscribe(told_of)
    async with running(informer.run()):
        await informer.wait_synced()
        await client.create(kind, manifest("b"))
        await asyncio.sleep(1)
        await client.delete(kind, ("default", "b"))
        await asyncio.sleep(1)
    assert len(heard) == 3
    assert behind == []


async def test_a_re_list_swaps_the_whole_cache_before_anyone_is_told(
    client, kind, manifest, running
):
    for n in range(5):
        await client.create(kind, manifest(f"a-{n}"))
    informer = Informer(client, kind)
    sizes: list[int] = []
    informer.subscribe(lambda _: sizes.append(len(informer.cache)))
    async with running(informer.run()):
        await informer.wait_synced()
    assert sizes == [5] * 5


async def test_a_handler_that_raises_is_logged_and_told_the_next_change(
    client, kind, manifest, running, caplog
):
    informer = Informer(client, kind)
    heard: list[Any] = []

    def fragile(change: Any) -> None:
        heard.append(change)
        raise RuntimeError("handler bug")

    others: list[Any] = []
    informer.subscribe(fragile)
    informer.subscribe(others.append)
    async with running(informer.run()):
        await informer.wait_synced()
        await client.create(kind, manifest("a"))
        await client.create(kind, manifest("b"))
        await asyncio.sleep(0.5)
    assert told(heard) == told(others) == [("Added", "a"), ("Added", "b")]
    assert "handler bug" in caplog.text


# §6.2.9


async def test_synced_means_the_first_list_was_delivered_to_each_handler(
    client, kind, manifest, running
):
    for n in range(600):  # more than it takes before yielding to the loop
        await client.create(kind, manifest(f"a-{n}"))
    informer = Informer(client, kind)
    heard: list[Any] = []
    subscription = informer.subscribe(heard.append)
    assert not subscription.has_synced
    async with running(informer.run()):
        await subscription.wait_synced()
        assert len(heard) == 600
        assert informer.has_synced


async def test_an_empty_collection_syncs_too(client, kind, running):
    informer = Informer(client, kind)
    subscription = informer.subscribe(lambda _: None)
    async with running(informer.run()):
        await subscription.wait_synced()
        assert informer.has_synced
        assert len(informer.cache) == 0


async def test_a_late_handler_is_told_what_is_there_as_initial_and_has_then_synced(
    client, kind, manifest, running
):
    await client.create(kind, manifest("a"))
    informer = Informer(client, kind)
    async with running(informer.run()):
        await informer.wait_synced()
        heard: list[Any] = []
        subscription = informer.subscribe(heard.append)
        assert subscription.has_synced
        assert heard == [Added(informer.cache.get(("default", "a")), initial=True)]
        await client.create(kind, manifest("b"))
        await asyncio.sleep(1)
        assert heard[1].initial is False


async def test_a_handler_that_subscribes_in_the_middle_of_a_list_hears_each_object_once(
    client, kind, manifest, running
):
    for n in range(600):
        await client.create(kind, manifest(f"a-{n}"))
    informer = Informer(client, kind)
    late: list[Any] = []

    def subscribe_late(change: Any) -> None:
        if change.obj.metadata.name == "a-300":
            informer.subscribe(late.append)

    informer.subscribe(subscribe_late)
    async with running(informer.run()):
        await informer.wait_synced()
        await asyncio.sleep(1)
    assert sorted(c.obj.metadata.name for c in late) == sorted(f"a-{n}" for n in range(600))


async def test_a_cancelled_subscription_hears_nothing_more(client, kind, manifest, running):
    informer = Informer(client, kind)
    heard: list[Any] = []
    subscription = informer.subscribe(heard.append)
    async with running(informer.run()):
        await informer.wait_synced()
        subscription.cancel()
        subscription.cancel()
        await client.create(kind, manifest("a"))
        await asyncio.sleep(1)
    assert heard == []


# §6.2.10


async def test_a_resync_replays_the_cache_without_asking_the_server(
    server, client, kind, manifest, running
):
    await client.create(kind, manifest("a"))
    informer = Informer(client, kind, resync=100, random=lambda: 0.75)
    heard: list[Any] = []
    informer.subscribe(heard.append)
    loop = asyncio.get_running_loop()
    async with running(informer.run()):
        await informer.wait_synced()
        asked = len(server.requests)
        heard.clear()
        await asyncio.sleep(104)
        assert heard == [], "100 s and a tenth at half its range: 105 s"
        await asyncio.sleep(2)
        assert told(heard) == [("Updated", "a")]
        assert heard[0].old is heard[0].new
        assert len(server.requests) == asked
    assert loop.time() < 200


async def test_without_a_resync_nothing_is_replayed(client, kind, manifest, running):
    await client.create(kind, manifest("a"))
    informer = Informer(client, kind)
    heard: list[Any] = []
    informer.subscribe(heard.append)
    async with running(informer.run()):
        await asyncio.sleep(36_000)
    assert told(heard) == [("Added", "a")]


# §6.2.11


async def test_a_transform_runs_once_before_an_object_is_stored(client, kind, manifest, running):
    await client.create(kind, manifest("a", data={"big": "x" * 1000}))
    calls = []

    def shrink(obj: Any) -> Any:
        calls.append(obj.metadata.name)
        return msgspec.structs.replace(obj, data=None)

    informer = Informer(client, kind, transform=shrink)
    async with running(informer.run()):
        await informer.wait_synced()
        assert informer.cache.get(("default", "a")).data is None
    assert calls == ["a"]


@pytest.mark.parametrize("problem", ["loses the uid", "raises"])
async def test_a_transform_that_breaks_the_metadata_or_raises_is_not_used(
    client, kind, manifest, running, caplog, problem
):
    await client.create(kind, manifest("a", data={"x": "1"}))

    def broken(obj: Any) -> Any:
        if problem == "raises":
            raise RuntimeError("transform bug")
        bare = msgspec.structs.replace(obj.metadata, uid="")
        return msgspec.structs.replace(obj, metadata=bare, data=None)

    informer = Informer(client, kind, transform=broken)
    async with running(informer.run()):
        await informer.wait_synced()
        assert informer.cache.get(("default", "a")).metadata.uid
        assert informer.cache.get(("default", "a")).data == {"x": "1"}
    assert "kept whole" in caplog.text


# §6.2.12 and 13


async def test_objects_are_found_by_namespace_owner_and_label(client, kind, manifest, running):
    owner = {"apiVersion": "v1", "kind": "X", "name": "o", "uid": "u-1", "controller": True}
    await client.create(kind, manifest("a", ownerReferences=[owner], labels={"app": "x"}))
    await client.create(kind, manifest("b", namespace="other", labels={"app": "x"}))
    informer = Informer(client, kind, indexes={"app": label_index("app")})
    async with running(informer.run()):
        await informer.wait_synced()
        cache = informer.cache
        assert [o.metadata.name for o in cache.find("namespace", "other")] == ["b"]
        assert [o.metadata.name for o in informer.owned_by("u-1")] == ["a"]
        assert [o.metadata.name for o in cache.find("app", ("default", "x"))] == ["a"]


async def test_selectors_and_namespace_bound_what_is_cached(
    server, client, kind, manifest, running
):
    for n in range(20):
        await client.create(kind, manifest(f"foreign-{n}"))
    await client.create(kind, manifest("ours", labels={"app": "x"}))
    await client.create(kind, manifest("elsewhere", namespace="other", labels={"app": "x"}))
    informer = Informer(client, kind, namespace="default", labels="app=x")
    async with running(informer.run()):
        await informer.wait_synced()
        await client.create(kind, manifest("also-foreign"))
        await asyncio.sleep(1)
        assert informer.cache.keys() == [("default", "ours")]
    queries = [dict(request.query) for request in server.requests if request.method == "GET"]
    assert all(query["labelSelector"] == "app=x" for query in queries)


# §6.3.4


async def test_waiting_for_a_version_returns_when_the_cache_has_it(client, kind, manifest, running):
    informer = Informer(client, kind)
    async with running(informer.run()):
        await informer.wait_synced()
        written = await client.create(kind, manifest("a"))
        assert informer.cache.get(("default", "a")) is None
        assert await informer.wait_for(written.metadata.resource_version)
        assert informer.cache.get(("default", "a")) is not None
        assert await informer.wait_for(written.metadata.resource_version), "at once, by now"


async def test_waiting_for_a_version_that_does_not_come_ends_after_five_seconds(
    client, kind, running
):
    informer = Informer(client, kind)
    loop = asyncio.get_running_loop()
    async with running(informer.run()):
        await informer.wait_synced()
        begun = loop.time()
        assert not await informer.wait_for("999999")
        assert loop.time() - begun == pytest.approx(5)
    assert informer._version_waiters == []


async def test_a_version_that_cannot_be_compared_is_not_waited_for(client, kind, running):
    informer = Informer(client, kind)
    async with running(informer.run()):
        await informer.wait_synced()
        assert await informer.wait_for("not-a-number")


async def test_bookmarks_advance_the_version_of_a_quiet_cache(server, client, kind, running):
    informer = Informer(client, kind)
    async with running(informer.run()):
        await informer.wait_synced()
        server.version += 100
        await asyncio.sleep(120)
        assert informer.version == str(server.version)


# Faults and fairness


async def test_a_burst_of_events_does_not_starve_other_tasks(client, kind, manifest, running):
    informer = Informer(client, kind)
    heard: list[Any] = []
    longest = 0

    async def neighbour() -> None:
        nonlocal longest
        before = len(heard)
        while True:
            await asyncio.sleep(0)
            longest, before = max(longest, len(heard) - before), len(heard)

    for n in range(2000):
        await client.create(kind, manifest(f"a-{n}"))
    informer.subscribe(heard.append)
    async with running(informer.run(), neighbour()):
        await informer.wait_synced()
    assert len(heard) == 2000
    assert longest <= 256


async def test_an_object_without_a_name_is_left_out_and_one_without_a_uid_is_kept(
    server, client, kind, running, caplog
):
    server.objects["api/v1/configmaps"] = {
        ("default", ""): {"metadata": {"namespace": "default", "name": "", "uid": "u"}},
        ("default", "a"): {"metadata": {"namespace": "default", "name": "a"}},
    }
    informer = Informer(client, kind)
    async with running(informer.run()):
        await informer.wait_synced()
        assert informer.cache.keys() == [("default", "a")]
    assert "without a name" in caplog.text


async def test_trouble_is_logged_with_what_and_when_and_counted(client, kind, running, caplog):
    caplog.set_level(logging.WARNING)

    class Broken:
        async def request(self, request: Any, *, timeout: float) -> Any:
            raise ConnectionFailed("connection refused", host="https://api:6443")

        def stream(self, request: Any, *, idle: float) -> Any:
            raise ConnectionFailed("connection refused", host="https://api:6443")

    client.transport = Broken()
    informer = Informer(client, kind)
    async with running(informer.run()):
        await asyncio.sleep(300)
    assert 5 < informer.failures < 30, "neither a hot loop nor a dead one"
    assert "connection refused" in str(informer.last_error)
    assert "configmaps" in caplog.text
    assert "retrying in" in caplog.text
