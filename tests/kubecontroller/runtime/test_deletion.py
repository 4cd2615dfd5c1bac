"""§6.3.5: nothing is destroyed on the word of a cache."""

from __future__ import annotations

import pytest

from kubecontroller.client.errors import (
    ConnectionBroken,
    ConnectionFailed,
    NoAnswer,
    ServerError,
    UndecodableObject,
)
from kubecontroller.client.meta import is_at_least
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.request import Response
from kubecontroller.runtime.deletion import delete_after_live_read
from kubecontroller.runtime.expectations import Expectations

KEY = ("default", "a")
OWNER = ("default", "owner")


def never(_):
    return None


@pytest.fixture
def expectations():
    return Expectations(lambda: 0.0)


async def test_an_object_is_read_by_quorum_and_deleted_by_uid_and_version(
    server, client, kind, manifest, expectations
):
    obj = await client.create(kind, manifest("a"))
    why = await delete_after_live_read(
        client, kind, KEY, uid=obj.metadata.uid, limitation=never, owner=OWNER,
        expectations=expectations,
    )  # fmt: skip
    assert why is None
    read, delete = server.requests[-2:]
    assert (read.method, "resourceVersion" in dict(read.query)) == ("GET", False)
    assert obj.metadata.uid in delete.body.decode()
    assert obj.metadata.resource_version in delete.body.decode()
    assert obj.metadata.uid in expectations.limitation(OWNER)


async def test_what_the_live_object_says_counts_and_not_what_the_cache_said(
    server, client, kind, manifest
):
    cached = await client.create(kind, manifest("a", labels={"role": "surplus"}))
    await client.patch(kind, KEY, MergePatch({"metadata": {"labels": {"role": "primary"}}}))

    def limitation(live):
        return "it is the primary" if live.metadata.label("role") == "primary" else None

    assert limitation(cached) is None
    why = await delete_after_live_read(
        client, kind, KEY, uid=cached.metadata.uid, limitation=limitation
    )
    assert why == "it is the primary"
    assert KEY in server.objects["api/v1/configmaps"]


async def test_another_object_of_the_same_name_is_left_alone(server, client, kind, manifest):
    old = await client.create(kind, manifest("a"))
    await client.delete(kind, KEY)
    await client.create(kind, manifest("a"))
    why = await delete_after_live_read(client, kind, KEY, uid=old.metadata.uid, limitation=never)
    assert why == "it is another object of the same name now"
    assert KEY in server.objects["api/v1/configmaps"]


async def test_what_is_gone_is_no_error(client, kind):
    why = await delete_after_live_read(client, kind, KEY, uid="u", limitation=never)
    assert why == "it is gone already"


async def test_a_change_between_the_look_and_the_delete_stops_it(
    server, client, kind, manifest, expectations
):
    obj = await client.create(kind, manifest("a"))

    def changes_meanwhile(_):
        stored = server.objects["api/v1/configmaps"][KEY]
        changed = {**stored, "metadata": dict(stored["metadata"]), "data": {"x": "1"}}
        server.put("api/v1/configmaps", changed, bump_generation=True)

    why = await delete_after_live_read(
        client, kind, KEY, uid=obj.metadata.uid, limitation=changes_meanwhile, owner=OWNER,
        expectations=expectations,
    )  # fmt: skip
    assert why == "it changed in the meantime"
    assert expectations.limitation(OWNER) is None, "what did not happen is not waited for"


async def test_a_delete_that_fails_takes_its_expectation_back(
    server, client, kind, manifest, expectations
):
    obj = await client.create(kind, manifest("a"))
    inner = client.transport

    class Failing:
        async def request(self, request, *, timeout):
            if request.method == "DELETE":
                raise ConnectionFailed("refused")
            return await inner.request(request, timeout=timeout)

    client.transport = Failing()
    with pytest.raises(ConnectionFailed):
        await delete_after_live_read(
            client, kind, KEY, uid=obj.metadata.uid, limitation=never, owner=OWNER,
            expectations=expectations,
        )  # fmt: skip
    assert expectations.limitation(OWNER) is None


@pytest.mark.parametrize(
    "error",
    [NoAnswer("hung"), ConnectionBroken("reset"), ServerError("failed", status=500)],
    ids=lambda error: type(error).__name__,
)
async def test_a_delete_that_may_have_been_done_stays_expected(
    client, kind, manifest, expectations, error
):
    obj = await client.create(kind, manifest("a"))
    inner = client.transport

    class Unsure:
        async def request(self, request, *, timeout):
            answer = await inner.request(request, timeout=timeout)
            if request.method == "DELETE":
                raise error
            return answer

    client.transport = Unsure()
    with pytest.raises(type(error)):
        await delete_after_live_read(
            client, kind, KEY, uid=obj.metadata.uid, limitation=never, owner=OWNER,
            expectations=expectations,
        )  # fmt: skip
    assert obj.metadata.uid in expectations.limitation(OWNER)


async def test_a_delete_whose_response_does_not_fit_stays_expected(
    client, kind, manifest, expectations
):
    obj = await client.create(kind, manifest("a"))
    inner = client.transport

    class Odd:
        async def request(self, request, *, timeout):
            answer = await inner.request(request, timeout=timeout)
            if request.method == "DELETE":
                return Response(200, {}, b'{"kind": "ConfigMap", "data": 5}')
            return answer

    client.transport = Odd()
    with pytest.raises(UndecodableObject) as caught:
        await delete_after_live_read(
            client, kind, KEY, uid=obj.metadata.uid, limitation=never, owner=OWNER,
            expectations=expectations,
        )  # fmt: skip
    assert caught.value.carried_out
    assert obj.metadata.uid in expectations.limitation(OWNER)


@pytest.mark.parametrize(
    ("one", "other", "result"),
    [
        ("10", "9", True),
        ("9", "10", False),
        ("1" + "0" * 30, "9" * 30, True),
        ("x", "1", None),
        ("9" * 5000, "1", None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_versions_compare_as_numbers_or_not_at_all(one, other, result):
    assert is_at_least(one, other) is result
