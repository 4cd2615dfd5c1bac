from __future__ import annotations

import asyncio
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.kubecontroller.client.sending import GET, POST, ok, opened, send

from kubecontroller.client.access import (
    Access,
    BasicAuth,
    FileOrBytes,
    Hidden,
    TokenAuth,
)
from kubecontroller.client.errors import (
    CertificateRejected,
    ConfigError,
    ConnectionBroken,
    ConnectionFailed,
    NoAnswer,
)
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.request import Request
from kubecontroller.runtime import logs

# What is sent


async def test_path_query_headers_and_body_arrive_as_built(serve: Any) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.json_response(
            {"target": request.raw_path, "body": (await request.read()).decode()}
        )

    server = await serve(echo)
    request = Request(
        "POST",
        "/api/v1/x%2Fy",
        query=(("labelSelector", "a in (b,c),d!=e"), ("continue", "a+b=")),
        headers=(("accept", "application/json"), ("content-type", "application/json")),
        body=b'{"a":1}',
    )
    response = await send(Access(server=f"{server.url}/prefix"), request)
    assert response.status == 200
    assert response.headers["content-type"].startswith("application/json")
    assert b'"/prefix/api/v1/x%2Fy?labelSelector=a%20in%20%28b%2Cc%29%2Cd%21%3De&' in response.body
    assert b"continue=a%2Bb%3D" in response.body
    (seen,) = server.seen
    assert seen.headers["Accept"] == "application/json"
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("auth", "header"),
    [
        (TokenAuth(Hidden("t")), "Bearer t"),
        (BasicAuth("u", Hidden("p")), "Basic dTpw"),
    ],
    ids=["token", "basic"],
)
async def test_credentials_and_impersonation_are_sent(serve: Any, auth: Any, header: str) -> None:
    server = await serve(ok)
    impersonate = (("impersonate-group", "a"), ("impersonate-group", "b"))
    await send(Access(server=server.url, auth=auth, impersonate=impersonate))
    (seen,) = server.seen
    assert seen.headers["Authorization"] == header
    assert seen.headers.getall("Impersonate-Group") == ["a", "b"]


async def test_any_status_is_returned_whole(serve: Any) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=409, body=b"no", headers={"X-Thing": "y"})

    response = await send(Access(server=(await serve(refuse)).url))
    assert (response.status, response.body, response.headers["x-thing"]) == (409, b"no", "y")


async def test_redirects_are_not_followed(serve: Any) -> None:
    async def away(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    server = await serve(away)
    assert (await send(Access(server=server.url))).status == 302
    assert len(server.seen) == 1


async def test_warnings_of_the_server_are_logged_once(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def warn(request: web.Request) -> web.Response:
        return web.Response(headers={"Warning": '299 - "v1beta1 is deprecated"'})

    async with opened(Access(server=(await serve(warn)).url)) as transport:
        await transport.request(GET, timeout=5)
        await transport.request(GET, timeout=5)
    (record,) = [r for r in caplog.records if r.name == "kubecontroller.client.http"]
    assert "v1beta1 is deprecated" in logs.HumanFormatter().format(record)


# TLS


async def test_a_server_of_the_right_ca_is_trusted(serve: Any, authority: Any) -> None:
    server = await serve(ok, tls=True)
    assert (
        await send(Access(server=server.url, ca=FileOrBytes(inline=authority.pem)))
    ).status == 200


async def test_a_wrong_ca_names_the_host_and_where_to_look(
    serve: Any, other_authority: Any
) -> None:
    server = await serve(ok, tls=True)
    access = Access(
        server=server.url, ca=FileOrBytes(inline=other_authority.pem), source="context c of /k"
    )
    with pytest.raises(CertificateRejected) as caught:
        await send(access)
    assert caught.value.host == server.url
    assert "certificate-authority and tls-server-name in context c of /k" in str(caught.value)


async def test_insecure_trusts_anything(serve: Any) -> None:
    server = await serve(ok, tls=True)
    assert (await send(Access(server=server.url, insecure=True))).status == 200


async def test_tls_server_name_is_the_name_that_is_checked(serve: Any, authority: Any) -> None:
    server = await serve(ok, tls=True, hosts=("inner.example.org",))
    ca = FileOrBytes(inline=authority.pem)
    with pytest.raises(CertificateRejected):
        await send(Access(server=server.url, ca=ca))
    access = Access(server=server.url, ca=ca, server_name="inner.example.org")
    assert (await send(access)).status == 200


async def test_a_client_certificate_is_shown(serve: Any, authority: Any) -> None:
    server = await serve(ok, tls=True, client_ca=authority.pem)
    certificate, key = authority.issue("me")
    ca = FileOrBytes(inline=authority.pem)
    access = Access(
        server=server.url,
        ca=ca,
        certificate=FileOrBytes(inline=certificate),
        key=FileOrBytes(inline=key),
    )
    assert (await send(access)).status == 200
    with pytest.raises(ConnectionBroken, match="client certificate it accepts") as caught:
        await send(Access(server=server.url, ca=ca), POST)
    assert caught.value.host == server.url


async def test_a_new_ca_file_is_read_when_the_server_changes_its_certificate(
    serve: Any, authority: Any, other_authority: Any, tmp_path: Path
) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(other_authority.pem)
    server = await serve(ok, tls=True)
    async with opened(Access(server=server.url, ca=FileOrBytes(file=str(file)))) as transport:
        with pytest.raises(CertificateRejected):
            await transport.request(POST, timeout=5)
        file.write_bytes(authority.pem)
        assert (await transport.request(POST, timeout=5)).status == 200


async def test_a_file_in_the_middle_of_its_rotation_is_tolerated(
    serve: Any, authority: Any, tmp_path: Path
) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(authority.pem)
    server = await serve(ok, tls=True)
    async with opened(Access(server=server.url, ca=FileOrBytes(file=str(file)))) as transport:
        await transport.request(GET, timeout=5)
        for content in (b"half a certif", None):
            file.write_bytes(content) if content else file.unlink()
            transport._trust.recheck()
            assert (await transport.request(GET, timeout=5)).status == 200


@pytest.mark.parametrize("field", ["ca", "certificate"])
async def test_broken_pem_names_its_file(authority: Any, tmp_path: Path, field: str) -> None:
    file = tmp_path / "x.pem"
    file.write_text("not PEM")
    fields: dict[str, Any] = {field: FileOrBytes(file=str(file))}
    if field == "certificate":
        fields["key"] = FileOrBytes(inline=authority.issue("x")[1])
    with pytest.raises(ConfigError) as caught:
        await send(Access(server="https://127.0.0.1:1", **fields))
    assert caught.value.file == str(file)


async def test_a_missing_ca_file_is_named(tmp_path: Path) -> None:
    access = Access(server="https://127.0.0.1:1", ca=FileOrBytes(file=str(tmp_path / "gone")))
    with pytest.raises(ConfigError, match=r"gone: cannot be read"):
        await send(access)


async def test_no_place_for_a_client_certificate_is_a_typed_error(
    serve: Any, authority: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(ok, tls=True, client_ca=authority.pem)
    certificate, key = authority.issue("me")
    access = Access(
        server=server.url,
        ca=FileOrBytes(inline=authority.pem),
        certificate=FileOrBytes(inline=certificate),
        key=FileOrBytes(inline=key),
    )
    async with opened(access) as transport:
        with monkeypatch.context() as full:
            full.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
            with pytest.raises(ConfigError, match="No such file or directory"):
                await transport.request(GET, timeout=5)
        assert (await transport.request(GET, timeout=5)).status == 200


async def test_a_server_without_tls_is_a_typed_error(serve: Any) -> None:
    server = await serve(ok)
    url = server.url.replace("http:", "https:")
    with pytest.raises(CertificateRejected, match="HTTPS port"):
        await send(Access(server=url, insecure=True))


# Trouble below HTTP


async def test_an_unreachable_server_names_the_host_and_what_to_do() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(ConnectionFailed) as caught:
            await send(Access(server=f"http://127.0.0.1:{port}", source="context c of /k"))
    assert caught.value.host == f"http://127.0.0.1:{port}"
    assert "Check that the API server runs, and the address in context c of /k" in str(caught.value)


async def test_a_server_that_does_not_answer_in_time_is_a_typed_error(serve: Any) -> None:
    async def hang(request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    server = await serve(hang)
    with pytest.raises(NoAnswer, match=r"no response to GET /api/v1/pods within 0\.2 s"):
        await send(Access(server=server.url), timeout=0.2)


class Flaky:
    """A server that breaks its first connections and then answers."""

    def __init__(self, broken: int) -> None:
        self.broken = broken
        self.seen = 0

    async def __call__(self, request: web.Request) -> web.Response:
        self.seen += 1
        if self.seen <= self.broken:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(body=b"fine")


async def test_a_get_is_repeated_when_the_connection_breaks(serve: Any) -> None:
    flaky = Flaky(2)
    server = await serve(flaky)
    assert (await send(Access(server=server.url))).body == b"fine"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_write_is_not_repeated_when_the_connection_breaks(serve: Any, method: str) -> None:
    flaky = Flaky(1)
    server = await serve(flaky)
    with pytest.raises(ConnectionBroken, match="broke"):
        await send(Access(server=server.url), Request(method, "/api/v1/pods", body=b"{}"))
    assert flaky.seen == 1


async def test_a_write_is_asked_for_again_before_each_time_it_is_sent(serve: Any) -> None:
    """A server that asked for patience gets nothing from a process that lost its lease since."""
    seen = []

    async def busy(_: web.Request) -> web.Response:
        seen.append(1)
        return web.Response(status=429, headers={"Retry-After": "0"})

    class LostError(Exception): ...

    def may_send() -> None:
        if seen:
            raise LostError

    server = await serve(busy)
    with pytest.raises(LostError):
        await send(Access(server=server.url), Request("PUT", "/api/v1/pods", before_send=may_send))
    assert seen == [1]


@pytest.mark.parametrize("kept", [True, False], ids=["kept connection", "new connection"])
async def test_a_write_that_waited_for_a_connection_is_asked_for_once_it_has_one(
    serve: Any, kept: bool
) -> None:
    """The lease may be lost while the pool is full, or while a connection is opened."""
    arrived, answer = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        arrived.set()
        await answer.wait()
        response = web.Response()
        if not kept:
            response.force_close()
        return response

    class LostError(Exception): ...

    asked = asyncio.Event()

    def may_send() -> None:
        asked.set()
        if answer.is_set():
            raise LostError

    server = await serve(slow)
    transport = HttpTransport(Access(server=server.url), connections=1)
    try:
        first = asyncio.create_task(transport.request(GET, timeout=5))
        await arrived.wait()
        write = Request("DELETE", "/api/v1/pods/a", before_send=may_send)
        waiting = asyncio.create_task(transport.request(write, timeout=5))
        await asked.wait()
        answer.set()
        with pytest.raises(LostError):
            await waiting
        await first
        await transport.request(GET, timeout=5)  # the connection is free for others
    finally:
        await transport.close()
    assert [request.method for request in server.seen] == ["GET", "GET"]


async def test_a_half_sent_answer_is_a_broken_connection(serve: Any) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    server = await serve(half)
    with pytest.raises(ConnectionBroken):
        await send(Access(server=server.url), POST)


# Retries


async def test_a_version_the_server_has_not_reached_is_not_waited_for(serve: Any) -> None:
    """The watcher falls back to a quorum read at once; retries would hide the answer from it."""
    seen = []

    async def behind(_: web.Request) -> web.Response:
        seen.append(1)
        return web.json_response(
            {"reason": "Timeout", "message": "Too large resource version: 9, current: 5"},
            status=504,
            headers={"Retry-After": "1"},
        )

    server = await serve(behind)
    assert (await send(Access(server=server.url), timeout=10)).status == 504
    assert seen == [1]


def busy(times: int, status: int, **headers: str) -> Any:
    count = 0

    async def handler(request: web.Request) -> web.Response:
        nonlocal count
        count += 1
        await request.read()
        if count <= times:
            return web.Response(status=status, headers=headers)
        return web.Response(body=b"fine")

    return handler


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_writes_are_repeated_when_the_server_says_when(serve: Any, status: int) -> None:
    server = await serve(busy(2, status, **{"Retry-After": "0"}))
    assert (await send(Access(server=server.url), POST)).body == b"fine"
    assert len(server.seen) == 3


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_nothing_is_repeated_when_the_server_does_not_say_when(
    serve: Any, status: int
) -> None:
    server = await serve(busy(1, status))
    assert (await send(Access(server=server.url))).status == status
    assert len(server.seen) == 1


async def test_at_most_ten_retries_are_made(serve: Any) -> None:
    server = await serve(busy(99, 429, **{"Retry-After": "0"}))
    assert (await send(Access(server=server.url))).status == 429
    assert len(server.seen) == 11


async def test_a_wait_beyond_the_deadline_returns_the_answer_at_once(serve: Any) -> None:
    server = await serve(busy(1, 429, **{"Retry-After": "60"}))
    async with asyncio.timeout(30):  # far less than both
        assert (await send(Access(server=server.url), timeout=59)).status == 429
