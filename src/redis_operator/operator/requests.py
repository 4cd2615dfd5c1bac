"""Requests that people write on a database as annotations: each is good for one time.

A request that was met is taken off the database, so that nothing that happens later is undone by
it. Only exactly the request that was met is taken off: a newer one stays.
"""

from __future__ import annotations

from redis_operator.kube.client import Client
from redis_operator.kube.errors import Conflict, Invalid, NotFound
from redis_operator.kube.meta import Manifest
from redis_operator.kube.patches import JsonPatch
from redis_operator.operator.wanted import PRIMARY_ANNOTATION
from redis_operator.operator.world import REDISES
from redis_operator.planning.advice import Wanted
from redis_operator.planning.observed import Observed

__all__ = ["close_switchover", "is_met"]

_TIMEOUT = 10.0


def is_met(wanted: Wanted, observed: Observed) -> bool:
    """Tell whether the pod that shall be primary is one, and owns what a primary owns."""
    request = wanted.switchover
    return request is not None and any(
        node.pod.name == request.pod and node.is_primary and node.slots for node in observed.seen
    )


async def close_switchover(client: Client, raw: Manifest) -> None:
    """Take a switchover that was made off the database."""
    meta = raw["metadata"]
    path = f"/metadata/annotations/{PRIMARY_ANNOTATION.replace('/', '~1')}"
    asked = meta["annotations"][PRIMARY_ANNOTATION]
    operations = [
        {"op": "test", "path": path, "value": asked},
        {"op": "remove", "path": path},
    ]
    key = (meta["namespace"], meta["name"])
    try:
        await client.patch(REDISES, key, JsonPatch(operations), timeout=_TIMEOUT)
    except (Conflict, Invalid, NotFound):
        return  # somebody asks for something else by now, or the database is gone
