"""Values of a slot move: what is to be moved, how gently, how far it has come. Pure."""

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
    "Pace",
    "Progress",
    "Side",
    "choose_method",
]


class MoveError(RedisError):
    """A move that cannot go on. What is open stays open; the next attempt finishes or closes it."""


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
    """Slots to go, with all their keys, from one primary to another.

    `username` and `password` are those by which the source logs in to the target for MIGRATE.
    """

    source: Side
    target: Side
    slots: SlotSet
    username: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Move({self.source.id[:8]} -> {self.target.id[:8]}, {self.slots})"


class Pace(Struct, frozen=True):
    """How gently keys are carried: the limits of one command, during which the source stands still.

    `microseconds` bounds a script that carries several batches; a single batch is bounded by its
    keys and bytes. A key bigger than `bytes` travels alone, one bigger than `largest_key` not at
    all: it would stop both servers for longer than their peers are patient. `job_keys` bounds an
    atomic job of Valkey, whose keys the source deletes in one go when they are gone.
    """

    slots: int = 256
    keys: int = 100
    bytes: int = 512 * 1024
    microseconds: int = 2000
    largest_key: int = 512 * 2**20
    window: int = 2
    migrate_milliseconds: int = 30_000
    job_keys: int = 100_000


class Progress(Struct, frozen=True):
    """How far a move has come."""

    slots_total: int
    slots_moved: SlotSet = NO_SLOTS
    keys_moved: int = 0
    bytes_moved: int = 0


def choose_method(source: Version, target: Version) -> Method:
    """The best way that both ends know."""
    if can(source, Ability.MIGRATESLOTS) and can(target, Ability.MIGRATESLOTS):
        return Method.VALKEY_ATOMIC
    if can(source, Ability.MIGRATION_IMPORT) and can(target, Ability.MIGRATION_IMPORT):
        return Method.REDIS_ATOMIC
    return Method.SCRIPT
