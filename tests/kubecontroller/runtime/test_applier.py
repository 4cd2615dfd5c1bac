"""§6.9: server-side apply that sends nothing when nothing changed.

What the server does with an apply (owned fields, conflicts, list keys) is shown by the contract
tests; here it is what we send, and when.
"""

from __future__ import annotations

import msgspec
import pytest

from kubecontroller.client.patches import MergePatch
from kubecontroller.runtime.applier import Applier
from kubecontroller.runtime.consistency import Consistency

STAMP = "redisoperator.dev/stamp"


@pytest.fixture
def applier(client) -> Applier:
    return Applier(client, annotation=STAMP)


def body(request) -> dict:
    return msgspec.json.decode(request.body)


async def test_the_whole_intent_is_sent_under_our_manager_by_force(server, applier, kind, manifest):
    intent = manifest("a", data={"x": "1"}) | {"status": {"not": "ours"}}
    intent["metadata"] |= {"resourceVersion": "5", "managedFields": [{}], "uid": "u"}
    await applier.apply(kind, intent, observed=None)
    (request,) = server.writes()
    assert request.method == "PATCH"
    assert dict(request.query) == {"fieldManager": "kubecontroller", "force": "true"}
    assert dict(request.headers)["content-type"] == "application/apply-patch+yaml"
    sent = body(request)
    assert sent["data"] == {"x": "1"}
    assert "status" not in sent
    assert set(sent["metadata"]) == {"name", "namespace", "annotations"}


async def test_nothing_is_sent_when_neither_the_intent_nor_the_object_changed(
    server, applier, kind, manifest
):
    seen = await applier.apply(kind, manifest("a", data={"x": "1"}), observed=None)
    for _ in range(10):
        assert await applier.apply(kind, manifest("a", data={"x": "1"}), observed=seen) is None
    assert len(server.writes()) == 1


async def test_every_process_applies_each_object_once(server, client, applier, kind, manifest):
    seen = await applier.apply(kind, manifest("a", data={"x": "1"}), observed=None)
    edited = await client.patch(kind, ("default", "a"), MergePatch({"data": {"x": "evil"}}))
    restarted = Applier(client, annotation=STAMP)
    repaired = await restarted.apply(kind, manifest("a", data={"x": "1"}), observed=edited)
    assert repaired.data["x"] == seen.data["x"] == "1"
    assert await restarted.apply(kind, manifest("a", data={"x": "1"}), observed=repaired) is None


async def test_an_apply_over_one_version_says_so_and_may_go_without_force(
    server, applier, kind, manifest
):
    await applier.apply(kind, manifest("a"), observed=None, force=False)
    seen = await applier.apply(kind, manifest("a", data={"x": "1"}), observed=None)
    version = seen.metadata.resource_version
    await applier.apply(
        kind, manifest("a", data={"x": "2"}), observed=seen, resource_version=version
    )
    first, _, last = server.writes()
    assert "force" not in dict(first.query)
    assert body(last)["metadata"]["resourceVersion"] == version


async def test_a_changed_intent_is_sent(server, applier, kind, manifest):
    seen = await applier.apply(kind, manifest("a", data={"x": "1"}), observed=None)
    assert await applier.apply(kind, manifest("a", data={"x": "2"}), observed=seen) is not None


async def test_what_somebody_else_changed_is_put_right(server, client, applier, kind, manifest):
    intent = manifest("a", data={"x": "1"})
    seen = await applier.apply(kind, intent, observed=None)
    await applier.apply(kind, intent, observed=seen)
    changed = await client.patch(kind, ("default", "a"), MergePatch({"data": {"x": "evil"}}))
    assert (await applier.apply(kind, intent, observed=changed)).data["x"] == "1"


async def test_an_object_deleted_and_recreated_is_sent_again(
    server, client, applier, kind, manifest
):
    intent = manifest("a", data={"x": "1"})
    await applier.apply(kind, intent, observed=None)
    await client.delete(kind, ("default", "a"))
    assert await applier.apply(kind, intent, observed=None) is not None


async def test_a_forgotten_object_is_looked_at_afresh(server, client, applier, kind, manifest):
    intent = manifest("a", data={"x": "1"})
    seen = await applier.apply(kind, intent, observed=None)
    applier.forget(kind, ("default", "a"))
    assert applier._applied == {}
    assert await applier.apply(kind, intent, observed=seen) is not None


async def test_a_status_has_its_own_manager_and_is_sent_only_when_it_differs(
    server, client, applier, kind, manifest
):
    await client.create(kind, manifest("a"))
    key = ("default", "a")
    await applier.apply_status(kind, key, {"phase": "Ready"}, observed={"phase": "Creating"})
    assert (
        await applier.apply_status(kind, key, {"phase": "Ready"}, observed={"phase": "Ready"})
        is None
    )
    _, request = server.writes()
    assert request.path.endswith("/configmaps/a/status")
    assert dict(request.query)["fieldManager"] == "kubecontroller-status"
    assert body(request)["status"] == {"phase": "Ready"}
    assert set(body(request)["metadata"]) == {"name", "namespace"}


async def test_a_status_of_tuples_is_the_same_as_one_of_lists(server, applier, kind):
    status = {"conditions": ({"type": "Ready"},)}
    observed = {"conditions": [{"type": "Ready"}]}
    assert await applier.apply_status(kind, ("default", "a"), status, observed=observed) is None
    assert server.writes() == []


async def test_every_write_is_noted_for_reading_our_own_writes(server, client, kind, manifest):
    class Cache:
        version = "1"

    consistency = Consistency(configmaps=Cache())
    applier = Applier(client, annotation=STAMP, consistency=consistency)
    owner = await client.create(kind, manifest("owner"))
    await applier.apply(kind, manifest("a"), observed=None, owner=owner)
    assert "configmaps" in consistency.limitation(("default", "owner"))
    await applier.apply_status(kind, ("default", "a"), {"x": 1}, observed=None)
    assert consistency.limitation(("default", "a")) is not None
