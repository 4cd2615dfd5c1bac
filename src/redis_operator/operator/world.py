"""The caches one operator looks through, bounded by label: only what belongs to databases is kept.

Nodes and storage classes are few and read whole. An operator of some namespaces may not be allowed
to: it then knows no zones, no cordons and no versions of the cluster's own, and tries to grow a
volume where it cannot know whether that is possible. A Secret the owner made carries no label of
ours: it is read by name when it is needed, so that no list of all Secrets is ever asked for.
X-09, X-10
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kubecontroller.client.cluster import MetadataOnly
from kubecontroller.client.meta import Key, Manifest, is_at_least
from kubecontroller.client.objects import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Node,
    PersistentVolumeClaim,
    Pod,
    Secret,
    StatefulSet,
    StorageClass,
)
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.manager import Manager
from redis_operator.manifests.names import DATABASE_LABEL

__all__ = ["CHILD_KINDS", "REDISES", "REDIS_FAILOVERS", "REDIS_VERSIONS", "World"]

REDISES: Final[Kind[Manifest]] = Kind("redisoperator.dev", "v1", "Redis", "redis", True, dict)
REDIS_FAILOVERS: Final[Kind[Manifest]] = Kind(
    "redisoperator.dev", "v1", "RedisFailover", "redisfailovers", True, dict
)
REDIS_VERSIONS: Final[Kind[Manifest]] = Kind(
    "redisoperator.dev", "v1", "RedisVersion", "redisversions", False, dict
)


def _child(group: str, version: str, kind: str, plural: str) -> Kind[MetadataOnly]:
    return Kind(group, version, kind, plural, True, MetadataOnly)


_RBAC: Final = "rbac.authorization.k8s.io"

# Every kind a database has children of. What is read of one is its metadata, unless it is listed
# with a type of its own.
CHILD_KINDS: Final[Mapping[tuple[str, str], Kind[Any]]] = {
    (kind.api_version, kind.kind): kind
    for kind in (
        STATEFUL_SETS,
        SECRETS,
        SERVICES,
        _child("", "v1", "ConfigMap", "configmaps"),
        _child("", "v1", "ServiceAccount", "serviceaccounts"),
        _child(_RBAC, "v1", "Role", "roles"),
        _child(_RBAC, "v1", "RoleBinding", "rolebindings"),
        _child("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
        _child("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    )
}


class World:
    """What the operator knows of the cluster without asking."""

    def __init__(self, manager: Manager, namespaces: Iterable[str]) -> None:
        chosen = tuple(namespaces)
        scopes = chosen or ("",)
        self.redises = [manager.informer(REDISES, namespace=ns) for ns in scopes]
        self.versions = manager.informer(REDIS_VERSIONS, optional=bool(chosen))
        self.pods = [_labelled(manager, PODS, ns) for ns in scopes]
        self.claims = [_labelled(manager, PERSISTENT_VOLUME_CLAIMS, ns) for ns in scopes]
        self.nodes = manager.informer(NODES, optional=bool(chosen))
        self.classes = manager.informer(STORAGE_CLASSES, optional=bool(chosen))
        self.children: dict[tuple[str, str], list[Informer[Any]]] = {
            kind: [_labelled(manager, child, ns) for ns in scopes]
            for kind, child in CHILD_KINDS.items()
        }
        self._written: dict[Key, Pod] = {}  # pods as we wrote them, until the cache has them

    def redis(self, key: Key) -> Manifest | None:
        """Return a database as it was written."""
        found: Manifest | None = _get(self.redises, key)
        return found

    def all_redises(self) -> list[Manifest]:
        """Return every database there is."""
        return [
            raw
            for informer in self.redises
            for key in informer.cache.keys()  # noqa: SIM118 - a copy of the keys, not a dict
            if (raw := informer.cache.get(key)) is not None
        ]

    def pods_of(self, key: Key) -> list[Pod]:
        """Return the pods of a database, by name, with what we wrote on them."""
        return [self._newest(pod) for pod in _of_database(self.pods, key)]

    def wrote(self, pod: Pod) -> None:
        """Note a pod as we wrote it: what is decided before the cache has it is decided by it.

        Else a watch that is late or silent would have the same written over and over.
        """
        key = pod.metadata.key
        informer = next((i for i in self.pods if i.cache.get(key) is not None), None)
        if informer is not None:
            self._written[key] = pod
            informer.expect(pod.metadata.resource_version)

    def _newest(self, cached: Pod) -> Pod:
        meta = cached.metadata
        written = self._written.get(meta.key)
        if written is None:
            return cached
        newer = is_at_least(meta.resource_version, written.metadata.resource_version) is False
        if newer and written.metadata.uid == meta.uid:
            return written
        del self._written[meta.key]
        return cached

    def forget(self, key: Key) -> None:
        """Let go of what was written for a database that is gone."""
        for pod in [k for k, w in self._written.items() if _by_database(w) == (key,)]:
            del self._written[pod]

    def claims_of(self, key: Key) -> list[PersistentVolumeClaim]:
        """Return the volume claims of a database, by name."""
        return _of_database(self.claims, key)

    def workloads_of(self, key: Key) -> list[StatefulSet]:
        """Return the StatefulSets of a database, by name."""
        return _of_database(self.children["apps/v1", "StatefulSet"], key)

    def secret(self, key: Key) -> Secret | None:
        """Return a Secret that carries our label."""
        found: Secret | None = _get(self.children["v1", "Secret"], key)
        return found

    def child(self, kind: tuple[str, str], key: Key) -> Any:
        """Return a child of any managed kind as it is cached, or None."""
        return _get(self.children[kind], key)

    def children_of(self, kind: tuple[str, str], key: Key) -> list[Any]:
        """Return all children of one kind that a database has."""
        return _of_database(self.children[kind], key)

    def node_map(self) -> Mapping[str, Node]:
        """Return the nodes by name."""
        return {node.metadata.name: node for node in self.nodes.cache}

    def class_map(self) -> Mapping[str, StorageClass] | None:
        """Return the storage classes by name, or None where nobody lets us see them."""
        if not self.classes.has_synced:
            return None
        return {found.metadata.name: found for found in self.classes.cache}


def _by_database(obj: Any) -> tuple[Key, ...]:
    meta = obj.metadata
    name = meta.label(DATABASE_LABEL)
    return ((meta.namespace, name),) if name else ()


def _labelled(manager: Manager, kind: Kind[Any], namespace: str) -> Informer[Any]:
    return manager.informer(
        kind, namespace=namespace, labels=DATABASE_LABEL, indexes={"database": _by_database}
    )


def _get(informers: Iterable[Informer[Any]], key: Key) -> Any:
    for informer in informers:
        found = informer.cache.get(key)
        if found is not None:
            return found
    return None


def _of_database(informers: Iterable[Informer[Any]], key: Key) -> list[Any]:
    found = [obj for informer in informers for obj in informer.cache.find("database", key)]
    return sorted(found, key=lambda obj: str(obj.metadata.name))
