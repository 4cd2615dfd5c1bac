"""Simulated processes: who does what from outside, and sudden death between any two effects.

Everything a process starts belongs to it. When it dies, its tasks end, its connections close, and
nothing it still tries has an effect: not even what it does in `finally`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from enum import StrEnum
from typing import Any

from msgspec import Struct

__all__ = ["PROCESS", "Effect", "Journal", "Process", "Strike", "own_tasks"]

_PATIENCE = 200


class Strike(StrEnum):
    """What befalls an effect."""

    CRASH_BEFORE = "the process dies before it is sent"
    CRASH_AFTER = "it is carried out, then the process dies"
    LOST_REPLY = "it is carried out, the answer never comes"


class Effect(Struct, frozen=True):
    """Something a process did that others can see."""

    number: int
    at: float
    process: str
    kind: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.number} at {self.at:.3f} {self.process}: {self.kind} {self.detail}"


Decide = Callable[[Effect], Strike | None]


class Journal:
    """The effects of all processes in order, and the one who decides what befalls them."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.decide: Decide = lambda _: None
        self.begun: list[Callable[[Effect], None]] = []
        self.told: list[Callable[[Effect], None]] = []
        self.is_hindered = False  # calls of a process fail, or one was struck

    def begin(self, process: Process, kind: str, detail: str) -> Strike | None:
        """Record an effect about to happen; return the fault that hits it."""
        now = asyncio.get_running_loop().time()
        effect = Effect(len(self.effects), now, process.name, kind, detail)
        self.effects.append(effect)
        for begun in self.begun:
            begun(effect)
        strike = self.decide(effect)
        self.is_hindered = self.is_hindered or strike is not None
        return strike

    def done(self, number: int = -1) -> None:
        """Tell those who check the world after each effect; the last one, if none is named."""
        for told in self.told:
            told(self.effects[number])


class Process:
    """One operator process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.was_told_to_stop = False
        self.on_death: list[Callable[[], None]] = []
        self.ended: asyncio.Task[None] | None = None
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in order: sets differ from run to run

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something as this process."""
        context = copy_context()
        context.run(PROCESS.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Count a task among those that die with the process."""
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def die(self) -> None:
        """End at once, wherever it is."""
        if not self.alive:
            return
        self.alive = False
        for told in self.on_death:
            told()
        self.ended = asyncio.get_running_loop().create_task(self._end(), context=Context())

    async def _end(self) -> None:
        """Cancel what is left until nothing is."""
        for _ in range(_PATIENCE):
            left = [task for task in self._tasks if not task.done()]
            if not left:
                return
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=1.0)
        names = sorted(task.get_name() for task in self._tasks)
        raise RuntimeError(f"process {self.name} does not end: {names}")


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


def own_tasks(
    loop: asyncio.AbstractEventLoop,
    coro: Coroutine[Any, Any, Any],
    context: Context | None = None,
) -> asyncio.Task[Any]:
    """Make a task, and note whose it is: the task factory of a simulation."""
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context)
    process = PROCESS.get() if context is None else context.get(PROCESS)
    if process is not None:
        process.adopt(task)
    return task
