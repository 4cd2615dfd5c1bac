"""A simulated Redis Cluster: servers with addresses, a network that can be cut, and virtual time.

Nothing happens but in `advance` and in commands. The same seed and the same calls give the same
history. `commands` speaks to a server as clients do; `look` and `act` speak as the operator does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations
from random import Random

from redis_operator.redis.slots import SlotSet, key_slot

from ..sentinels import watching
from ..sentinels.state import Sentinel
from . import bus, disk, migrations, replication, verbs
from .memory import is_out_of_memory
from .state import Record, Server
from .users import accepts
from .weather import Weather

__all__ = ["TICK", "SimulatedCluster"]

TICK = 0.1


class SimulatedCluster:
    """All servers of a simulated network, which may be of several databases."""

    def __init__(self, *, seed: int = 0, sync_seconds: float = 0.2) -> None:
        self.random = Random(seed)
        self.now = 1000.0
        self.sync_seconds = sync_seconds
        self.rewrite_seconds = 0.0  # what a first append-only file takes
        self.servers: dict[str, Server] = {}  # by name
        self.cut: set[frozenset[str]] = set()  # pairs of names that cannot talk
        self.acknowledged: dict[tuple[str, str], str] = {}  # (database, key) -> value
        self.passwords: dict[str, dict[str, tuple[str, ...]]] = {}  # hashes by server and user
        self.blocked: set[tuple[str, str]] = set()  # which process may not connect to which server
        self.weather = Weather()
        self.mail: list[tuple[float, str, float, bus.Message]] = []  # in flight: when, to which
        self.load_seconds = 0.0  # what a start takes to read its files
        self.slow_disks = False  # a killed process loses what waited for an fsync
        self.migrate_breaks = 0.0  # the chance that the answers to a MIGRATE are lost
        self.kicked: list[str] = []  # servers whose clients a sentinel disconnected
        self.dns: dict[str, str] = {}  # addresses by host name
        self._ids = 0
        self._addresses = 0
        self._at: dict[str, Server] = {}  # who was last found at an address

    # Servers come and go

    def new_id(self, kind: str = "n") -> str:
        """A name of 40 hex digits, the same in each run of a seed."""
        self._ids += 1
        return (
            f"{self._ids:04x}{kind.encode().hex()}".ljust(8, "0")
            + f"{self.random.getrandbits(128):032x}"
        )

    def new_address(self) -> str:
        """Return an address that no server had before."""
        self._addresses += 1
        return (
            f"10.{self._addresses // 65536}.{self._addresses // 256 % 256}.{self._addresses % 256}"
        )

    def add(self, name: str, *, database: str = "db", persistent: bool = True) -> Server:
        """Start a new, empty server."""
        ip = self.new_address()
        server = Server(
            name=name, id=self.new_id(), ip=ip, database=database, persistent=persistent
        )
        server.replication_id = self.new_id("r")
        server.started_at = self.now
        self.servers[name] = server
        return server

    def add_sentinel(self, name: str, *, database: str = "db") -> Server:
        """Start a sentinel that monitors nothing yet."""
        server = self.add(name, database=database)
        server.config["cluster-enabled"] = "no"
        server.sentinel = Sentinel(self.new_id("s"))
        return server

    def jump_clock(self, name: str, seconds: float) -> None:
        """Let the clock of a sentinel's machine jump."""
        sentinel = self.servers[name].sentinel
        assert sentinel is not None
        sentinel.skew += seconds

    def kill(self, name: str) -> None:
        """End the process at once; its machine continues."""
        server = self.servers[name]
        if server.alive:
            server.alive = False
            disk.lose_process(self, server)

    def power_off(self, name: str) -> None:
        """End the machine that a process runs on."""
        server = self.servers[name]
        server.alive = False
        disk.lose_power(server)

    def end(self, name: str) -> None:
        """Ask the process to end: it saves what it has."""
        server = self.servers[name]
        if server.alive:
            disk.save(self, server, at_the_end=True)
            self.kill(name)
            server.ended = True

    def start(
        self,
        name: str,
        *,
        address: str | None = None,
        follows: tuple[str, int] | None = None,
    ) -> Server:
        """Start the process again, with what its disk kept, at a new address if one is given.

        It follows `follows`, or the primary in its settings: REPLICAOF is forgotten.
        """
        server = self.servers[name]
        if address is not None:
            server.ip = address
        server.alive, server.stopped, server.was_away = True, False, False
        server.heard.clear()
        server.started_at = server.fail_since = self.now
        server.serves = False
        server.handshakes.clear()
        server.jobs, server.scripts, server.late = [], {}, []
        server.full_syncs = server.partial_syncs = 0
        server.link_up = server.synced = False  # no election with old data
        server.sync_done_at = server.election_at = server.failover_until = None
        server.paused_until, server.election_again_at = 0.0, -1e9
        server.follows, server.handing_to = follows or _configured(server), ""
        if server.sentinel is not None:
            server.sentinel.restart(server.sentinel.clock(self.now))
        if server.persistence == "none" or (server.persistence == "rdb" and server.image is None):
            self._lose_data(server)
        else:
            disk.restore_history(self, server)
        server.loading_until = self.now + self.load_seconds if server.key_count else 0.0
        server.me.ip = server.ip
        for record in server.others():
            record.connected = False
            record.ping_since = None
        if server.guarded and not server.ended:
            self._follow_leader(server)
        server.ended = False
        return server

    def _follow_leader(self, server: Server) -> None:
        """Do what the boot script does for a primary whose replica leads."""
        if not server.me.votes:
            return
        for record in server.others():
            other = self.reach(server, record.ip) if record.replica_of == server.id else None
            if other is None or other.id != record.id or not other.is_primary:
                continue
            if _claims(other) == _claims(server):
                record.replica_of, record.epoch = None, other.me.epoch
                record.slots, server.me.slots = server.me.slots, 0
                server.me.replica_of, server.me.epoch = record.id, 0
                return

    def _lose_data(self, server: Server) -> None:
        had_slots = server.me.replica_of is None and server.me.slots
        server.keys = {}
        server.expires, server.image = {}, None
        server.offset = 0
        server.replication_id, server.replication_id2 = self.new_id("r"), ""
        if had_slots and server.guarded:
            self.wipe(server.name)

    def wipe(self, name: str) -> None:
        """Take away everything: data and identity, as a new volume does."""
        server = self.servers[name]
        server.id = self.new_id()
        server.keys, server.expires, server.image, server.table = {}, {}, None, {}
        server.current_epoch = server.last_vote_epoch = 0
        server.voted_about, server.banned, server.handshakes = {}, {}, {}
        server.importing, server.migrating = {}, {}
        server.offset = 0
        server.replication_id, server.replication_id2 = self.new_id("r"), ""
        server.table[server.id] = Record(id=server.id, ip=server.ip)

    # The network

    def at(self, ip: str) -> Server | None:
        """The process that has an address, or to which a name resolves."""
        if self.dns:
            ip = self.dns.get(ip, ip)
        known = self._at.get(ip)
        if known is not None and known.ip == ip and known.alive:
            return known
        for server in self.servers.values():
            if server.ip == ip and server.alive:
                self._at[ip] = server
                return server
        return None

    def reach(self, sender: Server, ip: str) -> Server | None:
        """The server that would answer at an address, or None."""
        other = self.at(ip)
        if other is None or other is sender or not other.answers(self.now):
            return None
        if not self.cut and not self.blocked:
            return other
        return None if self.is_cut(sender, other) else other

    def is_silent(self, sender: Server, ip: str) -> bool:
        """Whether an address neither answers nor refuses, so that open links look alive."""
        other = self.at(ip)
        if other is None:
            return False
        # One that reads its files lets others connect and says nothing: measured on both engines.
        mute = other.stopped or self.now < other.loading_until
        return mute or self.is_cut(sender, other)

    def is_cut(self, sender: Server, other: Server) -> bool:
        """Whether packets between two processes vanish."""
        pair = (sender.name, other.name)
        return pair in self.blocked or frozenset(pair) in self.cut

    def part(self, *groups: Sequence[str]) -> None:
        """Cut the network between groups of servers."""
        for one, other in combinations(groups, 2):
            self.cut |= {frozenset((a, b)) for a in one for b in other}

    def copies(self, server: Server) -> list[Server]:
        """Living servers that follow one, linked or not."""
        return [
            other
            for other in self.servers.values()
            if other.alive and other is not server and self._follows(other, server)
        ]

    def _follows(self, other: Server, server: Server) -> bool:
        if other.follows is not None:
            return self.at(other.follows[0]) is server
        return other.me.replica_of == server.id

    def announced(self, server: Server) -> str:
        """The address that a replica announces to its primary, where sentinels find it."""
        return server.config.get("replica-announce-ip") or server.ip

    def run_id(self, server: Server) -> str:
        """The run id of INFO: another one for each start."""
        return f"{server.id}-{server.started_at:.3f}"

    def lets_in(self, server: Server, user: str, password: str) -> bool:
        """Whether a server with users knows this one; without users it accepts everyone."""
        known = self.passwords.get(server.name)
        return not known or accepts(known, user or "default", password)

    def refuses_ping(self, server: Server) -> bool:
        """Whether PING is answered with an error that is not LOADING."""
        return disk.refuses_writes(server)

    def migration_target(self, sender: Server, ip: str) -> Server:
        """The server that a MIGRATE reaches, frozen or not; refused like the engines do."""
        other = self.at(ip)
        cut = other is None or frozenset((sender.name, other.name)) in self.cut
        if other is None or cut or other is sender or other.database != sender.database:
            raise verbs.RefusalError("IOERR error or timeout connecting to the client")
        if self.now < other.loading_until:
            raise verbs.RefusalError("ERR Target instance replied with error: LOADING its files")
        return other

    def check_login(self, target: Server, login: tuple[str, str]) -> None:
        """Refuse who logs in wrongly to a server that has users."""
        known = self.passwords.get(target.name)
        if not known or target.stopped or accepts(known, *login):
            return
        told = "WRONGPASS invalid username-password pair" if login[1] else "NOAUTH log in first"
        raise verbs.RefusalError(f"ERR Target instance replied with error: {told}")

    def migration_breaks(self, count: int) -> int:
        """How many of the answers to a MIGRATE come back, drawn by seed."""
        if self.migrate_breaks and self.random.random() < self.migrate_breaks:
            return self.random.randrange(count)
        return count

    # Time

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.now = min(end, self.now + TICK)
            self._tick()

    def _tick(self) -> None:
        order = [s for s in self.servers.values() if s.answers(self.now)]
        self.random.shuffle(order)
        sentinels = [s for s in order if s.sentinel is not None]
        order = [s for s in order if s.sentinel is None]
        bus.deliver_late(self)
        for server in order:
            server.calm = server.sees_all_well
        for server in order:
            _go_on(self, server)
            bus.meet_all(self, server)
            bus.ping_all(self, server)
        for server in order:
            server.calm = False
        for server in order:
            bus.suspect(self, server)
            self._note_minority(server)
        for server in order:
            self._replicate(server)
        for server in sentinels:
            watching.turn(self, server)

    def _replicate(self, server: Server) -> None:
        if not server.is_primary:
            replication.pull(self, server)
            if server.failover_until is not None:
                replication.proceed_failover(self, server)
            replication.consider_election(self, server)
        elif server.handing_to:
            replication.hand_over(self, server)
        if server.jobs:
            migrations.proceed(self, server)
        disk.keep(self, server)

    def _note_minority(self, server: Server) -> None:
        voters = well = 0
        for record in server.table.values():
            if record.replica_of is None and record.slots:
                voters += 1
                well += not (record.pfail or record.fail)
        if not voters or well < voters // 2 + 1:
            server.fail_since, server.serves = self.now, False
        elif self._has_waited(server):
            server.serves = True

    def state_ok(self, server: Server) -> bool:
        """`cluster_state`, with full coverage not required."""
        if server.is_alone:
            return True
        covered = any(r.slots and not r.fail for r in server.table.values())
        return covered and (server.serves or self._has_waited(server))

    def _has_waited(self, server: Server) -> bool:
        """Whether a majority was seen for long enough to serve again."""
        wait = min(max(server.node_timeout, 0.5), 5.0)
        return self.now - server.fail_since >= wait

    # Clients

    def write(self, database: str, key: str, value: str) -> bool:
        """Write as a cluster client does, by the views of any server; True when acknowledged."""
        slot = key_slot(key)
        owner = next(self._owners(database, slot), None)
        if owner is not None and slot in owner.migrating and key not in owner.keys.get(slot, {}):
            line = owner.table.get(owner.migrating[slot])  # ASK
            owner = self.at(line.ip) if line is not None and not line.noaddr else None
            if owner is not None and slot not in owner.importing and not owner.me.slots >> slot & 1:
                return False
        if owner is None or not owner.answers(self.now) or self.now < owner.paused_until:
            return False
        if disk.refuses_writes(owner) or is_out_of_memory(owner):
            return False
        owner.keys.setdefault(slot, {})[key] = value
        owner.offset += len(key) + len(value)
        self.acknowledged[database, key] = value
        return True

    def read(self, database: str, key: str) -> str | None:
        """Read as a client does: from the slot's owner."""
        slot = key_slot(key)
        for owner in self._owners(database, slot):
            value = owner.keys.get(slot, {}).get(key)
            if value is not None:
                return value
        return None

    def _owners(self, database: str, slot: int) -> Iterator[Server]:
        """Live primaries that own a slot by their own book, the highest epoch first."""
        found = [
            s
            for s in self.servers.values()
            if s.database == database and s.alive and s.is_primary and s.me.slots >> slot & 1
        ]
        yield from sorted(found, key=lambda s: -s.me.epoch)

    def held_by_the_living(self, database: str) -> set[str]:
        """Every key that some server which answers now has."""
        return {
            key
            for server in self.servers.values()
            if server.database == database and server.answers(self.now)
            for keys in server.keys.values()
            for key in keys
        }

    def everywhere(self, database: str) -> dict[str, set[str]]:
        """Every key of a database and the values any live or kept copy has of it."""
        found: dict[str, set[str]] = {}
        for server in self.servers.values():
            if server.database != database or not (server.alive or server.persistent):
                continue
            for keys in server.keys.values():
                for key, value in keys.items():
                    found.setdefault(key, set()).add(value)
        return found

    def open_slots(self, server: Server) -> SlotSet:
        """Slots a server has open in either direction."""
        return SlotSet(server.importing) | SlotSet(server.migrating)


def _claims(server: Server) -> tuple[int, dict[int, str], dict[int, str]]:
    """What a server says of itself in CLUSTER NODES: its slots, and those that are open."""
    return server.me.slots, server.importing, server.migrating


def _configured(server: Server) -> tuple[str, int] | None:
    """Whom the settings of a server say it follows."""
    host, _, port = server.config.get("replicaof", "").partition(" ")
    return (host, int(port)) if host else None


def _go_on(world: SimulatedCluster, server: Server) -> None:
    """Do what arrived while the process stood still, and end keys whose time is over."""
    for slot, key, value, end, replace in server.late:
        with suppress(verbs.RefusalError):
            verbs.restore(server, slot, key, value, end, replace=replace)
            server.offset += 1
    server.late.clear()
    if server.is_primary:
        for key in [key for key, end in server.expires.items() if end <= world.now]:
            del server.expires[key]
            server.keys.get(key_slot(key), {}).pop(key, None)
            server.offset += 1
