"""Values of a slot move: the slots, the pace, the progress. Pure."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from .errors import RedisError
from .slots import NO_SLOTS, SlotSet
from .versions import Ability, Version, can

__all__ = [
    "Method",
    "Move",
    "MoveError",
    "MoveProgress",
    "Pace",
    "Side",
    "choose_method",
    "keys_of_a_job",
]


class MoveError(RedisError):
    """A move that cannot continue. Slots stay open; the next attempt finishes or closes them."""


class Method(Enum):
    """Ways to move slots, best first."""

    VALKEY_ATOMIC = "CLUSTER MIGRATESLOTS"
    REDIS_ATOMIC = "CLUSTER MIGRATION IMPORT"
    SCRIPT = "a script on the source"
    PLAIN = "MIGRATE"


class Side(Struct, frozen=True):
    """One of the two servers of a move."""

    id: str
    host: str
    port: int
    version: Version


class Move(Struct, frozen=True):
    """Slots to move, with all their keys, from one primary to another.

    `username` and `password` are used by the source to log in to the target for MIGRATE.
    """

    source: Side
    target: Side
    slots: SlotSet
    username: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Move({self.source.id[:8]} -> {self.target.id[:8]}, {self.slots})"


class Pace(Struct, frozen=True):
    """The pace of a move: the limits of what makes clients of a server wait.

    `microseconds` bounds a script that moves several batches; a single batch is bounded by its keys
    and bytes, and a carrier takes fewer while batches take longer than that. A key bigger than
    `bytes` is moved alone, one bigger than `largest_key` not at all: it would block both servers
    for longer than the node timeout of their peers. `claims` bounds how many slots a target claims
    one by one before clients are served: it announces each of them to all servers.
    `job_microseconds` bounds how long the source deletes the keys of an atomic job of Valkey, which
    it does at once when the job has ended, and `job_keys` is the most keys of a job. `stray_keys`
    and `stray_seconds` bound how many stray keys are moved before the database is observed again:
    a failover waits for them.
    """

    slots: int = 256
    keys: int = 100
    bytes: int = 512 * 1024
    microseconds: int = 1000
    largest_key: int = 512 * 2**20
    migrate_milliseconds: int = 30_000
    claims: int = 16
    job_microseconds: int = 14_000
    job_keys: int = 200_000
    stray_keys: int = 1000
    stray_seconds: float = 0.2


_DELETE_KEY_MICROSECONDS = 0.5
_DELETE_BYTE_MICROSECONDS = 0.001  # memory of a kilobyte or so; bigger values are freed faster
_MOST_DELETE_MICROSECONDS = 8.0


def keys_of_a_job(pace: Pace, *, average_bytes: float, fork_microseconds: int) -> int:
    """Return how many keys an atomic job of Valkey may move, so that deleting them is short enough.

    Each job forks the source, and clients wait for that too. Where that takes longer than the pace
    allows, jobs are so large that both waits are the same: smaller ones would only fork more often.
    """
    allowed = max(pace.job_microseconds, fork_microseconds)
    each = min(
        _DELETE_KEY_MICROSECONDS + average_bytes * _DELETE_BYTE_MICROSECONDS,
        _MOST_DELETE_MICROSECONDS,
    )
    return max(1, min(pace.job_keys, int(allowed / each)))


class MoveProgress(Struct, frozen=True):
    """How far a move has come."""

    slots_total: int
    slots_moved: SlotSet = NO_SLOTS
    keys_moved: int = 0
    bytes_moved: int = 0


def choose_method(source: Version, target: Version) -> Method:
    """Return the best way that both ends support."""
    if can(source, Ability.MIGRATESLOTS) and can(target, Ability.MIGRATESLOTS):
        return Method.VALKEY_ATOMIC
    if can(source, Ability.MIGRATION_IMPORT) and can(target, Ability.MIGRATION_IMPORT):
        return Method.REDIS_ATOMIC
    return Method.SCRIPT
