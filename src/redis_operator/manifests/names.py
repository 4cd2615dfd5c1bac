"""Names and labels of all objects: functions of the database's name, so none is ever looked up."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

__all__ = [
    "ACCEPTED_ANNOTATION",
    "ARCHIVE_LABEL",
    "BUS_PORT",
    "CLIENT_PORT",
    "COMPONENT_LABEL",
    "DATABASE_LABEL",
    "EXPORTER_PORT",
    "GROUP_LABEL",
    "IDENTITY_ANNOTATION",
    "INTENT_ANNOTATION",
    "MANAGER",
    "NEW_PASSWORDS_ANNOTATION",
    "PERSISTENCE_ANNOTATION",
    "POINT_LABEL",
    "RESTORED_LABEL",
    "ROLE_LABEL",
    "ROTATE_ANNOTATION",
    "SENTINEL_PORT",
    "SETTINGS_ANNOTATION",
    "SHAPE_ANNOTATION",
    "SHARD_LABEL",
    "SPEC_ANNOTATION",
    "TEMPLATE_ANNOTATION",
    "VERSION_ANNOTATION",
    "WORKER_LABEL",
    "Place",
    "admin_secret",
    "archiver_labels",
    "archiver_name",
    "auth_secret",
    "client_service",
    "common_labels",
    "config_map",
    "connection_secret",
    "filler_labels",
    "nodes_service",
    "point_labels",
    "primaries_service",
    "primary_name",
    "reader_labels",
    "recovery_secret",
    "replicas_service",
    "selector",
    "sentinel_service",
    "sentinel_stats_service",
    "shard",
    "stats_service",
    "users_secret",
    "worker_labels",
]

CLIENT_PORT: Final = 6379
BUS_PORT: Final = 16379
EXPORTER_PORT: Final = 9121
SENTINEL_PORT: Final = 26379
MANAGER: Final = "redis-operator"
DATABASE_LABEL: Final = "redisoperator.dev/database"
SHARD_LABEL: Final = "redisoperator.dev/shard"
COMPONENT_LABEL: Final = "redisoperator.dev/component"
GROUP_LABEL: Final = "redisoperator.dev/group"
ROLE_LABEL: Final = "redisoperator.dev/role"
INTENT_ANNOTATION: Final = "redisoperator.dev/intent"
TEMPLATE_ANNOTATION: Final = "redisoperator.dev/template"
SHAPE_ANNOTATION: Final = "redisoperator.dev/shape"
IDENTITY_ANNOTATION: Final = "redisoperator.dev/identity"
SETTINGS_ANNOTATION: Final = "redisoperator.dev/settings"
SPEC_ANNOTATION: Final = "redisoperator.dev/spec"
PERSISTENCE_ANNOTATION: Final = "redisoperator.dev/persistence"
ACCEPTED_ANNOTATION: Final = "redisoperator.dev/accepted-settings"
VERSION_ANNOTATION: Final = "redisoperator.dev/version"
RESTORED_LABEL: Final = "redisoperator.dev/restores"
WORKER_LABEL: Final = "redisoperator.dev/worker"
"""On Jobs and pods of workers: `backup`, `verify`, `restore`, `delete`, `archive` or `point`."""
POINT_LABEL: Final = "redisoperator.dev/point-of"
"""On the Job and the pod of the worker that takes a restore point: the name of its schedule."""
ARCHIVE_LABEL: Final = "redisoperator.dev/archive"
"""On the worker that archives and on its objects: the name of its schedule."""
_READER_LABEL: Final = "redisoperator.dev/backs-up"
ROTATE_ANNOTATION: Final = "redisoperator.dev/rotate-passwords"
NEW_PASSWORDS_ANNOTATION: Final = "redisoperator.dev/accept-new-passwords"


class Place(Struct, frozen=True, order=True):
    """The place of a pod: the number of its group, and its own within the group."""

    shard: int
    ordinal: int


def shard(name: str, number: int) -> str:
    """The StatefulSet and the disruption budget of one shard."""
    return f"{name}-{number}"


def nodes_service(name: str) -> str:
    """The headless Service that gives every pod its DNS name."""
    return f"{name}-nodes"


def client_service(name: str) -> str:
    """The Service for clients: any server."""
    return name


def primaries_service(name: str) -> str:
    """The Service of primaries only."""
    return f"{name}-primaries"


def replicas_service(name: str) -> str:
    """The Service of replicas only."""
    return f"{name}-replicas"


def primary_name(namespace: str, name: str) -> str:
    """The name of the primary at the sentinels: no two databases of a cluster share it."""
    return f"{namespace}.{name}"


def sentinel_service(name: str) -> str:
    """The Service of the sentinels, and their StatefulSet."""
    return f"{name}-sentinel"


def sentinel_stats_service(name: str) -> str:
    """The Service that leads to the exporters of all sentinels."""
    return f"{name}-sentinel-stats"


def stats_service(name: str) -> str:
    """The Service of the exporters."""
    return f"{name}-stats"


def config_map(name: str) -> str:
    """Configuration files and scripts."""
    return f"{name}-config"


def auth_secret(name: str) -> str:
    """The generated password of the default user."""
    return f"{name}-auth"


def users_secret(name: str) -> str:
    """ACL files and the passwords of the operator's users."""
    return f"{name}-users"


def recovery_secret(name: str) -> str:
    """A second copy of all passwords, read when the users' Secret is lost or damaged."""
    return f"{name}-recovery"


def admin_secret(name: str) -> str:
    """The password of the administrator of the data."""
    return f"{name}-admin"


def connection_secret(name: str) -> str:
    """The connection details, in the Service Binding layout."""
    return f"{name}-conn"


def selector(name: str) -> dict[str, str]:
    """Labels that select the pods of a database. They never change."""
    return {DATABASE_LABEL: name}


def reader_labels(name: str) -> dict[str, str]:
    """Labels of all workers that read from the servers of a database."""
    return {_READER_LABEL: name}


def worker_labels(name: str) -> dict[str, str]:
    """Labels of the workers that take backups of a database."""
    return {WORKER_LABEL: "backup", **reader_labels(name)}


def archiver_labels(name: str, schedule: str) -> dict[str, str]:
    """Labels of the worker that archives the stream of a database for a schedule."""
    return {WORKER_LABEL: "archive", ARCHIVE_LABEL: schedule, **reader_labels(name)}


def point_labels(name: str, schedule: str) -> dict[str, str]:
    """Labels of the worker that takes a restore point of a database for a schedule."""
    return {WORKER_LABEL: "point", POINT_LABEL: schedule, **reader_labels(name)}


def archiver_name(schedule: str) -> str:
    """The Deployment of the worker that archives, and the ConfigMap with its sources."""
    return f"{schedule}-archive"


def filler_labels(name: str) -> dict[str, str]:
    """Labels of the worker that fills a new database from a backup."""
    return {WORKER_LABEL: "restore", RESTORED_LABEL: name}


def common_labels(name: str) -> dict[str, str]:
    """Labels of every object of a database."""
    return {
        "app.kubernetes.io/name": "redis",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/managed-by": MANAGER,
        DATABASE_LABEL: name,
    }
