"""The pod that runs one sentinel. Pure.

The image of the servers, no volume that outlives the pod, and its own placement.
"""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from redis_operator.api.redis import PodOptions, Redis, RedisSpec

from .container import locked_down, resources
from .exporter import sentinel_exporter
from .facts import Facts
from .failover import sentinel_of
from .layouts import layout_of
from .names import SENTINEL_PORT, SHAPE_ANNOTATION, TEMPLATE_ANNOTATION, common_labels
from .objects import Object, digest
from .pod import (
    CONFIG,
    DATA,
    DOWNWARD,
    RESTARTED_ANNOTATION,
    USERS,
    from_pod,
    placement,
    server_mounts,
    volumes,
)
from .users import EXPORTER, sentinel_acl_file_name

__all__ = ["sentinel_template"]

_USUAL = {"requests": {"cpu": "20m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}}


def sentinel_template(redis: Redis, facts: Facts, number: int) -> Object:
    """Return the template of the sentinels' pods, with its own hash."""
    name, pod = redis.metadata.name, _pod(redis.spec)
    picked = layout_of(redis).selector(name, number)
    annotations = dict(pod.annotations)
    if RESTARTED_ANNOTATION in redis.metadata.annotations:
        annotations[RESTARTED_ANNOTATION] = redis.metadata.annotations[RESTARTED_ANNOTATION]
    keys = [sentinel_acl_file_name(facts.version), "sentinel.conf", EXPORTER]
    containers = [_container(redis, facts)]
    if sentinel_of(redis.spec).exporter.enabled:
        containers.append(sentinel_exporter(redis, facts))
    spec = placement(redis, picked, pod) | {
        "terminationGracePeriodSeconds": 30,
        "containers": containers,
        "volumes": [*volumes(name, keys), {"name": "data", "emptyDir": {}}],
    }
    template: Object = {
        "metadata": {
            "labels": dict(pod.labels) | common_labels(name) | picked,
            "annotations": annotations,
        },
        "spec": spec,
    }
    server = template["spec"]["containers"][0]
    sized = server.pop("resources")
    annotations[SHAPE_ANNOTATION] = digest(template)
    server["resources"] = sized
    annotations[TEMPLATE_ANNOTATION] = digest(template)
    return template


def _pod(spec: RedisSpec) -> PodOptions:
    """Return the options of the pods: those of the servers, with those for sentinels alone."""
    own = sentinel_of(spec).pod
    if own is None:
        return spec.pod
    return replace(spec.pod, **{name: getattr(own, name) for name in own.__struct_fields__})


def _container(redis: Redis, facts: Facts) -> Object:
    spec = redis.spec
    values = {
        "SERVER": f"{facts.version.engine}-server",
        "PORT": str(SENTINEL_PORT),
        "DATA": DATA,
        "CONFIG": CONFIG,
        "USERS": USERS,
        "ACL_FILE": sentinel_acl_file_name(facts.version),
        "SENTINEL_ID": _id_of(redis),
    }
    listens = {"tcpSocket": {"port": "sentinel"}}
    ready = {"exec": {"command": ["sh", f"{CONFIG}/ready-sentinel.sh"]}}
    return {
        "name": "server",
        "image": spec.image or facts.image,
        "imagePullPolicy": spec.pod.image_pull_policy.value,
        "command": ["sh", f"{CONFIG}/boot-sentinel.sh"],
        "env": [
            *(from_pod(variable, path) for variable, path in DOWNWARD),
            *({"name": variable, "value": value} for variable, value in values.items()),
        ],
        "ports": [{"name": "sentinel", "containerPort": SENTINEL_PORT, "protocol": "TCP"}],
        "resources": resources(sentinel_of(spec).resources) or dict(_USUAL),
        "volumeMounts": server_mounts(),
        "securityContext": locked_down(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "livenessProbe": listens
        | {"periodSeconds": 10, "failureThreshold": 6, "timeoutSeconds": 5},
        "readinessProbe": ready | {"periodSeconds": 3, "failureThreshold": 3, "timeoutSeconds": 3},
    }


def _id_of(redis: Redis) -> str:
    """Return the first 32 digits of the ids of a database's sentinels; the pod's number is the
    rest."""
    return hashlib.sha256(f"{redis.metadata.uid} sentinel".encode()).hexdigest()[:32]
