from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import msgspec
import pytest

from local.node.pod_world import MODES, World, container, is_ready, phase_is, pod, status_of
from redis_operator.kube.objects import LEASES, NODES
from redis_operator.local.node.errors import ModeError, NodeError
from redis_operator.local.node.keeper.family import MARK, start_ticks
from redis_operator.local.node.mounts import Mode


def family(data_dir: Path) -> list[int]:
    """The processes of all containers that were started from a folder."""
    found = []
    for record in (data_dir / "keeper/run").iterdir():
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            found.append(msgspec.json.decode(record.read_bytes())["pid"])
    return found


def keeper_pid(data_dir: Path) -> int:
    return int(msgspec.json.decode((data_dir / "keeper/keeper").read_bytes())["pid"])


def marked() -> list[str]:
    """Every process of this machine that carries a container's mark and this test's."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environ = (process / "environ").read_bytes()
            if f"{MARK}=".encode() in environ and b"STRAY_TEST=yes" in environ:
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
        world.agent = None
        pytest.skip(str(error))
    await world.create(pod("p", container("main", "echo first; sleep 600")))
    before = await world.until(is_ready)
    pids = family(world.data_dir)
    await world.kill_agent()
    assert [start_ticks(pid) is not None for pid in pids] == [True]
    await world.start_agent(mode=mode)
    await asyncio.sleep(0.2)
    after = await world.get()
    assert family(world.data_dir) == pids
    assert status_of(after) == status_of(before)
    assert after["status"]["podIP"] == before["status"]["podIP"]
    assert await world.log() == "first\n"
    await world.delete()
    await world.until_gone()
    assert [start_ticks(pid) for pid in pids] == [None]


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
    env = [{"name": "STRAY_TEST", "value": "yes"}]
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
    await world.agent.shutdown(grace=0.1)
    assert marked() == []
    world.agent = None


async def test_shutdown_keeps_pods_and_the_next_agent_starts_them(bare_world: World) -> None:
    world = bare_world
    agent = await world.start_agent()
    script = "trap 'exit 0' TERM; while :; do sleep 0.01; done"
    await world.create(pod("p", container("main", script)))
    before = await world.until(is_ready)
    await asyncio.sleep(0.1)
    await world.kill_agent()
    await agent.shutdown(grace=5)
    await world.start_agent()
    found = await world.until(lambda p: status_of(p)["restartCount"] == 1 and is_ready(p))
    assert status_of(found)["lastState"]["terminated"]["exitCode"] == 0
    assert found["status"]["podIP"] != before["status"]["podIP"]


async def test_powered_off_node_falls_silent_and_comes_back(world: World) -> None:
    assert world.agent is not None
    script = "trap 'echo goodbye' TERM; sleep 600"
    await world.create(pod("p", container("main", script)))
    await world.create(pod("q", nodeName="node-2"))
    before = await world.until(is_ready)
    await world.until(is_ready, "q")
    pids = family(world.data_dir)
    await world.agent.stop_node("node-1")
    assert sum(start_ticks(pid) is not None for pid in pids) == 1
    assert (await world.get())["status"] == before["status"]
    await world.delete()
    await asyncio.sleep(0.1)
    assert (await world.get())["metadata"]["deletionTimestamp"]
    await world.agent.start_node("node-1")
    await world.until_gone()
    assert is_ready(await world.get("q"))


async def test_pods_of_a_node_that_was_powered_off_start_anew(world: World) -> None:
    assert world.agent is not None
    await world.create(pod())
    before = await world.until(is_ready)
    await world.agent.stop_node("node-1")
    await world.agent.start_node("node-1")
    found = await world.until(lambda p: status_of(p)["restartCount"] == 1 and is_ready(p))
    assert found["status"]["podIP"] != before["status"]["podIP"]
    with pytest.raises(NodeError, match=r"there is no node nope; there is: node-1, node-2"):
        await world.agent.stop_node("nope")


async def test_nodes_register_and_beat(world: World) -> None:
    async with asyncio.timeout(5):
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
    async with asyncio.timeout(5):
        while True:
            if start_ticks(pid) is None:
                break
            await asyncio.sleep(0.02)
