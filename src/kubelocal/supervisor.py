"""Keeps the processes of one local cluster alive: the control plane and the operator.

A process that dies is started again, at once the first time and later after a growing pause. When
it is asked to stop, it ends the operator first and the control plane last, since that stops the
pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from kubecontroller.runtime.logs import fields, set_up
from kubelocal.instance import Instance
from kubelocal.node.process.keeper.family import start_ticks

__all__ = [
    "Child",
    "end_children",
    "is_running",
    "read_pid",
    "start_time",
    "stop",
    "supervise",
    "trim",
]

_LOG = logging.getLogger(__name__)
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, _CALM_SECONDS = 0.1, 10.0, 60.0
_STOP_SECONDS = 45.0
_TRIM_SECONDS = 10.0
_MOST_LOGGED = 16 * 1024 * 1024


class Child(Struct, frozen=True):
    """A process to keep alive: its name (and its log file's), and its arguments after `python`."""

    name: str
    arguments: tuple[str, ...]


async def supervise(
    instance: Instance, children: Sequence[Child], *, report: Callable[[str], None]
) -> None:
    """Keep the children alive until SIGTERM or SIGINT, then stop them, the last one last.

    Messages for users are passed to the callback, and everything is logged.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    instance.logs.mkdir(parents=True, exist_ok=True)
    log = instance.log_of("supervisor").open("a")
    undo = set_up(stream=log)
    _LOG.info("started", extra=fields(pid=os.getpid()))
    instance.pid_file.write_text(f"{os.getpid()} {start_time(os.getpid())}\n")
    # A supervisor that was killed may have left some; their pods continue, and are adopted.
    await asyncio.to_thread(end_children, instance, signal.SIGKILL)
    # the one that is stopped last is needed first
    keepers = [asyncio.create_task(_keep(instance, child, report)) for child in reversed(children)]
    keepers.reverse()
    trimming = asyncio.create_task(_trim_for_ever(instance))
    try:
        await stopping.wait()
        report("stopping")
        _LOG.info("stopping")
    finally:
        trimming.cancel()
        for keeper in keepers:
            keeper.cancel()
            for error in await asyncio.gather(keeper, return_exceptions=True):
                if not isinstance(error, asyncio.CancelledError):
                    _LOG.error("a process was not kept alive", exc_info=error)
        instance.children_file.unlink(missing_ok=True)
        instance.pid_file.unlink(missing_ok=True)
        _LOG.info("stopped")
        undo()
        log.close()


async def _trim_for_ever(instance: Instance) -> None:
    while True:
        for log in [*instance.logs.glob("*.log"), instance.keeper_log]:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(trim, log)
        await asyncio.sleep(_TRIM_SECONDS)


def trim(log: Path) -> None:
    """Begin a new log where one is too large; its content is kept in one older file.

    It is emptied and not replaced: its writer has it open, to append.
    """
    if log.exists() and log.stat().st_size > _MOST_LOGGED:
        older = log.with_name(f"{log.name}.1")
        try:
            shutil.copyfile(log, older)
        except OSError:  # on a full disk the space is needed more than the log
            older.unlink(missing_ok=True)
        os.truncate(log, 0)


async def _keep(instance: Instance, child: Child, report: Callable[[str], None]) -> None:
    """Restart one child whenever it ends; end it when cancelled."""
    pause = _PAUSE_SECONDS
    while True:
        begun = time.monotonic()
        try:
            outcome = f"ended with code {await _run(instance, child)}"
        except OSError as error:
            outcome = f"cannot be started: {error}"
        if time.monotonic() - begun > _CALM_SECONDS:
            pause = _PAUSE_SECONDS
        _LOG.warning(
            "a process is started again",
            extra=fields(process=child.name, outcome=outcome, pause=pause),
        )
        report(f"{child.name} {outcome}; starting it again in {pause:g} s")
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


async def _run(instance: Instance, child: Child) -> int:
    """Run one child until its end, and return its code; end it when cancelled."""
    with instance.log_of(child.name).open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *child.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _LOG.info("started a process", extra=fields(process=child.name, pid=process.pid))
    try:
        _remember(instance, child.name, process.pid)
        return await process.wait()
    except asyncio.CancelledError:
        await _end(process)
        raise


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask a process to end, and kill it when it does not."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        _LOG.warning("a process did not end in time and is killed", extra=fields(pid=process.pid))
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def start_time(pid: int) -> int:
    """Return when a process began, in clock ticks since boot; 0 when there is none.

    Together with the pid it identifies a process: pids are reused, this pair is not.
    """
    return start_ticks(pid) or 0


def read_pid(instance: Instance) -> int | None:
    """Return the pid of the instance's supervisor if that very process still runs."""
    try:
        pid, begun = (int(word) for word in instance.pid_file.read_text().split())
    except (OSError, ValueError):
        return None
    return pid if begun and start_time(pid) == begun else None


def _read_children(instance: Instance) -> dict[str, tuple[int, int]]:
    """Return pid and start time of each child that was recorded, the last started last."""
    try:
        lines = [line.split() for line in instance.children_file.read_text().splitlines()]
        return {name: (int(pid), int(begun)) for name, pid, begun in lines}
    except (OSError, ValueError):
        return {}


def _remember(instance: Instance, name: str, pid: int) -> None:
    """Record a child, for the case that this process is killed."""
    children = {**_read_children(instance), name: (pid, start_time(pid))}
    text = "".join(f"{name} {pid} {begun}\n" for name, (pid, begun) in children.items())
    fresh = instance.children_file.with_suffix(".new")
    try:
        fresh.write_text(text)
        fresh.replace(instance.children_file)
    except OSError as error:
        _LOG.warning("a process cannot be recorded", extra=fields(process=name, error=str(error)))


def end_children(instance: Instance, number: int = signal.SIGTERM) -> bool:
    """End the processes that a killed supervisor left, the first started last.

    Return whether all have ended; one that does not end in time is killed.
    """
    children = _read_children(instance)
    for pid, begun in reversed(children.values()):
        for attempt in (number, signal.SIGKILL):
            if not begun or start_time(pid) != begun:
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, attempt)
            _wait_ended(pid, begun, _STOP_SECONDS)
    if any(begun and start_time(pid) == begun for pid, begun in children.values()):
        return False
    instance.children_file.unlink(missing_ok=True)
    return True


def is_running(instance: Instance) -> bool:
    """Return whether the instance's supervisor runs."""
    return read_pid(instance) is not None


def stop(instance: Instance, *, wait_seconds: float = 2 * _STOP_SECONDS + 5) -> bool:
    """End the instance's supervisor and wait for it; return whether it has ended."""
    pid = read_pid(instance)
    if pid is None:
        return True
    begun = start_time(pid)
    os.kill(pid, signal.SIGTERM)
    return _wait_ended(pid, begun, wait_seconds)


def _wait_ended(pid: int, begun: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if start_time(pid) != begun:
            return True
        time.sleep(0.05)
    return False
