"""The tasks of workers and their reports. Pure.

A task holds no secret: passwords and keys are files in the pod.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

__all__ = [
    "ARCHIVE_PORT",
    "AUTHORITY",
    "BASES",
    "CUT_CHANNEL",
    "ENCRYPTION",
    "FOLDER",
    "KEYS",
    "LOGIN",
    "PROGRESS_PORT",
    "SCRATCH",
    "SOURCES",
    "SPOOL",
    "TASK",
    "ArchiveTask",
    "ArchiverReport",
    "AzurePlace",
    "CarryTask",
    "DeleteTask",
    "Encryption",
    "FillTarget",
    "GcsPlace",
    "Identity",
    "PointTask",
    "Report",
    "ReportedGap",
    "S3Place",
    "ServeTask",
    "ShardTask",
    "Source",
    "Store",
    "TakeTask",
    "Task",
    "Until",
    "VerifyTask",
    "WindowTask",
    "WorkerProgress",
    "read_report",
    "read_task",
]

TASK = "BACKUP_TASK"
"""The variable of the environment that holds the task."""
FOLDER = "/store"
"""Where a volume is mounted that backups are kept on."""
LOGIN = "/login/password"
"""The file with the password of the user that a worker is, or that it asks for."""
KEYS = "/keys"
"""The folder with the credentials of an object store: of S3 `accessKeyId` and `secretAccessKey`, of
Google `credentials.json`, of Azure `accountKey`."""
AUTHORITY = "/authority/ca.crt"
"""The file with CA certificates to trust for the store."""
ENCRYPTION = "/encryption"
"""The folder with the encryption keys of backups, by their ids."""
SCRATCH = "/scratch"
"""The folder that a worker shares with the scratch server that loads backups."""
CUT_CHANNEL = "redisoperator.backup"
"""A PUBLISH to this channel waits while writes are paused; no client has to subscribe."""
PROGRESS_PORT = 9180
"""The port where a worker that takes a backup reports its progress."""
ARCHIVE_PORT = 9181
"""The port where a worker that archives reports its state."""
SPOOL = "/spool"
"""The folder of an archiver's own disk, where segments wait for the store."""
SOURCES = "/sources/shards.json"
"""The file with the current servers of each shard; without it those of the task are used."""
BASES = "/sources/base"
"""The file with a time in the format of RFC 3339: an older base is not new enough."""
_MESSAGE_BYTES = 4000  # a termination message may have 4096


class S3Place(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A bucket of an S3-compatible store; without keys the pod's own identity is used."""

    bucket: str
    endpoint: str = ""
    region: str = ""
    keys: bool = False
    ca: bool = False  # the file `AUTHORITY` has certificates to trust


class GcsPlace(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A bucket of Google Cloud Storage; without keys the pod's own identity is used."""

    bucket: str
    endpoint: str = ""
    keys: bool = False
    ca: bool = False


class AzurePlace(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A container of Azure Blob Storage; without keys the pod's own identity is used."""

    account: str
    container: str
    endpoint: str = ""
    keys: bool = False
    ca: bool = False


class Encryption(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The Secret with the keys, and the id of the one for new backups; empty: the current one."""

    secret: str
    key_id: str = ""


class Identity(Struct, frozen=True, rename="camel"):
    """The identity of a backup: its database, and the name of its folder."""

    namespace: str
    redis: str
    backup: str


class Store(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The location of a backup: a bucket, or else the mounted volume; and the folder in it.

    `identity`: the backup that is expected there; None: any.
    """

    path: str
    s3: S3Place | None = None
    encryption: Encryption | None = None
    identity: Identity | None = None
    gcs: GcsPlace | None = None
    azure: AzurePlace | None = None


class Source(Struct, frozen=True, rename="camel"):
    """A server that a snapshot may be read from."""

    pod: str
    host: str
    port: int = 6379


class ShardTask(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One shard: any of its sources will do, the first that can is taken."""

    name: str
    sources: tuple[Source, ...]
    slots: str = ""
    primary: Source | None = None  # whose writes are read; paused there, for a cut


class TakeTask(Struct, frozen=True, rename="camel", omit_defaults=True, tag="take"):
    """Read a snapshot of every shard into the store."""

    store: Store
    namespace: str
    redis: str
    uid: str
    mode: str
    engine: str
    version: str
    user: str
    attempt: str  # names the objects of this attempt, so that two never write the same
    shards: tuple[ShardTask, ...]
    level: int = 1
    parallel: int = 4
    cut: bool = False  # all shards at one moment
    bandwidth: int = 0  # bytes a second that are read, of all shards together; 0: no limit


class Until(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where a restore from an archive ends: one of a time, an offset, a point.

    `shard`: whose archive it is; empty: the archive of all shards is restored. `time`: as RFC 3339
    writes it. `bound`: `notAfter` holds nothing later than the time, `include` misses nothing that
    was acknowledged by then.
    """

    shard: str = ""
    time: str = ""
    bound: str = "notAfter"
    replication_id: str = ""
    offset: int = 0
    point: str = ""


class ServeTask(Struct, frozen=True, rename="camel", omit_defaults=True, tag="serve"):
    """Serve the only part of a backup to servers that replicate from this worker.

    With `until` it is an archive that `store` holds, up to that moment: that of the shard which is
    named, or of the only one that it has. `engine` and `version` are those of the servers.
    """

    store: Store
    user: str
    port: int = 6379
    until: Until | None = None
    engine: str = ""
    version: str = ""
    field: str = ""  # the field of the spec that names the backup, for error messages


class ArchiveTask(Struct, frozen=True, rename="camel", omit_defaults=True, tag="archive"):
    """Archive the stream of every shard until the worker is asked to end.

    `shards`: those to begin with; which there are, and where, is in the file `SOURCES` where there
    is one. `spool_bytes`: of all shards together. `allow_primary`: for shards without any replica.
    `bridge`: what a replica that started over lacks may be read from its primary. `keep_seconds`:
    what is older than this, and not needed to go back so far, is deleted every `prune_seconds`; 0:
    nothing is. `status_port`: where the state is served, as JSON, over HTTP.
    """

    store: Store
    user: str
    engine: str
    version: str
    shards: tuple[ShardTask, ...] = ()
    cluster: bool = False
    allow_primary: bool = False
    bridge: bool = False
    base_seconds: int = 3600
    keep_seconds: int = 0
    prune_seconds: int = 3600
    spool_bytes: int = 1 << 30
    status_port: int = 0


class PointTask(Struct, frozen=True, rename="camel", omit_defaults=True, tag="point"):
    """Write down where every shard is at one moment, under a name.

    `request` identifies the caller: another worker with the same one finds the first result.
    `cluster`: which slots each shard has is written down too.
    """

    store: Store
    user: str
    name: str
    shards: tuple[ShardTask, ...]
    request: str = ""
    cluster: bool = False


class WindowTask(Struct, frozen=True, rename="camel", omit_defaults=True, tag="window"):
    """Read the archive of every shard and say what times a restore can go back to."""

    store: Store
    shards: tuple[str, ...]


class VerifyTask(Struct, frozen=True, rename="camel", omit_defaults=True, tag="verify"):
    """Load every part of a backup into the scratch server beside the worker, and compare."""

    store: Store
    port: int = 6379
    scratch_port: int = 6380


class FillTarget(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A primary that gets keys: those of its slots, or all of them where there are no slots.

    `replication_id` is its history at the start of the task: with another one it may have lost what
    was sent to it.
    """

    pod: str
    host: str
    replication_id: str
    slots: str = ""
    port: int = 6379


class CarryTask(Struct, frozen=True, rename="camel", omit_defaults=True, tag="carry"):
    """Write every part of a backup to the primaries of a database, key by key.

    With `cluster` each target gets the keys of its slots, of database 0 alone. With `until` it is
    an archive that `store` holds, all shards of it up to that moment. With `empty` the targets drop
    all their data before the first key is sent. A `rehearsal` has no targets: it loads every part
    and reports what would be wrong.
    """

    store: Store
    user: str
    targets: tuple[FillTarget, ...]
    cluster: bool = False
    engine: str = ""  # of the targets
    version: str = ""
    field: str = ""  # the field of the spec that names the backup, for error messages
    scratch_port: int = 6380
    until: Until | None = None
    empty: bool = False
    rehearsal: bool = False


class DeleteTask(Struct, frozen=True, rename="camel", omit_defaults=True, tag="delete"):
    """Delete a backup from its store, complete or not."""

    store: Store


Task: TypeAlias = (
    TakeTask
    | ServeTask
    | VerifyTask
    | CarryTask
    | DeleteTask
    | ArchiveTask
    | PointTask
    | WindowTask
)


class WorkerProgress(Struct, frozen=True, rename="camel"):
    """The progress of a worker: bytes of snapshots, bytes for the store, parts that are
    complete."""

    read: int = 0
    stored: int = 0
    parts: int = 0


class ReportedGap(Struct, frozen=True, rename="camel"):
    """Times that were lost, in microseconds since 1970, and why."""

    after: int
    before: int
    reason: str


class ArchiverReport(Struct, frozen=True, rename="camel"):
    """The report of an archiver: times are microseconds since 1970; 0: nothing yet."""

    attached: str = ""  # the pod
    line: int = 0
    oldest: int = 0
    newest: int = 0
    sampled: int = 0
    received: int = 0
    spooled: int = 0
    trouble: str = ""
    based: int = 0  # when the last base was taken
    stored: int = 0  # bytes that were stored since the worker started
    began_empty: bool = False  # without a slot: there was nothing of it to archive before
    gaps: tuple[ReportedGap, ...] = ()


class Report(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The termination message of a worker: its result, or why it failed."""

    error: str = ""
    reason: str = ""
    rdb: str = ""
    size: int = 0
    stored: int = 0
    keys: int = 0
    paused: int = 0  # for how many milliseconds writes waited
    time: str = ""  # of a restore point
    parts: tuple[dict[str, str | int], ...] = ()

    def text(self) -> bytes:
        """Return it as a termination message: without single parts where these are too many.

        An error that is too long is cut: without its end it can still be read.
        """
        found = msgspec.json.encode(self)
        if len(found) > _MESSAGE_BYTES:
            found = msgspec.json.encode(msgspec.structs.replace(self, parts=()))
        error = self.error
        while len(found) > _MESSAGE_BYTES:
            longest = len(found) - _MESSAGE_BYTES  # in bytes: a character has six at most
            error = error[: -max(1, longest // 6)]
            cut = msgspec.structs.replace(self, parts=(), error=f"{error} ...")
            found = msgspec.json.encode(cut)
        return found


def read_task(raw: str) -> Task:
    """Return the task of a worker. Raises `msgspec.DecodeError`."""
    found: Task = msgspec.json.decode(raw, type=Task)
    return found


def read_report(raw: str) -> Report | None:
    """Return the termination message of a worker; None: it ended without one."""
    try:
        return msgspec.json.decode(raw, type=Report)
    except msgspec.DecodeError:
        return None
