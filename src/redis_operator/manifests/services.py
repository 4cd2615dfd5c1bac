"""The Services of a database. Pure."""

from __future__ import annotations

from redis_operator.api.redis import Redis

from . import names
from .objects import Object, make

__all__ = ["services"]


def services(redis: Redis) -> list[Object]:
    """The governing Service, the three for clients, and the one for metrics where it is wanted."""
    name = redis.metadata.name
    options = redis.spec.service
    found = [
        _nodes(redis),
        make(
            redis,
            "Service",
            names.client_service(name),
            {"spec": {"type": options.type.value, **_client_spec(name)}},
            annotations=options.annotations,
        ),
        _by_role(redis, names.primaries_service(name), "primary"),
        _by_role(redis, names.replicas_service(name), "replica"),
    ]
    if redis.spec.monitoring.exporter:
        found.append(_stats(redis))
    return found


def _client_port() -> Object:
    return {
        "name": "redis",
        "port": names.CLIENT_PORT,
        "targetPort": "redis",
        "protocol": "TCP",
        "appProtocol": "redis",
    }


def _client_spec(name: str) -> Object:
    return {"selector": names.selector(name), "ports": [_client_port()]}


def _nodes(redis: Redis) -> Object:
    """Gives every pod a name before it is ready: servers must find each other to become it."""
    name = redis.metadata.name
    bus = {"name": "bus", "port": names.BUS_PORT, "targetPort": "bus", "protocol": "TCP"}
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": names.selector(name),
        "ports": [_client_port(), bus],
    }
    return make(redis, "Service", names.nodes_service(name), {"spec": spec})


def _by_role(redis: Redis, service: str, role: str) -> Object:
    """Follows the role label, which the operator moves with the role."""
    name = redis.metadata.name
    picked = names.selector(name) | {names.ROLE_LABEL: role}
    spec = {"type": "ClusterIP", "selector": picked, "ports": [_client_port()]}
    return make(redis, "Service", service, {"spec": spec})


def _stats(redis: Redis) -> Object:
    name = redis.metadata.name
    port = {
        "name": "stats",
        "port": names.EXPORTER_PORT,
        "targetPort": "stats",
        "protocol": "TCP",
    }
    spec = {"clusterIP": "None", "selector": names.selector(name), "ports": [port]}
    return make(redis, "Service", names.stats_service(name), {"spec": spec})
