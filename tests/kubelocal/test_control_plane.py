"""What becomes of the pods when the control plane has an error of its own."""

from __future__ import annotations

import asyncio
import errno
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.errors import NoAnswer
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import CONFIG_MAPS, PODS
from kubelocal import control_plane
from kubelocal.apiserver.daemon import Daemon
from kubelocal.control_plane import _client, _follow_power, _serve
from kubelocal.controllers.engine.caches import Caches
from kubelocal.distribution import Distribution
from kubelocal.instance import Instance, Settings
from kubelocal.loopback import held_number
from kubelocal.node.agent import NodeAgent
from kubelocal.node.errors import KeeperError
from kubelocal.node.nodes import Heartbeat, NodeSpec
from kubelocal.node.process.keeper.family import start_ticks
from kubelocal.node.process.mounts import Mode

POD = {
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {
        "nodeName": "node1",
        "containers": [{"name": "main", "image": "busybox:1.36", "command": ["sleep", "600"]}],
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
    },
}
DISTRIBUTION = Distribution()
Task = Callable[[Client], Awaitable[None]]


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    found = Instance("test", tmp_path)
    yield found
    control_plane.end_leftovers(found)


def processes(instance: Instance) -> list[int]:
    """The pods' processes that still run."""
    records = (instance.node_folder / "keeper/run").glob("*")
    pids = [int(msgspec.json.decode(record.read_bytes())["pid"]) for record in records]
    return [pid for pid in pids if start_ticks(pid) is not None]


async def serve(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, work: Task, stopping: asyncio.Event
) -> None:
    """Run the control plane with one task of the test's own among its tasks."""
    whole = control_plane._control

    async def control(daemon: Daemon, *given: Any) -> None:
        controlling = asyncio.create_task(whole(daemon, *given))
        try:
            await work(_client(daemon, "test"))
            await asyncio.Event().wait()
        finally:
            controlling.cancel()

    with monkeypatch.context() as patched:
        patched.setattr(control_plane, "_control", control)
        async with asyncio.timeout(60):
            await _serve(
                instance, Settings(network=held_number()), stopping, DISTRIBUTION, instance.folder
            )


async def until_running(client: Client) -> None:
    while (await client.get(PODS, ("default", "p"))).status.phase != "Running":  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_pods_outlive_an_error_of_the_control_plane_and_are_adopted(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def break_down(client: Client) -> None:
        await client.create(PODS, POD)
        await until_running(client)
        raise RuntimeError("a bug")

    with pytest.raises(ExceptionGroup) as caught:
        await serve(instance, monkeypatch, break_down, asyncio.Event())
    assert caught.group_contains(RuntimeError, match="a bug")
    before = await asyncio.to_thread(processes, instance)
    assert len(before) == 1
    stopping = asyncio.Event()
    found: list[list[int]] = []

    async def stop(client: Client) -> None:
        await until_running(client)
        found.append(await asyncio.to_thread(processes, instance))
        stopping.set()

    await serve(instance, monkeypatch, stop, stopping)
    assert found == [before]
    assert await asyncio.to_thread(processes, instance) == [], "it was asked to stop"


async def test_a_control_plane_starts_again_on_a_full_disk(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it databases run, and nobody helps them."""
    for written in ("before", "full"):
        stopping = asyncio.Event()

        async def stop(_: Client, stopping: asyncio.Event = stopping) -> None:
            while not instance.ready_file.exists():  # noqa: ASYNC110 - the control plane makes it
                await asyncio.sleep(0.01)
            stopping.set()

        await serve(instance, monkeypatch, stop, stopping)
        if written == "before":  # from here on, neither file can be written
            instance.kubeconfig.with_name("kubeconfig.new").mkdir()
            instance.ready_file.mkdir()
            monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)


async def test_a_node_goes_on_reporting_after_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("kubelocal.node.nodes._RETRY", 0.01)
    tries: list[Exception | None] = [RuntimeError("a bug"), NoAnswer("no", host="h"), None]
    done = asyncio.Event()

    async def post() -> None:
        error = tries.pop(0)
        if error is not None:
            raise error
        done.set()

    beat = Heartbeat(Any, NodeSpec(name="n", address="127.0.0.1"), images=[], folder=tmp_path)  # type: ignore[arg-type]
    monkeypatch.setattr(beat, "_post_status", post)
    monkeypatch.setattr(beat, "_renew", post)
    task = asyncio.create_task(beat.run())
    try:
        async with asyncio.timeout(30):
            await done.wait()
    finally:
        task.cancel()


async def test_a_node_that_cannot_be_switched_off_at_once_is_switched_off_later(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_plane, "_RETRY_SECONDS", 0.01)
    stopping = asyncio.Event()
    tries = [KeeperError("the keeper died"), OSError(errno.ENOSPC, "no space left on device")]

    async def switch(client: Client) -> None:
        del client
        async with asyncio.timeout(30):
            while tries or not switched:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        stopping.set()

    switched: list[str] = []
    obey = _follow_power

    async def obeying(nodes: Any, agent: Any, annotation: str) -> None:
        async def start_node(name: str) -> None:
            if tries:
                raise tries.pop()
            switched.append(name)

        monkeypatch.setattr(agent, "start_node", start_node)
        await obey(nodes, agent, annotation)

    monkeypatch.setattr(control_plane, "_follow_power", obeying)
    await serve(instance, monkeypatch, switch, stopping)
    assert switched[0] == "node1"


def by_uid(objects: Iterable[Manifest]) -> dict[str, Manifest]:
    return {found["metadata"]["uid"]: found for found in objects}


async def test_controllers_and_node_agent_share_one_cache_that_no_reader_changes(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, watches = asyncio.Event(), {}
    kept: list[Caches] = []

    class Kept(Caches):
        def __init__(self, client: Client) -> None:
            super().__init__(client)
            kept.append(self)

    monkeypatch.setattr(control_plane, "Caches", Kept)
    manifest = msgspec.json.decode(msgspec.json.encode(POD))
    manifest["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "m"}}]
    mount = {"name": "v", "mountPath": "/v"}
    manifest["spec"]["containers"][0]["volumeMounts"] = [mount]

    async def look(client: Client) -> None:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "m", "namespace": "default"}})
        await client.create(PODS, manifest)
        await until_running(client)
        store = client.transport._server.core.store  # type: ignore[attr-defined]
        for plural in ("pods", "nodes", "configmaps"):
            watches[plural] = len(store.collection(plural).wakers)
        for plain in (PODS.plain(), CONFIG_MAPS.plain()):
            cache = kept[0].informers[plain.plural].cache
            while by_uid(cache) != by_uid((await client.list(plain)).items):  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # or the time of `serve` is over
        stopping.set()

    await serve(instance, monkeypatch, look, stopping)
    assert watches == {"pods": 1, "nodes": 1, "configmaps": 1}


def first_log(folder: Path) -> str:
    [log] = folder.glob("node/pods/*/logs/main/0.log")
    return log.read_text()


async def test_pods_see_neither_keys_nor_state_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))  # /tmp is a pod's own anyway
    instance, stopping = Instance("test", folder), asyncio.Event()
    script = (
        f"find {folder} -type f; cat {instance.kubeconfig} {instance.database};"
        "touch $HOME/mine && echo looked"
    )
    manifest = msgspec.json.decode(msgspec.json.encode(POD))
    manifest["spec"]["containers"][0]["command"] = ["sh", "-c", script]
    manifest["spec"]["restartPolicy"] = "Never"

    agents: list[NodeAgent] = []
    make = control_plane._agent

    def made(*given: Any, **more: Any) -> NodeAgent:
        agents.append(make(*given, **more))
        return agents[0]

    monkeypatch.setattr(control_plane, "_agent", made)

    async def look(client: Client) -> None:
        await client.create(PODS, manifest)
        while (await client.get(PODS, ("default", "p"))).status.phase != "Succeeded":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        stopping.set()

    try:
        await serve(instance, monkeypatch, look, stopping)
        assert agents[0].report is not None
        if agents[0].report.mode is Mode.MAPPING:
            pytest.skip("pods have no mount namespaces of their own on this machine")
        printed = await asyncio.to_thread(first_log, folder)
    finally:
        shutil.rmtree(folder)
    assert "looked" in printed
    assert "apiVersion" not in printed, "the administrator's kubeconfig"
    assert "SQLite" not in printed, "all Secrets"
    assert "ca.key" not in printed
