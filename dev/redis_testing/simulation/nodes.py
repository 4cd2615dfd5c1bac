"""Nodes of a simulated Kubernetes that lose power, and come back.

While a node is down its processes are silent: its servers neither reply nor refuse, and its
kubelet neither renews the node's lease nor reports its pods. What follows is done by the
node controller of `kubelocal`: the node turns Unknown, its pods are not ready, and those that
tolerate this no longer are being deleted; nothing confirms that they are gone. When the power is
back, servers have what their disks kept, pods have other addresses, and those that are to be
deleted end.
"""

from __future__ import annotations

import asyncio

from kubecontroller.client.patches import MergePatch, StrategicPatch
from kubelocal.controllers.engine.caches import BUILT_IN_KINDS

from ..cluster import disk
from .system import Simulation

__all__ = ["node_of", "power_off", "power_on"]

_READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
_YEARS_LATER = "2036-01-01T00:00:00.000000Z"


def node_of(simulation: Simulation, pod: str) -> str:
    """Return the node that a pod runs on."""
    return next(kept.node for kept in simulation.kubelet.kept.values() if kept.name == pod)


async def power_off(simulation: Simulation, node: str) -> list[str]:
    """Let a node lose power; return the pods that were on it."""
    kubelet, world = simulation.kubelet, simulation.world
    there = [kept for kept in kubelet.kept.values() if kept.node == node]
    kubelet.down[node] = asyncio.Event()
    for kept in there:
        simulation.network.sandboxes.discard(kept.ip)
        server = world.servers.get(kept.name)
        if server is None or server.ip != kept.ip or not server.alive:
            continue
        simulation.ledger.excuse(server)
        disk.lose_power(server)
        if server.persistence == "none":
            server.keys, server.expires = {}, {}
        server.stopped = True
    simulation.ledger.lower_lost()
    now = simulation.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    await _renew(simulation, node, now)
    silent = MergePatch({"metadata": {"annotations": {"simulation/silent-since": now}}})
    await simulation.client.patch(BUILT_IN_KINDS["nodes"], ("", node), silent)  # trigger a check
    return [kept.name for kept in there]


async def power_on(simulation: Simulation, node: str) -> None:
    """Let a node have power again: its kubelet continues with what the API says."""
    kubelet, world = simulation.kubelet, simulation.world
    for kept in kubelet.kept.values():
        server = world.servers.get(kept.name)
        if kept.node == node and server is not None and server.ip == kept.ip:
            server.alive = server.stopped = False
            simulation.network.server_ended(kept.name)
    await _renew(simulation, node, _YEARS_LATER)
    change = StrategicPatch({"status": {"conditions": [_READY]}})
    nodes = BUILT_IN_KINDS["nodes"]
    await simulation.client.patch(nodes, ("", node), change, subresource="status")
    kubelet.down.pop(node).set()


async def _renew(simulation: Simulation, node: str, at: str) -> None:
    lease = MergePatch({"spec": {"renewTime": at}})
    await simulation.client.patch(BUILT_IN_KINDS["leases"], ("kube-node-lease", node), lease)
