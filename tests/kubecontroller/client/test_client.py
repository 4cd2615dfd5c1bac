"""The client over real HTTP, against a server that keeps what it is told in a dictionary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from kubecontroller.client.access import Access
from kubecontroller.client.api import Client, Propagation
from kubecontroller.client.errors import (
    Expired,
    GarbledLine,
    Invalid,
    NotFound,
    TooManyRequests,
    UndecodableObject,
)
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.objects import PODS, STATEFUL_SETS
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.request import Request, Response
from kubecontroller.client.watch import Bookmark, ChangeType, WatchedChange

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
async def connect(serve: Any) -> AsyncIterator[Callable[[Answer], Awaitable[Client]]]:
    clients: list[Client] = []

    async def start(answer: Answer) -> Client:
        server = await serve(answer)
        client = Client(HttpTransport(Access(server=server.url)), timeout=10)
        clients.append(client)
        return client

    yield start
    for client in clients:
        await client.close()


def pod(name: str, **metadata: object) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "a", "uid": "u", **metadata}}


def status(code: int, reason: str, **more: object) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": "because", **more}
    return web.json_response(body, status=code)


async def test_an_object_is_read_as_its_kinds_type(connect: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({**pod("b"), "spec": {"nodeName": "n"}, "unknown": [1]})

    client = await connect(answer)
    got = await client.get(PODS, ("a", "b"))
    assert (got.metadata.key, got.spec.node_name) == (("a", "b"), "n")
    whole = await client.get(PODS.plain(), ("a", "b"))
    assert whole["unknown"] == [1]


async def test_a_missing_object_is_named_in_the_error(connect: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        return status(404, "NotFound")

    client = await connect(answer)
    with pytest.raises(NotFound, match="Pod a/b: because") as caught:
        await client.get(PODS, ("a", "b"))
    assert caught.value.ref == "Pod a/b"


async def test_a_list_is_read_page_by_page(connect: Any) -> None:
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(dict(request.query))
        start = int(request.query.get("continue", "0"))
        items = [pod(f"p{i}") for i in range(start, min(start + 2, 5))]
        metadata = {"resourceVersion": "7"}
        if start + 2 < 5:
            metadata["continue"] = str(start + 2)
        return web.json_response({"metadata": metadata, "items": items})

    client = await connect(answer)
    page = await client.list(PODS, labels="x=y", resource_version="0", page_size=2)
    assert [item.metadata.name for item in page.items] == ["p0", "p1", "p2", "p3", "p4"]
    assert page.resource_version == "7"
    assert seen == [
        {"labelSelector": "x=y", "resourceVersion": "0", "limit": "2"},
        {"labelSelector": "x=y", "limit": "2", "continue": "2"},
        {"labelSelector": "x=y", "limit": "2", "continue": "4"},
    ]


async def test_an_expired_page_token_reads_the_list_again_in_one_piece(connect: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        if "continue" in request.query:
            return status(410, "Expired")
        if "limit" in request.query:
            metadata = {"resourceVersion": "7", "continue": "t"}
            return web.json_response({"metadata": metadata, "items": [pod("old")]})
        items = [pod("x"), pod("y")]
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": items})

    client = await connect(answer)
    page = await client.list(PODS)
    assert [item.metadata.name for item in page.items] == ["x", "y"]
    assert page.resource_version == "9"


async def test_an_expired_version_is_not_read_again_and_again(connect: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        return status(410, "Expired")

    client = await connect(answer)
    with pytest.raises(Expired):
        await client.list(PODS, resource_version="3")


async def test_an_object_of_twenty_megabytes_goes_both_ways(connect: Any) -> None:
    big = {**pod("big"), "blob": "x" * (20 * 2**20)}

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if request.query.get("watch"):
            await response.write(msgspec.json.encode({"type": "ADDED", "object": big}) + b"\n")
        else:
            await response.write(await request.read())
        return response

    client = await connect(answer)
    assert await client.create(PODS.plain(), big) == {**big, "apiVersion": "v1"}
    async with client.watch(PODS.plain()) as events:
        (event,) = [event async for event in events]
    assert event == WatchedChange(ChangeType.ADDED, big)


def stream(*lines: bytes) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line)
        return response

    return answer


async def test_a_watch_gives_changes_and_bookmarks_until_the_server_ends_it(connect: Any) -> None:
    text = b"".join(
        msgspec.json.encode(line) + b"\n"
        for line in (
            {"type": "ADDED", "object": pod("x")},
            {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}},
            {"type": "DELETED", "object": pod("x")},
        )
    )
    client = await connect(stream(text[:30], text[30:200], text[200:]))
    async with client.watch(PODS, resource_version="5") as events:
        got = [event async for event in events]
    assert [type(event) for event in got] == [WatchedChange, Bookmark, WatchedChange]
    assert got[1] == Bookmark("8")


class Burst:
    """A transport whose stream has everything at once and never waits."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def request(self, request: Request, *, timeout: float) -> Response:
        raise AssertionError("only streams are asked for")

    @asynccontextmanager
    async def stream(self, request: Request, *, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        async def pieces() -> AsyncIterator[bytes]:
            yield self._body

        yield pieces()

    async def close(self) -> None:
        return


async def test_a_burst_of_events_leaves_the_loop_to_others_now_and_then() -> None:
    line = msgspec.json.encode({"type": "ADDED", "object": pod("x")}) + b"\n"
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async with Client(Burst(line * 1000)).watch(PODS) as events:
        count = [event async for event in events]
    task.cancel()
    assert len(count) == 1000
    assert turns >= 1000 // 32


async def test_garbage_in_a_watch_is_a_typed_error_after_the_good_events(connect: Any) -> None:
    good = msgspec.json.encode({"type": "ADDED", "object": pod("x")})
    client = await connect(stream(good + b"\n<html>oops</html>\n"))
    async with client.watch(PODS, namespace="a") as events:
        assert isinstance(await anext(events), WatchedChange)
        with pytest.raises(GarbledLine, match=r"/api/v1/namespaces/a/pods.*oops"):
            await anext(events)


async def test_an_error_in_a_watch_is_raised_as_the_servers_error(connect: Any) -> None:
    line = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
    client = await connect(stream(msgspec.json.encode(line) + b"\n"))
    with pytest.raises(Expired):
        async with client.watch(PODS) as events:
            await anext(events)


async def test_a_refused_object_says_why_field_by_field(connect: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        causes = [{"field": "spec.replicas", "message": "must not be negative"}]
        return status(422, "Invalid", details={"causes": causes})

    client = await connect(answer)
    with pytest.raises(Invalid, match=r"spec\.replicas: must not be negative"):
        await client.apply(STATEFUL_SETS, {"metadata": {"namespace": "a", "name": "b"}})


async def test_a_deleted_object_is_returned_while_something_holds_it(connect: Any) -> None:
    gone = False

    async def answer(request: web.Request) -> web.Response:
        if gone:
            return web.json_response({"kind": "Status", "status": "Success"})
        return web.json_response(pod("b", deletionTimestamp="2026-01-01T00:00:00Z"))

    client = await connect(answer)
    held = await client.delete(PODS, ("a", "b"), uid="u", propagation=Propagation.BACKGROUND)
    assert held is not None
    assert held.metadata.is_deleting
    gone = True
    assert await client.delete(PODS, ("a", "b")) is None


async def test_an_eviction_that_a_budget_forbids_is_a_typed_error(connect: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        causes = [{"reason": "DisruptionBudget", "message": "needs 2 healthy pods"}]
        return status(429, "TooManyRequests", details={"causes": causes})

    client = await connect(answer)
    with pytest.raises(TooManyRequests, match="needs 2 healthy pods") as caught:
        await client.evict(("a", "b"))
    assert caught.value.causes[0].reason == "DisruptionBudget"


async def test_scale_is_read_and_changed_through_its_subresource(connect: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.path.endswith("/statefulsets/b/scale")
        wanted = (await request.json())["spec"]["replicas"] if request.can_read_body else 1
        body = {"kind": "Scale", "spec": {"replicas": wanted}, "status": {"replicas": 1}}
        return web.json_response(body)

    client = await connect(answer)
    assert (await client.get_scale(STATEFUL_SETS, ("a", "b"))).spec.replicas == 1
    assert (await client.scale(STATEFUL_SETS, ("a", "b"), 3)).spec.replicas == 3


async def test_an_answer_that_does_not_fit_is_a_typed_error_naming_the_object(connect: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=b'{"metadata": {"generation": "many"}}')

    client = await connect(answer)
    with pytest.raises(UndecodableObject, match=r"Pod a/b: .*generation"):
        await client.patch(PODS, ("a", "b"), MergePatch({}))


async def test_a_whole_list_that_would_lack_an_object_is_refused(connect: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        broken = {"metadata": {"name": "b", "namespace": "a", "generation": "many"}}
        return web.json_response({"items": [pod("a"), broken], "metadata": {}})

    client = await connect(answer)
    page = await client.list_page(PODS)
    assert [aside.key for aside in page.unreadable] == [("a", "b")]
    with pytest.raises(UndecodableObject, match=r"Pod a/b: .*generation"):
        await client.list(PODS)


async def test_a_plain_object_read_can_be_replaced(connect: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.method == "PUT":
            return web.Response(body=await request.read())
        return web.json_response({**pod("b", resourceVersion="3"), "apiVersion": "v1", "x": 1})

    client = await connect(answer)
    whole = await client.get(PODS.plain(), ("a", "b"))
    assert await client.replace(PODS.plain(), {**whole, "x": 2}) == {**whole, "x": 2}


async def test_a_collection_is_deleted_by_selector(connect: Any) -> None:
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.path_qs))
        return web.json_response({"kind": "Status"})

    client = await connect(answer)
    await client.delete_collection(PODS, namespace="a", labels="x")
    assert seen == [("DELETE", "/api/v1/namespaces/a/pods?labelSelector=x")]
