"""What passes between agent and keeper, when one of the two is impolite."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import resource
import select
import selectors
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubelocal.node.errors import KeeperError, StartError
from kubelocal.node.process import client as processes_module
from kubelocal.node.process.client import Description, Processes
from kubelocal.node.process.execution import _MOST_WAITING, start_session
from kubelocal.node.process.keeper import main as keeper_module
from kubelocal.node.process.keeper import spawn
from kubelocal.node.process.keeper.family import start_ticks
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


def described(tmp_path: Path, identity: str, *words: str, cwd: str = "/") -> Path:
    path = tmp_path / f"{identity}.json"
    log = str(tmp_path / f"{identity}.log")
    env = {"PATH": "/usr/bin:/bin"}
    argv = words or ("sleep", "600")
    Description(id=identity, argv=argv, env=env, log=log, cwd=cwd).write(path)
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


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.01)


async def test_a_list_is_current_also_where_the_keeper_cannot_write(
    processes: Processes, tmp_path: Path
) -> None:
    """An agent that takes a running container for lost starts another one beside it."""
    await processes.start(described(tmp_path, "a"))
    await processes.list_processes()
    (tmp_path / "keeper/list.new").mkdir()  # as on a full disk: no list can be written
    await processes.start(described(tmp_path, "b"))
    await processes.kill("a")
    listed = await processes.list_processes()
    assert (set(listed.running), set(listed.ended)) == ({"b"}, {"a"})


async def test_a_list_that_the_keeper_cannot_make_is_an_error(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> dict[str, Any]:
        return {"error": {"stage": "keeper", "errno": 24, "message": "Too many open files"}}

    monkeypatch.setattr(processes, "_ask", refuse)
    with pytest.raises(KeeperError, match="Too many open files"):
        await processes.list_processes()


async def test_an_end_that_cannot_be_recorded_is_listed_and_recorded_later(
    processes: Processes, tmp_path: Path
) -> None:
    ended = tmp_path / "keeper/ended"
    for identity in ("a", "b"):
        (ended / f"{identity}.new").mkdir()  # as on a full disk
        end = processes.watch(identity)
        await processes.start(described(tmp_path, identity, "sh", "-c", "exit 7"))
        await end
    assert {one.code for one in (await processes.list_processes()).ended.values()} == {7}
    await processes.forget(["b"])
    assert set((await processes.list_processes()).ended) == {"a"}
    for identity in ("a", "b"):
        (ended / f"{identity}.new").rmdir()
    await until((ended / "a").exists)
    assert msgspec.json.decode((ended / "a").read_bytes())["code"] == 7
    assert not (ended / "b").exists(), "it was forgotten"


async def test_what_could_not_be_recorded_is_ended_by_the_next_keeper(
    processes: Processes, tmp_path: Path
) -> None:
    folder = tmp_path / "keeper"
    (folder / "run/a.new").mkdir()  # as on a full disk
    end = processes.watch("a")
    started = await processes.start(described(tmp_path, "a"))
    assert not (folder / "run/a").exists()
    os.kill(msgspec.json.decode((folder / "keeper").read_bytes())["pid"], signal.SIGKILL)
    async with asyncio.timeout(30):
        assert (await end).lost
    assert start_ticks(started.pid) is None
    (folder / "run/a.new").rmdir()


@pytest.mark.parametrize("script", ["exec env -i sleep 600", "env -i sleep 600 & wait"])
async def test_what_was_not_recorded_and_hides_its_mark_ends_with_its_keeper(
    processes: Processes, tmp_path: Path, script: str
) -> None:
    """A Redis server overwrites its environment: the next keeper does not know it by that."""
    folder = tmp_path / "keeper"
    (folder / "run/a.new").mkdir()  # as on a full disk
    end = processes.watch("a")
    started = await processes.start(described(tmp_path, "a", "sh", "-c", script))
    await until(lambda: sleeping_in(started.pid))
    [sleeper] = sleeping_in(started.pid)
    os.kill(msgspec.json.decode((folder / "keeper").read_bytes())["pid"], signal.SIGKILL)
    async with asyncio.timeout(30):
        assert (await end).lost
    assert start_ticks(sleeper) is None, "the next one would use its data beside it"
    (folder / "run/a.new").rmdir()


def sleeping_in(session: int) -> list[int]:
    """The processes of a session that sleep."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            is_sleep = (process / "cmdline").read_bytes().startswith(b"sleep\0")
            if is_sleep and int(fields[3]) == session:
                found.append(int(process.name))
    return found


async def test_a_start_that_could_not_be_recorded_is_recorded_later(
    processes: Processes, tmp_path: Path
) -> None:
    running = tmp_path / "keeper/run"
    (running / "a.new").mkdir()  # as on a full disk
    started = await processes.start(described(tmp_path, "a"))
    (running / "a.new").rmdir()
    await until((running / "a").exists)
    assert msgspec.json.decode((running / "a").read_bytes())["pid"] == started.pid


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
    keeper.leave()
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


def test_a_command_that_starts_while_its_container_ends_ends_too(
    bare: tuple[Keeper, socket.socket, socket.socket],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has the mark of its container only once its program runs."""
    keeper, _, peer = bare
    peer.settimeout(30)

    def start(spec: Path) -> None:
        peer.send(msgspec.json.encode({"seq": 1, "verb": "start", "spec": str(spec)}))
        turn(keeper)

    start(described(tmp_path, "host"))
    [host] = keeper._children.values()
    while host.report is not None:
        turn(keeper)
    guest_spec = tmp_path / "guest.json"
    log = str(tmp_path / "guest.log")
    words = {"id": "guest", "argv": ("sleep", "600"), "env": {"PATH": "/usr/bin:/bin"}}
    Description(**words, join_id="host", guest=True, log=log).write(guest_spec)  # type: ignore[arg-type]
    prepare = spawn._enter_cgroups

    def slowly(folders: list[str]) -> None:
        time.sleep(0.3)
        prepare(folders)

    monkeypatch.setattr(spawn, "_enter_cgroups", slowly)
    start(guest_spec)
    [guest] = [child for child in keeper._children.values() if not child.is_container]
    os.kill(host.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while keeper._children and time.monotonic() < deadline:
        keeper._reap(None)
        turn(keeper)
    left = start_ticks(guest.pid)
    if left is not None:
        os.kill(guest.pid, signal.SIGKILL)
        os.waitpid(guest.pid, 0)
    assert left is None, "its container had ended"


def test_an_error_of_the_keeper_does_not_end_it(
    bare: tuple[Keeper, socket.socket, socket.socket],
) -> None:
    """Its end is the end of all pods."""
    keeper, own, peer = bare
    reading, writing = os.pipe()
    os.write(writing, b"x")

    def fail() -> None:
        keeper._selector.unregister(reading)
        raise OSError(errno.EMFILE, "Too many open files")

    keeper._selector.register(reading, selectors.EVENT_READ, fail)
    turn(keeper)
    peer.send(b'{"seq": 1, "verb": "ping"}')
    turn(keeper)
    assert json.loads(peer.recv(65536)) == {"seq": 1}
    assert own in keeper._peers
    os.close(reading)
    os.close(writing)


def count_descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def first_free(pid: int) -> int:
    taken = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
    return next(number for number in range(len(taken) + 1) if number not in taken)


async def test_a_keeper_without_free_descriptors_goes_on(
    processes: Processes, tmp_path: Path
) -> None:
    """It refuses starts and connections meanwhile; what ends is ended whole, and announced."""
    keeper = msgspec.json.decode((tmp_path / "keeper/keeper").read_bytes())["pid"]
    end = processes.watch("base")
    script = f"setsid sleep 600 & echo $! >{tmp_path}/pid.new; mv pid.new pid; sleep 600"
    spec = described(tmp_path, "base", "sh", "-c", script, cwd=str(tmp_path))
    await processes.start(spec)
    await until((tmp_path / "pid").exists)
    stray = int((tmp_path / "pid").read_text())
    limits = resource.prlimit(keeper, resource.RLIMIT_NOFILE)
    before = count_descriptors(keeper)
    free = first_free(keeper)
    for more in range(8):  # each time it gets one step further
        resource.prlimit(keeper, resource.RLIMIT_NOFILE, (free + more, limits[1]))
        with pytest.raises(StartError):
            await processes.start(described(tmp_path, "a"))
        assert count_descriptors(keeper) == before
    resource.prlimit(keeper, resource.RLIMIT_NOFILE, (free, limits[1]))
    with connect(tmp_path / "keeper") as peer:
        peer.send(b'{"seq": 1, "verb": "ping"}')
        await processes.signal("base", signal.SIGKILL)
        async with asyncio.timeout(30):
            assert (await end).code == 137
        assert start_ticks(stray) is None, "it belongs to the container that ended"
        assert set((await processes.list_processes()).ended) == {"base"}
        resource.prlimit(keeper, resource.RLIMIT_NOFILE, limits)
        answer = json.loads(await asyncio.to_thread(peer.recv, 65536))
        assert answer == {"seq": 1}, "it was accepted once there was a descriptor for it"
    await processes.start(described(tmp_path, "a"))


async def test_a_keeper_may_open_more_files_than_its_containers(
    processes: Processes, tmp_path: Path
) -> None:
    keeper = msgspec.json.decode((tmp_path / "keeper/keeper").read_bytes())["pid"]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert resource.prlimit(keeper, resource.RLIMIT_NOFILE) == (hard, hard)
    started = await processes.start(described(tmp_path, "a"))
    assert resource.prlimit(started.pid, resource.RLIMIT_NOFILE) == (soft, hard)


async def test_many_ends_are_forgotten_at_once(processes: Processes, tmp_path: Path) -> None:
    """They do not fit into one packet."""
    started = await processes.start(described(tmp_path, "a"))
    ended = tmp_path / "keeper/ended"
    names = [f"{number:064x}" for number in range(20_000)]
    for name in (names[0], names[-1]):
        (ended / name).write_text('{"code": 0, "finished": 1}')
    await processes.forget(names)
    listed = await processes.list_processes()
    assert (listed.running, listed.ended) == ({"a": started}, {})


async def test_a_request_that_is_too_large_fails_alone(processes: Processes) -> None:
    connection = processes._socket
    with pytest.raises(KeeperError, match="too large"):
        await processes._request("forget", ids=["x" * 64] * 100_000)
    assert processes._socket is connection
    await processes.list_processes()


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
