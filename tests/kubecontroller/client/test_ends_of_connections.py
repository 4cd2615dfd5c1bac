"""Connections end when their user is done with them, also if the server does not take part."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest

from kubecontroller.client.access import Access, FileOrBytes
from kubecontroller.client.errors import NoAnswer
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.request import Request

GET = Request("GET", "/api/v1/pods")
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"


class DeafServer:
    """Speaks TLS, says something and never answers to a goodbye."""

    def __init__(self, context: ssl.SSLContext, said: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._context, self._said = context, said
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self.ended = ""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        plain, _ = self._listener.accept()
        with plain, self._context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(65536)
            if self._said:
                connection.sendall(self._said)
            bare = socket.socket(fileno=connection.detach())
        with bare:
            bare.settimeout(10)
            try:
                while bare.recv(65536):
                    pass
                self.ended = "closed"
            except ConnectionResetError:
                self.ended = "reset"
            except TimeoutError:
                self.ended = "still open"

    async def wait(self) -> str:
        await asyncio.to_thread(self._thread.join, 20)
        self._listener.close()
        return self.ended


@pytest.fixture
def deaf(authority: Any, tmp_path: Path) -> Any:
    certificate, key = authority.issue("server", "127.0.0.1")
    (tmp_path / "server.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    return lambda said: DeafServer(context, said)


async def test_a_stream_that_is_left_has_ended_when_the_transport_is_closed(
    deaf: Any, authority: Any
) -> None:
    server = deaf(HEAD)
    transport = HttpTransport(Access(server=server.url, ca=FileOrBytes(inline=authority.pem)))
    async with transport.stream(GET, idle=30) as pieces:
        assert await anext(aiter(pieces)) == b"{}"
    await transport.close()
    assert await server.wait() in ("closed", "reset")


async def test_a_request_that_was_given_up_has_ended_when_the_transport_is_closed(
    deaf: Any, authority: Any
) -> None:
    server = deaf(b"")
    transport = HttpTransport(Access(server=server.url, ca=FileOrBytes(inline=authority.pem)))
    with pytest.raises(NoAnswer):
        await transport.request(GET, timeout=0.5)
    await transport.close()
    assert await server.wait() in ("closed", "reset")
