"""What passes between agent and keeper, when one of the two is impolite."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import select
import selectors
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubelocal.node.errors import KeeperError
from kubelocal.node.process import client as processes_module
from kubelocal.node.process.client import Description, Processes
from kubelocal.node.process.execution import _MOST_WAITING, start_session
from kubelocal.node.process.keeper import main as keeper_module
from kubelocal.node.process.keeper import spawn
from kubelocal.node.process.keeper.main import Keeper


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    keeper = Processes(tmp_path / "keeper")
    await keeper.open()
    yield keeper
    await keeper.quit()


def connect(folder: Path) -> socket.socket:
    """Be one more peer of a keeper, without any manners."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    place = os.open(folder, os.O_RDONLY)
    peer.connect(f"/proc/self/fd/{place}/socket")
    os.close(place)
    peer.settimeout(30)
    return peer


def described(tmp_path: Path, identity: str, *words: str) -> Path:
    path = tmp_path / f"{identity}.json"
    log = str(tmp_path / f"{identity}.log")
    env = {"PATH": "/usr/bin:/bin"}
    Description(id=identity, argv=words or ("sleep", "600"), env=env, log=log).write(path)
    return path


@pytest.mark.parametrize(
    "packet",
    [
        b"nonsense",
        b"[]",
        b"{}",
        b'{"seq": 1, "verb": "no such"}',
        b'{"seq": 1, "verb": ["list"]}',
        b'{"seq": 1, "verb": "signal", "id": {}, "signal": 15}',
        b'{"seq": 1, "verb": "forget", "ids": 7}',
        b'{"seq": 1, "verb": "start", "spec": null}',
    ],
)
async def test_a_bad_request_is_refused_and_not_the_end_of_the_keeper(
    processes: Processes, tmp_path: Path, packet: bytes
) -> None:
    started = await processes.start(described(tmp_path, "a"))
    with connect(tmp_path / "keeper") as peer:
        peer.send(packet)
        answer = json.loads(await asyncio.to_thread(peer.recv, 65536))
    assert answer["error"]["stage"] == "keeper"
    assert (await processes.list_processes()).running["a"] == started


async def test_an_answer_goes_to_who_asked_and_an_end_to_all(
    processes: Processes, tmp_path: Path
) -> None:
    with connect(tmp_path / "keeper") as peer:
        await processes.list_processes()  # the keeper has taken both
        await processes.start(described(tmp_path, "a"))
        await processes.kill("a")
        heard = json.loads(await asyncio.to_thread(peer.recv, 65536))
    assert heard["ended"] == "a", "the answer to the start is not this peer's"


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[tuple[Keeper, socket.socket, socket.socket]]:
    """A keeper in this process with one peer: the keeper's end of it, and the peer's."""
    for name in ("run", "ended"):
        (tmp_path / name).mkdir()
    keeper = Keeper(str(tmp_path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
            peer.connect(str(tmp_path / "s"))
            keeper._accept(listener)
            (own,) = keeper._peers
            yield keeper, own, peer
            own.close()
    keeper._selector.close()


def turn(keeper: Keeper) -> None:
    keeper._take_turn(0)


def test_a_number_that_is_given_again_within_a_turn_is_not_taken_for_the_old_one(
    bare: tuple[Keeper, socket.socket, socket.socket],
) -> None:
    """One end closes the pipes of a container, and a start right after it gets their numbers."""
    keeper, _, _ = bare
    called: list[str] = []
    pipes = {name: os.pipe() for name in ("end", "start")}

    def replace(name: str, other: str) -> None:
        called.append(name)
        keeper._selector.unregister(pipes[name][0])
        if len(called) > 1:
            return
        old = pipes[other][0]
        keeper._selector.unregister(old)
        os.dup2(pipes[name][0], old)  # closes it, and something else has its number
        keeper._selector.register(old, selectors.EVENT_READ, lambda: called.append("new"))

    for name, other in (("end", "start"), ("start", "end")):
        os.write(pipes[name][1], b"x")
        keeper._selector.register(
            pipes[name][0],
            selectors.EVENT_READ,
            lambda name=name, other=other: replace(name, other),  # type: ignore[misc]
        )
    turn(keeper)
    assert len(called) == 1, "what was ready is not there any more"
    turn(keeper)
    assert called[1:] == ["new"]
    for descriptors in pipes.values():
        for descriptor in descriptors:
            os.close(descriptor)


def test_no_end_is_lost_by_a_peer_that_reads_late(
    bare: tuple[Keeper, socket.socket, socket.socket],
) -> None:
    keeper, own, peer = bare
    count = 20_000
    for number in range(count):
        keeper._answer(own, {"ended": f"{number:060}", "code": 0})
    assert keeper._peers[own], "more than the socket has room for"
    heard = []
    while len(heard) < count:
        while select.select([peer], [], [], 0)[0]:
            heard.append(int(json.loads(peer.recv(65536))["ended"]))
        turn(keeper)
    assert heard == list(range(count))
    assert not keeper._peers[own]


def test_a_peer_that_never_reads_is_cut_off(
    bare: tuple[Keeper, socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "_MOST_UNREAD", 10)
    keeper, own, peer = bare
    while own in keeper._peers:
        keeper._answer(own, {"ended": "x" * 1000})
    peer.settimeout(30)
    while (received := peer.recv(65536)) != b"":
        pass
    assert received == b"", "the connection was closed"


def test_a_fork_that_fails_leaves_no_descriptor_behind(
    bare: tuple[Keeper, socket.socket, socket.socket],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(spawn, "fork", refuse)
    keeper, _, peer = bare
    spec = described(tmp_path, "a")
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for number in range(3):
        peer.send(msgspec.json.encode({"seq": number, "verb": "start", "spec": str(spec)}))
        turn(keeper)
        answer = json.loads(peer.recv(65536))
        assert answer["seq"] == number
        assert "temporarily unavailable" in answer["error"]["message"]
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before


async def test_a_keeper_that_cannot_be_started_again_at_once_is_started_later(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "_RESTART_PAUSE", 0.01)
    end = processes.watch("a")
    await processes.start(described(tmp_path, "a"))
    failures: list[Exception] = [OSError(errno.ENOSPC, "full"), KeeperError("no answer")]
    whole = processes._reach

    async def reach() -> None:
        if failures:
            raise failures.pop()
        await whole()

    monkeypatch.setattr(processes, "_reach", reach)
    os.kill(msgspec.json.decode((tmp_path / "keeper/keeper").read_bytes())["pid"], signal.SIGKILL)
    async with asyncio.timeout(30):
        assert (await end).lost
    assert (await processes.list_processes()).running == {}
    assert failures == []


async def test_output_that_nobody_reads_waits_in_the_command(tmp_path: Path) -> None:
    keeper = Processes(tmp_path / "keeper")
    await keeper.open()
    try:
        host_spec = described(tmp_path, "host")
        await keeper.start(host_spec)
        host = Description.read(host_spec)
        assert host is not None
        session: Any = await start_session(
            keeper, host, tmp_path, ["cat", "/dev/zero"], stdin=False, tty=False
        )
        output = session.output()
        for _ in range(20):  # read a little, then not for a while
            await anext(output)
            for _ in range(20):
                await asyncio.sleep(0.002)
                assert session._queue.qsize() <= _MOST_WAITING
        await output.aclose()
        await session.close()
    finally:
        await keeper.quit()
