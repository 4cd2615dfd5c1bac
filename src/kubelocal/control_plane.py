"""One process with everything but the operator: API server, controllers, scheduler, node agent.

Started by the supervisor. When it is asked to stop, it ends the pods (volumes stay) and checkpoints
its state. When it is killed or fails, it leaves the pods running and the next one adopts them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from kubecontroller import AlreadyExists, Client, Informer, Kind, Manifest, fields, set_up
from kubecontroller.runtime import Added, Change, HumanFormatter, Updated
from kubelocal.apiserver.access.certificates import write_private
from kubelocal.apiserver.daemon import Daemon
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.server import Settings as ServerSettings
from kubelocal.apiserver.storage.sqlite import StateError
from kubelocal.controllers.engine.caches import BUILT_IN_KINDS, Caches
from kubelocal.controllers.loop import ControlLoops
from kubelocal.controllers.volumes import DEFAULT_CLASS
from kubelocal.distribution import Distribution
from kubelocal.instance import (
    Instance,
    InstanceError,
    Instances,
    Settings,
    api_address,
    pod_network,
    service_network,
)
from kubelocal.node.agent import NodeAgent, end_pods
from kubelocal.node.errors import NodeError
from kubelocal.node.nodes import NodeSpec
from kubelocal.node.process.mounts import Mode
from kubelocal.power import is_off

__all__ = ["end_leftovers", "main", "node_specs", "run"]

_LOG = logging.getLogger(__name__)
_POD_GRACE_SECONDS = 30.0
_RETRY_SECONDS = 1.0


def node_specs(settings: Settings) -> Sequence[NodeSpec]:
    """Return the virtual nodes of an instance, spread over its zones."""
    return [
        NodeSpec(
            name=f"node{number}",
            address=f"127.{settings.network}.254.{number}",
            zone=f"zone-{chr(ord('a') + (number - 1) % settings.zones)}",
        )
        for number in range(1, settings.nodes + 1)
    ]


def main(instances: Instances, name: str) -> int:
    """Run the control plane of an instance that `up` created; return the exit code."""
    instance = instances.find(name)
    settings = instance.settings()
    if settings is None:
        sys.stderr.write(f"there is no local cluster called {name!r}\n")
        return 1
    try:
        asyncio.run(run(instances, instance, settings))
    except (InstanceError, StateError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


async def run(instances: Instances, instance: Instance, settings: Settings) -> None:
    """Run the control plane until SIGTERM or SIGINT."""
    set_up()
    _separate_log(instance)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    with instances.hold_network(settings.network):
        await _serve(instance, settings, stopping, instances.distribution, instances.home())


def _separate_log(instance: Instance) -> None:
    """Give the node agent, which is a part of this process, a separate log."""
    instance.logs.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(instance.log_of("node-agent"))
    handler.setFormatter(HumanFormatter())
    agent = logging.getLogger("kubelocal.node")
    agent.handlers[:] = [handler]
    agent.propagate = False


async def _serve(
    instance: Instance,
    settings: Settings,
    stopping: asyncio.Event,
    distribution: Distribution,
    home: Path,
) -> None:
    host, port = api_address(settings.network)
    daemon = Daemon(
        instance.folder,
        host=host,
        port=port,
        settings=ServerSettings(
            service_network=service_network(settings.network), host=f"{host}:{port}"
        ),
    )
    caches = Caches(_client(daemon, "control-plane"))
    kubelet = _client(daemon, "kubelet")
    agent = _agent(instance, settings, kubelet, distribution, home, caches=caches)
    daemon.http.hooks = agent
    await daemon.start()
    try:
        write_private(instance.kubeconfig, daemon.kubeconfig().encode())
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(caches.run()),
                group.create_task(agent.run()),
                group.create_task(_control(daemon, instance, distribution, caches)),
                group.create_task(
                    _follow_power(caches.informers["nodes"], agent, distribution.power_annotation)
                ),
            ]
            await agent.wait_ready()
            with contextlib.suppress(OSError):  # on a full disk it is empty
                instance.ready_file.write_text(f"https://{host}:{port}\n")
            _LOG.info("serving", extra=fields(url=f"https://{host}:{port}", nodes=settings.nodes))
            await stopping.wait()
            instance.ready_file.unlink(missing_ok=True)
            _LOG.info("stopping: pods are ended, volumes stay")
            for task in tasks:
                task.cancel()
    finally:
        if stopping.is_set():
            await agent.shutdown(grace=_POD_GRACE_SECONDS)
        else:
            _LOG.error("the control plane failed; its pods continue, and the next one adopts them")
        await daemon.stop()


def _client(daemon: Daemon, manager: str) -> Client:
    transport = InProcessTransport(daemon.server, perform=daemon.webhooks)
    return Client(transport, field_manager=manager)


def _agent(
    instance: Instance,
    settings: Settings,
    client: Client,
    distribution: Distribution,
    home: Path,
    *,
    caches: Caches,
) -> NodeAgent:
    return NodeAgent(
        client,
        data_dir=instance.node_folder,
        nodes=node_specs(settings),
        addresses=pod_network(settings.network),
        mode=Mode(settings.mounts) if settings.mounts else None,
        catalog=distribution.catalog,
        images=[Path(folder) for folder in settings.images],
        instance=instance.name,
        hidden=[instance.folder, home],  # keys, state and volumes of all instances
        informers=caches.informers,
    )


async def _control(
    daemon: Daemon, instance: Instance, distribution: Distribution, caches: Caches
) -> None:
    client = caches.client
    with contextlib.suppress(AlreadyExists):
        await client.create(BUILT_IN_KINDS["storageclasses"], DEFAULT_CLASS)
    for wanted in distribution.objects():
        await client.apply(_kind_of(wanted), wanted)
    if distribution.account is not None:
        config = daemon.account_kubeconfig(*distribution.account)
        write_private(instance.operator_kubeconfig, config.encode())  # the operator waits for it
    await ControlLoops(client, caches=caches).run()


def _kind_of(wanted: Manifest) -> Kind[Manifest]:
    group, _, version = wanted["apiVersion"].rpartition("/")
    plural = f"{wanted['kind'].lower()}s"
    return Kind(group, version, wanted["kind"], plural, "namespace" in wanted["metadata"], dict)


async def _follow_power(nodes: Informer[Manifest], agent: NodeAgent, annotation: str) -> None:
    """Switch nodes off and on according to their annotation."""
    changes: asyncio.Queue[Manifest] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def changed(change: Change[Manifest]) -> None:
        match change:
            case Added(node, _) | Updated(_, node):
                changes.put_nowait(node)
            case _:
                pass

    await agent.wait_ready()
    following = nodes.subscribe(changed)
    try:
        while True:
            node = await changes.get()
            name = str(node["metadata"]["name"])
            if not agent.serves(name):
                continue
            try:
                await (
                    agent.stop_node(name) if is_off(node, annotation) else agent.start_node(name)
                )
            except (NodeError, OSError) as error:  # no keeper, or no space on the disk
                _LOG.warning("node %s cannot be switched, will retry: %s", name, error)
                loop.call_later(_RETRY_SECONDS, changes.put_nowait, node)
    finally:
        following.cancel()


def end_leftovers(instance: Instance) -> None:
    """End pods that outlived their control plane; harmless when there are none."""
    if instance.node_folder.exists():
        asyncio.run(end_pods(instance.node_folder, grace=_POD_GRACE_SECONDS))
