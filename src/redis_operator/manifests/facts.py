"""What the spec does not say and the objects need: versions, images, passwords, where we run."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

from redis_operator.api.redis import Persistence, RedisSpec
from redis_operator.redis.versions import Version

__all__ = ["Facts", "Filling", "Former", "Passwords", "Restore", "Rotation", "SourceLogin", "Stage"]


class Stage(Enum):
    """How far a change of passwords has come."""

    ACCEPT = "accept"  # servers learn the new ones; everybody still uses the old ones
    USE = "use"  # everybody is given the new ones; servers still accept the old ones


class Rotation(Struct, frozen=True):
    """Passwords that are being replaced: what servers accept beside those that are in use.

    In the first stage these are the new ones, in the second the old ones.
    """

    stage: Stage
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
    """The password that each user is given now. Their text form hides them.

    `serial` counts the changes, so that of two copies the newer one is known. `marked` is the
    request for new ones that was last followed. `wished` is what the owner's Secret says of the
    default user, when that is not in use yet. The exporter reads its password only when it starts:
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
        """Whether there is such a user: one for backups only from the first backup on."""
        return user != "backup" or bool(self.backup)

    def accepted(self, user: str) -> tuple[str, ...]:
        """Every password that servers accept of a user, the one in use first."""
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
    """How to log in to an external server; without a password, not at all."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"SourceLogin({self.username!r}, ***)"


class Restore(Struct, frozen=True):
    """The backup that a new database begins with: where its worker is, or why there is none."""

    backup: str
    host: str = ""
    problem: str = ""
    coming: bool = False  # the worker is on its way: there is no reason to worry


class Filling(Struct, frozen=True):
    """A backup that a worker gives to the primaries of a database, key by key.

    `carried` tells which history each primary had whom the worker gave its keys, once it is done.
    With the name and the uid of a `RedisRestore` the database was in use before: what it had is
    dropped first where it `empties`, by the Job named `job`. `served`: clients are served still,
    and shut out only by the file that servers start with. `shut`: in this pass every server that
    answers was seen to have shut clients out.
    """

    backup: str
    message: str = ""  # how far it is
    problem: str = ""  # why it does not go on
    carried: Mapping[str, str] | None = None
    restore: str = ""
    uid: str = ""
    job: str = ""
    empties: bool = False
    closing: bool = False  # its clients are being shut out
    served: bool = False
    shut: bool = False


class Opening(Struct, frozen=True):
    """A `RedisRestore` that is done with the data; `opened`: servers let clients in again."""

    restore: str
    uid: str
    opened: bool = False


class Facts(Struct, frozen=True):
    """Everything `build` needs besides the object itself.

    `running` lists versions that servers still run while another is wanted: their files are kept,
    so that a pod of the old version can restart. `pods` says how many pods a shard has where that
    is not yet what the spec says: a shard still to be drained, a replica not yet removed.
    `identity` is what volumes are marked with; it differs from the object's uid only when a
    database is recreated on volumes that were retained. `once_set` names the directives that the
    spec has or had: one that it has no more goes back to its default. `accepted` are the values of
    live directives that servers are known to take, None where none was asked yet: what is not among
    them stays out of the files, so that no pod starts with a value that no server has taken.
    `persistence` is what pods start with while the spec asks for another kind and servers have not
    written the files of that kind yet; None: what the spec says. `becomes` is the spec of a
    database that leaves its mode: its pods are made for the next mode, and all else is as it was.
    """

    version: Version
    image: str
    passwords: Passwords
    exporter_image: str = ""
    minimum_patch: str = ""  # the oldest patch level of the version that is safe
    deprecated: bool = False
    running: tuple[Version, ...] = ()
    pods: Mapping[int, int] = field(default_factory=dict)
    client_address: str = ""  # what the binding names instead of a host that DNS knows
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
    holds_losses: bool = False  # it was in use, and its data were not given up
    source: SourceLogin | None = None  # of the external server that is followed
    source_problem: str = ""  # why that login is not known
    restore: Restore | None = None
    backup: str = ""  # the name of one that is being read
    filling: Filling | None = None  # it is given the content of a backup, and clients are shut out
    opening: Opening | None = None  # the restore whose end waits for clients to be let in
    sidecar_broken: bool = False  # a pod is not ready though its server is

    @property
    def is_closed(self) -> bool:
        """Whether servers start with clients shut out."""
        return self.filling is not None

    @property
    def shuts_out(self) -> bool:
        """Whether servers that run shut clients out."""
        return self.filling is not None and not self.filling.served

    @property
    def is_proven(self) -> bool:
        """Whether servers shut clients out by their file alone, to see that they have it."""
        return self.filling is not None and self.filling.closing

    @property
    def is_emptied(self) -> bool:
        """Whether a worker may drop what the database has."""
        return self.filling is not None and self.filling.empties
