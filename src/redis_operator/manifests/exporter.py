"""The exporter for Prometheus beside a server or a sentinel. Pure.

It has no probes and none of the files that servers read: it must not decide whether they serve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from redis_operator.api.redis import Redis, Resources

from .container import locked_down, resources
from .facts import Facts
from .failover import sentinel_of
from .names import CLIENT_PORT, EXPORTER_PORT, SENTINEL_PORT, users_secret
from .objects import Object
from .users import EXPORTER

__all__ = ["sentinel_exporter", "server_exporter"]

_USUAL: Final = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}}


class _Asked(Struct, frozen=True):
    """What was asked of an exporter, and the port that it queries."""

    port: int
    image: str
    resources: Resources
    args: Sequence[str]
    env: Sequence[dict[str, Any]]


def server_exporter(redis: Redis, facts: Facts) -> Object:
    """The exporter beside a server."""
    asked = redis.spec.monitoring
    return _container(
        redis,
        _Asked(
            port=CLIENT_PORT,
            image=asked.exporter_image or facts.exporter_image,
            resources=asked.exporter_resources,
            args=asked.exporter_args,
            env=asked.exporter_env,
        ),
    )


def sentinel_exporter(redis: Redis, facts: Facts) -> Object:
    """The exporter beside a sentinel: the same program, unless another image is asked for."""
    asked = sentinel_of(redis.spec).exporter
    return _container(
        redis,
        _Asked(
            port=SENTINEL_PORT,
            image=asked.image or redis.spec.monitoring.exporter_image or facts.exporter_image,
            resources=asked.resources,
            args=asked.args,
            env=asked.env,
        ),
    )


def _container(redis: Redis, asked: _Asked) -> Object:
    password = {"name": users_secret(redis.metadata.name), "key": EXPORTER}
    found: Object = {
        "name": "exporter",
        "image": asked.image,
        "imagePullPolicy": redis.spec.pod.image_pull_policy.value,
        "env": [
            {"name": "REDIS_ADDR", "value": f"redis://localhost:{asked.port}"},
            {"name": "REDIS_USER", "value": EXPORTER},
            {"name": "REDIS_PASSWORD", "valueFrom": {"secretKeyRef": password}},
            {"name": "REDIS_EXPORTER_WEB_LISTEN_ADDRESS", "value": f":{EXPORTER_PORT}"},
            *map(dict, asked.env),
        ],
        "ports": [{"name": "metrics", "containerPort": EXPORTER_PORT, "protocol": "TCP"}],
        "resources": resources(asked.resources) or dict(_USUAL),
        "securityContext": locked_down(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if asked.args:
        found["args"] = list(asked.args)
    return found
