"""Leader election of a process that a busy event loop cannot starve, and fencing of its writes.

The election runs in its own thread, with its own loop and its own connection: a main loop that is
busy for seconds must not lose the lease, and one that is stuck must not keep it.

Three things together keep two leaders from writing:
1. A holder stops `renew_deadline` after its last renewal; others wait `duration`, which is longer.
2. `FencedTransport` checks the lease right before each write is sent, retries included, so that a
   process that was stopped (a debugger, a suspended machine) and continues later writes nothing.
3. `Watchdog` ends the process when the main loop no longer runs.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import random
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol

from msgspec.structs import replace

from kubecontroller.client.api import Client
from kubecontroller.client.errors import KubeError
from kubecontroller.client.request import Request, Response
from kubecontroller.client.transport import Transport
from kubecontroller.runtime.lease import Elector, Fence, LeaseSettings

__all__ = [
    "Election",
    "ElectionThread",
    "FencedTransport",
    "LeadershipLost",
    "NotLeader",
    "Watchdog",
]

_log = logging.getLogger(__name__)
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class LeadershipLost(RuntimeError):  # noqa: N818 - what happened
    """The lease was lost; the process must end at once, without an orderly stop of its parts."""


class NotLeader(KubeError):  # noqa: N818 - as its base names its children
    """A write was not sent, because this process does not lead (any more)."""

    def __init__(self, request: Request) -> None:
        self.request = request
        super().__init__(
            f"{request.method} {request.path} was not sent: this process does not hold the lease. "
            "Another replica leads or is about to"
        )


class Leadership(Protocol):
    """Knows whether this process leads."""

    def is_leader(self) -> bool:
        """Whether a write may be sent now."""
        ...

    @property
    def left(self) -> float:
        """How many seconds a write that is sent now may take."""
        ...


class Election(Leadership, Protocol):
    """Takes part in the leader election beside a program."""

    settings: LeaseSettings
    lost: asyncio.Event

    @property
    def holder(self) -> str:
        """The identity that was last seen to hold the lease; empty if none."""
        ...

    def start(self) -> None:
        """Begin to take part in the election. Call it in the main loop."""
        ...

    async def wait_leading(self) -> None:
        """Return when this process leads."""
        ...

    async def stop(self, *, timeout: float = 5.0) -> None:
        """Release the lease, if it is held and the settings say so, and end."""
        ...


class FencedTransport:
    """A transport that sends writes only while this process leads. Reads pass.

    The transport underneath checks again whenever it is about to send: a write may wait for a free
    connection, a plugin or a server that asked to wait, and the lease be lost meanwhile. A write is
    given up when the fence expires.
    """

    def __init__(self, transport: Transport, leadership: Leadership) -> None:
        self._transport = transport
        self._leadership = leadership

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send a request, if it is a read or this process leads.

        Errors: `NotLeader`, besides those of the transport.
        """
        if request.method in _READS:
            return await self._transport.request(request, timeout=timeout)

        def check() -> None:
            if not self._leadership.is_leader():
                raise NotLeader(request)

        check()
        timeout = min(timeout, max(self._leadership.left, 0.0))
        return await self._transport.request(replace(request, before_send=check), timeout=timeout)

    def stream(
        self, request: Request, *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream; streams are reads."""
        return self._transport.stream(request, idle=idle)

    async def close(self) -> None:
        """Close the transport underneath."""
        await self._transport.close()


class ElectionThread:
    """Runs the election beside the main loop.

    `connect` is called in the thread, for a connection that only the election uses. The callbacks
    are called in the main loop. `wait_leading` returns when this process leads; `lost` is set when
    it no longer does, or never will: any unexpected end of the thread counts as a lost lease.
    """

    def __init__(self, settings: LeaseSettings, connect: Callable[[], Transport]) -> None:
        self.settings = settings
        self.fence = Fence()
        self.leading = asyncio.Event()
        self.lost = asyncio.Event()
        self._holder = ""
        self._connect = connect
        self._main: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._stop_asked = False

    def is_leader(self) -> bool:
        """Whether a write may be sent now."""
        return self.fence.is_leader()

    @property
    def left(self) -> float:
        """How many seconds a write that is sent now may take."""
        return self.fence.left

    @property
    def holder(self) -> str:
        """The identity that was last seen to hold the lease; empty if none."""
        return self._holder

    def start(self) -> None:
        """Begin to take part in the election. Call it in the main loop."""
        self._main = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)
        self._thread.start()

    async def wait_leading(self) -> None:
        """Return when this process leads."""
        await self.leading.wait()

    async def stop(self, *, timeout: float = 5.0) -> None:
        """Release the lease, if it is held and the settings say so, and end the thread."""
        if self._thread is None:
            return
        self._stop_asked = True
        if self._loop is not None and not self._ended.is_set():
            with suppress(RuntimeError):  # its loop has just closed
                self._loop.call_soon_threadsafe(self._cancel)
        try:
            async with asyncio.timeout(timeout):
                await self._ended.wait()
        except TimeoutError:
            _log.warning("the election did not end in time; the lease runs out by itself")
            return
        self._thread.join(timeout)

    # In the thread

    def _run(self) -> None:
        try:
            asyncio.run(self._elect())
        except Exception:
            _log.exception("the election thread failed: the lease counts as lost")
        finally:
            self.fence.drop()
            if not self._stop_asked:
                self._notify(self.lost.set)
            self._notify(self._ended.set)

    async def _elect(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        if self._stop_asked:
            return
        transport = self._connect()
        client = Client(transport, timeout=self.settings.request_timeout)
        elector = Elector(
            client,
            self.settings,
            self.fence,
            random=random.random,
            on_new_leader=self._note_leader,
        )
        try:
            await elector.acquire()
            self._notify(self.leading.set)
            await elector.hold()
        except asyncio.CancelledError:
            if self.settings.release_on_exit:
                await elector.release()
        finally:
            self.fence.drop()
            await transport.close()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _note_leader(self, holder: str) -> None:
        self._holder = holder

    def _notify(self, callback: Callable[[], None]) -> None:
        if self._main is not None and not self._main.is_closed():
            self._main.call_soon_threadsafe(callback)


def exit_because_stuck(stalled: float) -> None:
    """Write the stacks of all threads to standard error, and end the process."""
    sys.stderr.write(f"the event loop has not turned for {stalled:.1f} s; ending the process\n")
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    sys.stderr.flush()
    os._exit(70)


class Watchdog:
    """Detects from a separate thread that the main loop no longer runs.

    `limit` is how many seconds the loop may be blocked; then `on_stuck` is called in the thread,
    once. The default writes all stacks to standard error and ends the process with status 70.
    """

    def __init__(
        self, limit: float, on_stuck: Callable[[float], None] = exit_because_stuck
    ) -> None:
        self._limit = limit
        self._on_stuck = on_stuck
        self._beat = time.monotonic()
        self._stopped = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch the running loop."""
        self._pulse()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.join(self._limit)

    def _pulse(self) -> None:
        self._beat = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(self._limit / 10, self._pulse)

    def _watch(self) -> None:
        last_look = time.monotonic()
        while not self._stopped.wait(self._limit / 5):
            now = time.monotonic()
            # A suspended machine stops this thread too: only time awake counts.
            if now - last_look > self._limit:
                self._beat = max(self._beat, now - self._limit / 2)
            last_look = now
            stalled = now - self._beat
            if stalled > self._limit:
                self._on_stuck(stalled)
                return
