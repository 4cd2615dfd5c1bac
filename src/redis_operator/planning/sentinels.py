"""The answers of one sentinel at one moment.

The view of a sentinel, as `ClusterView` is the view of a server in mode Cluster. It has addresses
and ids only: the rules find out which of them are pods of the database.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

__all__ = ["Monitored", "OtherSentinel", "SentinelFlag", "SentinelView", "WatchedReplica"]


class SentinelFlag(Enum):
    """A state that a sentinel reports about something it monitors, or an activity."""

    S_DOWN = "s_down"
    O_DOWN = "o_down"
    DISCONNECTED = "disconnected"
    FAILOVER = "failover_in_progress"
    PROMOTED = "promoted"
    RECONF_SENT = "reconf_sent"
    RECONF_IN_PROGRESS = "reconf_inprog"
    RECONF_DONE = "reconf_done"


_OUTDATED_TIMES = 10  # the rule of Sentinel, in multiples of down-after-milliseconds
_DOWN = frozenset({SentinelFlag.S_DOWN, SentinelFlag.O_DOWN, SentinelFlag.DISCONNECTED})


class WatchedReplica(Struct, frozen=True):
    """A replica that a sentinel discovered, remembered until SENTINEL RESET, dead or alive."""

    ip: str
    port: int
    run_id: str = ""  # empty until it first answered the sentinel
    flags: frozenset[SentinelFlag] = frozenset()
    role_reported: str = "slave"
    primary_ip: str = ""  # its primary, as it reported to the sentinel; empty: not reported yet
    primary_port: int = 0
    link_up: bool = False
    link_down_ms: int = 0  # for how long its link to its primary was down when it last reported
    priority: int = 100
    offset: int = 0  # as of its last INFO, up to ten seconds old

    @property
    def up(self) -> bool:
        """Whether the sentinel is connected to it and considers it up."""
        return not self.flags & _DOWN


class OtherSentinel(Struct, frozen=True):
    """Another sentinel that a sentinel knows. It counts for majorities until it is forgotten."""

    id: str
    ip: str
    port: int
    flags: frozenset[SentinelFlag] = frozenset()
    voted_leader: str = ""
    voted_leader_epoch: int = 0

    @property
    def up(self) -> bool:
        """Whether the sentinel is connected to it and considers it up."""
        return not self.flags & _DOWN


class Monitored(Struct, frozen=True):
    """One name that a sentinel monitors: the address of the primary, and what it knows of it."""

    name: str
    ip: str
    port: int
    run_id: str = ""  # of the server at that address; empty until it first answered the sentinel
    flags: frozenset[SentinelFlag] = frozenset()
    role_reported: str = "master"
    known_ms: int = 3_600_000  # for how long: since it began to monitor the primary, or was reset
    down_ms: int = 0  # for how long it has considered the primary down
    config_epoch: int = 0  # of the failover that this address comes from; 0: it was configured
    quorum: int = 0
    down_after_ms: int = 0
    failover_timeout_ms: int = 0
    parallel_syncs: int = 0
    in_the_past: bool = False  # its clock was set far back: it does nothing until that moment
    failover_state: str = ""  # empty unless this sentinel leads a failover now
    replicas: tuple[WatchedReplica, ...] = ()
    sentinels: tuple[OtherSentinel, ...] = ()

    @property
    def up(self) -> bool:
        """Whether the sentinel is connected to the primary and considers it up."""
        return not self.flags & _DOWN

    @property
    def failing_over(self) -> bool:
        """Whether this sentinel leads a failover now."""
        return SentinelFlag.FAILOVER in self.flags

    def outdates(self, replica: WatchedReplica, *, margin_ms: int = 0) -> bool:
        """Whether a replica had lost its link too long before the primary to be promoted."""
        oldest = self.down_ms + _OUTDATED_TIMES * self.down_after_ms
        return replica.link_down_ms > oldest + margin_ms

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
    """The answers of a sentinel: its id, whether it trusts its clock, and what it monitors."""

    id: str
    run_id: str = ""
    engine: str = "redis"
    version: str = ""
    tilt: bool = False  # it saw its clock jump: it keeps monitoring, and acts on nothing
    started_at: float = 0.0
    monitored: tuple[Monitored, ...] = ()  # by name

    def named(self, name: str) -> Monitored | None:
        """The entry that it monitors under a name, or None."""
        return next((found for found in self.monitored if found.name == name), None)
