"""Requests that people make by annotations of a database: each is valid once.

A request that was fulfilled is removed from the database, so that it does not undo anything later.
Only exactly the fulfilled request is removed: a newer one stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubecontroller import Client, Conflict, Invalid, JsonPatch, Manifest, NotFound
from redis_operator.manifests.layouts import LAYOUTS
from redis_operator.operator.wanted import PRIMARY_ANNOTATION, read_acceptance
from redis_operator.operator.world import REDISES
from redis_operator.planning.advice import ACCEPT_LOSS, Wanted
from redis_operator.planning.identity import Role
from redis_operator.planning.modes import situation
from redis_operator.planning.observed import Observed

__all__ = ["close", "met"]

_TIMEOUT = 10.0


def met(annotations: Mapping[str, str], wanted: Wanted, observed: Observed) -> tuple[str, ...]:
    """Return the annotations whose request has been fulfilled."""
    found = []
    if wanted.switchover is not None and _is_primary(wanted, wanted.switchover.pod, observed):
        found.append(PRIMARY_ANNOTATION)
    everything = LAYOUTS[wanted.mode].everything
    accepted = read_acceptance(annotations.get(ACCEPT_LOSS, ""), everything=everything)
    if (accepted.slots or accepted.restart or accepted.source) and (
        situation(wanted, observed, 0.0).serves(accepted.slots)
        and not (accepted.restart and _is_restart_due(wanted, observed))
    ):
        found.append(ACCEPT_LOSS)
    return tuple(found)


def _is_primary(wanted: Wanted, pod: str, observed: Observed) -> bool:
    """Whether the pod that must be primary is one for the topology, not only for itself."""
    topology = situation(wanted, observed, 0.0)
    return any(
        node.pod.name == pod and node.is_primary and topology.role_of(node) is Role.PRIMARY
        for node in observed.seen
    )


def _is_restart_due(wanted: Wanted, observed: Observed) -> bool:
    """Whether pods still have to be restarted, or ended, or it is not known."""
    if wanted.hibernate:
        return bool(observed.nodes) or any(workload.pods for workload in observed.workloads)
    current = {workload.shard: workload.revision for workload in observed.workloads}
    return not all(current.values()) or any(
        node.pod.revision != current.get(node.pod.shard) for node in observed.nodes
    )


async def close(client: Client, raw: Manifest, annotation: str) -> None:
    """Remove a fulfilled request from the database."""
    meta = raw["metadata"]
    path = f"/metadata/annotations/{annotation.replace('/', '~1')}"
    asked = meta["annotations"][annotation]
    operations = [
        {"op": "test", "path": path, "value": asked},
        {"op": "remove", "path": path},
    ]
    key = (meta["namespace"], meta["name"])
    try:
        await client.patch(REDISES, key, JsonPatch(operations), timeout=_TIMEOUT)
    except (Conflict, Invalid, NotFound):
        return  # there is a newer request, or the database is gone
