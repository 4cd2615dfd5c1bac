"""§6.11, finalizers."""

from __future__ import annotations

import pytest

from kubecontroller.client.errors import Conflict, Invalid, NotFound
from kubecontroller.client.patches import MergePatch
from kubecontroller.runtime.finalizers import add_finalizer, has_finalizer, remove_finalizer

OURS = "redisoperator.dev/cleanup"
KEY = ("default", "a")


async def test_a_finalizer_is_added_by_itself_before_anything_else(server, client, kind, manifest):
    obj = await client.create(kind, manifest("a"))
    assert await add_finalizer(client, kind, obj, OURS)
    assert has_finalizer(await client.get(kind, KEY), OURS)
    assert len(server.writes()) == 2


async def test_a_finalizer_that_is_there_is_not_written_again(server, client, kind, manifest):
    obj = await client.create(kind, manifest("a", finalizers=[OURS]))
    assert not await add_finalizer(client, kind, obj, OURS)
    assert len(server.writes()) == 1


async def test_others_finalizers_are_kept(client, kind, manifest):
    obj = await client.create(kind, manifest("a", finalizers=["theirs/one"]))
    await add_finalizer(client, kind, obj, OURS)
    obj = await client.get(kind, KEY)
    assert obj.metadata.finalizers == ("theirs/one", OURS)
    assert await remove_finalizer(client, kind, obj, OURS)
    assert (await client.get(kind, KEY)).metadata.finalizers == ("theirs/one",)


async def test_a_finalizer_is_never_added_to_an_object_being_deleted(client, kind, manifest):
    await client.create(kind, manifest("a", finalizers=["theirs/one"]))
    await client.delete(kind, KEY)
    obj = await client.get(kind, KEY)
    assert obj.metadata.is_deleting
    assert not await add_finalizer(client, kind, obj, OURS)
    assert not has_finalizer(await client.get(kind, KEY), OURS)


async def test_adding_to_an_object_that_changed_meanwhile_is_refused(client, kind, manifest):
    obj = await client.create(kind, manifest("a"))
    await client.patch(kind, KEY, MergePatch({"data": {"x": "1"}}))
    with pytest.raises((Conflict, Invalid)):
        await add_finalizer(client, kind, obj, OURS)


async def test_adding_to_an_object_that_is_gone_says_so(client, kind, manifest):
    obj = await client.create(kind, manifest("a"))
    await client.delete(kind, KEY)
    with pytest.raises(NotFound):
        await add_finalizer(client, kind, obj, OURS)


async def test_removing_the_last_finalizer_lets_the_object_go(client, kind, manifest):
    await client.create(kind, manifest("a", finalizers=[OURS]))
    await client.delete(kind, KEY)
    obj = await client.get(kind, KEY)
    assert await remove_finalizer(client, kind, obj, OURS)
    with pytest.raises(NotFound):
        await client.get(kind, KEY)


async def test_removing_from_an_object_that_changed_looks_again_and_keeps_the_change(
    client, kind, manifest
):
    obj = await client.create(kind, manifest("a", finalizers=[OURS]))
    await client.patch(kind, KEY, MergePatch({"metadata": {"finalizers": ["new/one", OURS]}}))
    assert await remove_finalizer(client, kind, obj, OURS)
    assert (await client.get(kind, KEY)).metadata.finalizers == ("new/one",)


async def test_removing_from_an_object_that_is_gone_is_no_error(client, kind, manifest):
    obj = await client.create(kind, manifest("a", finalizers=[OURS]))
    await client.patch(kind, KEY, MergePatch({"metadata": {"finalizers": None}}))
    await client.delete(kind, KEY)
    assert not await remove_finalizer(client, kind, obj, OURS)


async def test_another_object_of_the_same_name_keeps_its_finalizer(client, kind, manifest):
    obj = await client.create(kind, manifest("a", finalizers=[OURS]))
    await client.patch(kind, KEY, MergePatch({"metadata": {"finalizers": None}}))
    await client.delete(kind, KEY)
    await client.create(kind, manifest("a", finalizers=[OURS]))
    assert not await remove_finalizer(client, kind, obj, OURS)
    assert has_finalizer(await client.get(kind, KEY), OURS)


async def test_an_object_that_keeps_changing_is_given_up_with_a_conflict(
    server, client, kind, manifest
):
    obj = await client.create(kind, manifest("a", finalizers=[OURS]))

    class Restless:
        async def request(self, request, *, timeout):
            if request.method == "PATCH":
                stored = server.objects["api/v1/configmaps"][KEY]
                changed = {**stored, "data": {"n": str(server.version)}}
                changed["metadata"] = dict(stored["metadata"])
                server.put("api/v1/configmaps", changed, bump_generation=True)
            return server.answer(request)

    client.transport = Restless()
    with pytest.raises(Conflict, match="keeps changing"):
        await remove_finalizer(client, kind, obj, OURS)
