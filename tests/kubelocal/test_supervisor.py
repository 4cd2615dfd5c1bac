"""The processes of a local cluster, when the machine lacks something or their supervisor dies."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubelocal import supervisor
from kubelocal.instance import Instance
from kubelocal.supervisor import Child, start_time


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    found = Instance("test", tmp_path)
    found.logs.mkdir()
    return found


class Refusing:
    """Starts of processes: the first so many are refused."""

    def __init__(self, *, times: int) -> None:
        self._times = times
        self._whole = asyncio.create_subprocess_exec
        self.started = asyncio.Event()

    async def __call__(self, *words: Any, **options: Any) -> asyncio.subprocess.Process:
        if self._times:
            self._times -= 1
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        process = await self._whole(*words, **options)
        self.started.set()
        return process


SLEEPING = Child("operator", ("-c", "import time; time.sleep(600)"))


async def test_a_process_that_cannot_be_started_once_is_started_later(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_PAUSE_SECONDS", 0.01)
    refusing = Refusing(times=2)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", refusing)
    said: list[str] = []
    keeping = asyncio.create_task(supervisor._keep(instance, SLEEPING, said.append))
    try:
        async with asyncio.timeout(30):
            await asyncio.wait(
                {keeping, asyncio.ensure_future(refusing.started.wait())},
                return_when=asyncio.FIRST_COMPLETED,
            )
        assert not keeping.done()
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})
    assert len(said) == 2
    assert "operator cannot be started" in said[0]
    assert os.strerror(errno.EAGAIN) in said[0]


async def test_an_error_of_one_keeps_no_other_from_being_stopped(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = asyncio.Event()

    async def keep(_: Instance, child: Child, report: Any) -> None:
        del report
        if child.name == "operator":
            raise RuntimeError("a bug")
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            stopped.set()

    monkeypatch.setattr(supervisor, "_keep", keep)
    children = [SLEEPING, Child("control-plane", ())]
    async with asyncio.timeout(30):
        await supervisor.supervise(instance, children, report=lambda _: None)
    assert stopped.is_set()
    assert not instance.pid_file.exists()
    assert "a bug" in instance.log_of("supervisor").read_text()


def test_a_log_is_cut_also_where_there_is_no_space_to_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "operator.log"
    log.write_text("x" * 100)
    monkeypatch.setattr(supervisor, "_MOST_LOGGED", 20)

    def fill(_: Path, target: Path) -> None:
        target.write_text("x" * 10)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfile", fill)
    supervisor.trim(log)
    assert log.stat().st_size == 0
    assert [path.name for path in tmp_path.iterdir()] == ["operator.log"], "space is needed"


@pytest.fixture
def left(instance: Instance) -> Iterator[subprocess.Popen[bytes]]:
    """A process that a killed supervisor left running."""
    process = subprocess.Popen([sys.executable, *SLEEPING.arguments])
    supervisor._remember(instance, "operator", process.pid)
    yield process
    process.kill()
    process.wait()


def test_processes_that_a_killed_supervisor_left_are_ended(
    instance: Instance, left: subprocess.Popen[bytes]
) -> None:
    assert supervisor.end_children(instance)
    assert start_time(left.pid) == 0
    assert supervisor.end_children(instance), "there is nothing left to end"


def test_a_process_that_got_the_pid_of_another_is_not_ended(
    instance: Instance, left: subprocess.Popen[bytes]
) -> None:
    instance.children_file.write_text(f"operator {left.pid} 12345\n")
    assert supervisor.end_children(instance)
    assert start_time(left.pid)
