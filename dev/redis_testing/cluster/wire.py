"""The simulated servers' front door: commands as they are sent, replies as they come back.

`answer` takes the arguments of one command and gives what a real server would put on the wire, so
that the parsers and the typed commands of `redis` are used unchanged on the simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from redis_operator.redis.command import Command, check_allowed, interpret
from redis_operator.redis.errors import (
    DeadlineError,
    MalformedReplyError,
    RefusedError,
    ReplyError,
    reply_error,
)
from redis_operator.redis.resp import Argument, Reply
from redis_operator.redis.slots import key_slot
from redis_operator.redis.versions import Ability

from ..sentinels.wire import answer_sentinel
from . import disk, replication, scripts, verbs
from .cluster_commands import CLUSTER, NEEDED, PORT, Handler
from .memory import OOM, is_out_of_memory
from .state import Server
from .verbs import RefusalError
from .world import SimulatedCluster

__all__ = ["SimulatedLink", "answer", "objection", "slot_of"]

T = TypeVar("T")
_OK: Reply = b"OK"


class SimulatedLink:
    """A connection to whatever listens at an address; the `Link` of the simulation."""

    def __init__(self, world: SimulatedCluster, ip: str) -> None:
        self._world = world
        self.ip = ip

    async def run(self, command: Command[T], *, timeout: float) -> T:
        """Run one command; raise what went wrong."""
        del timeout
        check_allowed(command)
        return interpret(command, answer(self._world, self._server(), command.arguments))

    async def run_all(
        self, commands: Sequence[Command[T]], *, timeout: float
    ) -> list[T | ReplyError | MalformedReplyError]:
        """Run commands in one go; answers and refusals in order."""
        answers: list[T | ReplyError | MalformedReplyError] = []
        for command in commands:
            try:
                value: T = await self.run(command, timeout=timeout)
                answers.append(value)
            except (ReplyError, MalformedReplyError) as error:
                answers.append(error)
        return answers

    def _server(self) -> Server:
        server = self._world.at(self.ip)
        if server is None:
            raise RefusedError("connection refused", address=self.ip)
        if server.stopped:
            raise DeadlineError("no answer in time", address=self.ip)
        return server


def answer(world: SimulatedCluster, server: Server, arguments: Sequence[Argument]) -> Reply:
    """What the server says to one command; refusals are error values, as parsers see them."""
    words = [w if type(w) is str else _text(w) for w in arguments]
    if server.sentinel is not None:
        return answer_sentinel(world, server, words)
    name = words[0].upper()
    found = _handler(world, server, name, words)
    if isinstance(found, ReplyError):
        return found
    handler, rest = found
    try:
        return handler(world, server, rest)
    except RefusalError as refusal:
        return reply_error(str(refusal))
    finally:
        server.asking = name == "ASKING"


def objection(world: SimulatedCluster, server: Server, words: list[str]) -> ReplyError | None:
    """Why a server does not even keep a command for a transaction: it is not known, or its key
    is elsewhere.
    """
    name = words[0].upper()
    found = _handler(world, server, name, words)
    if isinstance(found, ReplyError):
        return found
    if name in _OF_ONE_KEY and len(words) > 1:
        try:
            _held(world, server, words[1])
        except RefusalError as refusal:
            return reply_error(str(refusal))
    return None


def slot_of(words: list[str]) -> int | None:
    """The slot of the key that a command is about, if it is about one."""
    return key_slot(words[1]) if len(words) > 1 and words[0].upper() in _OF_ONE_KEY else None


def _handler(
    world: SimulatedCluster, server: Server, name: str, words: list[str]
) -> tuple[Handler, list[str]] | ReplyError:
    """Return the function of a command and its arguments; or the error."""
    second = words[1].upper() if len(words) > 1 else ""
    if world.now < server.loading_until and not _answers_while_loading(server, name, second):
        return reply_error("LOADING the dataset is being read into memory")
    if name in _REFUSED_BY_A_FULL_DISK and disk.refuses_writes(server):
        return reply_error("MISCONF Errors writing to the AOF file: No space left on device")
    needed = NEEDED.get(name) or NEEDED.get(f"{name} {second}")
    if needed is not None and not server.can(needed):
        return reply_error(f"ERR unknown command or subcommand '{name} {second}'")
    if name == "CLUSTER" and server.is_alone:
        return reply_error("ERR This instance has cluster support disabled")
    if name == "CLUSTER":
        handler, rest = CLUSTER.get(second), words[2:]
    else:
        handler, rest = _PLAIN.get(name), words[1:]
    if handler is None:
        return reply_error(f"ERR unknown command '{' '.join(words[:2])}'")
    return handler, rest


def _answers_while_loading(server: Server, name: str, second: str) -> bool:
    """Valkey shows its view of the nodes before it has loaded its keys; Redis does not."""
    if name == "CLUSTER":
        return server.engine == "valkey" and second in _WHILE_LOADING
    return name in ("INFO", "ROLE", "CONFIG", "CLIENT")


_REFUSED_BY_A_FULL_DISK = ("SET", "UNLINK", "MIGRATE", "PING")
_OF_ONE_KEY = ("SET", "GET", "UNLINK", "PTTL", "DUMP")
_WHILE_LOADING = ("NODES", "INFO", "MYID", "SLOTS", "SHARDS", "SLOT-STATS")


def _loaded_keys(world: SimulatedCluster, server: Server) -> int:
    """What the keyspace counts: while it is read, what has been read so far."""
    if world.now >= server.loading_until:
        return server.key_count
    whole = server.loading_until - server.started_at
    return int(server.key_count * (world.now - server.started_at) / whole) if whole > 0 else 0


def _text(argument: Argument) -> str:
    return argument.decode() if isinstance(argument, bytes) else str(argument)


def _ping(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world, server, words
    return b"PONG"


def _dbsize(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world, words
    return server.key_count


def _info(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del words
    fields: dict[str, object] = {
        "redis_version": server.version,
        **(
            {"valkey_version": server.version, "server_name": "valkey"}
            if server.engine == "valkey"
            else {}
        ),
        "redis_mode": "standalone" if server.is_alone else "cluster",
        "run_id": world.run_id(server),
        "uptime_in_seconds": int(world.now - server.started_at),
        "loading": int(world.now < server.loading_until),
        "used_memory": server.used_memory,
        "maxmemory": server.config["maxmemory"],
        "role": "master" if server.is_primary else "slave",
        "master_replid": server.replication_id,
        "master_replid2": server.replication_id2 or "0" * 40,
        "master_repl_offset": server.offset,
        "second_repl_offset": server.second_offset + 1 if server.replication_id2 else -1,
        "slave_priority": server.config.get("replica-priority", "100"),
        "master_failover_state": "waiting-for-sync" if server.handing_to else "no-failover",
        "cluster_enabled": int(not server.is_alone),
        "aof_enabled": int(server.persistence == "aof" or server.config["appendonly"] == "yes"),
        "aof_last_write_status": "err" if server.disk_full else "ok",
        "rdb_last_bgsave_status": "err" if server.disk_full else "ok",
        "aof_rewrite_in_progress": int(world.now < server.rewriting_until),
        "sync_full": server.full_syncs,
        "sync_partial_ok": server.partial_syncs,
    }
    if server.is_alone:
        linked = [c for c in world.copies(server) if c.link_up or c.sync_done_at is not None]
        fields["connected_slaves"] = len(linked)
        for number, copy in enumerate(linked):
            state = "online" if copy.link_up else "wait_bgsave"
            fields[f"slave{number}"] = (
                f"ip={world.announced(copy)},port={PORT},state={state},offset={copy.offset},lag=0"
            )
    if not server.is_primary:
        record = server.primary_record()
        fields |= {
            "master_host": record.ip if record is not None else "",
            "master_port": PORT,
            "master_link_status": "up" if server.link_up else "down",
            "master_sync_in_progress": int(server.sync_done_at is not None),
            "slave_repl_offset": server.offset,
        }
        if not server.link_up:
            down = int(world.now - server.link_down_since) if server.synced else -1
            fields["master_link_down_since_seconds"] = down
    keys = _loaded_keys(world, server)
    if keys:
        fields["db0"] = f"keys={keys},expires=0,avg_ttl=0"
    return "\r\n".join(f"{name}:{value}" for name, value in fields.items()).encode()


def _role(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del words
    if server.is_primary:
        copies: list[Reply] = [
            [s.ip.encode(), str(PORT).encode(), str(s.offset).encode()]
            for s in world.copies(server)
            if s.link_up
        ]
        return [b"master", server.offset, copies]
    record = server.primary_record()
    state = b"connected" if server.link_up else b"connect"
    host = record.ip.encode() if record is not None else b""
    return [b"slave", host, PORT, state, server.offset]


def _config(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    several = len(words) > (2 if words[0].upper() == "GET" else 3)
    if several and not server.can(Ability.MULTI_CONFIG):
        raise RefusalError("ERR Unknown subcommand or wrong number of arguments for 'CONFIG'.")
    if words[0].upper() == "GET":
        found = [n for n in words[1:] if n in server.config]
        return [part for n in found for part in (n.encode(), server.config[n].encode())]
    before = server.config["appendonly"]
    verbs.config_set(server, dict(zip(words[1::2], words[2::2], strict=True)))
    if before == "no" and server.config["appendonly"] == "yes":
        server.rewriting_until = world.now + world.rewrite_seconds
        server.persistent = True
    return _OK


def _client(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    if words[0].upper() == "PAUSE":
        server.paused_until = world.now + int(words[1]) / 1000
    elif words[0].upper() == "UNPAUSE":
        server.paused_until = 0.0
    elif words[0].upper() == "KILL":
        return 0  # clients of simulated servers open a connection for each command
    return _OK


def _wait(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del words
    world.advance(0.1)
    copies = world.copies(server)
    return sum(1 for s in copies if s.link_up and s.offset >= server.offset)


def _held(world: SimulatedCluster, server: Server, key: str) -> dict[str, str]:
    """The keys of a key's slot, where a client may touch them here; else where it is sent."""
    slot = key_slot(key)
    held = server.keys.setdefault(slot, {})
    if server.expires.get(key, world.now + 1) <= world.now:
        del server.expires[key]
        held.pop(key, None)
    if server.is_alone:
        return held
    if server.is_primary and server.me.slots >> slot & 1:
        peer = server.table.get(server.migrating.get(slot, ""))
        if peer is not None and key not in held:
            raise RefusalError(f"ASK {slot} {peer.ip}:{PORT}")
        return held
    if server.is_primary and server.asking and slot in server.importing:
        return held
    owner = next((r for r in server.table.values() if r.slots >> slot & 1), None)
    if owner is None:
        raise RefusalError("CLUSTERDOWN Hash slot not served")
    raise RefusalError(f"MOVED {slot} {owner.ip}:{PORT}")


def _check_writable(world: SimulatedCluster, server: Server) -> None:
    if not server.is_alone:
        return
    if not server.is_primary:
        raise RefusalError("READONLY You can't write against a read only replica.")
    wanted = int(server.config.get("min-replicas-to-write", "0") or 0)
    if wanted > replication.good_replicas(world, server):
        raise RefusalError("NOREPLICAS Not enough good replicas to write.")


def _replicaof(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    if not server.is_alone:
        raise RefusalError("ERR REPLICAOF not allowed in cluster mode.")
    if server.handing_to:
        raise RefusalError("ERR REPLICAOF not allowed while failing over.")
    if [word.upper() for word in words] == ["NO", "ONE"]:
        replication.lead(world, server)
        return _OK
    if not words[1].isdigit():
        raise RefusalError("ERR Invalid master port")
    if replication.follow(world, server, (words[0], int(words[1]))):
        return _OK
    return b"OK Already connected to specified master"


def _failover(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    """FAILOVER TO host port [TIMEOUT ms], and FAILOVER ABORT."""
    options = [word.upper() for word in words]
    if options == ["ABORT"]:
        if not server.handing_to:
            raise RefusalError("ERR No failover in progress.")
        server.handing_to, server.failover_until, server.paused_until = "", None, 0.0
        return _OK
    if not server.is_primary:
        raise RefusalError("ERR FAILOVER is not valid when server is a replica.")
    if server.handing_to:
        raise RefusalError("ERR FAILOVER already in progress.")
    if not world.copies(server):
        raise RefusalError("ERR FAILOVER requires connected replicas.")
    target = world.at(words[1])
    if target is None or target not in world.copies(server) or not target.link_up:
        raise RefusalError("ERR FAILOVER target HOST and PORT is not a replica.")
    limit = int(words[options.index("TIMEOUT") + 1]) if "TIMEOUT" in options else 1 << 40
    server.handing_to, server.failover_until = words[1], world.now + limit / 1000
    return _OK


def _set(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    key, value = words[:2]
    _check_writable(world, server)
    held = _held(world, server, key)
    if is_out_of_memory(server):
        raise RefusalError(OOM)
    if world.now < server.paused_until:
        raise RefusalError("TRYAGAIN writes are paused")
    held[key] = value
    server.expires.pop(key, None)
    if len(words) > 3 and words[2].upper() == "PX":
        server.expires[key] = world.now + int(words[3]) / 1000
    server.offset += len(key) + len(value)
    return _OK


def _get(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    value = _held(world, server, words[0]).get(words[0])
    return value.encode() if value is not None else None


def _pttl(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    if words[0] not in _held(world, server, words[0]):
        return -2
    end = server.expires.get(words[0])
    return -1 if end is None else round((end - world.now) * 1000)


def _asking(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world, server, words
    return _OK


def _unlink(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    _check_writable(world, server)
    gone = _held(world, server, words[0]).pop(words[0], None) is not None
    server.expires.pop(words[0], None)
    server.offset += gone
    return int(gone)


def _memory(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    value = _held(world, server, words[1]).get(words[1])
    return 56 + len(words[1]) + len(value) if value is not None else None


def _save(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del words
    disk.save(world, server)
    return _OK


def _script(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    return scripts.load(server, words[1]).encode()


def _eval(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    return scripts.run(world, server, [scripts.load(server, words[0]), *words[1:]])


def _evalsha(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    return scripts.run(world, server, words)


def _evalsha_ro(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    return scripts.run_read_only(server, words)


def _migrate(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    options = [word.upper() for word in words[5:]]
    keys = words[5 + options.index("KEYS") + 1 :] if "KEYS" in options else [words[2]]
    head = options[: options.index("KEYS")] if "KEYS" in options else options
    at = head.index("AUTH2") + 6 if "AUTH2" in head else 0
    reply = verbs.migrate(
        world,
        server,
        words[0],
        keys,
        replace="REPLACE" in head,
        copy="COPY" in head,
        login=(words[at], words[at + 1]) if at else ("", ""),
    )
    return reply.encode()


_PLAIN: dict[str, Handler] = {
    "PING": _ping,
    "DBSIZE": _dbsize,
    "INFO": _info,
    "ROLE": _role,
    "CONFIG": _config,
    "CLIENT": _client,
    "WAIT": _wait,
    "SET": _set,
    "GET": _get,
    "MIGRATE": _migrate,
    "SAVE": _save,
    "SCRIPT": _script,
    "EVAL": _eval,
    "EVALSHA": _evalsha,
    "EVALSHA_RO": _evalsha_ro,
    "MEMORY": _memory,
    "PTTL": _pttl,
    "ASKING": _asking,
    "DUMP": _get,
    "UNLINK": _unlink,
    "REPLICAOF": _replicaof,
    "FAILOVER": _failover,
}
