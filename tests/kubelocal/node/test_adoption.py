from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import uuid
from collections.abc import Sequence
from pathlib import Path

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

from kubecontroller.client.objects import LEASES, NODES
from kubelocal.node.agent import NodeAgent
from kubelocal.node.errors import KeeperError, ModeError, NodeError
from kubelocal.node.process.client import Processes, ProcessList, Running
from kubelocal.node.process.keeper.family import MARK, start_ticks
from kubelocal.node.process.mounts import Mode


def family(data_dir: Path) -> list[int]:
    """The processes of all containers that were started from a folder."""
    found = []
    for record in (data_dir / "keeper/run").iterdir():
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            found.append(msgspec.json.decode(record.read_bytes())["pid"])
    return found


def keeper_pid(data_dir: Path) -> int:
    return int(msgspec.json.decode((data_dir / "keeper/keeper").read_bytes())["pid"])


def marked(word: str) -> list[str]:
    """The processes that carry a container's mark and a word of this test alone."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environ = (process / "environ").read_bytes()
            if f"{MARK}=".encode() in environ and f"STRAY_TEST={word}".encode() in environ:
                found.append(process.name)
    return found


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
async def test_pods_go_on_without_their_agent_and_are_adopted(
    bare_world: World, mode: Mode
) -> None:
    world = bare_world
    try:
        await world.start_agent(mode=mode)
    except ModeError as error:
        pytest.skip(str(error))
    await world.create(pod("p", container("main", "echo first; sleep 600")))
    before = await world.until_quiet()
    pids = family(world.data_dir)
    await world.kill_agent()
    assert [start_ticks(pid) is not None for pid in pids] == [True]
    await world.start_agent(mode=mode)
    after = await world.until_quiet()
    assert family(world.data_dir) == pids
    assert status_of(after) == status_of(before)
    assert after["status"]["podIP"] == before["status"]["podIP"]
    assert await world.log() == "first\n"
    await world.delete()
    await world.until_gone()
    assert [start_ticks(pid) for pid in pids] == [None]


async def test_containers_are_adopted_also_where_the_keeper_cannot_write(
    bare_world: World,
) -> None:
    """Two servers on one data folder destroy it."""
    world = bare_world
    await world.start_agent()
    (world.data_dir / "keeper/list.new").mkdir()  # as on a full disk: no list can be written
    word = uuid.uuid4().hex
    env = [{"name": "STRAY_TEST", "value": word}]
    await world.create(pod("p", container("main", env=env)))
    await world.until_quiet()
    before = marked(word)
    await world.kill_agent()
    agent = await world.start_agent()
    async with asyncio.timeout(30):
        while not all(one.runners[0]._end for one in agent._runners.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    after = await world.until_quiet()
    assert (len(before), marked(word)) == (1, before)
    assert status_of(after)["restartCount"] == 0


def is_adopted(agent: NodeAgent) -> bool:
    return all(one.runners[0]._end is not None for one in agent._runners.values())


async def test_a_pod_whose_record_cannot_be_read_now_is_left_alone(
    bare_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = bare_world
    monkeypatch.setattr("kubelocal.node.agent._RETRY", 0.01)
    await world.start_agent()
    await world.create(pod())
    await world.until_quiet()
    pids = family(world.data_dir)
    await world.kill_agent()
    whole = Path.read_bytes
    refused: list[Path] = []

    def read(path: Path) -> bytes:
        if path.name == "pod" and len(refused) < 3:
            refused.append(path)
            raise OSError(errno.EMFILE, "too many open files")
        return whole(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    agent = await world.start_agent()
    async with asyncio.timeout(30):
        while len(refused) < 3 or not agent._runners or not is_adopted(agent):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    found = await world.until_quiet()
    assert family(world.data_dir) == pids
    assert status_of(found)["restartCount"] == 0


async def test_agent_without_a_list_adopts_nothing_and_asks_again(
    bare_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = bare_world
    monkeypatch.setattr("kubelocal.node.agent._RETRY", 0.01)
    await world.start_agent()
    await world.create(pod())
    await world.until_quiet()
    pids = family(world.data_dir)
    await world.kill_agent()
    whole = Processes.list_processes
    refused: list[bool] = []

    async def refuse(self: Processes) -> ProcessList:
        # The first two are for all pods, the fourth is for this one.
        refused.append(len(refused) in (0, 1, 3))
        if refused[-1]:
            raise KeeperError("the keeper has no list")
        return await whole(self)

    monkeypatch.setattr(Processes, "list_processes", refuse)
    await world.start_agent()
    async with asyncio.timeout(30):
        while len(refused) < 5:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    found = await world.until_quiet()
    assert family(world.data_dir) == pids
    assert status_of(found)["restartCount"] == 0


async def test_start_that_took_too_long_is_taken_back_before_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper may still do it: two servers on one data folder destroy it."""
    word, keeper = uuid.uuid4().hex, keeper_pid(world.data_dir)
    whole, failed = Processes.start, asyncio.Event()

    async def start(self: Processes, spec: Path, descriptors: Sequence[int] = ()) -> Running:
        try:
            return await whole(self, spec, descriptors)
        except KeeperError:
            failed.set()
            raise

    with monkeypatch.context() as patched:
        patched.setattr(Processes, "start", start)
        patched.setattr("kubelocal.node.process.client._REQUEST_DEADLINE", 0.5)
        os.kill(keeper, signal.SIGSTOP)
        try:
            env = [{"name": "STRAY_TEST", "value": word}]
            await world.create(pod("p", container("main", env=env)))
            async with asyncio.timeout(30):
                await failed.wait()
        finally:
            os.kill(keeper, signal.SIGCONT)
    await world.until_quiet()
    assert len(marked(word)) == 1
    assert len((await world.agent._processes.list_processes()).running) == 1  # type: ignore[union-attr]


async def test_end_that_nobody_saw_is_found_and_the_container_restarted(
    bare_world: World,
) -> None:
    world = bare_world
    await world.start_agent()
    await world.create(pod("p", container("main", "sleep 600")))
    await world.until(is_ready)
    (pid,) = family(world.data_dir)
    await world.kill_agent()
    os.kill(pid, signal.SIGKILL)
    await world.start_agent()
    found = await world.until(lambda p: status_of(p)["restartCount"] == 1 and is_ready(p))
    assert status_of(found)["lastState"]["terminated"]["exitCode"] == 137


async def test_pod_that_was_deleted_meanwhile_is_ended(bare_world: World) -> None:
    world = bare_world
    await world.start_agent()
    await world.create(pod())
    await world.until(is_ready)
    (pid,) = family(world.data_dir)
    await world.kill_agent()
    await world.delete(grace_seconds=0)
    await world.start_agent()
    assert start_ticks(pid) is None
    assert not list((world.data_dir / "pods").iterdir())


async def test_everything_killed_leaves_no_stray_and_starts_again(bare_world: World) -> None:
    world = bare_world
    await world.start_agent()
    word = uuid.uuid4().hex
    env = [{"name": "STRAY_TEST", "value": word}]
    script = "setsid sleep 600 & setsid sleep 601 & sleep 602"
    await world.create(pod("p", container("main", script, env=env)))
    first = await world.until(is_ready)
    await world.kill_agent()
    os.kill(keeper_pid(world.data_dir), signal.SIGKILL)
    await world.start_agent()
    found = await world.until(lambda p: status_of(p)["restartCount"] == 1 and is_ready(p))
    assert found["metadata"]["uid"] == first["metadata"]["uid"]
    await world.kill_agent()
    assert world.agent is not None
    async with asyncio.timeout(20):
        while len(marked(word)) != 4:  # noqa: ASYNC110 - its shell has just begun
            await asyncio.sleep(0.01)
    await world.agent.shutdown(grace=0.1)
    assert marked(word) == []
    world.agent = None


async def test_shutdown_leaves_no_control_group(bare_world: World) -> None:
    """Neither those of containers nor that of the agent, also when an agent was killed before."""
    world = bare_world
    first = await world.start_agent()
    groups = first._machine.cgroups.folders
    await world.create(pod())
    await world.until(is_ready)
    assert [len([path for path in folder.iterdir() if path.is_dir()]) for folder in groups] == [
        1 for _ in groups
    ]
    await world.kill_agent()
    second = await world.start_agent()
    await world.kill_agent()
    await second.shutdown(grace=0.1)
    assert [folder for folder in groups if folder.exists()] == []


async def test_shutdown_keeps_pods_and_the_next_agent_starts_them(bare_world: World) -> None:
    world = bare_world
    agent = await world.start_agent()
    script = "trap 'exit 0' TERM; echo trapped; while :; do sleep 0.01; done"
    await world.create(pod("p", container("main", script)))
    before = await world.until(is_ready)
    await world.until_logged("trapped")
    await world.kill_agent()
    await agent.shutdown(grace=5)
    await world.start_agent()
    found = await world.until(lambda p: status_of(p)["restartCount"] == 1 and is_ready(p))
    assert status_of(found)["lastState"]["terminated"]["exitCode"] == 0
    assert found["status"]["podIP"] != before["status"]["podIP"]


async def test_containers_start_at_once_however_often_the_cluster_was_stopped(
    bare_world: World,
) -> None:
    """No delay of earlier ends: a node that boots starts everything at once."""
    world = bare_world
    script = "trap 'exit 0' TERM; echo trapped; while :; do sleep 0.01; done"
    agent = await world.start_agent()
    await world.create(pod("p", container("main", script)))
    await world.until(is_ready)
    for stops in (1, 2, 3):
        await world.kill_agent()
        await agent.shutdown(grace=5)
        agent = await world.start_agent()
        await world.until(lambda p, n=stops: status_of(p)["restartCount"] == n and is_ready(p))
    reasons = {event["reason"] for event in await world.events()}
    assert "Started" in reasons
    assert "BackOff" not in reasons


async def test_powered_off_node_falls_silent_and_comes_back(world: World) -> None:
    assert world.agent is not None
    script = "trap 'echo goodbye' TERM; sleep 600"
    await world.create(pod("p", container("main", script)))
    await world.create(pod("q", nodeName="node-2"))
    before = await world.until_quiet()
    await world.until(is_ready, "q")
    pids = family(world.data_dir)
    await world.agent.stop_node("node-1")
    assert sum(start_ticks(pid) is not None for pid in pids) == 1
    assert (await world.get())["status"] == before["status"]
    await world.delete()
    deleted = await world.until_quiet(condition=lambda p: p["metadata"].get("deletionTimestamp"))
    assert deleted["status"] == before["status"]
    await world.agent.start_node("node-1")
    await world.until_gone()
    assert is_ready(await world.get("q"))


async def test_pods_of_a_node_that_was_powered_off_start_again(world: World) -> None:
    assert world.agent is not None
    await world.create(pod())
    before = await world.until(is_ready)
    await world.agent.stop_node("node-1")
    await world.agent.start_node("node-1")
    found = await world.until(lambda p: status_of(p)["restartCount"] == 1 and is_ready(p))
    assert found["status"]["podIP"] != before["status"]["podIP"]
    assert status_of(found)["lastState"]["terminated"]["exitCode"] == 137
    with pytest.raises(NodeError, match=r"there is no node nope; there is: node-1, node-2"):
        await world.agent.stop_node("nope")


async def test_nodes_register_and_beat(world: World) -> None:
    async with asyncio.timeout(30):
        while True:
            leases = await world.client.list(LEASES.plain(), namespace="kube-node-lease")
            if len(leases.items) == 2:
                break
            await asyncio.sleep(0.01)
    nodes = (await world.client.list(NODES.plain())).items
    assert [node["metadata"]["name"] for node in nodes] == ["node-1", "node-2"]
    ready = [c for c in nodes[0]["status"]["conditions"] if c["type"] == "Ready"]
    assert [(c["status"], c["reason"]) for c in ready] == [("True", "KubeletReady")]


async def test_forced_deletion_ends_the_processes_too(world: World) -> None:
    await world.create(pod("p", container("main", "trap '' TERM; while :; do sleep 1; done")))
    await world.until(phase_is("Running"))
    (pid,) = family(world.data_dir)
    await world.delete(grace_seconds=0)
    await world.until_gone()
    async with asyncio.timeout(30):
        while True:
            if start_ticks(pid) is None:
                break
            await asyncio.sleep(0.02)


async def test_power_cut_while_a_container_starts_leaves_nothing_running(world: World) -> None:
    """The start is under way when the power goes: it counts as started."""
    assert world.agent is not None
    for number in range(10):
        await world.create(pod(f"p{number}"))
    await world.until(lambda p: p["status"].get("podIP"), "p0")
    await world.agent.stop_node("node-1")
    assert [pid for pid in family(world.data_dir) if start_ticks(pid) is not None] == []
    await world.agent.start_node("node-1")
    for number in range(10):
        await world.until(is_ready, f"p{number}", timeout=30)


async def test_agent_that_cannot_begin_leaves_no_connection_behind(
    bare_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise ModeError("no mode is possible here")

    monkeypatch.setattr("kubelocal.node.agent.choose_mode", refuse)
    with pytest.raises(ModeError):
        await bare_world.start_agent()
    assert bare_world.agent is not None
    assert bare_world.agent._processes._socket is None
