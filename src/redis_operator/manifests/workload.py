"""One StatefulSet and one disruption budget for each group of servers. Pure.

Pods start in parallel and are replaced by the operator alone (OnDelete): a StatefulSet does not
know which pod is a primary. Claims are never deleted with it: a StatefulSet that is deleted by hand
must not delete data; the operator removes claims by the database's policy.
"""

from __future__ import annotations

from msgspec.structs import replace

from redis_operator.api.redis import DisruptionBudget, Redis

from .config import as_started
from .facts import Facts
from .layouts import layout_of
from .names import IDENTITY_ANNOTATION, SHAPE_ANNOTATION, common_labels, nodes_service
from .objects import Object, make
from .pod import pod_template
from .sentinel import sentinel_template

__all__ = ["disruption_budget", "pod_count", "shard_numbers", "statefulset"]


def shard_numbers(redis: Redis, facts: Facts) -> tuple[int, ...]:
    """Return the shards that have objects now: the desired ones, and those still to be drained."""
    draining = (number for number, pods in facts.pods.items() if pods > 0)
    return tuple(sorted({*layout_of(redis).groups(redis.spec), *draining}))


def pod_count(redis: Redis, facts: Facts, number: int) -> int:
    """Return how many pods a shard has now."""
    wanted = layout_of(redis).pods(redis.spec, number)
    return facts.pods.get(number, 0 if redis.spec.hibernate else wanted)


def statefulset(redis: Redis, facts: Facts, number: int) -> Object:
    """Return the workload of one shard."""
    name, layout = redis.metadata.name, layout_of(redis)
    watches = layout.is_sentinel(number)
    template = sentinel_template if watches else _server_template
    spec: Object = {
        "serviceName": nodes_service(name),
        "replicas": pod_count(redis, facts, number),
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "revisionHistoryLimit": 3,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "selector": {"matchLabels": layout.selector(name, number)},
        "template": template(redis, facts, number),
    }
    shape = spec["template"]["metadata"]["annotations"][SHAPE_ANNOTATION]
    if redis.spec.storage is not None and not watches:
        spec["volumeClaimTemplates"] = [_claim(redis, facts, number)]
    return make(
        redis,
        "StatefulSet",
        layout.workload(name, number),
        {"spec": spec},
        api_version="apps/v1",
        labels=layout.group_labels(number),
        annotations={SHAPE_ANNOTATION: shape},
    )


def _server_template(redis: Redis, facts: Facts, number: int) -> Object:
    """Return the template of servers: of the next mode where a database changes its mode."""
    if facts.becomes is not None:
        redis = replace(redis, spec=as_started(facts.becomes, facts.persistence))
    return pod_template(redis, facts, number)


def _claim(redis: Redis, facts: Facts, number: int) -> Object:
    storage = redis.spec.storage
    assert storage is not None
    spec: Object = {
        "accessModes": [mode.value for mode in storage.access_modes],
        "resources": {"requests": {"storage": storage.size}},
        "volumeMode": "Filesystem",
    }
    if storage.class_name is not None:
        spec["storageClassName"] = storage.class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "labels": dict(storage.labels)
            | common_labels(redis.metadata.name)
            | layout_of(redis).selector(redis.metadata.name, number),
            "annotations": {IDENTITY_ANNOTATION: facts.identity or redis.metadata.uid},
        },
        "spec": spec,
    }


def disruption_budget(redis: Redis, facts: Facts, number: int) -> Object:
    """Let a drain evict so many pods of the shard at a time; a broken pod never blocks it.

    A pod whose sidecar is broken is not ready, and its server serves: as long as there are such
    pods, those that are not ready count too, or a drain would evict all of them at once. IN-25
    """
    name, layout = redis.metadata.name, layout_of(redis)
    watches = layout.is_sentinel(number)
    serve_unready = facts.sentinel_sidecar_broken if watches else facts.sidecar_broken
    # The spec is about servers; of sentinels a majority must always be left.
    budget = DisruptionBudget() if watches else redis.spec.disruption_budget
    return make(
        redis,
        "PodDisruptionBudget",
        layout.workload(name, number),
        {
            "spec": {
                **_allowance(budget),
                "unhealthyPodEvictionPolicy": (
                    "IfHealthyBudget" if serve_unready else "AlwaysAllow"
                ),
                "selector": {"matchLabels": layout.selector(name, number)},
            }
        },
        api_version="policy/v1",
        labels=layout.group_labels(number),
    )


def _allowance(budget: DisruptionBudget) -> Object:
    if budget.min_available is not None:
        return {"minAvailable": budget.min_available}
    return {"maxUnavailable": 1 if budget.max_unavailable is None else budget.max_unavailable}
