"""§6.11, finalizers."""

from __future__ import annotations

import pytest

from kubecontroller.client.errors import Conflict, Invalid, NotFound
from kubecontroller.client.patches import MergePatch
from kubecontroller.runtime.finalizers import (
    Finalizer,
    add_finalizer,
    has_finalizer,
    remove_finalizer,
)
from kubecontroller.runtime.outcomes import Again, Done, Outcome

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


class Life:
    """What a reconcile with a finalizer did, in order."""

    def __init__(self, client, kind) -> None:
        self.finalizer = Finalizer(client, kind, OURS)
        self.client, self.kind = client, kind
        self.log: list[str] = []
        self.answers: list[Outcome | Exception | None] = []

    async def reconcile(self, obj=None) -> Outcome:
        seen = obj or await self.client.get(self.kind, KEY)
        return await self.finalizer.around(seen, follow=self._follow, clean_up=self._clean_up)

    async def _follow(self) -> Outcome:
        assert has_finalizer(await self.client.get(self.kind, KEY), OURS)
        self.log.append("follow")
        return Again(7)

    async def _clean_up(self, live) -> Outcome | None:
        assert live.metadata.is_deleting
        self.log.append("clean up")
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def life(client, kind) -> Life:
    return Life(client, kind)


async def test_nothing_is_followed_before_the_finalizer_holds_it(life, client, kind, manifest):
    await client.create(kind, manifest("a"))
    assert await life.reconcile() == Done()
    assert life.log == []
    assert await life.reconcile() == Again(7)
    assert life.log == ["follow"]


async def test_an_object_goes_after_its_clean_up_and_not_before(life, client, kind, manifest):
    await client.create(kind, manifest("a", finalizers=[OURS]))
    await client.delete(kind, KEY)
    life.answers = [Again(3), Done(), RuntimeError("elsewhere is down"), None]
    assert await life.reconcile() == Again(3)
    assert await life.reconcile() == Done()
    with pytest.raises(RuntimeError):
        await life.reconcile()
    assert has_finalizer(await client.get(kind, KEY), OURS)
    assert await life.reconcile() == Done()
    with pytest.raises(NotFound):
        await client.get(kind, KEY)
    assert life.log == ["clean up"] * 4


async def test_an_old_cache_cleans_up_after_nobody_elses_object(life, client, kind, manifest):
    await client.create(kind, manifest("a", finalizers=[OURS]))
    await client.delete(kind, KEY)
    stale = await client.get(kind, KEY)
    await remove_finalizer(client, kind, stale, OURS)
    assert await life.reconcile(stale) == Done()
    await client.create(kind, manifest("a", finalizers=[OURS]))
    assert await life.reconcile(stale) == Done()
    assert life.log == []
    assert has_finalizer(await client.get(kind, KEY), OURS)


async def test_an_object_that_others_hold_is_neither_followed_nor_cleaned_up(
    life, client, kind, manifest
):
    await client.create(kind, manifest("a", finalizers=["theirs/one"]))
    await client.delete(kind, KEY)
    assert await life.reconcile() == Done()
    assert life.log == []


async def test_a_clean_up_during_which_the_object_changed_counts(life, client, kind, manifest):
    await client.create(kind, manifest("a", finalizers=[OURS, "theirs/one"]))
    await client.delete(kind, KEY)
    cleaned = life._clean_up

    async def clean_up(live):
        await client.patch(kind, KEY, MergePatch({"data": {"x": "1"}}))
        return await cleaned(live)

    life._clean_up = clean_up
    assert await life.reconcile() == Done()
    assert (await client.get(kind, KEY)).metadata.finalizers == ("theirs/one",)
