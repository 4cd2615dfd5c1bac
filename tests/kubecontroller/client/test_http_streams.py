from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.kubecontroller.client.sending import GET, ok, opened

from kubecontroller.client.access import (
    Access,
    TokenFileAuth,
)
from kubecontroller.client.errors import (
    Expired,
    NoAnswer,
    StreamStalled,
)
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.request import Request


def wanting(token: Callable[[], str]) -> Any:
    async def handler(request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "")
        return web.Response(status=200 if given == f"Bearer {token()}" else 401)

    return handler


def streaming(*pieces: bytes, hang: bool = False) -> Any:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        if hang:
            await asyncio.sleep(60)
        return response

    return handler


async def read(transport: HttpTransport, idle: float = 5.0) -> bytes:
    got = b""
    async with transport.stream(GET, idle=idle) as pieces:
        async for piece in pieces:
            got += piece
    return got


async def test_a_stream_gives_its_pieces_until_the_server_ends_it(serve: Any) -> None:
    server = await serve(streaming(b"one\n", b"two\n"))
    async with opened(Access(server=server.url)) as transport:
        assert await read(transport) == b"one\ntwo\n"


async def test_a_stream_that_hangs_without_closing_is_given_up(serve: Any) -> None:
    server = await serve(streaming(b"one\n", hang=True))
    async with opened(Access(server=server.url)) as transport:
        with pytest.raises(StreamStalled, match=r"sent nothing for 1 s"):
            await read(transport, idle=1.0)


async def test_a_stream_whose_answer_never_begins_is_given_up(serve: Any) -> None:
    async def silent(request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with opened(Access(server=(await serve(silent)).url)) as transport:
        with pytest.raises(NoAnswer, match="no response to watch of"):
            await read(transport, idle=0.3)


async def test_a_stream_that_is_refused_raises_on_entry(serve: Any) -> None:
    async def gone(request: web.Request) -> web.Response:
        return web.json_response({"reason": "Expired", "code": 410}, status=410)

    async with opened(Access(server=(await serve(gone)).url)) as transport:
        with pytest.raises(Expired, match="watch of /api/v1/pods"):
            await read(transport)


async def test_a_stream_is_opened_again_with_a_fresh_token(serve: Any, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    server = await serve(wanting(lambda: "new"))
    async with opened(Access(server=server.url, auth=TokenFileAuth(str(file)))) as transport:
        await transport.request(GET, timeout=5)
        file.write_text("new")
        assert await read(transport) == b""


async def test_leaving_a_stream_closes_its_connection(serve: Any) -> None:
    ended = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x\n")
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async with opened(Access(server=(await serve(endless)).url)) as transport:
        async with transport.stream(GET, idle=5) as pieces:
            assert await anext(pieces)
        async with asyncio.timeout(60):
            await ended.wait()


async def test_a_cancelled_request_frees_its_connection(serve: Any) -> None:
    ended = asyncio.Event()
    started = asyncio.Event()

    async def hang(request: web.Request) -> web.Response:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return web.Response()

    async with opened(Access(server=(await serve(hang)).url)) as transport:
        task = asyncio.create_task(transport.request(GET, timeout=60))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(60):
            await ended.wait()


async def test_streams_do_not_use_up_the_connections_of_requests(serve: Any) -> None:
    async def either(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            return await streaming(b"x\n", hang=True)(request)
        return web.Response()

    server = await serve(either)
    transport = HttpTransport(Access(server=server.url), connections=1)
    watch = Request("GET", "/w", query=(("watch", "true"),))
    async with (
        transport.stream(watch, idle=5) as one,
        transport.stream(watch, idle=5) as two,
    ):
        assert await anext(one) == b"x\n"
        assert await anext(two) == b"x\n"
        assert (await transport.request(GET, timeout=5)).status == 200
    await transport.close()


async def test_connections_notice_a_dead_peer(serve: Any) -> None:
    server = await serve(ok)
    async with opened(Access(server=server.url)) as transport:
        await transport.request(GET, timeout=5)
        session = transport._requests
        assert session is not None
        (pooled,) = [c for c in session.connector._conns.values() if c]  # type: ignore[union-attr]
        sock = pooled[0][0].transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
