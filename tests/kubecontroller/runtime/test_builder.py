"""Putting a controller together: what wakes it, in which namespaces, and what it waits for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubecontroller import Done, Manager, Outcome
from kubecontroller.client.api import Client
from kubecontroller.client.errors import Conflict
from kubecontroller.client.meta import Key
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.applier import Applier
from kubecontroller.runtime.builder import ControllerBuilder
from kubecontroller.runtime.changes import Added, Updated
from kubecontroller.runtime.owners import NotOwned, owned, write_own
from kubecontroller.runtime.triggers import by_label, spec_or_metadata_changed

SITES = Kind("example.dev", "v1", "Site", "sites", True, dict)


def _object(version: str, **more: Any) -> dict[str, Any]:
    meta = {"name": "cache", "namespace": "default", "generation": 1, "resourceVersion": version}
    return {"metadata": {**meta, **more}}


@pytest.mark.parametrize(
    ("new", "wakes"),
    [
        (_object("2"), False),
        (_object("1"), True),
        (_object("2", generation=2), True),
        (_object("2", annotations={"a": "b"}), True),
        (_object("2", labels={"a": "b"}), True),
        (_object("2", finalizers=["a"]), True),
        (_object("2", deletionTimestamp="2026-01-01T00:00:00Z"), True),
    ],
    ids=["status", "resync", "spec", "annotation", "label", "finalizer", "deletion"],
)
def test_a_status_alone_does_not_wake_and_all_else_does(new: Any, wakes: bool) -> None:
    assert spec_or_metadata_changed(Updated(_object("1"), new)) is wakes


def test_a_new_object_wakes() -> None:
    assert spec_or_metadata_changed(Added(_object("1")))


class Reconciled:
    """A reconcile that notes its keys."""

    def __init__(self) -> None:
        self.keys: list[Key] = []

    async def __call__(self, key: Key) -> Outcome:
        self.keys.append(key)
        return Done()


@pytest.fixture
def manager(client: Client) -> Manager:
    return Manager(client, exit_now=lambda _: None)


async def settle(seconds: float = 2.0) -> None:
    await asyncio.sleep(seconds)  # of virtual time


async def test_objects_what_they_own_and_what_names_them_wake_a_key(
    client, manager, kind, manifest, running
):
    sites = manager.caches(SITES)
    pages = manager.caches(kind, labels="app=site")
    notes = manager.caches(kind, labels="kind=note")
    reconcile = Reconciled()
    builder = ControllerBuilder(manager, "site", sites).owns(pages)
    builder.watches(notes, by_label("site"))
    builder.add(reconcile)
    async with running(manager.run()):
        site = await client.create(SITES, {"metadata": {"namespace": "default", "name": "a"}})
        await settle()
        assert reconcile.keys == [("default", "a")]
        child = owned(SITES, site, manifest("p", labels={"app": "site"}))
        await client.create(kind, child)
        await settle()
        await client.create(kind, manifest("n", labels={"kind": "note", "site": "b"}))
        await settle()
        assert reconcile.keys == [("default", "a"), ("default", "a"), ("default", "b")]
        body = MergePatch({"status": {"page": "p"}})
        await client.patch(SITES, ("default", "a"), body, subresource="status")
        await settle()
        assert len(reconcile.keys) == 3


async def test_only_the_chosen_namespaces_are_seen_and_read_as_one(
    server, client, manager, kind, manifest, running
):
    chosen = manager.caches(kind, namespaces=["one", "two", "one"])
    reconcile = Reconciled()
    ControllerBuilder(manager, "maps", chosen).add(reconcile)
    for place in ("one", "two", "three"):
        await client.create(kind, manifest("a", namespace=place))
    async with running(manager.run()):
        await settle()
        assert chosen.has_synced
        assert sorted(reconcile.keys) == [("one", "a"), ("two", "a")]
        assert len(chosen) == len(list(chosen)) == 2
        assert chosen.get(("two", "a")).metadata.namespace == "two"
        assert chosen.get(("three", "a")) is None
        assert [found.metadata.key for found in chosen.find("namespace", "two")] == [("two", "a")]
    lists = {r.path for r in server.requests if r.method == "GET" and "configmaps" in r.path}
    assert lists == {f"/api/v1/namespaces/{place}/configmaps" for place in ("one", "two")}


async def test_the_next_reconcile_waits_until_the_cache_shows_what_the_last_one_wrote(
    client, manager, kind, manifest, running
):
    maps = manager.caches(kind)
    builder = ControllerBuilder(manager, "maps", maps, when=None)
    applier = builder.applier(annotation="example.dev/applied")
    seen: list[Any] = []

    async def reconcile(key: Key) -> Outcome:
        found = maps.get(key)
        seen.append((found.data or {}).get("x"))
        wanted = manifest("a", data={"x": "1"})
        await applier.apply(kind, wanted, observed=found, owner=found)
        return Done()

    controller = builder.add(reconcile)
    await client.create(kind, manifest("a"))
    async with running(manager.run()):
        await settle(0.1)
        for _ in range(5):
            controller.enqueue(("default", "a"))
            await settle(0.01)
        await settle()
    assert seen[0] is None
    assert set(seen[1:]) == {"1"}


async def test_an_owned_object_is_made_changed_and_put_back(client, kind, manifest):
    applier = Applier(client, annotation="example.dev/applied")
    site = await client.create(SITES, {"metadata": {"namespace": "default", "name": "a"}})

    async def ensure(value: str, observed: Any) -> Any:
        child = manifest("p", data={"x": value})
        return await applier.apply_owned(
            kind, child, owner_kind=SITES, owner=site, observed=observed
        )

    made = await ensure("1", None)
    assert made.metadata.owner_references[0].uid == site["metadata"]["uid"]
    assert await ensure("1", made) is None
    changed = await ensure("2", made)
    assert changed.data == {"x": "2"}
    await client.delete(kind, ("default", "p"))
    again = await ensure("2", None)
    assert again.metadata.uid != made.metadata.uid


@pytest.mark.parametrize("controlled", [True, False], ids=["another's", "no owner's"])
async def test_an_object_of_somebody_else_is_left_alone_though_no_cache_shows_it(
    server, client, kind, manifest, controlled
):
    applier = Applier(client, annotation="example.dev/applied")
    site = await client.create(SITES, {"metadata": {"namespace": "default", "name": "a"}})
    other = await client.create(SITES, {"metadata": {"namespace": "default", "name": "b"}})
    child = manifest("p", data={"x": "theirs"})
    await client.create(kind, owned(SITES, other, child) if controlled else child)
    with pytest.raises(NotOwned, match=r"^ConfigMap default/p exists already"):
        await applier.apply_owned(
            kind, manifest("p", data={"x": "ours"}), owner_kind=SITES, owner=site, observed=None
        )
    assert (await client.get(kind, ("default", "p"))).data == {"x": "theirs"}


async def test_a_write_that_meets_another_version_is_tried_again_with_what_is_there(
    client, kind, manifest
):
    await client.create(kind, manifest("p", data={"x": "new"}))
    found: list[Any] = []

    async def write(seen: Any) -> str:
        found.append(seen.data["x"])
        if len(found) == 1:
            raise Conflict("changed", status=409)
        return "written"

    stale = await client.get(kind, ("default", "p"))
    done = await write_own(
        client, kind, ("default", "p"), observed=stale, limitation=lambda _: None, write=write
    )
    assert (done, found) == ("written", ["new", "new"])


async def test_an_object_that_keeps_changing_is_given_up_with_the_conflict(client, kind, manifest):
    tries: list[Any] = []

    async def write(seen: Any) -> None:
        tries.append(seen)
        raise Conflict("changed again", status=409)

    with pytest.raises(Conflict, match="changed again"):
        await write_own(
            client, kind, ("default", "p"), observed=None, limitation=lambda _: None, write=write
        )
    assert len(tries) == 5


async def test_what_is_being_deleted_is_not_written(client, kind, manifest):
    held = await client.create(kind, manifest("p", finalizers=["example.dev/x"]))
    await client.delete(kind, ("default", "p"))

    async def write(_: Any) -> None:
        raise AssertionError("it is being deleted")

    live = await client.get(kind, ("default", "p"))
    assert live.metadata.uid == held.metadata.uid
    done = await write_own(
        client, kind, ("default", "p"), observed=live, limitation=lambda _: None, write=write
    )
    assert done is None
