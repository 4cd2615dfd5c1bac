from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kubelocal.node.pod_world import (
    MODES,
    World,
    container,
    is_ready,
    phase_is,
    pod,
    status_of,
)

from kubelocal.apiserver.calls import Connect
from kubelocal.apiserver.errors import StatusError
from kubelocal.apiserver.http.channels import PROTOCOLS, choose, serve
from kubelocal.apiserver.http.channels import status_of as exec_status
from kubelocal.apiserver.http.streams import log_options
from kubelocal.apiserver.pod_api import (
    ExecExit,
    ExecOptions,
    ExecSession,
    HookError,
    LogOptions,
    Output,
)
from kubelocal.node.errors import ModeError
from kubelocal.node.logs import read_log
from kubelocal.node.process.keeper.logfile import LogFile
from kubelocal.node.process.mounts import Mode


async def collect(session: ExecSession) -> tuple[bytes, bytes, int]:
    found = {Output.STDOUT: b"", Output.STDERR: b""}
    async with asyncio.timeout(30):
        async for stream, chunk in session.output():
            found[stream] += chunk
        end = await session.wait()
    await session.close()
    return found[Output.STDOUT], found[Output.STDERR], end.code


async def execute(world: World, *command: str, **options: Any) -> ExecSession:
    assert world.agent is not None
    return await world.agent.exec("default", "p", ExecOptions(command=command, **options))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
async def test_exec_joins_the_container(bare_world: World, mode: Mode) -> None:
    world = bare_world
    try:
        await world.start_agent(mode=mode)
    except ModeError as error:
        pytest.skip(str(error))
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    env = [{"name": "WORD", "value": "here"}]
    volumes = [{"name": "shared", "emptyDir": {}}]
    script = "echo left > /shared/note; sleep 600"
    await world.create(
        pod("p", container("main", script, volumeMounts=mounts, env=env), volumes=volumes)
    )
    await world.until(is_ready)
    session = await execute(world, "sh", "-c", "cat /shared/note; echo $WORD; echo bad >&2; exit 7")
    assert await collect(session) == (b"left\nhere\n", b"bad\n", 7)


async def test_exec_feeds_standard_input_until_it_is_closed(world: World) -> None:
    await world.create(pod())
    await world.until(is_ready)
    session = await execute(world, "cat", stdin=True)
    payload = b"x" * 300_000
    feeding = asyncio.create_task(session.write(payload))
    taken = b""
    async with asyncio.timeout(30):
        async for _, chunk in session.output():
            taken += chunk
            if len(taken) == len(payload):
                session.close_input()
    await feeding
    assert taken == payload
    assert (await session.wait()).code == 0
    await session.close()


async def test_exec_on_a_terminal_has_a_size(world: World) -> None:
    await world.create(pod())
    await world.until(is_ready)
    session = await execute(world, "sh", stdin=True, tty=True)
    session.resize(-1, 10**6)
    session.resize(123, 45)
    await session.write(b"stty size; tty | cut -c1-8; exit 3\n")
    out, err, code = await collect(session)
    assert b"45 123" in out
    assert b"/dev/pts" in out
    assert (err, code) == (b"", 3)


async def test_command_ends_when_its_session_is_closed(world: World) -> None:
    await world.create(pod())
    await world.until(is_ready)
    session = await execute(world, "sleep", "600")
    await session.close()
    async with asyncio.timeout(30):
        assert (await session.wait()).code in (129, 137)


async def test_exec_says_what_is_wrong(world: World) -> None:
    await world.create(pod("p", container("one"), container("two")))
    await world.until(is_ready)
    with pytest.raises(HookError, match=r"a container name must be specified for pod p"):
        await execute(world, "true")
    with pytest.raises(HookError, match="container three is not valid for pod p"):
        await execute(world, "true", container="three")
    with pytest.raises(HookError, match='"/no/such"') as caught:
        await execute(world, "/no/such", container="one")
    assert caught.value.code == 500
    assert world.agent is not None
    with pytest.raises(HookError, match='pods "q" not found'):
        await world.agent.exec("default", "q", ExecOptions(command=("true",)))


class Wire:
    """The two ends of a websocket, in memory."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = list(messages)
        self.sent: list[bytes] = []
        self.closed = asyncio.Event()

    async def receive(self) -> bytes | None:
        if self._messages:
            return self._messages.pop(0)
        await self.closed.wait()
        return None

    async def send(self, message: bytes) -> None:
        self.sent.append(message)


async def test_channels_carry_input_output_and_status(world: World) -> None:
    await world.create(pod())
    await world.until(is_ready)
    session = await execute(world, "sh", "-c", "cat; exit 4", stdin=True)
    wire = Wire(b"\x00hello", b"\xff\x00")
    async with asyncio.timeout(30):
        await serve(session, wire, PROTOCOLS[0])
    assert wire.sent[0] == b"\x01hello"
    status = msgspec.json.decode(wire.sent[-1][1:])
    assert wire.sent[-1][0] == 3
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "4"}]


async def test_peer_that_leaves_ends_the_command(world: World) -> None:
    await world.create(pod())
    await world.until(is_ready)
    session = await execute(world, "sleep", "600")
    wire = Wire()
    wire.closed.set()
    async with asyncio.timeout(30):
        await serve(session, wire, PROTOCOLS[1])
        assert (await session.wait()).code != 0


def test_newest_protocol_that_both_speak_is_chosen() -> None:
    assert choose(["v4.channel.k8s.io", "v5.channel.k8s.io"]) == "v5.channel.k8s.io"
    assert choose(["channel.k8s.io"]) is None


def test_status_of_an_end_is_that_of_a_kubelet() -> None:
    assert exec_status(ExecExit(0)) == {"metadata": {}, "status": "Success"}
    assert exec_status(ExecExit(2))["reason"] == "NonZeroExitCode"


async def read(path: Path, options: LogOptions, *, over: bool = True) -> str:
    pieces = read_log(path, options, is_over=lambda: over)
    return b"".join([piece async for piece in pieces]).decode()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    lines = [f"2026-01-01T00:00:0{n}.000000000Z stdout F line {n}" for n in range(5)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (LogOptions(), "line 0\nline 1\nline 2\nline 3\nline 4\n"),
        (LogOptions(tail_lines=2), "line 3\nline 4\n"),
        (LogOptions(tail_lines=0), ""),
        (LogOptions(limit_bytes=9), "line 0\nli"),
        (
            LogOptions(since_seconds=10**17, tail_lines=10**17, limit_bytes=10**17),
            "line 0\nline 1\nline 2\nline 3\nline 4\n",
        ),
        (
            LogOptions(since_time=datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC)),
            "line 3\nline 4\n",
        ),
        (
            LogOptions(timestamps=True, tail_lines=1),
            "2026-01-01T00:00:04.000000000Z line 4\n",
        ),
    ],
    ids=["all", "tail", "none", "limit", "huge", "since", "timestamps"],
)
async def test_log_is_read_as_asked(log: Path, options: LogOptions, expected: str) -> None:
    assert await read(log, options) == expected


async def test_log_since_some_seconds_counts_from_now(log: Path) -> None:
    now = datetime(2026, 1, 1, 0, 0, 4, 500000, tzinfo=UTC)
    pieces = read_log(log, LogOptions(since_seconds=1), is_over=lambda: True, now=now)
    assert b"".join([piece async for piece in pieces]) == b"line 4\n"
    assert now - timedelta(seconds=1) < now


async def test_rotated_log_is_read_in_order_and_followed(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    file = LogFile(str(path), limit=400, kept=2)
    over = False
    for number in range(5):
        file.feed("stdout", f"early {number}\n".encode())

    taken: list[str] = []

    async def follow() -> None:
        async for piece in read_log(path, LogOptions(follow=True), is_over=lambda: over):
            taken.extend(piece.decode().splitlines())

    async def taken_up_to(line: str) -> None:
        async with asyncio.timeout(30):
            while True:
                if line in taken:
                    return
                await asyncio.sleep(0.01)

    following = asyncio.create_task(follow())
    for number in range(20):
        file.feed("stderr", f"late {number}\n".encode())
        if number % 4 == 3:
            await taken_up_to(f"late {number}")
    over = True
    async with asyncio.timeout(30):
        await following
    file.close()
    assert taken[-20:] == [f"late {number}" for number in range(20)]
    assert (tmp_path / "0.log.2").exists()
    assert not (tmp_path / "0.log.3").exists()


async def test_nothing_is_left_out_by_a_reader_that_is_far_behind_a_rotation(
    tmp_path: Path,
) -> None:
    path = tmp_path / "0.log"
    file = LogFile(str(path), limit=400_000, kept=2)
    file.feed("stdout", b"first\n")
    pieces = read_log(path, LogOptions(follow=True), is_over=lambda: True)
    taken = [await anext(pieces)]
    for number in range(6000):
        file.feed("stdout", f"{number:040}\n".encode())
    file.close()
    assert (tmp_path / "0.log.1").exists()
    taken += [piece async for piece in pieces]
    assert len(b"".join(taken).splitlines()) == 6001


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tailLines", "9" * 5000),
        ("sinceSeconds", "9" * 19),
        ("sinceTime", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_a_number_that_no_client_sends_is_refused(name: str, value: str) -> None:
    connect = Connect("log", "default", "p", {}, ((name, value),))
    with pytest.raises(StatusError) as refused:
        log_options(connect)
    assert refused.value.code == 400


def test_long_lines_are_kept_in_pieces(tmp_path: Path) -> None:
    file = LogFile(str(tmp_path / "0.log"), limit=1 << 20, kept=1)
    file.feed("stdout", b"x" * 40_000)
    file.feed("stdout", b"end\nunfinished")
    file.close()
    tags = [line.split(" ")[2] for line in (tmp_path / "0.log").read_text().splitlines()]
    assert tags == ["P", "P", "P", "F", "P"]


async def test_previous_log_is_that_of_the_instance_before(world: World) -> None:
    assert world.agent is not None
    counter = "n=$(cat /data/n 2>/dev/null || echo 0); echo $((n+1)) > /data/n; echo run $n; exit 1"
    mounts = [{"name": "data", "mountPath": "/data"}]
    await world.create(
        pod(
            "p",
            container("main", counter, volumeMounts=mounts),
            volumes=[{"name": "data", "emptyDir": {}}],
        )
    )
    await world.until(lambda p: status_of(p).get("restartCount") == 1)
    await world.until(
        lambda p: (
            "waiting" in status_of(p)["state"]
            and status_of(p)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        )
    )
    chunks = await world.agent.logs("default", "p", LogOptions(previous=True))
    assert b"".join([chunk async for chunk in chunks]) == b"run 1\n"


async def test_log_of_a_container_that_did_not_start_says_why(world: World) -> None:
    assert world.agent is not None
    await world.create(pod("p", {**container(), "image": "nothing:1"}))
    await world.until(lambda p: "waiting" in status_of(p).get("state", {}))
    with pytest.raises(HookError, match='container "main" in pod "p" is waiting to start'):
        await world.agent.logs("default", "p", LogOptions())
    with pytest.raises(HookError, match="previous terminated container"):
        await world.agent.logs("default", "p", LogOptions(previous=True))


async def test_followed_log_ends_with_its_container(world: World) -> None:
    assert world.agent is not None
    script = "for n in 1 2 3; do echo $n; sleep 0.05; done"
    await world.create(pod("p", container("main", script), restartPolicy="Never"))
    await world.until(phase_is("Running", "Succeeded"))
    chunks = await world.agent.logs("default", "p", LogOptions(follow=True))
    async with asyncio.timeout(30):
        assert b"".join([chunk async for chunk in chunks]) == b"1\n2\n3\n"
