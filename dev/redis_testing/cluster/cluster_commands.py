"""CLUSTER commands of the simulated servers' front door."""

from __future__ import annotations

from collections.abc import Callable

from redis_operator.redis.resp import Reply
from redis_operator.redis.slots import SLOTS, SlotSet
from redis_operator.redis.versions import Ability

from . import migrations, verbs
from .migrations import Job
from .state import Record, Server
from .verbs import RefusalError
from .world import SimulatedCluster

__all__ = ["BUS_PORT", "CLUSTER", "NEEDED", "PORT", "Handler"]

PORT, BUS_PORT = 6379, 16379
Handler = Callable[[SimulatedCluster, Server, list[str]], Reply]
_OK: Reply = b"OK"


def _nodes(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del words
    lines = [_line(world, server, record) for record in server.table.values()]
    lines += [
        f"{shake.fake_id} {ip}:{PORT}@{BUS_PORT} handshake - 0 0 0 disconnected"
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
        f"{ip}:{PORT}@{BUS_PORT}",
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
    verbs.add_slots(server, _ranges(words))
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


def _get_keys(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world
    keys = list(server.keys.get(int(words[0]), {}))[: int(words[1])]
    return [key.encode() for key in keys]


def _migrate_slots(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    end = [word.upper() for word in words].index("NODE")
    migrations.export_slots(world, server, _ranges(words[1:end]), words[end + 1])
    return _OK


def _slot_migrations(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world, words
    return [_job(job, valkey=True) for job in server.jobs]


def _cancel_slot_migrations(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    del world, words
    if not migrations.cancel(server):
        raise RefusalError("ERR No migrations ongoing")
    return _OK


def _migration(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    if words[0].upper() == "IMPORT":
        return migrations.import_slots(world, server, _ranges(words[1:])).encode()
    if words[0].upper() == "CANCEL":
        return migrations.cancel(server)
    return [_job(job, valkey=False) for job in server.jobs]


def _job(job: Job, *, valkey: bool) -> Reply:
    ranges = str(job.slots).replace(",", " ")
    if valkey:
        fields = {
            "name": job.name,
            "operation": "EXPORT",
            "slot_ranges": ranges,
            "target_node": job.target,
            "source_node": job.source,
            "state": job.state,
            "message": job.message,
        }
    else:
        fields = {
            "id": job.name,
            "slots": ranges,
            "source": job.source,
            "dest": job.target,
            "operation": "import",
            "state": job.state,
            "last_error": job.message,
        }
    return [part.encode() for pair in fields.items() for part in pair]


def _ranges(words: list[str]) -> SlotSet:
    bounds = [int(word) for word in words]
    slots = SlotSet()
    for first, last in zip(bounds[::2], bounds[1::2], strict=True):
        slots |= SlotSet.span(first, last)
    return slots


CLUSTER: dict[str, Handler] = {
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
    "MIGRATESLOTS": _migrate_slots,
    "GETSLOTMIGRATIONS": _slot_migrations,
    "CANCELSLOTMIGRATIONS": _cancel_slot_migrations,
    "MIGRATION": _migration,
}
NEEDED = {
    "CLUSTER ADDSLOTSRANGE": Ability.ADDSLOTSRANGE,
    "CLUSTER MIGRATESLOTS": Ability.MIGRATESLOTS,
    "CLUSTER GETSLOTMIGRATIONS": Ability.MIGRATESLOTS,
    "CLUSTER CANCELSLOTMIGRATIONS": Ability.MIGRATESLOTS,
    "CLUSTER MIGRATION": Ability.MIGRATION_IMPORT,
    "EVALSHA_RO": Ability.FUNCTIONS,
    "ACL DRYRUN": Ability.ACL_DRYRUN,
}
"""What a server must be able to do to know a command."""
