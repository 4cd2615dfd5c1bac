"""An event loop in virtual time: tests that wait take no time.

Guarantees:
- `loop.time()` starts at zero and moves only when every task waits: then it jumps to the next
  timer.
- When every task waits and there is no timer, thread or socket to wake one, the loop raises
  `Deadlock`, which names each waiting task and the line it waits at.
- Threads and real sockets are waited for in real time before the clock jumps, so a test that needs
  them works; it is then only as deterministic as they are.

Pytest uses it when a `conftest.py` imports the hook of this module:
`from kubecontroller.testing.loop import pytest_asyncio_loop_factories`. A test that needs real
time says `@pytest.mark.asyncio(loop_factories=["real"])`. Outside pytest, call `run`.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

__all__ = ["Deadlock", "VirtualLoop", "pytest_asyncio_loop_factories", "run"]

T = TypeVar("T")

_THREAD_POLL = 0.05
_SOCKET_GRACE = 0.01
_ROUNDING = 1e-6
_OWN_DESCRIPTORS = 1  # the loop's self-pipe
_UNASKED_TURNS = 50  # asking the kernel takes longer than most turns


class Deadlock(RuntimeError):  # noqa: N818 - it is the name of the thing
    """Every task waits and nothing can ever wake one."""


class _JumpingSelector(selectors.BaseSelector):
    """Polls the real selector without waiting, then lets the loop's clock jump instead."""

    def __init__(self, jump: Callable[[float | None], None], threads: Callable[[], int]) -> None:
        self._real = selectors.DefaultSelector()
        self._jump = jump
        self._threads = threads
        self._open = 0  # descriptors that are watched
        self._unasked = 0  # turns since the kernel was last polled

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._open <= _OWN_DESCRIPTORS and not self._threads() and timeout is not None:
            # Nothing outside can respond. Only the self-pipe is emptied now and then.
            self._unasked += 1
            if self._unasked < _UNASKED_TURNS:
                if timeout > 0:
                    self._jump(timeout)
                return []
        self._unasked = 0
        ready = self._real.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        while self._threads() > 0:
            ready = self._real.select(_THREAD_POLL)
            if ready:
                return ready
        if self._open > _OWN_DESCRIPTORS:
            # A peer in this process or another one may be about to respond.
            ready = self._real.select(_SOCKET_GRACE if timeout is not None else _THREAD_POLL)
            if ready or timeout is None:
                return ready
        self._jump(timeout)
        return []

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: Any = None
    ) -> selectors.SelectorKey:
        key = self._real.register(fileobj, events, data)
        self._open = len(self._real.get_map())
        return key

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        key = self._real.unregister(fileobj)
        self._open = len(self._real.get_map())
        return key

    def modify(
        self, fileobj: FileDescriptorLike, events: int, data: Any = None
    ) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._real.get_map()


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector event loop in virtual time; see the module for its guarantees."""

    def __init__(self, *, start: float = 0.0) -> None:
        self._now = start
        self._in_threads = 0
        super().__init__(_JumpingSelector(self._jump, lambda: self._in_threads))

    @property
    def _clock_resolution(self) -> float:
        """How early a timer may fire: never, or a task that waits until an instant waits twice."""
        return math.ulp(self._now)

    @_clock_resolution.setter
    def _clock_resolution(self, _: float) -> None:
        """Do nothing: the resolution of the real clock does not matter here."""

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def run_in_executor(  # type: ignore[override]  # typeshed ties the arguments with a TypeVarTuple
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run in a thread; the clock does not advance until it has finished."""
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._thread_is_done)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        """Wait for the threads in real time."""
        self._in_threads += 1
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self._in_threads -= 1

    def _thread_is_done(self, _: asyncio.Future[Any]) -> None:
        self._in_threads -= 1

    def _jump(self, timeout: float | None) -> None:
        if timeout is None:
            raise Deadlock(self._describe_waiting())
        self._now += timeout
        # Rounding errors of floats must not leave a timer one ulp in the future for ever.
        timers = getattr(self, "_scheduled", ())  # the loop's own heap
        due = timers[0].when() if timers else self._now
        if 0 < due - self._now < _ROUNDING:
            self._now = due

    def _describe_waiting(self) -> str:
        lines = ["every task waits and nothing can wake one:"]
        for task in sorted(asyncio.all_tasks(self), key=lambda task: task.get_name()):
            frames = task.get_stack(limit=1)
            where = "not started"
            if frames:
                where = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}"
            lines.append(f"  {task.get_name()} ({task.get_coro()!r:.120}) at {where}")
        return "\n".join(lines)


def run(main: Coroutine[Any, Any, T], *, start: float = 0.0) -> T:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start=start)) as runner:
        return runner.run(main)


class _Item(Protocol):
    """The part of a pytest item the hook reads."""

    def get_closest_marker(self, name: str) -> Any:
        """Return the nearest marker of that name, or None."""


def pytest_asyncio_loop_factories(
    item: _Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Give tests the virtual loop, unless their asyncio marker names another."""
    virtual: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"virtual": VirtualLoop}
    marker = item.get_closest_marker("asyncio")
    if marker is not None and "loop_factories" in marker.kwargs:
        return virtual | {"real": asyncio.new_event_loop}
    return virtual
