"""The simulated servers' front door: commands as they are sent, replies as they come back.

`answer` takes the arguments of one command and gives what a real server would put on the wire, so
that the parsers and the typed commands of `redis` are used unchanged on the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ...redis.command import Command, check_allowed, interpret
from ...redis.errors import (
    DeadlineError,
    MalformedReplyError,
    RefusedError,
    ReplyError,
    reply_error,
)
from ...redis.resp import Argument, Reply
from ...redis.slots import SLOTS, SlotSet, key_slot
from ...redis.tally import DIGEST
from . import verbs
from .state import Record, Server
from .verbs import RefusalError
from .world import SimulatedCluster

__all__ = ["SimulatedLink", "answer"]

T = TypeVar("T")
_OK: Reply = b"OK"
_PORT, _BUS_PORT = 6379, 16379


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
    words = [w.decode() if isinstance(w, bytes) else str(w) for w in arguments]
    name = words[0].upper()
    if world.now < server.loading_until and name not in ("INFO", "PING"):
        return reply_error("LOADING the dataset is being read into memory")
    if name == "CLUSTER":
        handler, rest = _CLUSTER.get(words[1].upper()), words[2:]
    else:
        handler, rest = _PLAIN.get(name), words[1:]
    if handler is None:
        return reply_error(f"ERR unknown command '{' '.join(words[:2])}'")
    try:
        return handler(world, server, rest)
    except RefusalError as refusal:
        return reply_error(str(refusal))


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
        **({"valkey_version": server.version} if server.engine == "valkey" else {}),
        "redis_mode": "cluster",
        "run_id": server.replication_id,
        "uptime_in_seconds": int(world.now - server.started_at),
        "loading": int(world.now < server.loading_until),
        "used_memory": server.used_memory,
        "maxmemory": server.config["maxmemory"],
        "role": "master" if server.is_primary else "slave",
        "master_replid": server.replication_id,
        "master_replid2": server.replication_id2 or "0" * 40,
        "master_repl_offset": server.offset,
        "cluster_enabled": 1,
    }
    if not server.is_primary:
        record = server.primary_record()
        fields |= {
            "master_host": record.ip if record is not None else "",
            "master_port": _PORT,
            "master_link_status": "up" if server.link_up else "down",
            "master_sync_in_progress": int(server.sync_done_at is not None),
            "slave_repl_offset": server.offset,
        }
    if server.key_count:
        fields["db0"] = f"keys={server.key_count},expires=0,avg_ttl=0"
    return "\r\n".join(f"{name}:{value}" for name, value in fields.items()).encode()


def _role(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del words
    if server.is_primary:
        copies: list[Reply] = [
            [s.ip.encode(), str(_PORT).encode(), str(s.offset).encode()]
            for s in world.servers.values()
            if s.me.replica_of == server.id and s.link_up and s.alive
        ]
        return [b"master", server.offset, copies]
    record = server.primary_record()
    state = b"connected" if server.link_up else b"connect"
    host = record.ip.encode() if record is not None else b""
    return [b"slave", host, _PORT, state, server.offset]


def _config(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    if words[0].upper() == "GET":
        found = [n for n in words[1:] if n in server.config]
        return [part for n in found for part in (n.encode(), server.config[n].encode())]
    verbs.config_set(server, dict(zip(words[1::2], words[2::2], strict=True)))
    return _OK


def _client(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    if words[0].upper() == "PAUSE":
        server.paused_until = world.now + int(words[1]) / 1000
    elif words[0].upper() == "UNPAUSE":
        server.paused_until = 0.0
    return _OK


def _wait(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del words
    world.advance(0.1)
    copies = [s for s in world.servers.values() if s.me.replica_of == server.id]
    return sum(1 for s in copies if s.link_up and s.offset >= server.offset)


def _redirect(server: Server, slot: int) -> None:
    if server.is_primary and server.me.slots >> slot & 1:
        return
    owner = next((r for r in server.table.values() if r.slots >> slot & 1), None)
    if owner is None:
        raise RefusalError("CLUSTERDOWN Hash slot not served")
    raise RefusalError(f"MOVED {slot} {owner.ip}:{_PORT}")


def _set(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    slot = key_slot(words[0])
    _redirect(server, slot)
    if world.now < server.paused_until:
        raise RefusalError("TRYAGAIN writes are paused")
    server.keys.setdefault(slot, {})[words[0]] = words[1]
    server.offset += len(words[0]) + len(words[1])
    return _OK


def _get(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    slot = key_slot(words[0])
    _redirect(server, slot)
    value = server.keys.get(slot, {}).get(words[0])
    return value.encode() if value is not None else None


def _asking(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world, server, words
    return _OK


def _dump(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    value = server.keys.get(key_slot(words[0]), {}).get(words[0])
    return value.encode() if value is not None else None


def _unlink(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    return int(server.keys.get(key_slot(words[0]), {}).pop(words[0], None) is not None)


def _migrate(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    options = [word.upper() for word in words[5:]]
    keys = words[5 + options.index("KEYS") + 1 :] if "KEYS" in options else [words[2]]
    head = options[: options.index("KEYS")] if "KEYS" in options else options
    reply = verbs.migrate(
        world, server, words[0], keys, replace="REPLACE" in head, copy="COPY" in head
    )
    return reply.encode()


def _nodes(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del words
    lines = [_line(world, server, record) for record in server.table.values()]
    lines += [
        f"{shake.fake_id} {ip}:{_PORT}@{_BUS_PORT} handshake - 0 0 0 disconnected"
        for ip, shake in server.handshakes.items()
    ]
    return ("\n".join(lines) + "\n").encode()


def _line(world: SimulatedCluster, server: Server, record: Record) -> str:
    flags = [
        *(["myself"] if record.id == server.id else []),
        "master" if record.is_primary else "slave",
        *(["fail"] if record.fail else ["fail?"] if record.pfail else []),
        *(["noaddr"] if record.noaddr else []),
    ]
    ip = "" if record.noaddr else record.ip
    linked = record.id == server.id or record.connected
    sent = 0 if record.ping_since is None else int(record.ping_since * 1000)
    slots = str(SlotSet.from_bits(record.slots)).replace(",", " ")
    words = [
        record.id,
        f"{ip}:{_PORT}@{_BUS_PORT}",
        ",".join(flags),
        record.replica_of or "-",
        str(sent),
        str(int(world.now * 1000)),
        str(record.epoch),
        "connected" if linked else "disconnected",
        *([slots] if slots else []),
    ]
    if record.id == server.id:
        words += [f"[{slot}->-{peer}]" for slot, peer in server.migrating.items()]
        words += [f"[{slot}-<-{peer}]" for slot, peer in server.importing.items()]
    return " ".join(words)


def _cluster_info(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del words
    assigned = 0
    for record in server.table.values():
        assigned |= record.slots
    fields = {
        "cluster_state": "ok" if world.state_ok(server) else "fail",
        "cluster_slots_assigned": assigned.bit_count(),
        "cluster_known_nodes": len(server.table) + len(server.handshakes),
        "cluster_size": sum(1 for record in server.table.values() if record.votes),
        "cluster_current_epoch": server.current_epoch,
        "cluster_my_epoch": server.me.epoch,
    }
    return "\r\n".join(f"{name}:{value}" for name, value in fields.items()).encode()


def _my_id(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world, words
    return server.id.encode()


def _meet(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    verbs.meet(world, server, words[0])
    return _OK


def _forget(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    verbs.forget(world, server, words[0])
    return _OK


def _replicate(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    verbs.replicate(world, server, words[0])
    return _OK


def _add_slots(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    verbs.add_slots(server, SlotSet(int(word) for word in words))
    return _OK


def _add_slots_range(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    bounds = [int(word) for word in words]
    slots = SlotSet()
    for first, last in zip(bounds[::2], bounds[1::2], strict=True):
        slots |= SlotSet.span(first, last)
    verbs.add_slots(server, slots)
    return _OK


def _delete_slots(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    verbs.delete_slots(server, SlotSet(int(word) for word in words))
    return _OK


def _set_config_epoch(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    verbs.set_config_epoch(server, int(words[0]))
    return _OK


def _bump_epoch(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world, words
    return verbs.bump_epoch(server).encode()


def _failover(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    verbs.failover(world, server, words[0].upper() if words else "")
    return _OK


def _set_slot(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    node = words[2] if len(words) > 2 else ""
    verbs.set_slot(server, int(words[0]), words[1].upper(), node)
    return _OK


def _reset(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    verbs.reset(world, server, hard=bool(words) and words[0].upper() == "HARD")
    return _OK


def _count_keys(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    slot = int(words[0])
    if not 0 <= slot < SLOTS:
        raise RefusalError("ERR Invalid slot")
    return len(server.keys.get(slot, {}))


def _run_script(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    """The one script that is simulated: counting the keys of a range of slots."""
    del world
    if words[0] != DIGEST:
        raise RefusalError("NOSCRIPT No matching script.")
    first, last = int(words[2]), int(words[3])
    held = sorted((slot, len(keys)) for slot, keys in server.keys.items() if first <= slot <= last)
    return [number for slot, keys in held if keys for number in (slot, keys)]


def _get_keys(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    keys = list(server.keys.get(int(words[0]), {}))[: int(words[1])]
    return [key.encode() for key in keys]


_Handler = Callable[[SimulatedCluster, Server, list[str]], Reply]
_PLAIN: dict[str, _Handler] = {
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
    "EVALSHA_RO": _run_script,
    "ASKING": _asking,
    "DUMP": _dump,
    "UNLINK": _unlink,
}
_CLUSTER: dict[str, _Handler] = {
    "NODES": _nodes,
    "INFO": _cluster_info,
    "MYID": _my_id,
    "MEET": _meet,
    "FORGET": _forget,
    "REPLICATE": _replicate,
    "ADDSLOTS": _add_slots,
    "ADDSLOTSRANGE": _add_slots_range,
    "DELSLOTS": _delete_slots,
    "SET-CONFIG-EPOCH": _set_config_epoch,
    "BUMPEPOCH": _bump_epoch,
    "FAILOVER": _failover,
    "SETSLOT": _set_slot,
    "RESET": _reset,
    "COUNTKEYSINSLOT": _count_keys,
    "GETKEYSINSLOT": _get_keys,
}
