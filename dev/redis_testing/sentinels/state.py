"""What one simulated sentinel holds: names that it monitors, and what it knows of each of them.

Times are seconds of the sentinel's own clock, which may jump.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Address", "Ask", "Hello", "Kind", "Monitored", "Sentinel", "State", "Told", "Watched"]

Address = tuple[str, int]
NEVER = -1e9


class Kind(Enum):
    """What a sentinel watches, in the words of its protocol."""

    PRIMARY = "master"
    REPLICA = "slave"
    SENTINEL = "sentinel"


class State(Enum):
    """How far a failover is, in the words of `failover-state`."""

    NONE = "none"
    WAIT_START = "wait_start"
    SELECT = "select_slave"
    SEND_NO_ONE = "send_slaveof_noone"
    WAIT_PROMOTION = "wait_promotion"
    RECONFIGURE = "reconf_slaves"
    UPDATE = "update_config"


@dataclass
class Watched:
    """A server or sentinel that is watched."""

    kind: Kind
    ip: str
    port: int
    run_id: str = ""  # of a sentinel: its id
    connected: bool = False
    last_ok: float = 0.0  # when it last answered a ping correctly, or was discovered
    pinged_at: float = NEVER
    ping_since: float | None = None  # when the oldest ping without an answer was sent
    asked_at: float = NEVER  # INFO
    info_at: float | None = None
    published_at: float = NEVER
    down_since: float | None = None  # s_down
    last_down: float = NEVER  # when it last became so; kept
    role: str = ""
    role_since: float = 0.0
    # Of replicas
    follows: Address | None = None
    follows_since: float = 0.0
    link_up: bool = False
    link_down_seconds: float = 0.0
    priority: int = 100
    offset: int = 0
    promoted: bool = False
    reconf: str = ""  # sent, inprog, done
    reconf_at: float = 0.0
    # Of sentinels
    heard_at: float = 0.0
    says_down: bool = False
    told_at: float = NEVER
    leader: str = ""
    leader_epoch: int = 0

    def __post_init__(self) -> None:
        self.role = self.role or self.kind.value

    @property
    def address(self) -> Address:
        """Where it is said to be."""
        return self.ip, self.port


@dataclass
class Monitored(Watched):
    """A primary under its name, with what is known around it."""

    name: str = ""
    quorum: int = 1
    down_after: float = 30.0
    failover_timeout: float = 180.0
    parallel_syncs: int = 1
    auth: tuple[str, str] = ("", "")
    config_epoch: int = 0
    leader: str = ""
    leader_epoch: int = 0
    together_since: float | None = None  # o_down
    last_together: float = NEVER
    state: State = State.NONE
    state_at: float = 0.0
    failover_epoch: int = 0
    failover_at: float = NEVER
    forced: bool = False
    replicas: dict[Address, Watched] = field(default_factory=dict)
    sentinels: dict[str, Watched] = field(default_factory=dict)

    @property
    def chosen(self) -> Watched | None:
        """The replica that a failover promotes."""
        return next((r for r in self.replicas.values() if r.promoted), None)

    @property
    def told_address(self) -> Address:
        """The address that clients get: the new primary from when it was promoted."""
        if self.state in (State.RECONFIGURE, State.UPDATE) and self.chosen is not None:
            return self.chosen.address
        return self.address


@dataclass(frozen=True)
class Hello:
    """What a sentinel says of itself and of a primary, to all who listen."""

    ip: str
    port: int
    id: str
    current_epoch: int
    primary: str
    address: Address
    config_epoch: int


@dataclass(frozen=True)
class Ask:
    """IS-MASTER-DOWN-BY-ADDR: whether a primary is down, and the vote."""

    sender: str  # the name of the asking process
    primary: str
    address: Address
    epoch: int
    candidate: str  # its id, or * when no vote is asked for


@dataclass(frozen=True)
class Told:
    """The answer to it."""

    sender: str  # the id of the answering sentinel
    primary: str
    down: bool
    leader: str
    leader_epoch: int


@dataclass
class Sentinel:
    """A sentinel process. What `lose_file` and `restart` leave is what its file has."""

    id: str
    current_epoch: int = 0
    primaries: dict[str, Monitored] = field(default_factory=dict)
    announce_ip: str = ""
    options: dict[str, str] = field(default_factory=dict)  # SENTINEL CONFIG
    skew: float = 0.0  # how far its clock is ahead
    turned_at: float | None = None  # when its timer last ran
    tilt_since: float | None = None
    inbox: list[Ask | Told] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def clock(self, now: float) -> float:
        """The time that it believes it is."""
        return now + self.skew

    def restart(self, now: float) -> None:
        """Start again from the file: epochs, addresses and options are kept, nothing else."""
        self.turned_at = self.tilt_since = None
        self.inbox, self.events = [], []
        for name, old in list(self.primaries.items()):
            fresh = Monitored(
                Kind.PRIMARY, old.ip, old.port, last_ok=now, role_since=now, published_at=now
            )
            fresh.name, fresh.quorum, fresh.parallel_syncs = name, old.quorum, old.parallel_syncs
            fresh.down_after, fresh.failover_timeout = old.down_after, old.failover_timeout
            fresh.auth, fresh.config_epoch = old.auth, old.config_epoch
            fresh.leader_epoch = old.leader_epoch
            for address in old.replicas:
                fresh.replicas[address] = Watched(
                    Kind.REPLICA, *address, last_ok=now, role_since=now, published_at=now
                )
            for id_, other in old.sentinels.items():
                fresh.sentinels[id_] = Watched(
                    *(Kind.SENTINEL, other.ip, other.port, id_),
                    last_ok=now,
                    published_at=now,
                    heard_at=now,
                )
            self.primaries[name] = fresh

    def lose_file(self, new_id: str) -> None:
        """Start again without a file: another id, and nothing that is monitored."""
        self.id, self.current_epoch = new_id, 0
        self.primaries, self.announce_ip, self.options = {}, "", {}

    def note(self, event: str) -> None:
        """Keep an event, as the log of a real one has it."""
        self.events = [*self.events[-99:], event]
