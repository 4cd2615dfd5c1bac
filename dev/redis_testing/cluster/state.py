"""The state of one simulated server: its view of nodes, its keys, its place in replication."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from redis_operator.redis.slots import SlotSet
from redis_operator.redis.versions import Ability, Version, can, heals_maps, parse_version

if TYPE_CHECKING:
    from ..sentinels.state import Sentinel
    from .disk import Image
    from .migrations import Job

__all__ = ["DEFAULTS", "Handshake", "Record", "Server", "SlotKeys"]

SlotKeys = dict[int, dict[str, str]]
Late = tuple[int, str, str, float | None, bool]
"""A RESTORE that waits for a frozen process: slot, key, value, end, whether to replace."""

DEFAULTS = {
    "cluster-node-timeout": "5000",
    "repl-diskless-sync-delay": "0",
    "cluster-allow-replica-migration": "no",
    "cluster-require-full-coverage": "no",
    "maxmemory": "0",
    "maxmemory-policy": "noeviction",
    "appendonly": "no",
}


@dataclass(slots=True)
class Record:
    """A line in a server's view: what it believes of a node, itself included."""

    id: str
    ip: str
    replica_of: str | None = None
    epoch: int = 0
    slots: int = 0  # one bit per slot
    given_up: int = 0  # those of them that it does not claim any more
    pfail: bool = False
    fail: bool = False
    noaddr: bool = False
    connected: bool = True
    ping_since: float | None = None  # when the oldest unanswered ping was sent
    failed_at: float = 0.0
    pinged_at: float = -1e9
    heard_at: float = -1e9  # when something last came from it, on whichever link
    unheard_since: float | None = None  # it answers us and never asks: it does not know us
    reports: dict[str, float] = field(default_factory=dict)

    @property
    def is_primary(self) -> bool:
        """Whether the node is a primary in this view."""
        return self.replica_of is None

    @property
    def votes(self) -> bool:
        """Whether it is a primary with slots."""
        return self.replica_of is None and self.slots != 0


@dataclass(slots=True)
class Handshake:
    """A node that was met by address and has not sent its node id yet."""

    fake_id: str
    started: float
    meet: bool


@dataclass
class Server:
    """A process with its files. `alive` is the process; the rest but the links survives on disk."""

    name: str
    id: str
    ip: str
    database: str = ""  # servers of one database share credentials
    persistent: bool = True
    guarded: bool = True  # a boot script lets it be who it can be, and no other
    ended: bool = False  # it was asked to end, and did: it left no pid file
    engine: str = "valkey"
    version: str = "9.1.2"
    alive: bool = True
    stopped: bool = False  # alive but frozen: neither answers nor refuses
    woken_at: float = -1e9  # when that was last over
    was_away: bool = False  # frozen or cut off, and not reconfigured since
    heard: dict[str, float] = field(default_factory=dict)  # when each replica last acknowledged
    table: dict[str, Record] = field(default_factory=dict)
    current_epoch: int = 0
    last_vote_epoch: int = 0
    voted_about: dict[str, float] = field(default_factory=dict)
    handshakes: dict[str, Handshake] = field(default_factory=dict)
    banned: dict[str, float] = field(default_factory=dict)
    importing: dict[int, str] = field(default_factory=dict)
    migrating: dict[int, str] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)  # atomic migrations, newest first; in memory
    scripts: dict[str, str] = field(default_factory=dict)  # by digest; in memory
    asking: bool = False  # the last command was ASKING
    late: list[Late] = field(default_factory=list)
    keys: SlotKeys = field(default_factory=dict)
    expires: dict[str, float] = field(default_factory=dict)  # when keys with a TTL end
    image: Image | None = None  # what the disk has
    disk_full: bool = False
    replication_id: str = ""
    replication_id2: str = ""
    second_offset: int = -1  # how far it went under its second id
    offset: int = 0
    follows: tuple[str, int] | None = None  # by REPLICAOF, without cluster support
    handing_to: str = ""  # the address that FAILOVER names
    sentinel: Sentinel | None = None  # the process is a sentinel
    full_syncs: int = 0  # that it gave
    partial_syncs: int = 0
    link_up: bool = False
    link_down_since: float = 0.0
    synced: bool = False  # has had a link to the primary it follows now
    sync_done_at: float | None = None  # a full sync is in progress until then
    election_at: float | None = None
    election_again_at: float = -1e9  # no new try to be elected before that
    failover_until: float | None = None  # a planned failover is in progress
    pull_at: float = 0.0  # when what its primary has reaches it next
    elected_at: float = -1e9  # when it was last made a primary
    paused_until: float = 0.0
    loading_until: float = 0.0
    started_at: float = 0.0
    fail_since: float = 0.0  # when it last saw too few voters, or started
    serves: bool = False  # `cluster_state` was ok and nothing has ended that
    config: dict[str, str] = field(default_factory=lambda: dict(DEFAULTS))
    used_memory: int = 1 << 20
    spellings: dict[tuple[str, str], str] = field(default_factory=dict)  # of values it is given
    rewriting_until: float = 0.0  # writes its first append-only file
    calm: bool = False  # during pings: in its view all nodes are healthy

    def __post_init__(self) -> None:
        self.table.setdefault(self.id, Record(id=self.id, ip=self.ip))

    @property
    def me(self) -> Record:
        """Its own line."""
        return self.table[self.id]

    @property
    def is_primary(self) -> bool:
        """Whether it takes writes."""
        return self.follows is None and self.table[self.id].replica_of is None

    def can(self, ability: Ability) -> bool:
        """Whether its engine and version have the ability."""
        version = parse_version(self.engine, self.version)
        return can(version or Version(self.engine, 0), ability)

    @property
    def heals_maps(self) -> bool:
        """Whether it takes a new owner's word for a slot that the old one does not claim."""
        version = parse_version(self.engine, self.version)
        return version is not None and heals_maps(version)

    @property
    def is_alone(self) -> bool:
        """Whether it was started without cluster support."""
        return self.config.get("cluster-enabled", "yes") == "no"

    @property
    def persistence(self) -> str:
        """How it keeps its data: `none`, `rdb` or `aof`, which is meant where nothing is set."""
        if not self.persistent:
            return "none"
        return "rdb" if self.config["appendonly"] == "no" and self.config.get("save") else "aof"

    @property
    def node_timeout(self) -> float:
        """In seconds."""
        return int(self.config["cluster-node-timeout"]) / 1000

    @property
    def slots(self) -> SlotSet:
        """The slots it owns by its own view."""
        return SlotSet.from_bits(self.me.slots)

    @property
    def key_count(self) -> int:
        """DBSIZE."""
        return sum(len(keys) for keys in self.keys.values())

    def answers(self, now: float) -> bool:
        """Whether it takes part in anything at all."""
        return self.alive and not self.stopped and now >= self.loading_until

    @property
    def sees_all_well(self) -> bool:
        """Whether it suspects no node in its view, and knows no suspicion of others."""
        for r in self.table.values():  # noqa: SIM110 - it is asked all the time
            if r.pfail or r.fail or r.noaddr or r.reports:
                return False
        return True

    def others(self) -> list[Record]:
        """All other nodes in its view."""
        mine = self.id
        return [record for record in self.table.values() if record.id != mine]

    def primary_record(self) -> Record | None:
        """The line of the primary it follows."""
        if self.follows is not None:
            return Record(id="", ip=self.follows[0])
        primary = self.me.replica_of
        return self.table.get(primary) if primary is not None else None

    def copy_keys(self) -> SlotKeys:
        """A copy of the data, as a full sync or a disk makes it."""
        return {slot: dict(keys) for slot, keys in self.keys.items() if keys}
