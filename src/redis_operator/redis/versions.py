"""What each engine and version can do, as one table; every version gate in the code asks here."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

__all__ = ["Ability", "Version", "abilities", "can", "parse_version"]


class Version(Struct, frozen=True, order=True):
    """An engine with its version. Orders only within one engine."""

    engine: str
    major: int
    minor: int = 0
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.engine} {self.major}.{self.minor}.{self.patch}"

    @property
    def number(self) -> tuple[int, int, int]:
        """The three numbers alone."""
        return (self.major, self.minor, self.patch)


_Since: TypeAlias = tuple[int, int] | None


class Ability(Enum):
    """Something that not every version can do."""

    PAUSE_WRITES = "CLIENT PAUSE WRITE and CLIENT UNPAUSE"
    NO_REPLICA_MIGRATION = "cluster-allow-replica-migration"
    ADDSLOTSRANGE = "CLUSTER ADDSLOTSRANGE"
    CLUSTER_SHARDS = "CLUSTER SHARDS"
    CLUSTER_LINKS = "CLUSTER LINKS"
    MULTI_CONFIG_SET = "several directives in one CONFIG SET"
    ANNOUNCE_HOSTNAME = "cluster-announce-hostname"
    DISKLESS_MAX_REPLICAS = "repl-diskless-sync-max-replicas"
    SHUTDOWN_TIMEOUT = "shutdown-timeout"
    ACL_DRYRUN = "ACL DRYRUN"
    FUNCTIONS = "FUNCTION"
    WAITAOF = "WAITAOF"
    MYSHARDID = "CLUSTER MYSHARDID"
    HUMAN_NODENAME = "cluster-announce-human-nodename"
    FORGET_GOSSIP = "a forgotten node is forgotten by all"
    SLOT_STATS = "CLUSTER SLOT-STATS"
    MIGRATION_IMPORT = "CLUSTER MIGRATION IMPORT"
    MIGRATESLOTS = "CLUSTER MIGRATESLOTS"
    REPLICATED_SETSLOT = "SETSLOT waits for replicas"
    SHUTDOWN_FAILOVER = "shutdown-on-sigterm failover"
    MANUAL_FAILOVER_TIMEOUT = "cluster-manual-failover-timeout"
    AVAILABILITY_ZONE = "availability-zone"
    ELECTION_SAFE_AGAIN = "a second manual failover soon after the first is safe"
    SCRIPT_EFFECTS = "scripts replicate their effects by themselves"


# (redis since, valkey since); None: never.
_TABLE: dict[Ability, tuple[_Since, _Since]] = {
    Ability.PAUSE_WRITES: ((6, 2), (7, 2)),
    Ability.NO_REPLICA_MIGRATION: ((6, 2), (7, 2)),
    Ability.ADDSLOTSRANGE: ((7, 0), (7, 2)),
    Ability.CLUSTER_SHARDS: ((7, 0), (7, 2)),
    Ability.CLUSTER_LINKS: ((7, 0), (7, 2)),
    Ability.MULTI_CONFIG_SET: ((7, 0), (7, 2)),
    Ability.ANNOUNCE_HOSTNAME: ((7, 0), (7, 2)),
    Ability.DISKLESS_MAX_REPLICAS: ((7, 0), (7, 2)),
    Ability.SHUTDOWN_TIMEOUT: ((7, 0), (7, 2)),
    Ability.ACL_DRYRUN: ((7, 0), (7, 2)),
    Ability.FUNCTIONS: ((7, 0), (7, 2)),
    Ability.SCRIPT_EFFECTS: ((7, 0), (7, 2)),
    Ability.WAITAOF: ((7, 2), (7, 2)),
    Ability.MYSHARDID: ((7, 2), (7, 2)),
    Ability.HUMAN_NODENAME: ((7, 2), (7, 2)),
    Ability.FORGET_GOSSIP: ((7, 2), (7, 2)),
    Ability.SLOT_STATS: ((8, 2), (8, 0)),
    Ability.MIGRATION_IMPORT: ((8, 4), None),
    Ability.MIGRATESLOTS: (None, (9, 0)),
    Ability.REPLICATED_SETSLOT: (None, (8, 0)),
    Ability.SHUTDOWN_FAILOVER: (None, (9, 0)),
    Ability.MANUAL_FAILOVER_TIMEOUT: (None, (8, 1)),
    Ability.AVAILABILITY_ZONE: (None, (8, 0)),
    Ability.ELECTION_SAFE_AGAIN: (None, (8, 1)),
}


def parse_version(engine: str, text: str) -> Version | None:
    """Read `9.1`, `7.0.15` or `8.6.3-alpine`; None when it is no version."""
    numbers: list[int] = []
    for part in text.split("-", 1)[0].split("."):
        if not part.isascii() or not part.isdigit() or len(part) > 9:
            return None
        numbers.append(int(part))
    if not 1 <= len(numbers) <= 3:
        return None
    return Version(engine, *numbers)


def can(version: Version, ability: Ability) -> bool:
    """Whether this version has the ability."""
    redis_since, valkey_since = _TABLE[ability]
    since = valkey_since if version.engine == "valkey" else redis_since
    return since is not None and (version.major, version.minor) >= since


def abilities(version: Version) -> frozenset[Ability]:
    """Everything this version can do."""
    return frozenset(ability for ability in Ability if can(version, ability))
