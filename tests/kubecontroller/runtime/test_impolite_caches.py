"""Caches beside code and servers that raise what nobody expects: a cache ends only when asked."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.errors import NoAnswer, TooManyRequests
from kubecontroller.client.request import Response
from kubecontroller.runtime.informer import Informer

KEYS = [("default", "a"), ("default", "b")]


def raising(*_: Any) -> Any:
    raise KeyError("a bug")


def cancelled(*_: Any) -> Any:
    """Ask for the result of what somebody else has cancelled."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return future.result()


BUGS = pytest.mark.parametrize("bug", [raising, cancelled], ids=lambda f: f.__name__)


class Odd:
    """A connection that raises, for the first requests and streams, what no transport should."""

    def __init__(self, transport: Any, error: Exception, times: int) -> None:
        self._transport = transport
        self._error = error
        self._times = times

    def _fail(self) -> None:
        if self._times:
            self._times -= 1
            raise self._error

    async def request(self, request: Any, *, timeout: float) -> Response:
        self._fail()
        return await self._transport.request(request, timeout=timeout)

    @asynccontextmanager
    async def stream(self, request: Any, *, idle: float):
        self._fail()
        async with self._transport.stream(request, idle=idle) as pieces:
            yield pieces

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), RecursionError("deep")], ids=repr
)
@pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "list"])
async def test_an_error_that_nobody_expects_is_reported_and_the_cache_fills_later(
    server, client, kind, manifest, running, caplog, error, watch_list
):
    await client.create(kind, manifest("a"))
    odd = Client(Odd(server.transport(), error, 3))
    informer = Informer(odd, kind, watch_list=watch_list)
    async with running(informer.run()) as (task,):
        await asyncio.sleep(60)
        assert not task.done()
        assert informer.has_synced
        await client.create(kind, manifest("b"))
        await asyncio.sleep(1)
        assert informer.cache.keys() == KEYS
        assert informer.last_error is None
    assert informer.failures == 3 or watch_list
    assert any(r.exc_info and r.exc_info[1] is error for r in caplog.records), "with its traceback"


class Silent:
    """Lists are responded to; a watch-list never begins, as behind a proxy that keeps streams."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    async def request(self, request: Any, *, timeout: float) -> Response:
        return await self._transport.request(request, timeout=timeout)

    @asynccontextmanager
    async def stream(self, request: Any, *, idle: float):
        if "sendInitialEvents" in dict(request.query):
            await asyncio.sleep(60)
            raise NoAnswer("no response to watch")
        async with self._transport.stream(request, idle=idle) as pieces:
            yield pieces


async def test_a_cache_fills_where_no_watch_list_ever_begins(
    server, client, kind, manifest, running
):
    await client.create(kind, manifest("a"))
    informer = Informer(Client(Silent(server.transport())), kind)
    async with running(informer.run()):
        async with asyncio.timeout(120):
            await informer.wait_synced()
        await client.create(kind, manifest("b"))
        await asyncio.sleep(1)
        assert informer.cache.keys() == KEYS


async def test_a_server_that_asks_for_years_is_asked_again_after_a_minute(
    server, client, kind, manifest, running
):
    await client.create(kind, manifest("a"))
    busy = TooManyRequests("slow down", status=429, retry_after=1e9)
    informer = Informer(Client(Odd(server.transport(), busy, 3)), kind)
    async with running(informer.run()):
        await asyncio.sleep(115)
        assert not informer.has_synced, "it waits as long as it was asked to, up to a minute"
        await asyncio.sleep(120)
        assert informer.cache.keys() == [("default", "a")]


async def test_an_object_nested_too_deeply_is_set_aside_and_reported_once(
    server, client, kind, running
):
    text = b'{"a":' * 1500 + b"1" + b"}" * 1500

    class Deep:
        async def request(self, request: Any, *, timeout: float) -> Response:
            good = b'{"metadata":{"namespace":"default","name":"a"}}'
            bad = b'{"metadata":{"namespace":"default","name":"b"},"data":%b}' % text
            body = b'{"metadata":{"resourceVersion":"5"},"items":[%b,%b]}' % (good, bad)
            return Response(200, {}, body)

        def stream(self, request: Any, *, idle: float) -> Any:
            return server.transport().stream(request, idle=idle)

    informer = Informer(Client(Deep()), kind.plain(), watch_list=False)
    complaints: list[Any] = []
    informer.on_unreadable = complaints.append
    async with running(informer.run()):
        async with asyncio.timeout(60):
            await informer.wait_synced()
        assert informer.cache.keys() == [("default", "a")]
    assert [what.key for what in complaints] == [("default", "b")]


@BUGS
async def test_a_handler_that_raises_ends_no_cache(client, kind, manifest, running, bug):
    informer, heard = Informer(client, kind), []
    async with running(informer.run()) as (task,):
        await informer.wait_synced()
        informer.subscribe(bug)
        informer.subscribe(heard.append)
        await client.create(kind, manifest("a"))
        await client.create(kind, manifest("b"))
        await asyncio.sleep(60)
        assert not task.done()
        assert informer.cache.keys() == KEYS
    assert len(heard) == 2


@BUGS
async def test_a_progress_callback_that_raises_ends_no_cache(client, kind, manifest, running, bug):
    informer, woken = Informer(client, kind), []
    informer.on_progress += [bug, lambda: woken.append(informer.version)]
    async with running(informer.run()) as (task,):
        async with asyncio.timeout(60):
            await informer.wait_synced()
        await client.create(kind, manifest("a"))
        await client.create(kind, manifest("b"))
        await asyncio.sleep(60)
        assert not task.done()
        assert informer.cache.keys() == KEYS
    assert len(woken) >= 3, "the next callback is called"


@BUGS
async def test_a_reporter_of_unreadable_objects_that_raises_ends_no_cache(
    client, kind, manifest, running, bug
):
    informer = Informer(client, kind)
    informer.on_unreadable = bug
    await client.create(kind.plain(), manifest("odd", data="no map"))
    async with running(informer.run()) as (task,):
        async with asyncio.timeout(60):
            await informer.wait_synced()
        await client.create(kind, manifest("a"))
        await client.create(kind, manifest("b"))
        await asyncio.sleep(1)
        assert not task.done()
        assert informer.cache.keys() == KEYS


def by_color(obj: Any) -> list[str]:
    return [obj.data["color"]]  # most objects have none


def unhashable(obj: Any) -> Any:
    return [obj.data] if "color" not in obj.data else ["red"]


def halfway(obj: Any) -> Any:
    yield from by_color(obj)


@pytest.mark.parametrize("index", [by_color, unhashable, halfway], ids=lambda f: f.__name__)
async def test_an_index_that_raises_leaves_out_what_it_cannot_read_and_ends_no_cache(
    client, kind, manifest, running, caplog, index
):
    informer = Informer(client, kind, indexes={"color": index})
    async with running(informer.run()) as (task,):
        await informer.wait_synced()
        await client.create(kind, manifest("a", data={"color": "red"}))
        await client.create(kind, manifest("b"))
        await client.create(kind, manifest("c"))
        await client.delete(kind, ("default", "c"))
        await asyncio.sleep(1)
        assert not task.done()
        assert informer.cache.keys() == KEYS
        assert informer.cache.find_keys("color", "red") == [("default", "a")]
        live = await client.get(kind.plain(), ("default", "a"))
        await client.replace(kind.plain(), {**live, "data": {}})
        await asyncio.sleep(1)
        assert informer.cache.find_keys("color", "red") == []
    assert caplog.text.count("index 'color'") == 1, "reported once, not for every object"
    informer.add_index("another", raising)
    assert informer.cache.find("another", "x") == []


async def test_an_index_that_raises_for_an_object_it_has_forgets_it(
    client, kind, manifest, running
):
    known = ["red"]
    informer = Informer(client, kind, indexes={"color": lambda _: iter(known[:1] or raising())})
    await client.create(kind, manifest("a"))
    async with running(informer.run()):
        await informer.wait_synced()
        assert informer.cache.find_keys("color", "red") == [("default", "a")]
        known.clear()
        await client.delete(kind, ("default", "a"))
        await asyncio.sleep(1)
        assert informer.cache.find("color", "red") == []
