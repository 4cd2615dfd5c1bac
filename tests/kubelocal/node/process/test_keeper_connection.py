"""The agent's connection to the keeper: however it is left, it is closed."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kubelocal.node.pod_world import World

from kubelocal.node.agent import end_pods
from kubelocal.node.errors import KeeperError
from kubelocal.node.images import Images
from kubelocal.node.process import client as processes_module
from kubelocal.node.process.client import Processes


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    """Every connection to a keeper that a test makes; at its end none may be open."""
    made: list[socket.socket] = []
    whole = Processes._connect

    def connect(self: Processes) -> bool:
        connected = whole(self)
        if connected:
            assert self._socket is not None
            made.append(self._socket)
        return connected

    monkeypatch.setattr(Processes, "_connect", connect)
    yield made
    assert made
    assert count_open(made) == 0


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    """Where a keeper runs, which is ended with the test."""
    starter = Processes(tmp_path / "keeper")
    await starter.open()
    starter.close()
    yield tmp_path / "keeper"
    await end_pods(tmp_path, grace=0)


def keeper_pid(folder: Path) -> int:
    return int(msgspec.json.decode((folder / "keeper").read_bytes())["pid"])


@contextlib.contextmanager
def held_up(folder: Path) -> Iterator[None]:
    """A keeper that takes connections, and answers nobody."""
    pid = keeper_pid(folder)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def is_kept(folder: Path) -> bool:
    """Whether a keeper runs, or is just being started."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while True:
            if condition():
                return
            await asyncio.sleep(0)


def count_open(connections: list[socket.socket]) -> int:
    return sum(one.fileno() >= 0 for one in connections)


async def test_opening_that_is_cancelled(folder: Path, connections: list[socket.socket]) -> None:
    processes = Processes(folder)
    with held_up(folder):
        opening = asyncio.create_task(processes.open())
        await until(lambda: processes._socket)
        await cancel(opening)
        assert count_open(connections) == 0


async def test_opening_that_takes_too_long(
    folder: Path, connections: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "_START_DEADLINE", 0.1)
    with held_up(folder), pytest.raises(KeeperError, match="did not respond within"):
        await Processes(folder).open()
    assert count_open(connections) == 0
    monkeypatch.setattr(processes_module, "_START_DEADLINE", 30)


async def test_opening_twice(folder: Path, connections: list[socket.socket]) -> None:
    processes = Processes(folder)
    await processes.open()
    await processes.open()
    assert count_open(connections) == 1
    await processes.list_processes()
    processes.close()


async def test_opening_of_what_was_closed_meanwhile(
    folder: Path, connections: list[socket.socket]
) -> None:
    processes = Processes(folder)
    with held_up(folder):
        opening = asyncio.create_task(processes.open())
        await until(lambda: processes._socket)
        processes.close()
        with pytest.raises(KeeperError):
            await opening
        assert count_open(connections) == 0


async def test_quitting_that_is_cancelled(folder: Path, connections: list[socket.socket]) -> None:
    processes = Processes(folder)
    await processes.open()
    with held_up(folder):
        quitting = asyncio.create_task(processes.quit())
        await asyncio.sleep(0.01)
        await cancel(quitting)
        assert count_open(connections) == 0


async def test_ending_pods_that_fails(
    folder: Path, connections: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Processes) -> None:
        raise KeeperError("the keeper died")

    with monkeypatch.context() as patched:
        patched.setattr(Processes, "list_processes", fail)
        with pytest.raises(KeeperError):
            await end_pods(folder.parent, grace=0)
    assert count_open(connections) == 0


@pytest.mark.usefixtures("connections")
async def test_requests_of_a_closed_connection_fail_at_once(folder: Path) -> None:
    processes = Processes(folder)
    await processes.open()
    with held_up(folder):
        asking = asyncio.create_task(processes.list_processes())
        await asyncio.sleep(0.01)
        processes.close()
        async with asyncio.timeout(30):
            with pytest.raises(KeeperError):
                await asking


async def test_keeper_that_dies_again_while_it_is_started_again(
    folder: Path, connections: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody asks between the two deaths; still one connection is made after the other."""
    processes = Processes(folder)
    await processes.open()
    whole = processes._greet
    asking: list[asyncio.Task[Any]] = []

    async def greet() -> bool:
        if not asking:
            asking.append(asyncio.create_task(processes.list_processes()))
            os.kill(keeper_pid(folder), signal.SIGKILL)
            await asyncio.sleep(0.05)
        return await whole()

    monkeypatch.setattr(processes, "_greet", greet)
    os.kill(keeper_pid(folder), signal.SIGKILL)
    async with asyncio.timeout(60):
        await until(lambda: asking)
        assert (await asking[0]).running == {}
        await asyncio.sleep(0.1)  # time for a second restart, if there were one
    assert count_open(connections) == 1
    processes.close()


async def test_a_keeper_that_dies_before_anything_was_asked_is_started_again(folder: Path) -> None:
    processes = Processes(folder)
    await processes.open()
    os.kill(keeper_pid(folder), signal.SIGKILL)
    await until(lambda: processes._socket is None)
    assert (await processes.list_processes()).running == {}
    processes.close()


async def test_keeper_whose_start_was_cancelled_is_found_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be anywhere between its first step and its first answer."""
    started: list[bool] = []
    whole = processes_module._detach

    def detach(*given: Any) -> Any:
        starting = whole(*given)
        started.append(True)
        return starting

    monkeypatch.setattr(processes_module, "_detach", detach)
    for patience in (0.0, 0.01, 0.03, 0.1):
        started.clear()
        processes = Processes(tmp_path / "keeper")
        opening = asyncio.create_task(processes.open())
        await until(lambda: started)
        await asyncio.sleep(patience)
        opening.cancel()
        await asyncio.wait({opening})
        processes.close()  # it may have come in time
        await end_pods(tmp_path, grace=0)
        assert not is_kept(tmp_path / "keeper")


async def test_quitting_waits_for_the_keeper_to_be_gone(tmp_path: Path) -> None:
    for _ in range(10):
        processes = Processes(tmp_path / "keeper")
        await processes.open()
        await processes.quit()
        assert not is_kept(tmp_path / "keeper")


@pytest.mark.usefixtures("connections")
async def test_agent_that_finds_no_images(
    bare_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is being made meanwhile, and must not be made after the end."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no such folder")

    monkeypatch.setattr(Images, "discover", refuse)
    with pytest.raises(OSError, match="no such folder"):
        await bare_world.start_agent()
    await asyncio.sleep(0.5)
