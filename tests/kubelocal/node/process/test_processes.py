from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubelocal.node.errors import StartError
from kubelocal.node.process.client import Description, Ended, Processes
from kubelocal.node.process.keeper.family import start_ticks

PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    keeper = Processes(tmp_path / "keeper")
    await keeper.open()
    yield keeper
    await keeper.quit()


def describe(tmp_path: Path, identity: str, script: str, **more: Any) -> Path:
    path = tmp_path / f"{identity}.json"
    Description(
        id=identity,
        argv=("sh", "-c", script),
        env={"PATH": PATH, **more.pop("env", {})},
        log=str(tmp_path / f"{identity}.log"),
        **more,
    ).write(path)
    return path


def is_on_the_machine(path: str) -> bool:
    return Path(path).exists()


def is_logged(log: Path, text: str) -> bool:
    return text in log.read_text()


async def until_logged(log: Path, text: str) -> None:
    async with asyncio.timeout(30):
        while True:
            if is_logged(log, text):
                return
            await asyncio.sleep(0.005)


async def run(processes: Processes, spec: Path) -> Ended:
    end = processes.watch(spec.stem)
    await processes.start(spec)
    async with asyncio.timeout(30):
        return await end


async def test_exit_code_and_both_outputs_are_kept(processes: Processes, tmp_path: Path) -> None:
    end = await run(processes, describe(tmp_path, "a", "echo out; echo err >&2; exit 3"))
    assert end.code == 3
    lines = sorted(line.split(" ", 1)[1] for line in (tmp_path / "a.log").read_text().splitlines())
    assert lines == ["stderr F err", "stdout F out"]


async def test_death_by_signal_is_128_more_than_its_number(
    processes: Processes, tmp_path: Path
) -> None:
    assert (await run(processes, describe(tmp_path, "a", "kill -9 $$"))).code == 137


async def test_program_that_is_not_there_fails_at_exec(
    processes: Processes, tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    Description(id="x", argv=("/no/such",), env={}, log=str(tmp_path / "x.log")).write(path)
    with pytest.raises(StartError) as caught:
        await processes.start(path)
    assert (caught.value.stage, caught.value.number) == ("exec", 2)
    assert "/no/such" in str(caught.value)


async def test_what_never_started_has_not_ended(processes: Processes, tmp_path: Path) -> None:
    """Also when its end is looked for before its report of what went wrong was read."""
    for number in range(20):
        path = tmp_path / f"x{number}.json"
        log = str(tmp_path / "x.log")
        Description(id=path.stem, argv=("/no/such",), env={}, log=log).write(path)
        starting = asyncio.create_task(processes.start(path))
        while not starting.done():
            await processes.list_processes()
        assert isinstance(starting.exception(), StartError)
    assert (await processes.list_processes()).ended == {}


async def test_detached_grandchildren_end_with_their_container(
    processes: Processes, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    script = f"setsid sleep 600 & echo $! > {pid_file}; sleep 0.05; exit 0"
    assert (await run(processes, describe(tmp_path, "a", script))).code == 0
    assert start_ticks(int(pid_file.read_text())) is None


@pytest.mark.parametrize("variables", [0, 10_000])
async def test_a_grandchild_ends_with_its_container_also_while_it_becomes_another_program(
    processes: Processes, tmp_path: Path, variables: int
) -> None:
    """In the middle of an exec a process shows no environment, and so no mark.

    With many variables it is longer in that part of it where the place of the environment is known.
    """
    env = {f"V{number}": "" for number in range(variables)}
    again = tmp_path / "again"
    again.write_text('#!/bin/sh\nexec "$0"\n')
    again.chmod(0o700)
    for number in range(10):
        pid_file = tmp_path / f"pid{number}"
        script = f"setsid {again} & echo $! > {pid_file}; sleep 0.05; exit 0"
        assert (await run(processes, describe(tmp_path, f"a{number}", script, env=env))).code == 0
        assert start_ticks(int(pid_file.read_text())) is None, f"{number}: it was not seen"


async def test_processes_survive_their_agent_and_are_found_again(
    processes: Processes, tmp_path: Path
) -> None:
    script = "trap 'exit 7' TERM; echo trapped; while :; do sleep 0.01; done"
    started = await processes.start(describe(tmp_path, "a", script))
    await until_logged(tmp_path / "a.log", "trapped")  # a signal before that would just end it
    processes.close()
    again = Processes(tmp_path / "keeper")
    await again.open()
    found = await again.list_processes()
    assert found.running["a"] == started
    end = again.watch("a")
    assert await again.signal("a")
    async with asyncio.timeout(30):
        assert (await end).code == 7
    assert (await again.list_processes()).ended["a"].code == 7
    await again.forget(["a"])
    assert not (await again.list_processes()).ended
    await again.quit()
    await processes.open()


async def test_containers_of_two_keepers_may_have_the_same_name(
    processes: Processes, tmp_path: Path
) -> None:
    """Keepers know nothing of each other, and each gives its containers names as it likes."""
    (tmp_path / "else").mkdir()
    other = Processes(tmp_path / "other")
    await other.open()
    try:
        stranger = await other.start(describe(tmp_path / "else", "a", "exec sleep 600"))
        assert (await run(processes, describe(tmp_path, "a", "exit 4"))).code == 4
        assert start_ticks(stranger.pid) == stranger.started, "it was taken for a part of the other"
        assert (await other.list_processes()).running == {"a": stranger}
    finally:
        await other.quit()


async def test_a_process_is_killed_from_the_moment_it_is_forked(
    processes: Processes, tmp_path: Path
) -> None:
    """It has neither a session nor a mark of its own yet: only its parent knows whose it is."""
    for number in range(20):
        spec = describe(tmp_path, f"a{number}", "exec sleep 600")
        end = processes.watch(spec.stem)
        starting = asyncio.create_task(processes.start(spec))
        await asyncio.sleep(0)  # the request is sent, and the keeper has had no time
        await processes.kill(spec.stem)
        await starting
        async with asyncio.timeout(30):
            assert (await end).code == 137


async def test_death_of_the_keeper_ends_its_processes_and_says_so(
    processes: Processes, tmp_path: Path
) -> None:
    spec = describe(tmp_path, "a", "sleep 600")
    end = processes.watch("a")
    started = await processes.start(spec)
    keeper = msgspec.json.decode((tmp_path / "keeper/keeper").read_bytes())["pid"]
    os.kill(keeper, signal.SIGKILL)
    async with asyncio.timeout(30):
        ended = await end
    assert ended.code == 137
    assert ended.lost
    assert start_ticks(started.pid) != started.started
    assert (await run(processes, describe(tmp_path, "b", "exit 5"))).code == 5


async def test_quitting_leaves_no_process_behind(tmp_path: Path) -> None:
    keeper = Processes(tmp_path / "keeper")
    await keeper.open()
    started = [
        await keeper.start(describe(tmp_path, f"p{number}", "trap '' TERM; sleep 600"))
        for number in range(5)
    ]
    await keeper.quit()
    assert [start_ticks(one.pid) for one in started] == [None] * 5


async def test_descriptors_can_be_given_instead_of_a_log(
    processes: Processes, tmp_path: Path
) -> None:
    spec = describe(tmp_path, "a", "cat; echo done >&2", guest=True)
    given, feed = os.pipe()
    out, out_end = os.pipe()
    end = processes.watch("a")
    await processes.start(spec, (given, out_end, out_end))
    for descriptor in (given, out_end):
        os.close(descriptor)
    os.write(feed, b"hello\n")
    os.close(feed)
    async with asyncio.timeout(30):
        assert (await end).code == 0
    assert os.read(out, 100) == b"hello\ndone\n"
    os.close(out)


@pytest.mark.parametrize("isolation", ["mount", "user"])
async def test_container_sees_its_mounts_and_leaves_the_machine_alone(
    processes: Processes, tmp_path: Path, isolation: str
) -> None:
    if isolation == "mount" and os.geteuid() != 0:
        pytest.skip("mount namespaces without a user namespace need root")
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume/here").write_text("from the volume\n")
    (tmp_path / "file").write_text("one file\n")
    (tmp_path / "stage").mkdir()
    tree = {
        "stage": str(tmp_path / "stage"),
        "hostname": "cache-0",
        "fresh": ["tmp", "run"],
        "folders": ["/work/dir"],
        "read_only": False,
        "binds": [
            {"source": str(tmp_path / "volume"), "target": "/data", "read_only": False},
            {
                "source": str(tmp_path / "volume"),
                "target": "/etc/redis-operator",
                "read_only": True,
            },
            {"source": str(tmp_path / "file"), "target": "/data/file", "read_only": False},
        ],
    }
    script = (
        "cat /data/here /etc/redis-operator/here /data/file; hostname; pwd; ls /tmp;"
        "echo new > /data/new; (echo no > /etc/redis-operator/new) 2>/dev/null || echo refused;"
        "echo mine > /tmp/mine; cat /tmp/mine"
    )
    spec = describe(
        tmp_path, "a", script, isolation=isolation, tree=tree, cwd="/work/dir", env={"HOME": "/"}
    )
    try:
        end = await run(processes, spec)
    except StartError as error:
        if error.number not in (errno.EPERM, errno.ENOSPC):
            raise
        pytest.skip(f"this machine allows no such namespace: {error}")
    assert end.code == 0
    lines = [line.split(" ", 3)[3] for line in (tmp_path / "a.log").read_text().splitlines()]
    assert lines == [
        "from the volume",
        "from the volume",
        "one file",
        "cache-0",
        "/work/dir",
        "refused",
        "mine",
    ]
    assert (tmp_path / "volume/new").read_text() == "new\n"
    assert not is_on_the_machine("/tmp/mine")
    assert not is_on_the_machine("/etc/redis-operator")


def is_zombie(pid: int) -> bool:
    return start_ticks(pid) is None and Path(f"/proc/{pid}").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs mount namespaces without a user namespace")
async def test_end_of_a_container_is_never_the_end_of_a_stranger(
    processes: Processes, tmp_path: Path
) -> None:
    """The kernel gives a mount tree's number to the next one as soon as it is free.

    1. A container ends while its keeper is held up. 2. Another keeper starts a container, which
    may get the number. 3. The first keeper ends what is left of its container.
    """
    other = Processes(tmp_path / "other")
    await other.open()
    tree = {
        "hostname": "h",
        "fresh": ["tmp", "run"],
        "folders": [],
        "read_only": False,
        "binds": [],
    }
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    ours, theirs = (
        describe(
            tmp_path,
            name,
            "exec sleep 600",
            isolation="mount",
            tree={"stage": str(tmp_path / name), **tree},
        )
        for name in ("ours", "theirs")
    )
    end = processes.watch("ours")
    started = await processes.start(ours)
    await processes.list_processes()
    keeper = msgspec.json.decode((tmp_path / "keeper/keeper").read_bytes())["pid"]
    os.kill(keeper, signal.SIGSTOP)
    try:
        os.kill(started.pid, signal.SIGKILL)
        async with asyncio.timeout(30):
            while True:
                if is_zombie(started.pid):
                    break
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.3)  # the kernel frees the number of a tree a little later
        stranger = await other.start(theirs)
    finally:
        os.kill(keeper, signal.SIGCONT)
    async with asyncio.timeout(30):
        assert (await end).code == 137
    assert start_ticks(stranger.pid) == stranger.started
    await other.quit()
