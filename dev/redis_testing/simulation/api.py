"""The API as one simulated process reaches it: every write is an effect, the dead write nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from kubecontroller.client.errors import ConnectionFailed, NoAnswer
from kubecontroller.client.request import Request, Response
from kubecontroller.client.transport import Transport

from .process import Journal, Process, Strike

__all__ = ["ProcessTransport"]

_LATENCY = 0.002
_REFUSED = 400


class ProcessTransport:
    """A transport of one process, over any other transport."""

    def __init__(self, transport: Transport, process: Process, journal: Journal) -> None:
        self._transport = transport
        self._process = process
        self._journal = journal

    def of(self, journal: Journal) -> ProcessTransport:
        """Return another transport of the same process, whose effects are noted elsewhere."""
        return ProcessTransport(self._transport, self._process, journal)

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Carry out a request, or what is decided about it."""
        self._check()
        await asyncio.sleep(_LATENCY)
        self._check()
        if request.method == "GET" or "/events" in request.path:
            return await self._transport.request(request, timeout=timeout)
        kind = f"api {request.method} {_resource(request.path)}"
        number = len(self._journal.effects)
        strike = self._journal.begin(self._process, kind, request.path)
        if strike is Strike.CRASH_BEFORE:
            await self._die()
        answer = await self._transport.request(request, timeout=timeout)
        if answer.status < _REFUSED:
            self._journal.done(number)
        if strike is Strike.CRASH_AFTER:
            await self._die()
        if strike is Strike.LOST_REPLY:
            await asyncio.sleep(timeout)
            raise NoAnswer(f"no response within {timeout:g} s", host="simulation")
        return answer

    def stream(
        self, request: Request, *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch."""
        return self._stream(request, idle)

    @asynccontextmanager
    async def _stream(self, request: Request, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        self._check()
        await asyncio.sleep(_LATENCY)
        async with self._transport.stream(request, idle=idle) as chunks:
            yield chunks

    async def close(self) -> None:
        """Close what is below."""
        await self._transport.close()

    async def _die(self) -> None:
        self._process.die()
        await asyncio.Event().wait()  # until the task itself is cancelled

    def _check(self) -> None:
        if not self._process.alive:
            raise ConnectionFailed("this process is dead", host="simulation")


def _resource(path: str) -> str:
    """Return the plural (and subresource) a path is about, without names."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) >= 3 and parts[0] == "namespaces":
        parts = parts[2:]
    return "/".join([parts[0], *parts[2:]])
