"""Drives the core from asyncio: performs its effects, and turns watches into chunks of bytes.

Shared by the HTTP front end and the in-process transport, so that both behave alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from kubelocal.apiserver.calls import Answer, CallWebhook, Outcome, Steps
from kubelocal.apiserver.storage.watch import BATCH, Watch

__all__ = ["BOOKMARK_EVERY", "Feed", "Perform", "drive", "finish", "pump"]

BOOKMARK_EVERY = 60.0
_BEFORE_END = 2.0

Perform = Callable[[CallWebhook], Awaitable[Outcome]]


async def drive(steps: Steps[Answer], perform: Perform) -> Answer:
    """Run the core to its answer, doing what it asks for on the way."""
    try:
        effect = next(steps)
    except StopIteration as done:
        answer: Answer = done.value
        return answer
    return await finish(steps, effect, perform)


async def finish(steps: Steps[Answer], effect: CallWebhook, perform: Perform) -> Answer:
    """Run the core to its answer from the first thing it asks for."""
    try:
        while True:
            effect = steps.send(await perform(effect))
    except StopIteration as done:
        answer: Answer = done.value
        return answer
    finally:
        steps.close()


class Feed:
    """Writes what a watch has to say until it ends, without a task of its own.

    `write` takes bytes, `done` is told once when there will be no more, and nothing is written
    while `has_room` says no; `flush` goes on after that.
    """

    def __init__(
        self,
        watch: Watch,
        loop: asyncio.AbstractEventLoop,
        write: Callable[[bytes], None],
        done: Callable[[], None],
        has_room: Callable[[], bool],
    ) -> None:
        self._watch, self._loop = watch, loop
        self._write, self._done, self._has_room = write, done, has_room
        self._is_woken = False
        self._end = loop.time() + watch.timeout
        self._timers = [loop.call_at(self._end, self._expire)]
        if watch.bookmarks:
            mark = _next_mark(loop.time(), self._end)
            self._timers.append(loop.call_at(mark, self._mark))
        watch.on_ready = self._wake

    def flush(self) -> None:
        """Write what there is, as far as there is room."""
        self._is_woken = False
        while self._has_room() and (lines := self._watch.poll()):
            self._write(b"".join(lines) if len(lines) > 1 else lines[0])
            if len(lines) < BATCH:
                break
        if self._watch.ended:
            self._expire()

    def close(self) -> None:
        """Stop watching."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._watch.close()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self.flush)

    def _expire(self) -> None:
        if self._timers:
            self.close()
            self._done()

    def _mark(self) -> None:
        mark = _next_mark(self._loop.time(), self._end)
        if mark < self._end:
            self._timers[1] = self._loop.call_at(mark, self._mark)
        if self._has_room():
            self._write(b"".join(self._watch.mark()))


async def pump(watch: Watch) -> AsyncIterator[bytes]:
    """Yield what a watch has to say until it ends; the watch is closed in any case."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    watch.on_ready = ready.set
    end = loop.time() + watch.timeout
    mark = _next_mark(loop.time(), end)
    try:
        while True:
            ready.clear()
            lines = watch.poll()
            if lines:
                yield b"".join(lines)
                continue
            if watch.ended or loop.time() >= end:
                return
            until = min(end, mark) if watch.bookmarks else end
            try:
                async with asyncio.timeout_at(until):
                    await ready.wait()
            except TimeoutError:
                if watch.bookmarks and loop.time() >= mark:
                    mark = _next_mark(loop.time(), end)
                    lines = watch.mark()
                    if lines:
                        yield b"".join(lines)
    finally:
        watch.close()


def _next_mark(now: float, end: float) -> float:
    late = end - _BEFORE_END
    return min(now + BOOKMARK_EVERY, late) if now < late else end + 1
