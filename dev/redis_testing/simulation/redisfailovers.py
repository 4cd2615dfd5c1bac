"""A `RedisFailover` in simulation: created, changed and deleted, with the database that it owns."""

from __future__ import annotations

from typing import Any

import msgspec

from kubecontroller.client.meta import Manifest
from kubecontroller.client.patches import MergePatch
from redis_operator.operator.world import REDIS_FAILOVERS

from .failover import is_whole
from .scenarios import Scenario
from .summary import redisfailover_of
from .system import DATABASE, NAMESPACE, Simulation, is_ready

__all__ = ["REDISFAILOVER_SCENARIOS", "change_redisfailover", "redisfailover", "shows_ready"]

_KEY = (NAMESPACE, DATABASE)


def redisfailover(*, storage: bool = True, **spec: Any) -> Manifest:
    """Return a RedisFailover to apply."""
    redis: dict[str, Any] = {"image": "valkey/valkey:8.1", **spec.pop("redis", {})}
    if storage:
        size = {"resources": {"requests": {"storage": "1Gi"}}}
        redis["storage"] = {"persistentVolumeClaim": {"spec": size}}
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "RedisFailover",
        "metadata": {"name": DATABASE, "namespace": NAMESPACE},
        "spec": {"redis": redis, **spec},
    }


async def change_redisfailover(simulation: Simulation, **spec: Any) -> None:
    """Change fields of its spec; None removes one."""
    await simulation.client.patch(REDIS_FAILOVERS, _KEY, MergePatch({"spec": spec}))


def shows_ready(simulation: Simulation) -> bool:
    """Return whether it says that it is ready, of the spec that stands, and all is so."""
    found = redisfailover_of(simulation)
    return found is not None and is_ready(msgspec.json.decode(found)) and is_whole(simulation)


async def _create(simulation: Simulation) -> None:
    await simulation.apply(redisfailover())


async def _change(simulation: Simulation) -> None:
    await change_redisfailover(
        simulation, redis={"replicas": 2, "customConfig": ["maxmemory-policy allkeys-lru"]}
    )


async def _delete(simulation: Simulation) -> None:
    await simulation.client.delete(REDIS_FAILOVERS, _KEY)


REDISFAILOVER_SCENARIOS = (
    Scenario("a RedisFailover is created", _create, over=shows_ready, base=None),
    Scenario("a RedisFailover is changed", _change, over=shows_ready, base=redisfailover()),
    Scenario("a RedisFailover is deleted", _delete, base=redisfailover(), goes=True),
)
