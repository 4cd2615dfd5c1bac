"""`redis-operator backup-worker`: one task, from the environment to the termination message."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from .carry import carry
from .check import check
from .errors import WorkerError
from .flow import Flow
from .manifest import MANIFEST
from .primary import Primary, find_part
from .replica import Login
from .store import open_shelf
from .stream.run import archive
from .stream.work import mark, serve_until, tell_window
from .take import report_of, take
from .task import (
    LOGIN,
    PROGRESS_PORT,
    SCRATCH,
    TASK,
    ArchiveTask,
    CarryTask,
    DeleteTask,
    PointTask,
    Report,
    TakeTask,
    Task,
    VerifyTask,
    WindowTask,
    read_task,
)

__all__ = ["main"]

_LOG = logging.getLogger(__name__)
_TERMINATION_LOG = "/dev/termination-log"
_USAGE = f"redis-operator backup-worker: {TASK} holds no task. The operator starts this program"


def main(environment: Mapping[str, str] = os.environ) -> int:
    """Carry out the task; the exit code says whether it succeeded."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    try:
        task = read_task(environment.get(TASK, ""))
    except msgspec.DecodeError as error:
        sys.stderr.write(f"{_USAGE}: {error}\n")
        return 2
    try:
        report = asyncio.run(_run(task, environment))
    except* WorkerError as group:
        first = _first(group)
        report = Report(error=str(first), reason=first.reason)
    text = report.text()
    _LOG.info("%s", text.decode())
    try:
        Path(environment.get("LAST_WORDS", _TERMINATION_LOG)).write_bytes(text)
    except OSError as error:
        _LOG.warning("the termination message could not be written: %s", error)
    return 1 if report.error else 0


def _first(group: BaseException) -> WorkerError:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    assert isinstance(group, WorkerError)
    return group


async def _run(task: Task, environment: Mapping[str, str]) -> Report:
    shelf = open_shelf(task.store)
    if isinstance(task, DeleteTask):
        await shelf.remove(first=MANIFEST)
        return Report()
    if isinstance(task, VerifyTask):
        ports = (task.port, task.scratch_port)
        return await check(shelf, Path(SCRATCH), environment.get("POD_IP", ""), ports=ports)
    if isinstance(task, WindowTask):
        return await tell_window(task)
    login = _login(task.user)
    if isinstance(task, TakeTask):
        flow = Flow(task.bandwidth)
        server = await flow.tell(environment.get("POD_IP", ""), PROGRESS_PORT)
        try:
            return report_of(await take(task, shelf, login, flow=flow))
        finally:
            if server is not None:
                server.close()
    if isinstance(task, CarryTask):
        host = environment.get("POD_IP", "")
        return await carry(task, shelf, login, folder=Path(SCRATCH), host=host)
    if isinstance(task, ArchiveTask):
        return await archive(task, login, _stop(), host=environment.get("POD_IP", ""))
    if isinstance(task, PointTask):
        return await mark(task, login)
    if task.until is not None:
        return await serve_until(task, login, _stop(), host=environment.get("POD_IP", ""))
    manifest, part = await find_part(shelf)
    primary = Primary(shelf, manifest, part, login)
    await primary.serve_until(_stop(), environment.get("POD_IP", ""), task.port)
    return Report(size=part.size, stored=part.stored, rdb=part.rdb)


def _stop() -> asyncio.Event:
    """Return the event that is set when the worker is asked to end."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _login(user: str) -> Callable[[], Login]:
    """Return the login of the worker, or of clients to it: the file is read again each time."""

    def read() -> Login:
        try:
            return Login(user, Path(LOGIN).read_text().strip())
        except OSError as error:
            raise WorkerError(f"the password of user {user} cannot be read: {error}") from error

    return read
