"""An external server that a new database follows: what is wanted of it, and what it says. Pure."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from .identity import ServerId

__all__ = ["Filling", "Source", "SourceNode", "SourceSeen", "SourceSilent"]


class Source(Struct, frozen=True):
    """Where the server is, as pods reach it.

    With a `backup` it is the worker that reads it: one without a place until it runs, and without
    further writes, so that who has its content is promoted by itself.
    """

    host: str
    port: int
    backup: str = ""

    @property
    def place(self) -> str:
        """The same as a replica names its primary."""
        return f"{self.host}:{self.port}" if self.host else f"backup {self.backup}"


class Filling(Struct, frozen=True):
    """A backup that a worker gives to the primaries of a database, key by key.

    `carried` has the histories of the primaries that were given their keys, by pod, once the worker
    is done: with another history a primary may have lost some. With the name and the uid of a
    `RedisRestore` the database was in use before; `empties`: what it had is being replaced, by the
    worker of the Job `job`.
    """

    backup: str
    message: str = ""  # how far it is
    problem: str = ""  # why it does not go on
    carried: tuple[tuple[str, str], ...] | None = None
    restore: str = ""
    uid: str = ""
    job: str = ""
    empties: bool = False
    closing: bool = False  # its clients are being shut out
    served: bool = False  # they are served still


class SourceSeen(Struct, frozen=True):
    """The server answered, in its own words."""

    id: ServerId
    is_primary: bool = True
    follows: str = ""  # where its own primary is; empty: it is one
    linked: bool = True  # a replica: whether it is in sync with its primary
    replication_id: str = ""
    offset: int = 0
    engine: str = ""
    version: str = ""
    cluster: bool = False  # it is a node of a Redis Cluster
    loading: bool = False


class SourceSilent(Struct, frozen=True):
    """The server did not say what it is. Unless it is `hopeless`, pods may reach it even so."""

    reason: str  # of a condition
    error: str
    hopeless: bool = False  # pods would be refused in the same way


SourceNode: TypeAlias = SourceSeen | SourceSilent
