"""Leadership of a process: an election that a busy program cannot starve, and writes it fences.

The election runs in a thread of its own, with its own loop and its own connection: a main loop
that is busy for seconds must not lose the lease, and one that is stuck for good must not keep it.

Three things together keep two leaders from writing:
1. A holder stops `renew_deadline` after its last renewal; others wait `duration`, which is longer.
2. `FencedTransport` has each write ask right before it is sent, retries included, so a program
   that was stopped (a debugger, a suspended machine) and continues later writes nothing.
3. `Watchdog` ends the process when the main loop does not turn any more.
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
    """The lease was lost; the process must end, and not by saying goodbye to what it led."""


class NotLeader(KubeError):  # noqa: N818 - as its base names its children
    """A write was refused on our side, because we do not lead (any more)."""

    def __init__(self, request: Request) -> None:
        self.request = request
        super().__init__(
            f"{request.method} {request.path} was not sent: this process does not hold the lease. "
            "Another replica leads or is about to"
        )


class Leadership(Protocol):
    """Something that knows whether we lead."""

    def is_leader(self) -> bool:
        """Whether a write may be sent now."""
        ...

    @property
    def left(self) -> float:
        """How many seconds a write that is sent now may take."""
        ...


class Election(Leadership, Protocol):
    """Runs for leader beside a program."""

    settings: LeaseSettings
    lost: asyncio.Event

    @property
    def holder(self) -> str:
        """Who was last seen to hold the lease; empty if none."""
        ...

    def start(self) -> None:
        """Begin to run for leader. Call it in the main loop."""
        ...

    async def wait_leading(self) -> None:
        """Return when we lead."""
        ...

    async def stop(self, *, timeout: float = 5.0) -> None:
        """Give the lease back, if we hold it and the settings say so, and end."""
        ...


class FencedTransport:
    """A transport that sends writes only while we lead. Reads pass.

    The transport underneath asks again whenever it is about to send: a write may wait for a free
    connection, a plugin or a server that asked for patience, and the lease be lost meanwhile. A
    write is given up when the fence falls.
    """

    def __init__(self, transport: Transport, leadership: Leadership) -> None:
        self._transport = transport
        self._leadership = leadership

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send a request, if it is a read or we lead.

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
    are called in the main loop. `wait_leading` returns when we lead; `lost` is set when we do no
    longer, or never will: any end of the thread that was not asked for counts as a lost lease.
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
        """Who was last seen to hold the lease; empty if none."""
        return self._holder

    def start(self) -> None:
        """Begin to run for leader. Call it in the main loop."""
        self._main = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)
        self._thread.start()

    async def wait_leading(self) -> None:
        """Return when we lead."""
        await self.leading.wait()

    async def stop(self, *, timeout: float = 5.0) -> None:
        """Give the lease back, if we hold it and the settings say so, and end the thread."""
        if self._thread is None:
            return
        self._stop_asked = True
        if self._loop is not None and not self._ended.is_set():
            with suppress(RuntimeError):  # its loop has just closed: it is over
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
                self._tell(self.lost.set)
            self._tell(self._ended.set)

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
            self._tell(self.leading.set)
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

    def _tell(self, callback: Callable[[], None]) -> None:
        if self._main is not None and not self._main.is_closed():
            self._main.call_soon_threadsafe(callback)


def exit_because_stuck(stalled: float) -> None:
    """Write down what every thread does, and end the process without asking it."""
    sys.stderr.write(f"the event loop has not turned for {stalled:.1f} s; ending the process\n")
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    sys.stderr.flush()
    os._exit(70)


class Watchdog:
    """Notices when the main loop no longer turns, from a thread that does not need it.

    `limit` is how many seconds the loop may stand still; then `on_stuck` is called in the thread,
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
            # A machine that slept stops this thread too: only time we were awake counts.
            if now - last_look > self._limit:
                self._beat = max(self._beat, now - self._limit / 2)
            last_look = now
            stalled = now - self._beat
            if stalled > self._limit:
                self._on_stuck(stalled)
                return
