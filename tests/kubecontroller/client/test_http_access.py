from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.kubecontroller.client.sending import GET, POST, ok, opened, send

from kubecontroller.client.access import (
    Access,
    ExecAuth,
    FileOrBytes,
    TokenFileAuth,
)
from kubecontroller.client.errors import (
    ConnectionFailed,
    CredentialError,
    KubeError,
)

# Credentials that change under us


def wanting(token: Callable[[], str]) -> Any:
    async def handler(request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "")
        return web.Response(status=200 if given == f"Bearer {token()}" else 401)

    return handler


async def test_a_401_in_flight_reads_the_token_file_again(serve: Any, tmp_path: Path) -> None:
    wanted = "one"
    file = tmp_path / "token"
    file.write_text(wanted)
    server = await serve(wanting(lambda: wanted))
    async with opened(Access(server=server.url, auth=TokenFileAuth(str(file)))) as transport:
        assert (await transport.request(POST, timeout=5)).status == 200
        wanted = "two"
        file.write_text(wanted)
        assert (await transport.request(POST, timeout=5)).status == 200
        assert len(server.seen) == 3


async def test_a_401_that_a_fresh_credential_does_not_cure_is_returned_once(
    serve: Any, script: Any
) -> None:
    command = script(
        'json.dump({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": "bad"}}, sys.stdout)'
    )
    server = await serve(wanting(lambda: "good"))
    auth = ExecAuth(command=command, api_version="client.authentication.k8s.io/v1")
    assert (await send(Access(server=server.url, auth=auth))).status == 401
    assert len(server.seen) == 2


async def test_a_401_runs_the_plugin_again(serve: Any, script: Any, tmp_path: Path) -> None:
    count = tmp_path / "count"
    command = script(
        f"n = len(open({str(count)!r}, 'a+').write('x') and open({str(count)!r}).read())\n"
        'json.dump({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": str(n), "expirationTimestamp": "2999-01-01T00:00:00Z"}}, sys.stdout)'
    )
    wanted = "1"
    server = await serve(wanting(lambda: wanted))
    auth = ExecAuth(command=command, api_version="client.authentication.k8s.io/v1")
    async with opened(Access(server=server.url, auth=auth)) as transport:
        assert (await transport.request(GET, timeout=5)).status == 200
        assert (await transport.request(GET, timeout=5)).status == 200
        assert count.read_text() == "x"
        wanted = "2"
        assert (await transport.request(GET, timeout=5)).status == 200
        assert count.read_text() == "xx"


async def test_a_certificate_from_a_plugin_is_shown(
    serve: Any, authority: Any, script: Any
) -> None:
    certificate, key = authority.issue("me")
    status = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
    command = script(
        'json.dump({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        f' "status": {status!r}}}, sys.stdout)'
    )
    server = await serve(ok, tls=True, client_ca=authority.pem)
    auth = ExecAuth(command=command, api_version="client.authentication.k8s.io/v1")
    access = Access(server=server.url, ca=FileOrBytes(inline=authority.pem), auth=auth)
    assert (await send(access)).status == 200


async def test_an_expired_plugin_credential_never_reaches_the_server(
    serve: Any, script: Any
) -> None:
    command = script(
        'json.dump({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}}, sys.stdout)'
    )
    server = await serve(ok)
    auth = ExecAuth(
        command=command,
        api_version="client.authentication.k8s.io/v1",
        source="/k/config: users[me].user.exec",
    )
    with pytest.raises(CredentialError, match=r"/k/config: users\[me\].*expired.*Log in again"):
        await send(Access(server=server.url, auth=auth))
    assert server.seen == []


async def test_a_slow_plugin_is_not_taken_for_a_slow_server(serve: Any, script: Any) -> None:
    server = await serve(ok)
    auth = ExecAuth(command=script("time.sleep(60)"), api_version="v")
    access = Access(server=server.url, auth=auth, source="context c of /k")
    with pytest.raises(CredentialError, match=r"context c of /k: no credential within 0\.2 s"):
        await send(access, timeout=0.2)
    assert server.seen == []


# Proxies


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def tunnel(
    refuse: int = 0, tls: ssl.SSLContext | None = None, shown: list[Any] | None = None
) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A real HTTP proxy that understands CONNECT."""
    asked: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if shown is not None:
            shown.append(writer.get_extra_info("peercert"))
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.split(b"\r\n")[0])
        if refuse:
            writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % refuse)
            writer.close()
            return
        host, _, port = head.split()[1].decode().rpartition(":")
        upstream, sink = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(_pipe(reader, sink), _pipe(upstream, writer), return_exceptions=True)

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    try:
        port = server.sockets[0].getsockname()[1]
        scheme = "https" if tls else "http"
        yield f"{scheme}://user:hunter2@127.0.0.1:{port}", asked
    finally:
        server.close()
        await server.wait_closed()


async def test_requests_go_through_the_proxy(serve: Any, authority: Any) -> None:
    server = await serve(ok, tls=True)
    async with tunnel() as (proxy, asked):
        access = Access(server=server.url, ca=FileOrBytes(inline=authority.pem), proxy=proxy)
        assert (await send(access)).status == 200
    address = server.url.removeprefix("https://").encode()
    assert asked == [b"CONNECT " + address + b" HTTP/1.1"]


async def test_a_proxy_that_refuses_is_named_without_its_password(
    serve: Any, authority: Any
) -> None:
    server = await serve(ok, tls=True)
    async with tunnel(refuse=407) as (proxy, _):
        access = Access(server=server.url, ca=FileOrBytes(inline=authority.pem), proxy=proxy)
        with pytest.raises(
            ConnectionFailed, match=r"the proxy http://127.* answered 407"
        ) as caught:
            await send(access)
    assert "hunter2" not in str(caught.value)


async def test_a_proxy_of_its_own_authority_is_neither_asked_for_the_clusters_nor_shown_our_key(
    serve: Any,
    authority: Any,
    other_authority: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The machine trusts the proxy's authority, the kubeconfig the cluster's."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "machine.pem"))
    (tmp_path / "machine.pem").write_bytes(other_authority.pem)
    certificate, key = other_authority.issue("proxy", "127.0.0.1")
    (tmp_path / "proxy.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "proxy.pem")
    context.load_verify_locations(cadata=authority.pem.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    mine, my_key = authority.issue("me")
    server = await serve(ok, tls=True, client_ca=authority.pem)
    shown: list[Any] = []
    async with tunnel(tls=context, shown=shown) as (proxy, asked):
        access = Access(
            server=server.url,
            ca=FileOrBytes(inline=authority.pem),
            certificate=FileOrBytes(inline=mine),
            key=FileOrBytes(inline=my_key),
            proxy=proxy,
        )
        assert (await send(access)).status == 200
    assert len(asked) == 1
    assert shown == [None], "no certificate of ours"


async def test_a_proxy_that_nobody_vouches_for_is_refused_though_the_server_need_not_be_checked(
    serve: Any, authority: Any, other_authority: Any, tmp_path: Path
) -> None:
    certificate, key = other_authority.issue("proxy", "127.0.0.1")
    (tmp_path / "proxy.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "proxy.pem")
    server = await serve(ok, tls=True)
    async with tunnel(tls=context) as (proxy, asked):
        with pytest.raises(KubeError, match="proxy"):
            await send(Access(server=server.url, insecure=True, proxy=proxy))
    assert asked == []
