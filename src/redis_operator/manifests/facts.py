"""What the objects need beside the spec: versions, images, passwords, the operator's namespace."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

from redis_operator.api.redis import Persistence, RedisSpec
from redis_operator.redis.versions import Version

__all__ = [
    "Facts",
    "FillingFacts",
    "Former",
    "Passwords",
    "Restore",
    "Rotation",
    "RotationStage",
    "SourceLogin",
]


class RotationStage(Enum):
    """How far a change of passwords has come."""

    ACCEPT = "accept"  # servers accept the new ones too; clients still use the old ones
    USE = "use"  # clients use the new ones; servers still accept the old ones


class Rotation(Struct, frozen=True):
    """Passwords that are being replaced: servers accept them beside those that are in use.

    In the first stage these are the new ones, in the second the old ones.
    """

    stage: RotationStage
    others: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Rotation({self.stage.value}, {sorted(self.others)})"


class Former(Struct, frozen=True):
    """A password that was replaced, and when."""

    password: str
    until: int  # seconds

    def __repr__(self) -> str:
        return f"Former(***, {self.until})"


class Passwords(Struct, frozen=True):
    """The current password of each user. Their text form hides them.

    `serial` counts the changes, so that the newer one of two copies is known. `marked` is the last
    request for new ones that was carried out. `wished` is the password of the default user in the
    user's Secret, when it is not in use yet. The exporter reads its password only when it starts:
    the one before stays valid, as `exporter_before`, and those before it, `exporter_earlier`, as
    long as there is a pod that may have started with them.
    """

    default: str
    operator: str
    replication: str
    exporter: str
    admin: str
    sentinel: str = ""
    backup: str = ""
    serial: int = 1
    marked: str = ""
    wished: str = ""
    exporter_before: str = ""
    rotation: Rotation | None = None
    exporter_earlier: tuple[Former, ...] = ()

    def has(self, user: str) -> bool:
        """Whether there is such a user: the one for backups exists from the first backup on."""
        return user != "backup" or bool(self.backup)

    def accepted(self, user: str) -> tuple[str, ...]:
        """Return every password of a user that servers accept, the one in use first."""
        found = [getattr(self, user)]
        if self.rotation is not None and user in self.rotation.others:
            found.append(self.rotation.others[user])
        if user == "exporter" and self.exporter_before:
            found.append(self.exporter_before)
        if user == "exporter":
            found += [former.password for former in self.exporter_earlier]
        return tuple(dict.fromkeys(found))

    def __repr__(self) -> str:
        return "Passwords(***)"


class SourceLogin(Struct, frozen=True):
    """The login to an external server; without a password there is none."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"SourceLogin({self.username!r}, ***)"


class Restore(Struct, frozen=True):
    """The backup that a new database starts with: the address of its worker, or why there is
    none."""

    backup: str
    host: str = ""
    problem: str = ""
    coming: bool = False  # the worker is starting: not an error


class FillingFacts(Struct, frozen=True):
    """A backup that a worker writes to the primaries of a database, key by key.

    `carried` is the history of each primary that the worker has filled, once it is done. With the
    name and the uid of a `RedisRestore` the database was in use before: its data is dropped first
    where it `empties`, by the Job named `job`. `served`: clients are still served, and are refused
    only by the file that servers start with. `shut`: in this pass every server that responds was
    observed to refuse clients.
    """

    backup: str
    message: str = ""  # its progress
    problem: str = ""  # why it makes no progress
    carried: Mapping[str, str] | None = None
    restore: str = ""
    uid: str = ""
    job: str = ""
    empties: bool = False
    closing: bool = False  # clients are being disconnected
    served: bool = False
    shut: bool = False


class Opening(Struct, frozen=True):
    """A `RedisRestore` that is done with the data; `opened`: clients can connect again."""

    restore: str
    uid: str
    opened: bool = False


class Facts(Struct, frozen=True):
    """Everything `build` needs besides the object itself.

    `running` lists versions that servers still run while another is desired: their files are kept,
    so that a pod of the old version can restart. `pods` is the number of pods of a shard where it
    differs from the spec: a shard still to be drained, a replica not yet removed. `identity` is the
    uid on volumes; it differs from the object's uid only when a database is recreated on volumes
    that were retained. `once_set` names the directives that the spec has or had: one that was
    removed goes back to its default. `accepted` are the values of live directives that servers are
    known to accept, None before the first check: others are not written to the files, so that no
    pod starts with a value that no server has accepted. `persistence` is the kind that pods start
    with while the spec asks for another kind and servers have not written the files of that kind
    yet; None: that of the spec. `becomes` is the spec of a database that changes its mode: its pods
    are those of the next mode, and all other objects stay.
    """

    version: Version
    image: str
    passwords: Passwords
    exporter_image: str = ""
    minimum_patch: str = ""  # the oldest safe patch level of the version
    deprecated: bool = False
    running: tuple[Version, ...] = ()
    pods: Mapping[int, int] = field(default_factory=dict)
    client_address: str = ""  # for the binding, instead of a host that needs DNS
    sentinel_address: str = ""  # the same for sentinels
    operator_namespace: str = ""
    operator_labels: Mapping[str, str] = field(
        default_factory=lambda: {"app.kubernetes.io/name": "redis-operator"}
    )
    identity: str = ""
    once_set: frozenset[str] = frozenset()
    accepted: Mapping[str, str] | None = None
    persistence: Persistence | None = None
    becomes: RedisSpec | None = None
    holds_losses: bool = False  # it was in use, and its data was not given up
    source: SourceLogin | None = None  # of the external server that is followed
    source_problem: str = ""  # why that login is not known
    restore: Restore | None = None
    backup: str = ""  # the name of one that is being read
    filling: FillingFacts | None = None  # it is filled from a backup, and clients cannot connect
    opening: Opening | None = None  # the restore whose end waits until clients can connect
    sidecar_broken: bool = False  # a pod is not ready though its server is
    sentinel_sidecar_broken: bool = False  # the same of a pod with a sentinel

    @property
    def is_closed(self) -> bool:
        """Whether servers start in a state that refuses clients."""
        return self.filling is not None

    @property
    def shuts_out(self) -> bool:
        """Whether running servers refuse clients."""
        return self.filling is not None and not self.filling.served

    @property
    def is_proven(self) -> bool:
        """Whether servers refuse clients only by their file, to check that they have it."""
        return self.filling is not None and self.filling.closing

    @property
    def is_emptied(self) -> bool:
        """Whether a worker may drop the data of the database."""
        return self.filling is not None and self.filling.empties
