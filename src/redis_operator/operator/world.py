"""The caches of one operator, limited by label: only objects of databases are kept.

Nodes and storage classes are few and cached completely. An operator of some namespaces may not be
allowed to list them: then it knows no zones, no cordons and no versions of the cluster's own, and
tries to grow a volume without knowing whether that is possible. A Secret that a user created does
not have the operator's label: it is read by name when it is needed, so that all Secrets are never
listed. X-09, X-10
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct, ValidationError, convert

from kubecontroller import Caches, Key, Kind, Manager, Manifest, meta_of
from kubecontroller.client import is_at_least
from kubecontroller.client.objects import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    MetadataOnly,
    Node,
    PersistentVolumeClaim,
    Pod,
    Secret,
    StatefulSet,
    StorageClass,
)
from kubecontroller.runtime import Change, Updated, label_index
from redis_operator.api.backup_storage import BackupStorage
from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.manifests.names import DATABASE_LABEL
from redis_operator.operator.backups.workers import Workers
from redis_operator.planning.backups.restores import is_same_store
from redis_operator.planning.backups.schedules import OWNER_LABEL

__all__ = [
    "CHILD_KINDS",
    "REDISES",
    "REDIS_BACKUPS",
    "REDIS_BACKUP_SCHEDULES",
    "REDIS_FAILOVERS",
    "REDIS_RESTORES",
    "REDIS_VERSIONS",
    "World",
    "backed_up_by",
    "hold_changed",
    "origin_of",
]

T = TypeVar("T")

REDISES: Final[Kind[Manifest]] = Kind("redisoperator.dev", "v1", "Redis", "redis", True, dict)
REDIS_FAILOVERS: Final[Kind[Manifest]] = Kind(
    "redisoperator.dev", "v1", "RedisFailover", "redisfailovers", True, dict
)
REDIS_BACKUPS: Final[Kind[Manifest]] = Kind(
    "redisoperator.dev", "v1", "RedisBackup", "redisbackups", True, dict
)
REDIS_BACKUP_SCHEDULES: Final[Kind[Manifest]] = Kind(
    "redisoperator.dev", "v1", "RedisBackupSchedule", "redisbackupschedules", True, dict
)
REDIS_RESTORES: Final[Kind[Manifest]] = Kind(
    "redisoperator.dev", "v1", "RedisRestore", "redisrestores", True, dict
)
REDIS_VERSIONS: Final[Kind[Manifest]] = Kind(
    "redisoperator.dev", "v1", "RedisVersion", "redisversions", False, dict
)


def _child(group: str, version: str, kind: str, plural: str) -> Kind[MetadataOnly]:
    return Kind(group, version, kind, plural, True, MetadataOnly)


_RBAC: Final = "rbac.authorization.k8s.io"

# Every kind of children that a database has. Only its metadata is cached, unless it is listed
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
    """What the operator knows of the cluster from its caches."""

    def __init__(self, manager: Manager, namespaces: Iterable[str]) -> None:
        chosen = tuple(namespaces)
        self.redises = manager.caches(REDISES, namespaces=chosen)
        self.backups = manager.caches(
            REDIS_BACKUPS,
            namespaces=chosen,
            optional=True,
            indexes={"database": backed_up_by, "schedule": _taken_for},
        )
        self.schedules = manager.caches(
            REDIS_BACKUP_SCHEDULES,
            namespaces=chosen,
            optional=True,
            indexes={"database": backed_up_by},
        )
        self.restores = manager.caches(
            REDIS_RESTORES, namespaces=chosen, optional=True, indexes={"database": backed_up_by}
        )
        self.versions = manager.informer(REDIS_VERSIONS, optional=bool(chosen))
        self.pods = _labelled(manager, PODS, chosen)
        self.claims = _labelled(manager, PERSISTENT_VOLUME_CLAIMS, chosen)
        self.nodes = manager.informer(NODES, optional=bool(chosen))
        self.classes = manager.informer(STORAGE_CLASSES, optional=bool(chosen))
        self.children: dict[tuple[str, str], Caches[Any]] = {
            kind: _labelled(manager, child, chosen) for kind, child in CHILD_KINDS.items()
        }
        self.workers = Workers.of(manager, chosen)
        self._written: dict[Key, Pod] = {}  # pods as written, until the cache has them

    def redis(self, key: Key) -> Manifest | None:
        """Return a database as it is in the API."""
        return self.redises.get(key)

    def all_redises(self) -> list[Manifest]:
        """Return every database there is."""
        return list(self.redises)

    def backup(self, key: Key) -> Manifest | None:
        """Return a backup as it is in the API."""
        return self.backups.get(key)

    def needs_backup_user(self, key: Key) -> bool | None:
        """Whether a backup or a schedule names a database; None: that is not known yet."""
        if self.backups.find("database", key) or self.schedules.find("database", key):
            return True
        return False if self.backups.has_synced and self.schedules.has_synced else None

    def archives_of(self, key: Key) -> list[Key]:
        """Return the schedules that archive a database."""
        return [
            meta_of(raw).key
            for raw in self.schedules.find("database", key)
            if (raw.get("spec") or {}).get("continuous") is True
        ]

    def addresses(self, key: Key) -> dict[str, str]:
        """Return the addresses of a database's running pods, by name."""
        return {
            pod.metadata.name: pod.status.pod_ip
            for pod in self.pods_of(key)
            if not pod.metadata.is_deleting and pod.status.phase == "Running" and pod.status.pod_ip
        }

    def backups_of_schedule(self, schedule: RedisBackupSchedule) -> list[Manifest]:
        """Return the backups that were created for this very schedule, of its database.

        Those of another one, which it named before, are left alone: they may be the last of it.
        """
        meta, place = schedule.metadata, (schedule.metadata.namespace, schedule.spec.redis)
        found = self.backups.find("schedule", (meta.namespace, meta.uid))
        return [raw for raw in found if place in backed_up_by(raw)]

    def backups_in_use(self, namespace: str) -> frozenset[str]:
        """Return the backups of a namespace that databases are being restored from.

        By name from the same namespace, and by the place in the store from any namespace seen here.
        """
        begin = [raw for raw in self.redises if not (raw.get("status") or {}).get("binding")]
        named = {
            origin
            for raw in begin
            if meta_of(raw).namespace == namespace and (origin := origin_of(raw))
        }
        places = [place for raw in begin if (place := _restored_place(raw)) is not None]
        if places:
            backups = (raw for raw in self.backups if meta_of(raw).namespace == namespace)
            named |= {meta_of(raw).name for raw in backups if _is_in(raw, places)}
        restores = (raw for raw in self.restores if meta_of(raw).namespace == namespace)
        for raw in restores:
            status, asked = raw.get("status") or {}, (raw.get("spec") or {}).get("from") or {}
            if status.get("phase") not in ("Completed", "Failed"):
                named |= {status.get("backup", ""), status.get("kept", ""), asked.get("name", "")}
        return frozenset(named - {""})

    def pods_of(self, key: Key) -> list[Pod]:
        """Return the pods of a database, by name, with what this operator wrote on them."""
        return [self._newest(pod) for pod in self.pods.find("database", key)]

    def wrote(self, pod: Pod) -> None:
        """Note a pod as written: decisions use it until the cache has it.

        Otherwise a watch that is late or silent would cause the same write over and over.
        """
        key = pod.metadata.key
        informer = next((i for i in self.pods.informers if i.cache.get(key) is not None), None)
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
        """Drop what was written for a database that is gone."""
        for pod in [k for k, w in self._written.items() if key in _by_database(w)]:
            del self._written[pod]

    def backup_that_holds(self, key: Key) -> str:
        """Return the name of a backup of a database during which no slot migration begins."""
        for raw in self.backups.find("database", key):
            if (raw.get("status") or {}).get("holdsSlots") and not meta_of(raw).is_deleting:
                return meta_of(raw).name
        return ""

    def claims_of(self, key: Key) -> list[PersistentVolumeClaim]:
        """Return the volume claims of a database, by name."""
        return self.claims.find("database", key)

    def workloads_of(self, key: Key) -> list[StatefulSet]:
        """Return the StatefulSets of a database, by name."""
        return self.children["apps/v1", "StatefulSet"].find("database", key)

    def secret(self, key: Key) -> Secret | None:
        """Return a Secret that has the operator's label."""
        return self.children["v1", "Secret"].get(key)

    def child(self, kind: tuple[str, str], key: Key) -> Any:
        """Return a child of any managed kind as it is cached, or None."""
        return self.children[kind].get(key)

    def children_of(self, kind: tuple[str, str], key: Key) -> list[Any]:
        """Return all children of one kind that a database has."""
        return self.children[kind].find("database", key)

    def node_map(self) -> Mapping[str, Node]:
        """Return the nodes by name."""
        return {node.metadata.name: node for node in self.nodes.cache}

    def class_map(self) -> Mapping[str, StorageClass] | None:
        """Return the storage classes by name, or None if listing them is forbidden."""
        if not self.classes.has_synced:
            return None
        return {found.metadata.name: found for found in self.classes.cache}


def hold_changed(change: Change[Manifest]) -> bool:
    """Whether a backup began or ended to block slot migrations."""
    match change:
        case Updated(old, new):
            return _holds(old) != _holds(new)
        case _:
            return True


def _holds(raw: Manifest) -> bool:
    return bool((raw.get("status") or {}).get("holdsSlots"))


def backed_up_by(raw: Manifest) -> tuple[Key, ...]:
    """Return the database of a backup, a schedule or a restore."""
    spec, meta = raw.get("spec") or {}, raw.get("metadata") or {}
    return ((meta.get("namespace", ""), str(spec.get("redis", ""))),)


def _taken_for(raw: Manifest) -> tuple[Key, ...]:
    """Return the namespace and the uid of the schedule that a backup belongs to."""
    meta = raw.get("metadata") or {}
    uid = (meta.get("labels") or {}).get(OWNER_LABEL)
    return ((meta.get("namespace", ""), str(uid)),) if uid else ()


def origin_of(raw: Manifest) -> str:
    """Return the name of the backup that a database is created from; empty: from none."""
    begins = ((raw.get("spec") or {}).get("bootstrap") or {}).get("fromBackup") or {}
    restored = (raw.get("status") or {}).get("restore") or {}
    return str(begins.get("name") or (restored.get("backup", "") if begins.get("schedule") else ""))


class _RestoredPlace(Struct, frozen=True):
    """The folder of a store that a database is created from; a volume is of its namespace."""

    namespace: str
    storage: BackupStorage
    path: str


def _restored_place(raw: Manifest) -> _RestoredPlace | None:
    begins = ((raw.get("spec") or {}).get("bootstrap") or {}).get("fromBackup") or {}
    if not begins.get("storage") or not begins.get("path"):
        return None
    try:
        storage = convert(begins["storage"], BackupStorage)
    except ValidationError:
        return None  # it is refused
    return _RestoredPlace(meta_of(raw).namespace, storage, str(begins["path"]).strip("/"))


def _is_in(backup: Manifest, places: Iterable[_RestoredPlace]) -> bool:
    """Whether a backup is stored in one of these places."""
    path, namespace = (backup.get("status") or {}).get("path"), meta_of(backup).namespace
    near = [one for one in places if one.path == path]
    if not near:
        return False
    try:
        storage = convert((backup.get("spec") or {}).get("storage"), BackupStorage)
    except ValidationError:
        return False
    return any(
        is_same_store(one.storage, storage)
        and (storage.claim is None or one.namespace == namespace)
        for one in near
    )


_by_database: Final = label_index(DATABASE_LABEL)


def _labelled(manager: Manager, kind: Kind[T], namespaces: tuple[str, ...]) -> Caches[T]:
    indexes = {"database": _by_database}
    return manager.caches(kind, namespaces=namespaces, labels=DATABASE_LABEL, indexes=indexes)
