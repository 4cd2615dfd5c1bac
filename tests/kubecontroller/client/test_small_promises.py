"""Small things that went wrong at the edges of the client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from kubecontroller.client.access import Access, FileOrBytes
from kubecontroller.client.api import Client
from kubecontroller.client.credential import Credential
from kubecontroller.client.errors import CertificateRejected, UndecodableObject
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.meta import ObjectMeta
from kubecontroller.client.request import Request
from kubecontroller.client.scheme import Kind
from kubecontroller.client.tls import Trust
from kubecontroller.runtime.manager import Manager

GET = Request("GET", "/api/v1/pods")


def test_a_bundle_with_comments_in_any_language_is_read(authority: Any) -> None:
    bundle = "# Fußnote: Autorité de certification\n".encode() + authority.pem
    trust = Trust(Access(server="https://h", ca=FileOrBytes(inline=bundle)))
    assert len(trust.context(None, 0.0).get_ca_certs()) == 1


async def test_a_rotated_authority_is_noticed_also_when_the_minute_is_over(
    serve: Any,
    authority: Any,
    other_authority: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The look that is due anyway must not be taken for the state before the failure."""
    server = await serve(ok, tls=True)
    file = tmp_path / "ca.pem"
    file.write_bytes(other_authority.pem)
    transport = HttpTransport(Access(server=server.url, ca=FileOrBytes(file=str(file))))
    try:
        with pytest.raises(CertificateRejected):
            await transport.request(GET, timeout=5)
        translate = transport._translate

        def refused(error: Exception) -> Any:
            """The authority is rotated while the old one is refused, and the next look is due."""
            file.write_bytes(authority.pem)
            transport._trust.recheck()
            return translate(error)

        monkeypatch.setattr(transport, "_translate", refused)
        assert (await transport.request(GET, timeout=5)).status == 200
    finally:
        await transport.close()


async def ok(_: web.Request) -> web.Response:
    return web.json_response({})


async def test_an_answer_is_let_go_when_the_new_credential_cannot_be_used(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=401, body=bytes(20_000_000))

    server = await serve(refuse)
    transport = HttpTransport(Access(server=server.url))

    def broken(_: Credential) -> bool:
        raise ValueError("a token with a line break")

    monkeypatch.setattr(transport._login, "refuse", broken)
    try:
        with pytest.raises(ValueError, match="line break"):
            await transport.request(GET, timeout=5)
        session = transport._requests
        assert session is not None
        assert session.connector is not None
        assert not session.connector._acquired, "the connection is free again"
    finally:
        await transport.close()


class _Sized(msgspec.Struct):
    metadata: ObjectMeta
    size: int = 0


_SIZED: Kind[_Sized] = Kind("example.com", "v1", "Sized", "sizeds", True, _Sized)


@pytest.mark.parametrize("method", ["POST", "DELETE", "GET"])
async def test_an_answer_to_a_write_that_does_not_fit_says_that_it_was_carried_out(
    serve: Any, method: str
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"metadata": {"name": "a", "namespace": "n"}, "size": "large"})

    server = await serve(answer)
    client = Client(HttpTransport(Access(server=server.url)))
    ask = {
        "POST": lambda: client.create(
            _SIZED, {"metadata": {"name": "a", "namespace": "n"}, "size": "large"}
        ),
        "DELETE": lambda: client.delete(_SIZED, ("n", "a")),
        "GET": lambda: client.get(_SIZED, ("n", "a")),
    }
    try:
        with pytest.raises(UndecodableObject) as caught:
            await ask[method]()
    finally:
        await client.close()
    assert caught.value.carried_out is (method != "GET")
    assert ("carried out" in str(caught.value)) is (method != "GET")


async def test_requests_are_counted_by_the_host_that_they_go_to(serve: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"metadata": {"name": "a", "namespace": "n"}})

    server = await serve(answer)
    manager = Manager(Client(HttpTransport(Access(server=server.url))), name="m")
    await manager.client.get(_SIZED, ("n", "a"))
    await manager.client.close()
    host = server.url.removeprefix("http://")
    found = manager.metrics.requests.labels("200", "GET", host)._value.get()
    assert found == 1
