"""An external server that a new database follows: what is wanted, and its answers. Pure."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from .identity import ServerId

__all__ = ["ExternalSource", "Filling", "SourceNode", "SourceSeen", "SourceSilent"]


class ExternalSource(Struct, frozen=True):
    """Where the server is, as pods reach it.

    With a `backup` it is the worker that reads it. The worker has no address until it runs, and
    sends no further writes, so that a server with all its content is promoted without a request.
    """

    host: str
    port: int
    backup: str = ""

    @property
    def place(self) -> str:
        """The address as a replica names its primary."""
        return f"{self.host}:{self.port}" if self.host else f"backup {self.backup}"


class Filling(Struct, frozen=True):
    """A backup that a worker restores to the primaries of a database, key by key.

    `carried` has the histories of the primaries that got their keys, by pod, once the worker is
    done: a primary with another history may have lost some. With the name and the uid of a
    `RedisRestore` the database was in use before. `empties`: its data is being replaced by the
    worker of the Job `job`.
    """

    backup: str
    message: str = ""  # its progress
    problem: str = ""  # why it makes no progress
    carried: tuple[tuple[str, str], ...] | None = None
    restore: str = ""
    uid: str = ""
    job: str = ""
    empties: bool = False
    closing: bool = False  # its clients are being disconnected
    served: bool = False  # clients are still served


class SourceSeen(Struct, frozen=True):
    """The external server responded, with its own answers."""

    id: ServerId
    is_primary: bool = True
    follows: str = ""  # the address of its own primary; empty: it is a primary
    linked: bool = True  # a replica: whether it is in sync with its primary
    replication_id: str = ""
    offset: int = 0
    engine: str = ""
    version: str = ""
    cluster: bool = False  # it is a node of a Redis Cluster
    loading: bool = False


class SourceSilent(Struct, frozen=True):
    """The external server did not answer. Unless it is `hopeless`, pods may still reach it."""

    reason: str  # of a condition
    error: str
    hopeless: bool = False  # pods would be refused in the same way


SourceNode: TypeAlias = SourceSeen | SourceSilent
