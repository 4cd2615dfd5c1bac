from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Any

from kubelocal.controllers.forwarder import Forwarder, wanted
from kubelocal.loopback import free_host


def service(address: str, port: int) -> dict[str, Any]:
    ports = [{"name": "redis", "port": port, "protocol": "TCP"}]
    return {
        "metadata": {"name": "web", "namespace": "d"},
        "spec": {"clusterIP": address, "ports": ports},
    }


def slice_of(*endpoints: tuple[str, bool], port: int) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "d", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": "redis", "port": port}],
        "endpoints": [
            {"addresses": [address], "conditions": {"ready": ready}} for address, ready in endpoints
        ],
    }


async def answering(address: str, word: bytes) -> tuple[asyncio.Server, int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(word + await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, address, 0)
    return server, int(server.sockets[0].getsockname()[1])


async def ask(address: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(b"?\n")
    answer = await reader.read()
    writer.close()
    return answer


def test_only_ready_addresses_stand_behind_a_service() -> None:
    table = wanted(
        [service("127.200.0.1", 6379)],
        [slice_of(("127.1.0.1", True), ("127.1.0.2", False), port=7000)],
    )
    assert table == {("127.200.0.1", 6379): (("127.1.0.1", 7000),)}


def test_a_headless_service_has_no_listener() -> None:
    assert wanted([service("None", 6379)], []) == {}


async def test_connections_reach_the_backend_and_skip_one_that_is_gone() -> None:
    living, port = await answering("127.0.0.1", b"one")
    entry = (free_host(), 6379)
    forwarder = Forwarder()
    try:
        dead = (free_host(), port)
        assert await forwarder.update({entry: (dead, ("127.0.0.1", port))}) == {}
        for _ in range(3):
            assert await ask(*entry) == b"one?\n"
    finally:
        await forwarder.close()
        living.close()


async def test_an_address_that_is_taken_is_reported_and_the_others_work() -> None:
    backend, port = await answering("127.0.0.1", b"one")
    address = free_host()
    taken, taken_port = await answering(address, b"stranger")
    other = (free_host(), 6379)
    forwarder = Forwarder()
    try:
        table = {(address, taken_port): (), other: (("127.0.0.1", port),)}
        failed = await forwarder.update(table)
        assert list(failed) == [(address, taken_port)]
        assert f"cannot listen on {address}" in failed[address, taken_port]
        assert await ask(*other) == b"one?\n"
    finally:
        await forwarder.close()
        backend.close()
        taken.close()


async def test_a_service_without_ready_backends_resets_at_once() -> None:
    entry = (free_host(), 6379)
    forwarder = Forwarder()
    await forwarder.update({entry: ()})
    try:
        reader, writer = await asyncio.open_connection(*entry)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
    finally:
        await forwarder.close()


async def test_a_backend_that_dies_with_a_request_unread_ends_the_client_s_connection() -> None:
    async def dies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        linger = struct.pack("ii", 1, 0)  # what the kernel sends for a process that was killed
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    server = await asyncio.start_server(dies, "127.0.0.1", 0)
    entry = (free_host(), 6379)
    forwarder = Forwarder()
    await forwarder.update({entry: (("127.0.0.1", server.sockets[0].getsockname()[1]),)})
    try:
        reader, writer = await asyncio.open_connection(*entry)
        writer.write(b"SET a 1\r\n")
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()
    finally:
        await forwarder.close()
        server.close()
