"""The NetworkPolicy of a database. Pure."""

from __future__ import annotations

from redis_operator.api.redis import Redis

from . import names
from .facts import Facts
from .layouts import layout_of
from .objects import Object, make

__all__ = ["network_policy"]


def network_policy(redis: Redis, facts: Facts) -> Object:
    """Clients may use the client port; only servers of this same database may use the bus.

    The bus has no passwords: a client that reaches it can join two clusters permanently, so that
    port is closed to all others even inside the namespace.
    """
    name = redis.metadata.name
    layout = layout_of(redis)
    ports = layout.ports
    ourselves = {"podSelector": {"matchLabels": names.selector(name)}}
    clients = [dict(peer) for peer in redis.spec.network_policy.clients] or [{"podSelector": {}}]
    doors = [names.CLIENT_PORT, *([layout.sentinels.port.number] if layout.sentinels else [])]
    ingress = [_allow([*clients, _operator(facts)], *doors)]
    if redis.spec.network_policy.clients and facts.passwords.backup:
        # where not every pod of the namespace can connect already
        workers = {"podSelector": {"matchLabels": names.reader_labels(name)}}
        ingress.append(_allow([workers], names.CLIENT_PORT))
    if redis.spec.network_policy.clients and facts.filling is not None:
        workers = {"podSelector": {"matchLabels": names.filler_labels(name)}}
        ingress.append(_allow([workers], names.CLIENT_PORT))
    if len(ports) > 1 or layout.sentinels is not None:
        own = [*(port.number for port in ports), *doors[1:]]
        ingress.insert(0, _allow([ourselves], *own))
    beside = layout.sentinels is not None and layout.sentinels.exporter(redis.spec)
    if redis.spec.monitoring.exporter or beside:
        ingress.append(_allow([], names.EXPORTER_PORT))
    spec = {
        "podSelector": {"matchLabels": names.selector(name)},
        "policyTypes": ["Ingress"],
        "ingress": ingress,
    }
    return make(redis, "NetworkPolicy", name, {"spec": spec}, api_version="networking.k8s.io/v1")


def _allow(peers: list[Object], *ports: int) -> Object:
    rule: Object = {"ports": [{"port": port, "protocol": "TCP"} for port in ports]}
    return rule | ({"from": peers} if peers else {})


def _operator(facts: Facts) -> Object:
    """Select the operator's own pods, in its namespace where that is known."""
    namespace: Object = {}
    if facts.operator_namespace:
        namespace = {"matchLabels": {"kubernetes.io/metadata.name": facts.operator_namespace}}
    pods = {"matchLabels": dict(facts.operator_labels)}
    return {"namespaceSelector": namespace, "podSelector": pods}
