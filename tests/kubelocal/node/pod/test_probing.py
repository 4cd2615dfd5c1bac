from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest

from kubelocal.node.errors import StartError
from kubelocal.node.pod.probes import ExecCheck, HttpCheck, TcpCheck
from kubelocal.node.pod.probing import ask
from kubelocal.node.process.execution import Finished


async def no_command(command: Sequence[str], timeout: float) -> Finished:
    raise StartError("exec", 2, f"{command[0]} within {timeout}: not here")


@pytest.fixture
async def server() -> AsyncIterator[int]:
    """An HTTP server that answers with the status its path names."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(await answer(reader))
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def answer(reader: asyncio.StreamReader) -> bytes:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        status = head.split()[1].strip("/")
        if status == "hang":
            await asyncio.sleep(600)
        if status == "garbage":
            return b"no http\r\n"
        if status == "header":
            status = "200" if "x-test: yes" in head.lower() else "400"
        return f"HTTP/1.1 {status} X\r\n\r\n".encode()

    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        tasks.add(task)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    yield listener.sockets[0].getsockname()[1]
    listener.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("path", "success", "words"),
    [
        ("/200", True, ""),
        ("/399", True, ""),
        ("/404", False, "HTTP probe failed with statuscode: 404"),
        ("/500", False, "HTTP probe failed with statuscode: 500"),
        ("/garbage", False, "connection broken"),
        ("/hang", False, "context deadline exceeded"),
    ],
)
async def test_http_answers_decide(server: int, path: str, success: bool, words: str) -> None:
    check = HttpCheck("127.0.0.1", server, path, "http")
    result = await ask(check, no_command, timeout=0.3 if path == "/hang" else 60)
    assert result.success is success
    assert words in result.message


async def test_http_headers_are_sent(server: int) -> None:
    check = HttpCheck("127.0.0.1", server, "/header", "http", (("X-Test", "yes"),))
    assert (await ask(check, no_command, timeout=2)).success


async def test_open_port_is_well_and_closed_port_is_not(server: int) -> None:
    assert (await ask(TcpCheck("127.0.0.1", server), no_command, timeout=2)).success
    refused = await ask(TcpCheck("127.0.0.1", 1), no_command, timeout=2)
    assert not refused.success
    assert refused.message == "dial tcp 127.0.0.1:1: connect: connection refused"


async def test_command_that_takes_too_long_has_failed() -> None:
    async def slow(command: Sequence[str], timeout: float) -> Finished:
        raise TimeoutError

    result = await ask(ExecCheck(("redis-cli", "ping")), slow, timeout=1)
    assert result.message == 'command timed out: "redis-cli ping" timed out after 1s'


async def test_command_that_cannot_run_has_failed() -> None:
    result = await ask(ExecCheck(("nope",)), no_command, timeout=1)
    assert not result.success
