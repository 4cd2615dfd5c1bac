"""Faults between a controller and its API server, injected on demand.

`FaultyTransport` wraps any transport and asks a plan what to do with each request and stream. A
plan is scripted (`Nth`: exactly there) or random by seed (`Seeded`: the same seed gives the same
faults in the same order, as long as the program under test is deterministic).

Faults are realistic: each is something that a real API server and network can do. A list is old
only where the protocol allows it (resourceVersion `0`); events are dropped only together with the
410 that follows within seconds; a late event is late by a number of seconds, however many events
there are; only changes of one object within a second are coalesced, and the last one remains.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from kubecontroller.client.errors import ConnectionFailed, NoAnswer, StreamStalled
from kubecontroller.client.lines import LineJoiner
from kubecontroller.client.request import Request, Response
from kubecontroller.client.transport import SILENT_SECONDS, Transport

__all__ = [
    "CRASHES",
    "Crashed",
    "Fault",
    "FaultyTransport",
    "NoFaults",
    "Nth",
    "Plan",
    "Seeded",
    "StreamFault",
]


class Crashed(BaseException):
    """The process died here. Not an `Exception`: no running code may catch and survive it."""


class Fault(StrEnum):
    """What happens to one request."""

    CRASH_BEFORE = "the process dies before it is sent"
    CRASH_AFTER = "it is executed, then the process dies"
    CRASH_DURING = "the process dies while it is sent; it is executed later"
    LOST_REPLY = "it is executed, the response never arrives"
    RESET_BEFORE = "the connection breaks before it arrives"
    RESET_AFTER = "it is executed, then the connection breaks"
    CONFLICT = "409"
    TOO_MANY = "429 with Retry-After"
    SERVER_ERROR = "500"
    SLOW = "the response takes seconds"
    STALE = "a list from the server's cache shows an earlier state"


class StreamFault(StrEnum):
    """What happens to one watch."""

    DROPPED = "some changes are never sent, then 410"
    LATE = "changes arrive seconds late"
    COALESCED = "of several changes of one object only the last arrives"
    CUT = "the connection breaks in the middle"
    CUT_IN_LINE = "the connection breaks in the middle of a line"
    HANG = "it stays open and silent"
    GARBAGE = "a line that is not an event"
    EXPIRED = "410 at once"


CRASHES: Final = frozenset({Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.CRASH_DURING})
_WRITES_ONLY: Final = CRASHES | {Fault.CONFLICT}
_STATUSES: Final = {
    Fault.CONFLICT: (409, "Conflict"),
    Fault.TOO_MANY: (429, "TooManyRequests"),
    Fault.SERVER_ERROR: (500, "InternalError"),
}
_SLOW_SECONDS = 5.0
_LATE_SECONDS = 3.0
_IN_FLIGHT_SECONDS = 2.0
_UNTOLD_SECONDS = 2.0
_COALESCE_SECONDS = 1.0
_LINES_BEFORE = 3


class Plan(Protocol):
    """Decides which faults are injected."""

    def request(self, request: Request, write: int | None) -> Fault | None:
        """Return the fault of a request; `write` is its number among the writes, from 1."""
        ...

    def stream(self, request: Request, number: int) -> StreamFault | None:
        """Return the fault of a stream; `number` counts the streams, from 1."""
        ...


class NoFaults:
    """No faults."""

    def request(self, request: Request, write: int | None) -> Fault | None:  # noqa: ARG002
        """Return no fault."""
        return None

    def stream(self, request: Request, number: int) -> StreamFault | None:  # noqa: ARG002
        """Return no fault."""
        return None


class Nth(NoFaults):
    """One fault, at the n-th write (from 1) or the n-th stream; nothing else fails.

    To crash at each write in turn, run once to count the writes (`transport.writes`), then once for
    each number and each crash.
    """

    def __init__(
        self,
        *,
        writes: Mapping[int, Fault] | None = None,
        streams: Mapping[int, StreamFault] | None = None,
    ) -> None:
        self._writes = writes or {}
        self._streams = streams or {}

    def request(self, request: Request, write: int | None) -> Fault | None:  # noqa: ARG002
        """Return the scripted fault of that write."""
        return self._writes.get(write) if write is not None else None

    def stream(self, request: Request, number: int) -> StreamFault | None:  # noqa: ARG002
        """Return the scripted fault of that stream."""
        return self._streams.get(number)


class Seeded:
    """Faults at random: `rates` are the chances of each, per request or per stream."""

    def __init__(
        self, seed: int, rates: Mapping[Fault | StreamFault, float], *, budget: int | None = None
    ) -> None:
        self.seed = seed
        self._random = random.Random(seed)
        self._rates = dict(rates)
        self._left = budget if budget is not None else -1

    def request(self, request: Request, write: int | None) -> Fault | None:
        """Draw a fault that is possible for this request."""
        possible = [one for one in Fault if write is not None or one not in _WRITES_ONLY]
        if not _may_be_stale(request):
            possible.remove(Fault.STALE)
        drawn = self._draw(possible)
        return drawn if isinstance(drawn, Fault) else None

    def stream(self, request: Request, number: int) -> StreamFault | None:  # noqa: ARG002
        """Draw a fault."""
        drawn = self._draw(list(StreamFault))
        return drawn if isinstance(drawn, StreamFault) else None

    def _draw(self, possible: Iterable[Fault | StreamFault]) -> Fault | StreamFault | None:
        if self._left == 0:
            return None
        for fault in possible:
            if self._random.random() < self._rates.get(fault, 0.0):
                self._left -= 1
                return fault
        return None


class Injected(Struct, frozen=True):
    """One injected fault, for the log of a failed run."""

    at: float
    fault: Fault | StreamFault
    method: str
    path: str


class FaultyTransport:
    """A transport that injects faults. `journal` lists them, `writes` counts the writes."""

    def __init__(self, transport: Transport, plan: Plan) -> None:
        self._transport = transport
        self._plan = plan
        self.journal: list[Injected] = []
        self.writes = 0
        self.streams = 0
        self._in_flight: set[asyncio.Task[None]] = set()
        self._lists: dict[tuple[str, tuple[tuple[str, str], ...]], Response] = {}

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Execute a request, with the fault of the plan."""
        is_write = request.method != "GET"
        if is_write:
            self.writes += 1
        fault = self._plan.request(request, self.writes if is_write else None)
        if fault is None:
            return self._remember(request, await self._send(request, timeout))
        self._note(fault, request)
        if fault in _STATUSES:
            return _refusal(*_STATUSES[fault])
        return await self._inject(fault, request, timeout)

    async def _inject(self, fault: Fault, request: Request, timeout: float) -> Response:
        match fault:
            case Fault.CRASH_BEFORE:
                raise Crashed(str(fault))
            case Fault.CRASH_DURING:
                self._later(request, timeout)
                raise Crashed(str(fault))
            case Fault.RESET_BEFORE:
                raise ConnectionFailed("connection reset", host="faults")
            case Fault.STALE:
                known = self._lists.get(_list_key(request))
                return known if known is not None else await self._send(request, timeout)
            case Fault.SLOW:
                await asyncio.sleep(_SLOW_SECONDS)
                return await self._send(request, timeout)
            case _:
                await self._send(request, timeout)
        if fault is Fault.LOST_REPLY:
            seconds = min(timeout, SILENT_SECONDS)  # as the transport over a network does
            await asyncio.sleep(seconds)
            raise NoAnswer(f"no response within {seconds:g} s", host="faults")
        if fault is Fault.RESET_AFTER:
            raise ConnectionFailed("connection reset", host="faults")
        raise Crashed(str(fault))

    def stream(
        self, request: Request, *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream, with the fault of the plan."""
        return self._stream(request, idle)

    async def close(self) -> None:
        """Wait for requests that are still in flight, then close the transport underneath."""
        await self.settle()
        await self._transport.close()

    async def settle(self) -> None:
        """Wait until every request that outlived its sender has been executed."""
        while self._in_flight:
            await asyncio.gather(*self._in_flight, return_exceptions=True)

    # Implementation

    async def _send(self, request: Request, timeout: float) -> Response:
        return await self._transport.request(request, timeout=timeout)

    def _later(self, request: Request, timeout: float) -> None:
        async def arrive() -> None:
            await asyncio.sleep(_IN_FLIGHT_SECONDS)
            await self._send(request, timeout)

        task = asyncio.create_task(arrive())
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    def _remember(self, request: Request, response: Response) -> Response:
        if _may_be_stale(request) and response.status == 200:
            self._lists.setdefault(_list_key(request), response)
        return response

    def _note(self, fault: Fault | StreamFault, request: Request) -> None:
        now = asyncio.get_running_loop().time()
        self.journal.append(Injected(now, fault, request.method, request.path))

    @asynccontextmanager
    async def _stream(self, request: Request, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        self.streams += 1
        fault = self._plan.stream(request, self.streams)
        if fault is not None:
            self._note(fault, request)
        async with self._transport.stream(request, idle=idle) as pieces:
            if fault is None:
                yield pieces
                return
            async with aclosing(_with_fault(fault, pieces, idle)) as lines:
                yield lines


async def _with_fault(
    fault: StreamFault, pieces: AsyncIterator[bytes], idle: float
) -> AsyncGenerator[bytes, None]:
    """Yield a stream's lines with the fault applied."""
    match fault:
        case StreamFault.EXPIRED:
            yield _EXPIRED_LINE
            return
        case StreamFault.HANG:
            lines = _hanging(pieces, idle)
        case StreamFault.LATE:
            lines = _late(pieces)
        case StreamFault.COALESCED:
            lines = _coalesced(pieces)
        case StreamFault.DROPPED:
            lines = _dropped(pieces)
        case _:
            lines = _broken(fault, pieces)
    async for line in lines:
        yield line


async def _hanging(pieces: AsyncIterator[bytes], idle: float) -> AsyncIterator[bytes]:
    """Pass a few lines, then send nothing for as long as silence is tolerated."""
    count = 0
    async for line in _lines(pieces):
        count += 1
        if count > _LINES_BEFORE:
            await asyncio.sleep(idle)
            raise StreamStalled(f"no byte for {idle:g} s")
        yield line


async def _broken(fault: StreamFault, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pass a few lines, then break as the fault says."""
    count = 0
    async for line in _lines(pieces):
        count += 1
        if count <= _LINES_BEFORE:
            yield line
            continue
        match fault:
            case StreamFault.CUT_IN_LINE:
                yield line[: len(line) // 2]
            case StreamFault.GARBAGE:
                yield b'{"type": "MODIFIED", "object": \x00garbage\n'
                return
        raise ConnectionFailed("connection reset", host="faults")


async def _dropped(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pass a few lines, lose the next few, and send 410 soon: a server never stays silent."""
    lines = _lines(pieces)
    count = 0
    async for line in lines:
        count += 1
        if count > _LINES_BEFORE:
            break
        yield line
    else:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(_UNTOLD_SECONDS):
            async for _ in lines:
                count += 1
                if count >= 2 * _LINES_BEFORE:
                    break
    yield _EXPIRED_LINE


async def _late(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield each line some seconds after it arrived, however many arrive."""
    async with aclosing(_read_on(pieces)) as lines:
        async for came, line in lines:
            due = came + _LATE_SECONDS - asyncio.get_running_loop().time()
            await asyncio.sleep(max(0.0, due))
            yield line


async def _read_on(pieces: AsyncIterator[bytes]) -> AsyncGenerator[tuple[float, bytes], None]:
    """Yield each line with its time of arrival, reading ahead while the consumer is busy."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()

    async def read() -> None:
        try:
            async for line in _lines(pieces):
                arrived.put_nowait((loop.time(), line))
        finally:
            arrived.put_nowait(None)

    reading = asyncio.create_task(read())
    try:
        while (found := await arrived.get()) is not None:
            yield found
        await reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    joiner = LineJoiner()
    async for piece in pieces:
        for line in joiner.feed(piece):
            yield line + b"\n"


class _Head(Struct):
    type: str
    object: _Object


class _Object(Struct):
    metadata: dict[str, object] = {}


_HEAD = msgspec.json.Decoder(_Head)


async def _coalesced(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Collect the lines of one second; of consecutive changes of an object keep the last."""
    batch: list[bytes] = []
    until = 0.0
    async with aclosing(_read_on(pieces)) as lines:
        source = aiter(lines)
        while True:
            following = asyncio.ensure_future(_next(source))
            try:
                await _within(following, until if batch else None)
                if not following.done():
                    for line in _last_of_each(batch):
                        yield line
                    batch = []
                found = await following
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            if found is None:
                break
            if not batch:
                until = found[0] + _COALESCE_SECONDS
            batch.append(found[1])
    for line in _last_of_each(batch):
        yield line


async def _within(following: asyncio.Future[Any], until: float | None) -> None:
    """Wait for a future that stays pending, but not beyond a time."""
    left = None if until is None else max(0.0, until - asyncio.get_running_loop().time())
    await asyncio.wait({following}, timeout=left)


async def _next(source: AsyncIterator[tuple[float, bytes]]) -> tuple[float, bytes] | None:
    return await anext(source, None)


def _last_of_each(lines: list[bytes]) -> list[bytes]:
    heads = [_HEAD.decode(line) for line in lines]
    kept: list[bytes] = []
    for place, (line, head) in enumerate(zip(lines, heads, strict=True)):
        later = heads[place + 1 :]
        same = [one for one in later if _name(one) == _name(head) and one.type != "BOOKMARK"]
        if head.type == "MODIFIED" and same and same[0].type == "MODIFIED":
            continue
        kept.append(line)
    return kept


def _name(head: _Head) -> tuple[object, object]:
    return (head.object.metadata.get("namespace"), head.object.metadata.get("name"))


def _may_be_stale(request: Request) -> bool:
    return request.method == "GET" and ("resourceVersion", "0") in request.query


def _list_key(request: Request) -> tuple[str, tuple[tuple[str, str], ...]]:
    return (request.path, request.query)


def _refusal(code: int, reason: str) -> Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": f"the fault layer responds with {code}",
    }
    headers = {"content-type": "application/json"}
    if code == 429:
        headers["retry-after"] = "1"
    return Response(code, headers, msgspec.json.encode(body))


_EXPIRED_LINE: Final = (
    msgspec.json.encode(
        {
            "type": "ERROR",
            "object": {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "code": 410,
                "reason": "Expired",
                "message": "too old resource version",
            },
        }
    )
    + b"\n"
)
