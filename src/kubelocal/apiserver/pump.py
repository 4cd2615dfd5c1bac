"""Drives the core from asyncio: performs its effects, and turns watches into chunks of bytes.

Shared by the HTTP front end and the in-process transport, so that both behave alike.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from kubelocal.apiserver.calls import Answer, CallWebhook, Outcome, Steps
from kubelocal.apiserver.storage.watch import Watch

__all__ = ["BOOKMARK_EVERY", "FeedWriter", "Perform", "drive", "finish", "pump"]

BOOKMARK_EVERY = 60.0
_BEFORE_END = 2.0

Perform = Callable[[CallWebhook], Awaitable[Outcome]]


async def drive(steps: Steps[Answer], perform: Perform) -> Answer:
    """Run the core to its answer, performing its effects on the way."""
    try:
        effect = next(steps)
    except StopIteration as done:
        answer: Answer = done.value
        return answer
    return await finish(steps, effect, perform)


async def finish(steps: Steps[Answer], effect: CallWebhook, perform: Perform) -> Answer:
    """Run the core to its answer from its first effect on."""
    try:
        while True:
            effect = steps.send(await perform(effect))
    except StopIteration as done:
        answer: Answer = done.value
        return answer
    finally:
        steps.close()


class Feed:
    """The events of a watch until it ends: its changes, and bookmarks when they are due.

    Without I/O and without a clock: its two users write to a connection (`FeedWriter`) or are read
    by a task (`pump`), and pass the time.
    """

    def __init__(self, watch: Watch, now: float) -> None:
        self._watch = watch
        self._end = now + watch.timeout
        self._mark = self._next_mark(now)

    @property
    def due(self) -> float:
        """When to check again, unless the watch wakes before."""
        return min(self._end, self._mark) if self._watch.bookmarks else self._end

    def take(self, now: float) -> bytes:
        """Return the bytes to write; empty when there are none."""
        lines = self._watch.poll()
        if not lines and self._watch.bookmarks and now >= self._mark:
            self._mark = self._next_mark(now)
            lines = self._watch.mark()
        return b"".join(lines) if len(lines) != 1 else lines[0]

    def is_over(self, now: float) -> bool:
        """Whether there will be no more."""
        return self._watch.ended or now >= self._end

    def _next_mark(self, now: float) -> float:
        late = self._end - _BEFORE_END
        return min(now + BOOKMARK_EVERY, late) if now < late else self._end + 1


def _raise(error: Exception) -> None:
    raise error


class FeedWriter:
    """Writes the events of a watch until it ends, without its own task.

    `write` takes bytes, `done` is called once when there will be no more, `failed` when an event
    cannot be written, which its client must not miss; nothing is written while `has_room` returns
    false, and `flush` continues after that.
    """

    def __init__(
        self,
        watch: Watch,
        loop: asyncio.AbstractEventLoop,
        write: Callable[[bytes], None],
        done: Callable[[], None],
        has_room: Callable[[], bool],
        *,
        failed: Callable[[Exception], None] = _raise,
    ) -> None:
        self._watch, self._loop = watch, loop
        self._write, self._done, self._failed, self._has_room = write, done, failed, has_room
        self._feed = Feed(watch, loop.time())
        self._is_woken = False
        self._timer: asyncio.TimerHandle | None = loop.call_at(self._feed.due, self._check_due)
        watch.on_ready = self._wake

    def flush(self) -> None:
        """Write the pending bytes, as far as the buffer has space."""
        self._is_woken = False
        try:
            while self._has_room() and (piece := self._feed.take(self._loop.time())):
                self._write(piece)
        except Exception as error:
            self.close()
            self._failed(error)
            return
        if self._timer is not None and self._feed.is_over(self._loop.time()):
            self.close()
            self._done()

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._watch.close()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self.flush)

    def _check_due(self) -> None:
        self.flush()
        if self._timer is not None:
            # without space the bookmark stays due: it is written with the next flush
            due = self._feed.due
            pause = due if due > self._loop.time() else self._loop.time() + _BEFORE_END
            self._timer = self._loop.call_at(pause, self._check_due)


async def pump(watch: Watch) -> AsyncIterator[bytes]:
    """Yield the events of a watch until it ends; the watch is closed in any case."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    watch.on_ready = ready.set
    feed = Feed(watch, loop.time())
    try:
        while True:
            ready.clear()
            if piece := feed.take(loop.time()):
                yield piece
                continue
            if feed.is_over(loop.time()):
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(feed.due):
                    await ready.wait()
    finally:
        watch.close()
