"""Replies of sentinels, as values; `sentinel_parsing` creates them.

Times are milliseconds as the sentinel reports them. Fields that a version does not send keep their
default. Values are frozen, so they may be shared and compared.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

__all__ = [
    "InfoSentinel",
    "Instance",
    "KnownReplica",
    "KnownSentinel",
    "MonitoredPrimary",
    "PrimaryLine",
    "Quorum",
    "Vote",
]


class Instance(Struct, frozen=True, kw_only=True):
    """An instance that a sentinel monitors, as it describes it: a primary, a replica or a
    sentinel."""

    down_flags: ClassVar[frozenset[str]] = frozenset({"s_down", "o_down", "disconnected"})

    name: str
    ip: str
    port: int
    run_id: str = ""
    flags: frozenset[str] = frozenset()
    last_ok_ping_ms: int = 0
    down_after_ms: int = 0

    @property
    def is_subjectively_down(self) -> bool:
        """Whether this sentinel alone considers it down."""
        return "s_down" in self.flags

    @property
    def is_disconnected(self) -> bool:
        """Whether the sentinel has no connection to it now."""
        return "disconnected" in self.flags

    @property
    def is_up(self) -> bool:
        """Whether the sentinel is connected to it and does not consider it down."""
        return not self.flags & self.down_flags


class MonitoredPrimary(Instance, frozen=True, kw_only=True):
    """SENTINEL MASTER: the primary that a sentinel monitors under a name, and its settings."""

    role_reported: str = "master"
    role_reported_ms: int = 0
    info_refresh_ms: int = 0
    down_ms: int = 0  # for how long it has considered it down
    config_epoch: int = 0
    replicas: int = 0
    other_sentinels: int = 0
    quorum: int = 0
    failover_timeout_ms: int = 0
    parallel_syncs: int = 0
    failover_state: str = ""

    @property
    def is_objectively_down(self) -> bool:
        """Whether as many sentinels as the quorum consider it down."""
        return "o_down" in self.flags

    @property
    def failover_in_progress(self) -> bool:
        """Whether this sentinel is failing it over."""
        return "failover_in_progress" in self.flags


class KnownReplica(Instance, frozen=True, kw_only=True):
    """One of SENTINEL REPLICAS: a replica that the sentinel discovered, alive or not."""

    role_reported: str = "slave"
    info_refresh_ms: int = 0
    primary_host: str = ""
    primary_port: int = 0
    link_up: bool = False
    link_down_ms: int = 0
    priority: int = 100
    offset: int = 0
    is_announced: bool = True


class KnownSentinel(Instance, frozen=True, kw_only=True):
    """One of SENTINEL SENTINELS: another sentinel of the same name. Its name is its id."""

    last_hello_ms: int = 0
    voted_leader: str = ""
    voted_leader_epoch: int = 0


class Quorum(Struct, frozen=True):
    """SENTINEL CKQUORUM that can be reached; one that cannot is a `NoQuorumError`."""

    usable: int


class Vote(Struct, frozen=True):
    """SENTINEL IS-MASTER-DOWN-BY-ADDR: whether it is down, and the last vote of the sentinel."""

    down: bool
    leader: str = ""
    epoch: int = 0


class PrimaryLine(Struct, frozen=True):
    """One `masterN` line of INFO sentinel."""

    name: str
    status: str
    ip: str
    port: int
    replicas: int = 0
    sentinels: int = 0


class InfoSentinel(Struct, frozen=True):
    """INFO of a sentinel: version, TILT, and a line for each primary."""

    engine: str = "redis"
    version: str = ""
    run_id: str = ""
    uptime_seconds: int = 0
    tilt: bool = False
    tilt_seconds: int = -1
    """How long TILT has lasted; -1: there is none, or the version does not report it."""
    primaries: tuple[PrimaryLine, ...] = ()
