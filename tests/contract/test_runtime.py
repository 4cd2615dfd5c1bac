"""The runtime on a server: caches, read-your-writes, applies, election, events, certificates.

What these parts promise is shown in `tests/kubecontroller/runtime` with a scripted server; here
it is that a real API server behaves as they assume.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from contract.driver import Space
from kubecontroller import Again, Applier, Controller, Done, Informer
from kubecontroller.client.api import Client
from kubecontroller.client.config import load
from kubecontroller.client.errors import ApiError, Conflict, NotFound
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import CONFIG_MAPS
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime import Watch
from kubecontroller.runtime.certkeeper import CertificateKeeper, webhook_target
from kubecontroller.runtime.consistency import Consistency
from kubecontroller.runtime.election import FencedTransport, NotLeader
from kubecontroller.runtime.events import EVENTS, Recorder, Regarding
from kubecontroller.runtime.expectations import Expectations
from kubecontroller.runtime.finalizers import add_finalizer, remove_finalizer
from kubecontroller.runtime.lease import LEASES, Elector, Fence, LeaseSettings
from kubecontroller.runtime.owners import adopt, owned
from kubecontroller.runtime.watch_states import Replaced, Unlisted
from kubecontroller.testing.faults import FaultyTransport, Nth, StreamFault

PLAIN = CONFIG_MAPS.plain()
HOOKS: Kind[Manifest] = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    False,
    dict,
)
STAMP = "example.dev/stamp"


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[Client]:
    transport = HttpTransport(load(file=kubeconfig))
    yield Client(transport, field_manager="runtime-test")
    await transport.close()


@asynccontextmanager
async def running(*coroutines: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def eventually(what: str, probe: Any, *, seconds: float = 15.0) -> Any:
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = probe()
                if asyncio.iscoroutine(found):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"not within {seconds:g} s: {what}")


def manifest(space: Space, name: str, **more: Any) -> Manifest:
    data = more.pop("data", {})
    return {"metadata": {"namespace": space.name, "name": name, **more}, "data": data}


def names(informer: Informer[Any]) -> set[str]:
    return {obj.metadata.name for obj in informer.cache} - {"kube-root-ca.crt"}


@pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "list"])
async def test_a_cache_follows_the_server(client: Client, space: Space, watch_list: bool) -> None:
    for n in range(7):
        await client.create(CONFIG_MAPS, manifest(space, f"a-{n}"))
    informer = Informer(
        client, CONFIG_MAPS, namespace=space.name, watch_list=watch_list, page_size=3
    )
    heard: list[str] = []
    informer.subscribe(lambda change: heard.append(type(change).__name__))
    async with running(informer.run()):
        async with asyncio.timeout(15):
            await informer.wait_synced()
        assert names(informer) == {f"a-{n}" for n in range(7)}
        await client.create(CONFIG_MAPS, manifest(space, "b"))
        await client.patch(CONFIG_MAPS, (space.name, "a-0"), MergePatch({"data": {"x": "1"}}))
        await client.delete(CONFIG_MAPS, (space.name, "a-1"))
        await eventually("b is cached", lambda: (space.name, "b") in informer.cache)
        await eventually("a-1 is gone", lambda: (space.name, "a-1") not in informer.cache)
        changed = informer.cache.get((space.name, "a-0"))
        assert changed is not None
        assert changed.data == {"x": "1"}
    assert heard[-3:] == ["Added", "Updated", "Deleted"]


@pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "list"])
async def test_a_first_list_comes_as_one_replacement(
    client: Client, space: Space, watch_list: bool
) -> None:
    for n in range(5):
        await client.create(CONFIG_MAPS, manifest(space, f"a-{n}"))
    informer = Informer(
        client, CONFIG_MAPS, namespace=space.name, watch_list=watch_list, page_size=2
    )
    events: list[Any] = []
    state: Any = Unlisted()
    async with asyncio.timeout(15):
        while not events:
            learnt, state = await informer._watcher.step(state)
            events.extend(learnt)
    await informer._watcher.close()
    (replaced,) = events
    assert isinstance(replaced, Replaced)
    assert {o.metadata.name for o in replaced.objects} >= {f"a-{n}" for n in range(5)}
    assert replaced.version.isdigit()


async def test_deletes_and_re_creations_missed_by_a_watch_are_told(
    kubeconfig: str, client: Client, space: Space
) -> None:
    """The first watch hangs from the start; it is cut, and the re-list shows another world."""
    faults = Nth(streams={1: StreamFault.EXPIRED, 2: StreamFault.EXPIRED})
    transport = FaultyTransport(HttpTransport(load(file=kubeconfig)), faults)
    for name in ("stays", "goes", "again"):
        await client.create(CONFIG_MAPS, manifest(space, name))
    informer = Informer(
        Client(transport), CONFIG_MAPS, namespace=space.name, watch_list=False, random=lambda: 0.0
    )
    heard: list[tuple[str, str]] = []
    informer.subscribe(
        lambda c: heard.append(
            (type(c).__name__, (c.new if hasattr(c, "new") else c.obj).metadata.name)
        )
    )
    async with running(informer.run()):
        async with asyncio.timeout(15):
            await informer.wait_synced()
        heard.clear()
        await client.delete(CONFIG_MAPS, (space.name, "goes"))
        await client.delete(CONFIG_MAPS, (space.name, "again"))
        await client.create(CONFIG_MAPS, manifest(space, "again"))
        await eventually("all is told", lambda: len(heard) >= 3)
        assert names(informer) == {"stays", "again"}
    assert sorted(heard) == [("Added", "again"), ("Deleted", "again"), ("Deleted", "goes")]
    await transport.close()


async def test_selectors_bound_a_cache_and_leaving_one_is_a_deletion(
    client: Client, space: Space
) -> None:
    await client.create(CONFIG_MAPS, manifest(space, "in", labels={"app": "x"}))
    await client.create(CONFIG_MAPS, manifest(space, "out"))
    informer = Informer(client, CONFIG_MAPS, namespace=space.name, labels="app=x")
    async with running(informer.run()):
        async with asyncio.timeout(15):
            await informer.wait_synced()
        assert names(informer) == {"in"}
        await client.patch(
            CONFIG_MAPS, (space.name, "in"), MergePatch({"metadata": {"labels": {"app": "y"}}})
        )
        await eventually("it left", lambda: names(informer) == set())


async def test_the_version_a_write_returns_is_reached_by_the_cache(
    client: Client, space: Space
) -> None:
    informer = Informer(client, CONFIG_MAPS, namespace=space.name)
    consistency = Consistency(configmaps=informer)
    owner = (space.name, "owner")
    async with running(informer.run()):
        async with asyncio.timeout(15):
            await informer.wait_synced()
        for n in range(10):
            written = await client.create(CONFIG_MAPS, manifest(space, f"a-{n}"))
            version = written.metadata.resource_version
            consistency.wrote(owner, uid="u", resource="configmaps", version=version)
            assert await informer.wait_for(version)
            assert (space.name, f"a-{n}") in informer.cache
            assert consistency.limitation(owner) is None
        assert not await informer.wait_for("9" * 18, timeout=0.1)


async def test_a_controller_that_deletes_waits_for_what_it_deleted(
    client: Client, space: Space
) -> None:
    """Keep exactly one of many: each extra is deleted once, although the cache lags."""
    informer = Informer(client, CONFIG_MAPS, namespace=space.name, labels="app=one")
    expectations: Expectations[str] = Expectations(asyncio.get_running_loop().time)
    deletions: list[str] = []

    async def reconcile(_: Any) -> Any:
        if expectations.limitation("all") is not None:
            return Again(0.01)
        extras = sorted(informer.cache, key=lambda obj: obj.metadata.name)[1:]
        expectations.expect_deletions("all", [obj.metadata.uid for obj in extras])
        for obj in extras:
            deletions.append(obj.metadata.name)
            await client.delete(CONFIG_MAPS, obj.metadata.key, uid=obj.metadata.uid)
        return Done()

    def observe(change: Any) -> None:
        if type(change).__name__ == "Deleted":
            expectations.deletion_observed("all", change.obj.metadata.uid)

    informer.subscribe(observe)
    controller = Controller("one", reconcile, [Watch(informer, lambda _: [("", "all")])])
    for n in range(8):
        await client.create(CONFIG_MAPS, manifest(space, f"a-{n}", labels={"app": "one"}))
    async with running(informer.run(), controller.run()):
        await eventually("one is left", lambda: deletions and len(informer.cache) == 1)
        await asyncio.sleep(0.2)
    assert sorted(deletions) == [f"a-{n}" for n in range(1, 8)]
    assert controller.tally.panics == controller.tally.results["error"] == 0


# §6.9 on a server


async def test_a_field_left_out_of_the_intent_is_removed_unless_another_owns_it(
    client: Client, space: Space
) -> None:
    applier = Applier(client, annotation=STAMP)
    key = (space.name, "a")
    seen = await applier.apply(
        PLAIN, manifest(space, "a", data={"ours": "1", "shared": "1", "also": "1"}), observed=None
    )
    await client.apply(PLAIN, manifest(space, "a", data={"shared": "1"}), manager="somebody")
    seen = await client.get(PLAIN, key)
    await applier.apply(PLAIN, manifest(space, "a", data={"also": "1"}), observed=seen)
    assert (await client.get(PLAIN, key))["data"] == {"shared": "1", "also": "1"}


async def test_an_apply_that_changes_nothing_does_not_change_the_version(
    client: Client, space: Space
) -> None:
    first = await client.apply(PLAIN, manifest(space, "a", data={"x": "1"}))
    second = await client.apply(PLAIN, manifest(space, "a", data={"x": "1"}))
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_fields_of_others_are_taken_by_force_or_named_in_the_conflict(
    client: Client, space: Space
) -> None:
    await client.apply(PLAIN, manifest(space, "a", data={"x": "theirs"}), manager="somebody")
    with pytest.raises(Conflict) as caught:
        await client.apply(PLAIN, manifest(space, "a", data={"x": "ours"}), force=False)
    assert any("data.x" in cause.field for cause in caught.value.causes)
    applied = await client.apply(PLAIN, manifest(space, "a", data={"x": "ours"}))
    assert applied["data"] == {"x": "ours"}


async def test_a_version_in_an_apply_is_an_optimistic_lock(client: Client, space: Space) -> None:
    first = await client.apply(PLAIN, manifest(space, "a", data={"x": "1"}))
    await client.apply(PLAIN, manifest(space, "a", data={"x": "2"}))
    with pytest.raises(Conflict):
        await client.apply(
            PLAIN,
            manifest(space, "a", data={"x": "3"}),
            resource_version=first["metadata"]["resourceVersion"],
        )


async def test_ports_are_merged_by_port_and_protocol_with_its_default(
    client: Client, space: Space
) -> None:
    services: Kind[Manifest] = Kind("", "v1", "Service", "services", True, dict)

    def service(*ports: Manifest) -> Manifest:
        place = {"namespace": space.name, "name": "s"}
        return {"metadata": place, "spec": {"selector": {"a": "b"}, "ports": list(ports)}}

    await client.apply(services, service({"name": "a", "port": 1, "protocol": "TCP"}))
    await client.apply(
        services, service({"name": "b", "port": 2, "protocol": "TCP"}), manager="somebody"
    )
    both = await client.get(services, (space.name, "s"))
    assert {p["port"] for p in both["spec"]["ports"]} == {1, 2}
    await client.apply(services, service({"name": "a", "port": 1, "protocol": "TCP"}))
    await client.apply(services, service(), manager="somebody")
    after = await client.get(services, (space.name, "s"))
    assert [p["port"] for p in after["spec"]["ports"]] == [1]


# §6.5, 6.10 and 6.11 on a server


async def test_a_lease_is_taken_renewed_released_and_taken_over(
    client: Client, space: Space
) -> None:
    loop = asyncio.get_running_loop()
    fences = [Fence(loop.time) for _ in range(2)]
    electors = [
        Elector(
            client,
            LeaseSettings(
                namespace=space.name,
                name="operator",
                identity=identity,
                duration=2.0,
                renew_deadline=1.5,
                retry_period=0.1,
            ),
            fence,
            random=random.random,
        )
        for identity, fence in zip("ab", fences, strict=True)
    ]
    await electors[0].acquire()
    fenced = [Client(FencedTransport(client.transport, fence)) for fence in fences]
    async with running(electors[0].hold(), electors[1].acquire()):
        await asyncio.sleep(0.5)
        assert [fence.is_leader() for fence in fences] == [True, False]
        await fenced[0].create(CONFIG_MAPS, manifest(space, "by-the-leader"))
        with pytest.raises(NotLeader):
            await fenced[1].create(CONFIG_MAPS, manifest(space, "by-the-standby"))
        await electors[0].release()
        await eventually("the other leads", fences[1].is_leader, seconds=1.5)
    spec = (await client.get(LEASES, (space.name, "operator")))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)


async def test_events_are_written_counted_and_combined(client: Client, space: Space) -> None:
    obj = await client.create(CONFIG_MAPS, manifest(space, "a"))
    recorder = Recorder(client, component="runtime-test", host="here")
    about = Regarding.of(CONFIG_MAPS, obj)
    async with running(recorder.run()):
        for _ in range(3):
            recorder.normal(about, "Same", "the same thing")
        for n in range(12):
            recorder.warning(about, "Similar", f"attempt {n}")
        await recorder.drain(timeout=15)
    events = (await client.list(EVENTS, namespace=space.name)).items
    ours = [event for event in events if event["involvedObject"]["name"] == "a"]
    assert [e["count"] for e in ours if e["reason"] == "Same"] == [3]
    combined = [e for e in ours if e["message"].startswith("(combined from similar events)")]
    assert [e["count"] for e in combined] == [3]
    assert recorder.dropped == 0


async def test_a_finalizer_holds_an_object_until_it_is_removed(
    client: Client, space: Space
) -> None:
    key = (space.name, "a")
    obj = await client.create(CONFIG_MAPS, manifest(space, "a"))
    assert await add_finalizer(client, CONFIG_MAPS, obj, "example.dev/cleanup")
    with pytest.raises(ApiError):
        await add_finalizer(client, CONFIG_MAPS, obj, "example.dev/too-late")
    held = await client.delete(CONFIG_MAPS, key)
    assert held is not None
    assert held.metadata.is_deleting
    assert not await add_finalizer(client, CONFIG_MAPS, held, "example.dev/never")
    stale = obj
    assert await remove_finalizer(client, CONFIG_MAPS, held, "example.dev/cleanup")
    assert not await remove_finalizer(client, CONFIG_MAPS, stale, "example.dev/cleanup")
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, key)


async def test_an_orphan_is_adopted_once(client: Client, space: Space) -> None:
    owner = await client.create(CONFIG_MAPS, manifest(space, "owner"))
    child = owned(CONFIG_MAPS, owner, manifest(space, "child"))
    made = await client.create(CONFIG_MAPS, child)
    assert (made.metadata.owner_references or ())[0].uid == owner.metadata.uid
    orphan = await client.create(CONFIG_MAPS, manifest(space, "orphan"))
    assert await adopt(client, CONFIG_MAPS, owner, CONFIG_MAPS, orphan) is None
    again = await client.get(CONFIG_MAPS, orphan.metadata.key)
    assert await adopt(client, CONFIG_MAPS, owner, CONFIG_MAPS, again) == "it has a controller"


async def test_a_certificate_is_agreed_on_and_injected(client: Client, space: Space) -> None:
    name = f"runtime-{space.name}"
    hook = {
        "name": "check.example.dev",
        "clientConfig": {"url": "https://127.0.0.1:1/validate"},
        "rules": [],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
    }
    await client.create(HOOKS, {"metadata": {"name": name}, "webhooks": [hook]})
    try:
        keepers = [
            CertificateKeeper(
                client,
                secret=(space.name, "tls"),
                names=[f"webhook.{space.name}.svc"],
                targets=[webhook_target(HOOKS, name, ["check.example.dev"])],
                random=random.random,
            )
            for _ in range(3)
        ]
        materials = await asyncio.gather(*(keeper.refresh() for keeper in keepers))
        assert len({material.certificate for material in materials}) == 1
        assert all(keeper.limitation() is None for keeper in keepers)
        live = await client.get(HOOKS, ("", name))
        (entry,) = live["webhooks"]
        assert base64.b64decode(entry["clientConfig"]["caBundle"]) == materials[0].authorities
        assert entry["clientConfig"]["url"] == "https://127.0.0.1:1/validate"
    finally:
        await client.delete(HOOKS, ("", name))
