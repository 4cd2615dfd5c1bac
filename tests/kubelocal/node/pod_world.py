"""A node agent on an API server in the same process, with real processes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubecontroller.client.api import Client
from kubecontroller.client.errors import NotFound
from kubecontroller.client.objects import EVENTS, PODS
from kubecontroller.client.patches import MergePatch
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.pod_api import LogOptions
from kubelocal.apiserver.server import ApiServer
from kubelocal.loopback import held_number
from kubelocal.node.agent import NodeAgent
from kubelocal.node.nodes import NodeSpec
from kubelocal.node.process.mounts import Mode
from redis_operator.cli.images import CATALOG


def container(name: str = "main", script: str | None = None, **more: Any) -> dict[str, Any]:
    """A busybox container that runs a script, or sleeps."""
    command = ["sh", "-c", script] if script is not None else ["sleep", "600"]
    return {"name": name, "image": "busybox:1.36", "command": command, **more}


def pod(name: str = "p", *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": list(containers) or [container()],
            "nodeName": "node-1",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            **spec,
        },
    }


class World:
    """An API server and a node agent that can be stopped and started again."""

    def __init__(self, server: ApiServer, data_dir: Path, network: str) -> None:
        self.client = Client(InProcessTransport(server), field_manager="test")
        self.server = server
        self.data_dir = data_dir
        self.network = network
        self.agent: NodeAgent | None = None
        self._task: asyncio.Task[None] | None = None

    async def start_agent(self, **options: Any) -> NodeAgent:
        number = held_number()
        specs = [NodeSpec(name=f"node-{n}", address=f"127.{number}.254.{n}") for n in (1, 2)]
        client = Client(InProcessTransport(self.server), field_manager="kubelet")
        own = {"addresses": self.network, "instance": f"test-{number}"}
        options = own | {"mode": None, "catalog": CATALOG} | options
        self.agent = NodeAgent(client, data_dir=self.data_dir, nodes=specs, **options)
        self._task = asyncio.create_task(self.agent.run())
        ready = asyncio.create_task(self.agent.wait_ready())
        async with asyncio.timeout(60):
            await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            ready.cancel()
            await self._task
        return self.agent

    def _check_agent(self) -> None:
        if self._task is not None and self._task.done():
            self._task.result()

    async def kill_agent(self) -> None:
        """End the agent alone; its pods go on."""
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def close(self) -> None:
        """End everything, also what a failed start or test left behind."""
        if self.agent is not None:
            assert self._task is not None
            self._task.cancel()
            await asyncio.wait({self._task})
            await self.agent.shutdown(grace=0.2)

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        return await self.client.create(PODS.plain(), manifest)

    async def get(self, name: str = "p") -> dict[str, Any]:
        return await self.client.get(PODS.plain(), ("default", name))

    async def delete(self, name: str = "p", **options: Any) -> None:
        await self.client.delete(PODS.plain(), ("default", name), **options)

    async def until(
        self, condition: Callable[[dict[str, Any]], Any], name: str = "p", timeout: float = 60
    ) -> dict[str, Any]:
        """Return the pod once a condition holds."""
        last: dict[str, Any] = {}
        try:
            async with asyncio.timeout(timeout):
                while True:
                    self._check_agent()
                    last = await self.get(name)
                    if condition(last):
                        return last
                    await asyncio.sleep(0.01)
        except TimeoutError:
            events = [f"{e['reason']}: {e['message']}" for e in await self.events(name)]
            raise AssertionError(f"{name}: {last.get('status')}\n{events}") from None

    async def until_quiet(
        self, name: str = "p", condition: Callable[[dict[str, Any]], Any] | None = None
    ) -> dict[str, Any]:
        """Return the pod once it is ready (or a condition holds) and the agent is done with it.

        That is: the agent has seen the pod as it is, and has written all that it knows.
        """
        assert self.agent is not None
        wanted = await self.until(condition or is_ready, name)
        async with asyncio.timeout(60):
            while True:
                seen = self.agent._cluster.pods.cache.get(("default", name))
                if seen is not None and (condition or is_ready)(seen):
                    break
                await asyncio.sleep(0.01)
            runner = self.agent._runners.get(wanted["metadata"]["uid"])
            while True:
                if runner is None or all(one.container.attempt >= 0 for one in runner.runners):
                    break
                await asyncio.sleep(0.01)
        if runner is not None:
            await runner.publish()
        return await self.get(name)

    async def until_logged(self, text: str, name: str = "p") -> None:
        """Return once a container has printed a text."""
        await self.until(phase_is("Running"), name)
        async with asyncio.timeout(60):
            while True:
                if text in await self.log(name):
                    return
                await asyncio.sleep(0.01)

    async def until_gone(self, name: str = "p", timeout: float = 60) -> None:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    await self.get(name)
                except NotFound:
                    return
                await asyncio.sleep(0.01)

    async def events(self, name: str = "p") -> list[dict[str, Any]]:
        page = await self.client.list(EVENTS.plain(), namespace="default")
        return [e for e in page.items if e["involvedObject"]["name"] == name]

    async def until_event(self, reason: str, name: str = "p") -> dict[str, Any]:
        async with asyncio.timeout(60):
            while True:
                for event in await self.events(name):
                    if event["reason"] == reason:
                        return event
                await asyncio.sleep(0.01)

    async def put(self, kind: Any, name: str, **fields: Any) -> None:
        """Create or change a ConfigMap or Secret."""
        try:
            await self.client.patch(kind.plain(), ("default", name), MergePatch(fields))
        except NotFound:
            metadata = {"name": name, "namespace": "default"}
            await self.client.create(kind.plain(), {"metadata": metadata, **fields})

    async def log(self, name: str = "p", container: str | None = None) -> str:
        assert self.agent is not None
        chunks = await self.agent.logs("default", name, LogOptions(container=container))
        return b"".join([chunk async for chunk in chunks]).decode()


def status_of(manifest: dict[str, Any], name: str = "main") -> dict[str, Any]:
    status = manifest.get("status") or {}
    for part in ("containerStatuses", "initContainerStatuses"):
        for one in status.get(part) or ():
            if one["name"] == name:
                return one
    return {}


def is_ready(manifest: dict[str, Any]) -> bool:
    conditions = manifest["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def phase_is(*phases: str) -> Callable[[dict[str, Any]], bool]:
    return lambda manifest: manifest["status"].get("phase") in phases


__all__ = ["MODES", "World", "container", "is_ready", "phase_is", "pod", "status_of"]
MODES = list(Mode)
