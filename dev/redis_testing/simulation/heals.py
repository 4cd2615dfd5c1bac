"""Databases that are made, and databases that break: what is done to each, and when it is whole."""

from __future__ import annotations

import asyncio
from typing import Any

from kubecontroller.client.verbs import Propagation
from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from redis_operator.redis.slots import key_slot

from ..cluster import verbs
from ..cluster.state import Record
from .nodes import node_of, power_off, power_on
from .scenarios import Act, Scenario, mine, pods, primary, replica
from .system import DATABASE, NAMESPACE, Simulation, database

__all__ = ["CREATIONS", "HEALS"]


# Creations


def _apply(**spec: Any) -> Act:
    async def act(simulation: Simulation) -> None:
        await simulation.apply(database(**spec))

    return act


CREATIONS = (
    Scenario("create", _apply(), base=None),
    Scenario("create in memory", _apply(storage=False), base=None),
)


# Heals


async def _kill_primary(simulation: Simulation) -> None:
    simulation.kill(primary(simulation).name)


async def _kill_replica(simulation: Simulation) -> None:
    simulation.kill(replica(simulation).name)


async def _kill_whole_shard(simulation: Simulation) -> None:
    for name in [replica(simulation).name, primary(simulation).name]:
        simulation.kubelet.kill(name)


async def _kill_two_primaries(simulation: Simulation) -> None:
    for name in [primary(simulation, 0).name, primary(simulation, 1).name]:
        simulation.kill(name)


async def _freeze_primary(simulation: Simulation) -> None:
    """Stop a primary until another leads in its place, and let it continue."""
    name = primary(simulation).name
    simulation.freeze(name)
    await asyncio.sleep(12.0)
    simulation.thaw(name)


async def _delete_primary(simulation: Simulation) -> None:
    await simulation.delete_pod(primary(simulation).name)


async def _delete_replica(simulation: Simulation) -> None:
    await simulation.delete_pod(replica(simulation).name)


async def _delete_all(simulation: Simulation) -> None:
    for pod in pods(simulation):
        await simulation.delete_pod(pod["metadata"]["name"])


async def _lead_astray(simulation: Simulation) -> None:
    verbs.replicate(simulation.world, replica(simulation, 0), primary(simulation, 1).id)


async def _reset_replica(simulation: Simulation) -> None:
    verbs.reset(simulation.world, replica(simulation, 0), hard=True)


async def _open_slots(simulation: Simulation) -> None:
    source, target = primary(simulation, 0), primary(simulation, 1)
    filled = [slot for slot in source.keys if source.keys[slot]][:3]
    for slot in filled:
        verbs.set_slot(target, slot, "IMPORTING", source.id)
        verbs.set_slot(source, slot, "MIGRATING", target.id)
    for key in list(source.keys[filled[0]]):
        verbs.migrate(simulation.world, source, target.ip, [key])


async def _strand_keys(simulation: Simulation) -> None:
    """Keys on a server that does not own their slot, and that no other server has."""
    holder = primary(simulation, 1)
    slot, key = next((key_slot(f"s{n}"), f"s{n}") for n in range(99) if key_slot(f"s{n}") < 5000)
    holder.keys[slot] = {key: "1"}
    holder.offset += 1
    simulation.ledger.acknowledged(key, 1)


def _none_stranded(simulation: Simulation) -> bool:
    return not any(
        held and not server.me.slots >> slot & 1
        for server in mine(simulation)
        if server.is_primary
        for slot, held in server.keys.items()
    )


async def _add_ghost(simulation: Simulation) -> None:
    ghost = simulation.world.new_id()
    for server in mine(simulation):
        server.table[ghost] = Record(id=ghost, ip="10.99.99.99", connected=False)


async def _collide_epochs(simulation: Simulation) -> None:
    """Two primaries took the same epoch, as after a split."""
    for shard in (0, 1):
        server = primary(simulation, shard)
        server.me.epoch = server.current_epoch = 9


async def _delete_children(simulation: Simulation) -> None:
    """A person deletes objects that are not theirs."""
    for resource, name in (
        ("services", f"{DATABASE}-primaries"),
        ("configmaps", f"{DATABASE}-config"),
        ("poddisruptionbudgets", f"{DATABASE}-0"),
        ("secrets", f"{DATABASE}-conn"),
    ):
        await simulation.client.delete(BUILT_IN_KINDS[resource], (NAMESPACE, name))


async def _orphan_set(simulation: Simulation) -> None:
    """A StatefulSet goes and its pods stay."""
    key = (NAMESPACE, f"{DATABASE}-0")
    sets = BUILT_IN_KINDS["statefulsets"]
    await simulation.client.delete(sets, key, propagation=Propagation.ORPHAN)


async def _power_off_node(simulation: Simulation) -> None:
    """A node loses power until it is known to be silent, and comes back."""
    node = node_of(simulation, primary(simulation).name)
    await power_off(simulation, node)
    await asyncio.sleep(70.0)
    await power_on(simulation, node)


HEALS = (
    Scenario("primary killed", _kill_primary),
    Scenario("primary killed, in memory", _kill_primary, base=database(storage=False)),
    Scenario("replica killed", _kill_replica),
    Scenario("whole shard killed", _kill_whole_shard),
    Scenario("two primaries killed", _kill_two_primaries),
    Scenario("primary is stopped and continues", _freeze_primary),
    Scenario("primary's pod deleted", _delete_primary),
    Scenario("primary's pod deleted, in memory", _delete_primary, base=database(storage=False)),
    Scenario("replica's pod deleted", _delete_replica),
    Scenario("all pods deleted", _delete_all),
    Scenario("replica follows the wrong primary", _lead_astray),
    Scenario("replica reset", _reset_replica),
    Scenario("slots left open", _open_slots),
    Scenario("keys stranded", _strand_keys, _none_stranded, within=700.0),
    Scenario("ghost node", _add_ghost),
    Scenario("epochs collide", _collide_epochs),
    Scenario("children deleted", _delete_children),
    Scenario("StatefulSet orphaned its pods", _orphan_set),
    Scenario("node loses power and comes back", _power_off_node, within=400.0),
)
