"""What one sentinel says at one moment, in its own words.

The view of a sentinel, as `ClusterView` is the view of a server in mode Cluster. It knows addresses
and ids only: which of them are pods of the database is for whoever plans.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

__all__ = ["Monitored", "OtherSentinel", "SentinelFlag", "SentinelView", "WatchedReplica"]


class SentinelFlag(Enum):
    """What a sentinel holds against something that it watches, or does with it."""

    S_DOWN = "s_down"
    O_DOWN = "o_down"
    DISCONNECTED = "disconnected"
    FAILOVER = "failover_in_progress"
    PROMOTED = "promoted"
    RECONF_SENT = "reconf_sent"
    RECONF_IN_PROGRESS = "reconf_inprog"
    RECONF_DONE = "reconf_done"


_DOWN = frozenset({SentinelFlag.S_DOWN, SentinelFlag.O_DOWN, SentinelFlag.DISCONNECTED})


class WatchedReplica(Struct, frozen=True):
    """A replica that a sentinel found. It is remembered until SENTINEL RESET, dead or alive."""

    ip: str
    port: int
    run_id: str = ""  # empty until it first answered the sentinel
    flags: frozenset[SentinelFlag] = frozenset()
    role_reported: str = "slave"
    primary_ip: str = ""  # whom it follows, as it told the sentinel; empty: it has not told yet
    primary_port: int = 0
    link_up: bool = False
    priority: int = 100
    offset: int = 0  # as of its last INFO, up to ten seconds old

    @property
    def up(self) -> bool:
        """Whether the sentinel is connected to it and holds nothing against it."""
        return not self.flags & _DOWN


class OtherSentinel(Struct, frozen=True):
    """Another sentinel that a sentinel heard of. It counts for majorities until it is forgotten."""

    id: str
    ip: str
    port: int
    flags: frozenset[SentinelFlag] = frozenset()
    voted_leader: str = ""
    voted_leader_epoch: int = 0

    @property
    def up(self) -> bool:
        """Whether the sentinel is connected to it and holds nothing against it."""
        return not self.flags & _DOWN


class Monitored(Struct, frozen=True):
    """One name that a sentinel monitors: where it says the primary is, and what it knows there."""

    name: str
    ip: str
    port: int
    run_id: str = ""  # of the server at that address; empty until it first answered the sentinel
    flags: frozenset[SentinelFlag] = frozenset()
    role_reported: str = "master"
    known_ms: int = 3_600_000  # for how long: since it was told of the primary, or was reset
    down_ms: int = 0  # for how long it has held the primary for dead
    config_epoch: int = 0  # of the failover that this address comes from; 0: none, it was told
    quorum: int = 0
    down_after_ms: int = 0
    failover_timeout_ms: int = 0
    parallel_syncs: int = 0
    in_the_past: bool = False  # its clock was set far back: it does nothing until it is there again
    failover_state: str = ""  # empty unless this sentinel leads a failover now
    replicas: tuple[WatchedReplica, ...] = ()
    sentinels: tuple[OtherSentinel, ...] = ()

    @property
    def up(self) -> bool:
        """Whether the sentinel is connected to the primary and holds nothing against it."""
        return not self.flags & _DOWN

    @property
    def failing_over(self) -> bool:
        """Whether this sentinel leads a failover now."""
        return SentinelFlag.FAILOVER in self.flags

    @property
    def subjectively_down(self) -> bool:
        """Whether this sentinel considers the primary down."""
        return SentinelFlag.S_DOWN in self.flags

    @property
    def objectively_down(self) -> bool:
        """Whether as many sentinels as the quorum consider the primary down."""
        return SentinelFlag.O_DOWN in self.flags

    @property
    def usable_sentinels(self) -> int:
        """How many sentinels could vote now, this one among them."""
        return 1 + sum(other.up for other in self.sentinels)

    @property
    def majority(self) -> int:
        """How many votes a failover needs at least: dead sentinels count until forgotten."""
        return (1 + len(self.sentinels)) // 2 + 1

    @property
    def can_fail_over(self) -> bool:
        """Whether enough sentinels are usable for the quorum and for the majority."""
        return self.usable_sentinels >= max(self.quorum, self.majority)


class SentinelView(Struct, frozen=True):
    """What a sentinel says: who it is, whether it trusts its clock, and what it monitors."""

    id: str
    run_id: str = ""
    engine: str = "redis"
    version: str = ""
    tilt: bool = False  # it saw its clock jump: it watches on, and acts on nothing
    started_at: float = 0.0
    monitored: tuple[Monitored, ...] = ()  # by name

    def named(self, name: str) -> Monitored | None:
        """What it monitors under a name, or None."""
        return next((found for found in self.monitored if found.name == name), None)
