"""Drives the core from asyncio: performs its effects, and turns watches into chunks of bytes.

Shared by the HTTP front end and the in-process transport, so that both behave alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from .calls import Answer, CallWebhook, Outcome, Steps
from .watch import Watch

__all__ = ["BOOKMARK_EVERY", "Perform", "drive", "pump"]

BOOKMARK_EVERY = 60.0
_BEFORE_END = 2.0

Perform = Callable[[CallWebhook], Awaitable[Outcome]]


async def drive(steps: Steps[Answer], perform: Perform) -> Answer:
    """Run the core to its answer, doing what it asks for on the way."""
    try:
        effect = next(steps)
        while True:
            effect = steps.send(await perform(effect))
    except StopIteration as done:
        answer: Answer = done.value
        return answer
    finally:
        steps.close()


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
