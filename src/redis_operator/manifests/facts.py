"""What the spec does not say and the objects need: versions, images, passwords, where we run."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from redis_operator.api.redis import Persistence
from redis_operator.redis.versions import Version

__all__ = ["Facts", "Passwords"]


class Passwords(Struct, frozen=True):
    """One password for each user. Their text form hides them."""

    default: str
    operator: str
    replication: str
    exporter: str

    def __repr__(self) -> str:
        return "Passwords(***)"


class Facts(Struct, frozen=True):
    """Everything `build` needs besides the object itself.

    `running` lists versions that servers still run while another is wanted: their files are kept,
    so that a pod of the old version can restart. `pods` says how many pods a shard has where that
    is not yet what the spec says: a shard still to be drained, a replica not yet removed.
    `identity` is what volumes are marked with; it differs from the object's uid only when a
    database is created anew on volumes that were retained. `once_set` names the directives that the
    spec has or had: one that it has no more goes back to its default. `accepted` are the values of
    live directives that servers are known to take, None where none was asked yet: what is not among
    them stays out of the files, so that no pod starts with a value that nobody has tried.
    `persistence` is what pods start with while the spec asks for another kind and servers have not
    written the files of that kind yet; None: what the spec says.
    """

    version: Version
    image: str
    passwords: Passwords
    exporter_image: str = ""
    running: tuple[Version, ...] = ()
    pods: Mapping[int, int] = field(default_factory=dict)
    operator_namespace: str = ""
    identity: str = ""
    once_set: frozenset[str] = frozenset()
    accepted: Mapping[str, str] | None = None
    persistence: Persistence | None = None
