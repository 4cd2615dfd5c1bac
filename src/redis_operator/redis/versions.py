"""What each engine and version supports, as one table; every version check in the code uses it."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

__all__ = [
    "OLDEST",
    "Ability",
    "Version",
    "abilities",
    "can",
    "can_feed",
    "heals_maps",
    "load_limitation",
    "parse_version",
    "support_limitation",
    "upgrade_limitation",
]


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
        """The three numbers without the engine."""
        return (self.major, self.minor, self.patch)


_Since: TypeAlias = tuple[int, int] | None


class Ability(Enum):
    """A feature that not every version has."""

    PAUSE_WRITES = "CLIENT PAUSE WRITE and CLIENT UNPAUSE"
    OWN_PAUSE = "CLIENT UNPAUSE leaves the pause of a failover alone"
    NO_REPLICA_MIGRATION = "cluster-allow-replica-migration"
    ADDSLOTSRANGE = "CLUSTER ADDSLOTSRANGE"
    CLUSTER_SHARDS = "CLUSTER SHARDS"
    CLUSTER_LINKS = "CLUSTER LINKS"
    MULTI_CONFIG = "several directives in one CONFIG GET or SET"
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
    COMMANDLOG = "COMMANDLOG"


# (redis since, valkey since); None: never.
_TABLE: dict[Ability, tuple[_Since, _Since]] = {
    Ability.PAUSE_WRITES: ((6, 2), (7, 2)),
    Ability.OWN_PAUSE: ((7, 0), (7, 2)),
    Ability.NO_REPLICA_MIGRATION: ((6, 2), (7, 2)),
    Ability.ADDSLOTSRANGE: ((7, 0), (7, 2)),
    Ability.CLUSTER_SHARDS: ((7, 0), (7, 2)),
    Ability.CLUSTER_LINKS: ((7, 0), (7, 2)),
    Ability.MULTI_CONFIG: ((7, 0), (7, 2)),
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
    Ability.COMMANDLOG: (None, (8, 1)),
}


@lru_cache(maxsize=256)  # the same few are parsed in every pass
def parse_version(engine: str, text: str) -> Version | None:
    """Parse `9.1`, `7.0.15` or `8.6.3-alpine`; None when it is not a version."""
    numbers: list[int] = []
    for part in text.split("-", 1)[0].split("."):
        if not part.isascii() or not part.isdigit() or len(part) > 9:
            return None
        numbers.append(int(part))
    if not 1 <= len(numbers) <= 3:
        return None
    return Version(engine, *numbers)


def can(version: Version, ability: Ability) -> bool:
    """Whether this version has the feature."""
    redis_since, valkey_since = _TABLE[ability]
    since = valkey_since if version.engine == "valkey" else redis_since
    return since is not None and (version.major, version.minor) >= since


def abilities(version: Version) -> frozenset[Ability]:
    """Return every feature of this version."""
    return frozenset(ability for ability in Ability if can(version, ability))


_FIRST_THAT_HEALS_MAPS = {"redis": (7, 0, 15), "valkey": (7, 2, 0)}
"""Observed on Redis 7.0.15 and Valkey 9.1.2; Redis 6.2.14 does not, and older 7.0 was not tried."""


def heals_maps(version: Version) -> bool:
    """Whether a server that missed a slot's move always accepts the claim of the new owner.

    It records that the old owner does not claim the slot any more. A server that does not record it
    believes the old owner permanently, if the epoch of that one rose since.
    """
    first = _FIRST_THAT_HEALS_MAPS.get(version.engine)
    return first is not None and version.number >= first


OLDEST = {"redis": (6, 2, 14), "valkey": (7, 2, 0)}
"""Older ones are refused. Redis before 6.2.14 leaves clients paused after CLUSTER FAILOVER."""

# Full syncs to an older replica that were seen to work; other such pairs were seen to fail.
_FEEDS_OLDER = {("redis", (8, 0), (7, 4)), ("valkey", (9, 1), (8, 1))}
_LAST_REDIS_THAT_FEEDS_VALKEY = (7, 2)
_FIRST_VALKEY_FORMAT = (9, 0)
_FIRST_REDIS_FED_BY_VALKEY = (7, 4)
_FIRST_VALKEY_WITH_OWN_FILES = (9, 0)


def can_feed(primary: Version, replica: Version) -> bool:
    """Whether a replica of one version can full-sync from a primary of another."""
    above, below = (primary.major, primary.minor), (replica.major, replica.minor)
    if primary.engine == replica.engine:
        return below >= above or (primary.engine, above, below) in _FEEDS_OLDER
    if primary.engine == "redis":
        return above <= _LAST_REDIS_THAT_FEEDS_VALKEY
    return below >= _FIRST_REDIS_FED_BY_VALKEY


def load_limitation(engine: str, version: str, rdb: str, ours: Version) -> str | None:
    """Why servers of a version cannot load a snapshot that another wrote, or None.

    `rdb` is the header of the snapshot: Valkey 9 has its own format.
    """
    theirs = parse_version(engine, version)
    if theirs is None:
        return f"was written by {engine} {version}, which is not known"
    reads = ours.engine == "valkey" and (ours.major, ours.minor) >= _FIRST_VALKEY_FORMAT
    if not can_feed(theirs, ours) or (rdb.startswith("VALKEY") and not reads):
        return (
            f"was written by {theirs} ({rdb}), which {ours} cannot load; use an engine and a "
            "version that can (spec.engine, spec.version)"
        )
    return None


def support_limitation(version: Version) -> str | None:
    """Return why this version is not supported, or None. A bare `6.2` means its newest patch."""
    oldest = OLDEST.get(version.engine)
    if oldest is None:
        return f"{version.engine} is not an engine; use valkey or redis"
    if (version.major, version.minor) < oldest[:2]:
        return f"{version} is too old; the oldest that is run is {Version(version.engine, *oldest)}"
    return None


def upgrade_limitation(current: Version, wanted: Version) -> str | None:
    """Return why servers of one version cannot be replaced by another in place, or None.

    Replicas go first, so the new version must read the replication stream and the files of the old
    one; there is no way back once a primary has changed.
    """
    if current.number[:2] == wanted.number[:2] and current.engine == wanted.engine:
        return None
    if current.engine == wanted.engine and wanted < current:
        return (
            f"{wanted} cannot read what {current} wrote; "
            "restore a backup that was taken before, or copy the data into a new database"
        )
    if not can_feed(current, wanted):
        return (
            f"a replica of {wanted} cannot sync from {current}; copy the data into a new database"
        )
    own_files = (current.major, current.minor) >= _FIRST_VALKEY_WITH_OWN_FILES
    if current.engine == "valkey" and wanted.engine == "redis" and own_files:
        return f"{wanted} cannot read the files of {current}; copy the data into a new database"
    return None
