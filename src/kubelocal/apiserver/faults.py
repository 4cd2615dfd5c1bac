"""The fault plane: what can go wrong between one client and the API server, on purpose.

A `FaultyTransport` stands where a client's transport stands and asks its plan, request by
request, what happens to it. Everything here really happens to API servers: a read from one that
lags behind, an answer lost after the write was made, a request lost before, an event late or
missing, a watch cut, a history compacted, a server that is busy, broken or slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, TypeAlias

from msgspec import Struct

from kubecontroller.client.errors import ConnectionFailed, error_from_response
from kubecontroller.client.request import Request, Response
from kubecontroller.client.transport import Transport
from kubelocal.apiserver.errors import StatusError, expired, too_many_requests
from kubelocal.apiserver.format.bodies import refusal
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.storage.watch import error_line

__all__ = [
    "Fault",
    "FaultyTransport",
    "LoseAnswer",
    "LoseRequest",
    "Pass",
    "Plan",
    "Refuse",
    "Slow",
    "Stale",
    "StreamFaults",
    "broken",
    "busy",
    "compacted",
]


class Pass(Struct, frozen=True):
    """Nothing goes wrong."""


class Refuse(Struct, frozen=True):
    """The server answers with this instead of doing anything."""

    error: StatusError


class Slow(Struct, frozen=True):
    """The request takes so many seconds longer."""

    seconds: float


class LoseRequest(Struct, frozen=True):
    """The connection breaks before the server hears of it: nothing is done."""


class LoseAnswer(Struct, frozen=True):
    """The server does it, and the connection breaks before its answer comes."""


class Stale(Struct, frozen=True):
    """The read is answered by a server that is so many versions behind."""

    behind: int


class StreamFaults(Struct, frozen=True):
    """What happens to the events of one watch, counted from zero."""

    is_dropped: Callable[[int], bool] = lambda _: False
    delay: Callable[[int], float] = lambda _: 0.0
    cut_after: int | None = None
    expire_after: int | None = None


Fault: TypeAlias = Pass | Refuse | Slow | LoseRequest | LoseAnswer | Stale


class Plan(Protocol):
    """Decides what goes wrong."""

    def request(self, request: Request) -> Fault:
        """Return what happens to a request."""
        ...

    def stream(self, request: Request) -> StreamFaults:
        """Return what happens to a watch that opens."""
        ...


def busy(seconds: int = 1) -> Refuse:
    """Return the refusal of a server with too much to do."""
    text = "too many requests, please try again later."
    return Refuse(too_many_requests(text, seconds))


def broken() -> Refuse:
    """Return the refusal of a server that failed inside."""
    return Refuse(StatusError(500, "InternalError", "Internal error occurred: injected"))


def compacted() -> Refuse:
    """Return the refusal of a server whose history no longer reaches back."""
    return Refuse(expired("The resourceVersion for the provided watch is too old."))


class FaultyTransport:
    """A transport to which things happen."""

    def __init__(self, inner: InProcessTransport, plan: Plan) -> None:
        self._inner = inner
        self._plan = plan

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send a request, and let happen to it what the plan says."""
        fault = self._plan.request(request)
        inner: Transport = self._inner
        match fault:
            case Refuse(error):
                return refusal(error)
            case LoseRequest():
                raise ConnectionFailed("the connection broke before the request was sent")
            case Slow(seconds):
                await asyncio.sleep(seconds)
            case Stale(behind):
                inner = self._inner.behind(behind)
        answer = await inner.request(request, timeout=timeout)
        if isinstance(fault, LoseAnswer):
            raise ConnectionFailed("the connection broke before the answer came")
        return answer

    def stream(
        self, request: Request, *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream, and let happen to it what the plan says."""
        return self._stream(request, idle)

    @asynccontextmanager
    async def _stream(self, request: Request, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        fault = self._plan.request(request)
        if isinstance(fault, Refuse):
            raise error_from_response(refusal(fault.error), ref=request.path)
        if isinstance(fault, LoseRequest | LoseAnswer):
            raise ConnectionFailed("the connection broke while the watch was opened")
        if isinstance(fault, Slow):
            await asyncio.sleep(fault.seconds)
        async with self._inner.stream(request, idle=idle) as chunks:
            yield _troubled(chunks, self._plan.stream(request))

    async def close(self) -> None:
        """Free what the transport inside holds."""
        await self._inner.close()


async def _troubled(chunks: AsyncIterator[bytes], faults: StreamFaults) -> AsyncIterator[bytes]:
    number = 0
    async for chunk in chunks:
        for line in chunk.splitlines(keepends=True):
            if faults.cut_after is not None and number >= faults.cut_after:
                return
            if faults.expire_after is not None and number >= faults.expire_after:
                yield error_line(expired("too old resource version: injected"))
                return
            delay = faults.delay(number)
            if delay:
                await asyncio.sleep(delay)
            if not faults.is_dropped(number):
                yield line
            number += 1
