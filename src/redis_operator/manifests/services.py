"""The Services of a database. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from redis_operator.api.redis import Redis

from . import names
from .facts import Facts
from .layout import ServiceRow
from .layouts import layout_of
from .objects import Object, make

__all__ = ["services"]


def services(redis: Redis, facts: Facts) -> list[Object]:
    """The governing Service, those of the mode, and those for metrics where they are wanted."""
    rows = layout_of(redis).services
    found = [_nodes(redis), *(_of_row(redis, row, facts) for row in rows)]
    if redis.spec.monitoring.exporter:
        found.append(_stats(redis, names.stats_service, layout_of(redis).labels))
    sentinels = layout_of(redis).sentinels
    if sentinels is not None and sentinels.exporter(redis.spec):
        found.append(_stats(redis, names.sentinel_stats_service, sentinels.labels))
    return found


def _client_port(name: str = "redis", number: int = names.CLIENT_PORT) -> Object:
    return {
        "name": name,
        "port": number,
        "targetPort": name,
        "protocol": "TCP",
        "appProtocol": "redis",
    }


def _nodes(redis: Redis) -> Object:
    """Return the Service that gives every pod a name before it is ready: servers need it to find
    each other."""
    name = redis.metadata.name
    others = [
        {"name": port.name, "port": port.number, "targetPort": port.name, "protocol": "TCP"}
        for port in layout_of(redis).ports[1:]
    ]
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": names.selector(name),
        "ports": [_client_port(), *others],
    }
    return make(redis, "Service", names.nodes_service(name), {"spec": spec})


def _of_row(redis: Redis, row: ServiceRow, facts: Facts) -> Object:
    """Return a Service of all pods, or of those with a role label, which the operator maintains.

    Kubernetes leaves out a pod if any container does not run. An exporter with a wrong image would
    take every server that has it out of its Services, so meanwhile Services include pods that are
    not ready. IN-25
    """
    name, options = redis.metadata.name, redis.spec.service
    picked = names.selector(name) | ({names.ROLE_LABEL: row.role} if row.role else {})
    kind = options.type.value if row.optioned else "ClusterIP"
    port = _client_port()
    sentinels = layout_of(redis).sentinels
    if row.sentinels and sentinels is not None:
        port = _client_port(sentinels.port.name, sentinels.port.number)
        picked |= sentinels.labels
    spec: Object = {"type": kind, "selector": picked, "ports": [port]}
    if facts.sentinel_sidecar_broken if row.sentinels else facts.sidecar_broken:
        spec["publishNotReadyAddresses"] = True
    annotations = options.annotations if row.optioned else None
    return make(redis, "Service", row.name(name), {"spec": spec}, annotations=annotations)


def _stats(redis: Redis, named: Callable[[str], str], labels: Mapping[str, str]) -> Object:
    """Leads to the exporters of these pods, also of one that is not ready: then it is needed."""
    name = redis.metadata.name
    port = {
        "name": "metrics",
        "port": names.EXPORTER_PORT,
        "targetPort": "metrics",
        "protocol": "TCP",
    }
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": names.selector(name) | dict(labels),
        "ports": [port],
    }
    return make(redis, "Service", named(name), {"spec": spec})
