"""Databases of the simulated cluster, for tests of one situation each."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from redis_operator.planning.advice import Wanted
from redis_operator.planning.clusters import ClusterView
from redis_operator.planning.observed import Seen
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS
from redis_testing.cluster import SimulatedCluster
from redis_testing.cluster.breakages import fill
from redis_testing.cluster.database import SimulatedDatabase

WANTED = Wanted(
    name="db",
    shards=3,
    replicas=1,
    node_timeout_ms=2000,
    config=(("cluster-node-timeout", "2000"),),
)


def new_database(wanted: Wanted = WANTED) -> SimulatedDatabase:
    database = SimulatedDatabase(world=SimulatedCluster(), wanted=wanted)
    database.apply_spec(wanted)
    database.run_controllers()
    return database


def whole_database(wanted: Wanted = WANTED) -> SimulatedDatabase:
    database = SimulatedDatabase.formed_already(SimulatedCluster(), wanted)
    fill(database)
    database.reconcile(patience=3)
    assert database.plan().settled
    return database


def assert_serves_all(database: SimulatedDatabase) -> None:
    world, name = database.world, database.wanted.name
    missing = [k for (d, k) in world.acknowledged if d == name and world.read(d, k) is None]
    assert not missing
    owned = NO_SLOTS
    for server in database.servers:
        if server.is_primary and server.alive:
            assert not owned & server.slots
            owned |= server.slots
    assert owned == ALL_SLOTS


def but(node: Seen, **changes: Any) -> Seen:
    """Return a server that differs in some fields, of its own or of its view of the cluster."""
    of_view = {n: v for n, v in changes.items() if n in ClusterView.__struct_fields__}
    others = {n: v for n, v in changes.items() if n not in of_view}
    return replace(node, view=replace(node.view or ClusterView(), **of_view), **others)
