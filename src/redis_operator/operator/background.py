"""Writes to the API that a pass waits for only briefly: longer ones continue beside the passes.

A write without an answer (a webhook that hangs, an overloaded API server) must not delay repairs of
servers. For each database one write task is in progress at a time, and none begins before it has
ended: writes happen in the order in which they were decided. Nothing here has to survive: the next
pass observes what was written and what was not. K-13
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import Struct

from kubecontroller import Key, fields

__all__ = ["Background", "Pending"]

_LOG = logging.getLogger(__name__)
_PATIENCE_SECONDS: Final = 0.5  # clients may wait for whatever the pass does next

T = TypeVar("T")


class Pending(Struct, frozen=True):
    """What a pass gets instead of a result: the task has not ended."""

    what: str


class Background:
    """The write tasks for all databases of one operator.

    `on_end` is called for each database whose task succeeds after its pass has stopped waiting.
    """

    def __init__(self, *, on_end: Callable[[Key], None] = lambda _: None) -> None:
        self._on_end = on_end
        self._under_way: dict[Key, tuple[str, asyncio.Task[Any]]] = {}

    async def run(
        self, key: Key, what: str, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> T | Pending:
        """Begin a task, and wait a moment for what it returns or raises.

        While another task is in progress it does not begin; the caller has to ask again.
        """
        if key in self._under_way:
            return Pending(self._under_way[key][0])
        task = asyncio.create_task(work())
        self._under_way[key] = (what, task)
        try:
            await asyncio.wait([task], timeout=_PATIENCE_SECONDS)
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            if task.done() or task.cancelling():
                del self._under_way[key]
        if task.done():
            return task.result()
        task.add_done_callback(partial(self._ended, key))
        return Pending(what)

    async def stop(self, key: Key) -> None:
        """Cancel the task of a database, and wait until it has ended."""
        found = self._under_way.get(key)
        if found is not None:
            found[1].cancel()
            await asyncio.wait([found[1]])

    def _ended(self, key: Key, task: asyncio.Task[Any]) -> None:
        what, _ = self._under_way.pop(key)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._on_end(key)
            return
        # The next pass retries it: a task that has just failed is not repeated at once.
        _LOG.warning("not written", extra=fields(database=key, what=what, error=error))
