"""An object that does not fit its type is set aside, and stops nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubecontroller.runtime.changes import Updated
from kubecontroller.runtime.informer import Informer

MAPS = "api/v1/configmaps"


def told(changes: list[Any]) -> list[tuple[str, str]]:
    """What a handler heard, as (change, name)."""
    return [
        (type(c).__name__, (c.new if isinstance(c, Updated) else c.obj).metadata.name)
        for c in changes
    ]


def broken(name: str, uid: str = "u", version: str = "1") -> dict[str, Any]:
    meta = {"namespace": "default", "name": name, "uid": uid, "resourceVersion": version}
    return {"metadata": meta, "data": "no map"}


@pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "list"])
async def test_an_object_that_cannot_be_read_is_set_aside_and_the_others_are_cached(
    server, client, kind, manifest, running, caplog, watch_list
):
    server.objects[MAPS] = {("default", "b"): broken("b")}
    await client.create(kind, manifest("a"))
    informer = Informer(client, kind, watch_list=watch_list)
    complaints: list[Any] = []
    informer.on_unreadable = complaints.append
    async with running(informer.run()):
        await informer.wait_synced()
        assert informer.cache.keys() == [("default", "a")]
        assert set(informer.aside) == {("default", "b")}
        await client.create(kind, manifest("c"))
        server.forget_history()  # a second list does not tell of it again
        await asyncio.sleep(60)
        assert set(informer.cache.keys()) == {("default", "a"), ("default", "c")}
    assert [what.key for what in complaints] == [("default", "b")]
    assert caplog.text.count("ConfigMap default/b") == 1


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "missed"])
async def test_an_object_that_cannot_be_read_any_more_stays_as_it_was_until_it_goes(
    server, client, kind, manifest, running, seen
):
    await client.create(kind, manifest("a", data={"x": "1"}))
    informer = Informer(client, kind)
    heard: list[Any] = []
    informer.subscribe(heard.append)
    async with running(informer.run()):
        await informer.wait_synced()
        uid = server.objects[MAPS]["default", "a"]["metadata"]["uid"]
        await client.apply(kind.plain(), manifest("a", data="no map"))
        if not seen:
            server.forget_history()
        await asyncio.sleep(60)
        assert informer.cache.get(("default", "a")) is not None
        assert informer.aside["default", "a"].uid == uid
        await client.apply(kind.plain(), manifest("a", data={"x": "3"}))
        await asyncio.sleep(1)
        assert informer.cache.get(("default", "a")).data == {"x": "3"}
        assert informer.aside == {}
        await client.apply(kind.plain(), manifest("a", data="no map"))
        server.remove(MAPS, ("default", "a"))
        if not seen:
            server.forget_history()
        await asyncio.sleep(60)
        assert informer.cache.keys() == []
        assert informer.aside == {}
    assert told(heard)[0] == ("Added", "a")
    assert told(heard)[-1] == ("Deleted", "a")
    assert ("Deleted", "a") not in told(heard)[:-1]


async def test_an_unreadable_object_in_the_place_of_another_means_that_one_is_gone(
    server, client, kind, manifest, running
):
    await client.create(kind, manifest("a"))
    informer = Informer(client, kind)
    async with running(informer.run()):
        await informer.wait_synced()
        server.remove(MAPS, ("default", "a"))
        server.objects[MAPS]["default", "a"] = broken("a", uid="another", version="99")
        server.forget_history()
        await asyncio.sleep(60)
        assert informer.cache.keys() == []
        assert informer.aside["default", "a"].uid == "another"
