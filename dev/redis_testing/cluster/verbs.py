"""The commands of simulated servers, with the errors of real ones.

One function a command, shared by the wire (`commands`) and by tests. A refusal carries the error
line a real server answers with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis_operator.redis.slots import SLOTS, SlotSet, key_slot

from . import bus, disk, replication
from .memory import OOM, is_out_of_memory
from .state import Record, Server

if TYPE_CHECKING:
    from .world import SimulatedCluster

__all__ = [
    "BAN_SECONDS",
    "RefusalError",
    "add_slots",
    "bump_epoch",
    "config_set",
    "delete_slots",
    "failover",
    "forget",
    "meet",
    "migrate",
    "replicate",
    "reset",
    "restore",
    "set_config_epoch",
    "set_slot",
]

BAN_SECONDS = 60.0


class RefusalError(Exception):
    """The error a server answers with, as it stands on the wire."""


def meet(world: SimulatedCluster, server: Server, ip: str) -> None:
    """CLUSTER MEET."""
    bus.shake_hands(world, server, ip, meet=True)


def forget(world: SimulatedCluster, server: Server, node: str) -> None:
    """CLUSTER FORGET: drop the line and ignore gossip about the node for a minute."""
    if node == server.id:
        raise RefusalError("ERR I tried hard but I can't forget myself...")
    if node not in server.table:
        raise RefusalError(f"ERR Unknown node {node}")
    if server.me.replica_of == node:
        raise RefusalError("ERR Can't forget my master!")
    del server.table[node]
    server.banned[node] = world.now + BAN_SECONDS
    for open_slots in (server.importing, server.migrating):
        for slot in [slot for slot, peer in open_slots.items() if peer == node]:
            del open_slots[slot]


def replicate(world: SimulatedCluster, server: Server, node: str) -> None:
    """CLUSTER REPLICATE."""
    record = server.table.get(node)
    if record is None:
        raise RefusalError(f"ERR Unknown node {node}")
    if node == server.id:
        raise RefusalError("ERR Can't replicate myself")
    if not record.is_primary:
        raise RefusalError("ERR I can only replicate a master, not a replica.")
    if server.is_primary and (server.me.slots or server.key_count):
        raise RefusalError("ERR To set a master the node must be empty and without assigned slots.")
    if server.me.replica_of != node:
        bus.become_replica(world, server, node)


def add_slots(server: Server, slots: SlotSet) -> None:
    """CLUSTER ADDSLOTS: all or nothing, and only slots without an owner in this view."""
    for record in server.table.values():
        taken = SlotSet.from_bits(record.slots) & slots
        if taken:
            raise RefusalError(f"ERR Slot {next(iter(taken))} is already busy")
    server.me.slots |= slots.bits
    for slot in slots & SlotSet(server.importing):
        del server.importing[slot]


def delete_slots(server: Server, slots: SlotSet) -> None:
    """CLUSTER DELSLOTS: this view knows no owner of them any more."""
    known = 0
    for record in server.table.values():
        known |= record.slots
    if slots.bits & ~known:
        missing = SlotSet.from_bits(slots.bits & ~known)
        raise RefusalError(f"ERR Slot {next(iter(missing))} is already unassigned")
    for record in server.table.values():
        record.slots &= ~slots.bits


def set_config_epoch(server: Server, epoch: int) -> None:
    """CLUSTER SET-CONFIG-EPOCH."""
    if len(server.table) > 1:
        raise RefusalError(
            "ERR The user can assign a config epoch only when the node does not know any other "
            "node."
        )
    if server.me.epoch:
        raise RefusalError("ERR Node config epoch is already non-zero")
    server.me.epoch = epoch
    server.current_epoch = max(server.current_epoch, epoch)


def bump_epoch(server: Server) -> str:
    """CLUSTER BUMPEPOCH."""
    highest = max(server.current_epoch, *(record.epoch for record in server.table.values()))
    if server.me.epoch and server.me.epoch == highest:
        return f"STILL {server.me.epoch}"
    server.current_epoch = highest + 1
    server.me.epoch = server.current_epoch
    return f"BUMPED {server.me.epoch}"


def failover(world: SimulatedCluster, server: Server, mode: str = "") -> None:
    """CLUSTER FAILOVER: OK means that it was tried, not that it worked."""
    if server.is_primary:
        raise RefusalError("ERR You should send CLUSTER FAILOVER to a replica")
    record = server.primary_record()
    if record is None:
        raise RefusalError("ERR I'm a replica but my master is unknown to me")
    primary = world.reach(server, record.ip)
    present = primary is not None and primary.id == record.id
    if mode == "TAKEOVER":
        replication.take_over(world, server)
    elif not record.slots and server.engine == "redis":
        return  # it is never elected over a primary without slots
    elif mode == "FORCE":
        replication.elect(world, server, force=True)
    elif not present or not server.link_up or record.fail or primary is None:
        raise RefusalError("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE")
    else:
        replication.start_failover(world, server)


def set_slot(server: Server, slot: int, state: str, node: str = "") -> None:
    """CLUSTER SETSLOT."""
    if not server.is_primary:
        raise RefusalError("ERR You can use SETSLOT only with masters.")
    if not 0 <= slot < SLOTS:
        raise RefusalError("ERR Invalid or out of range slot")
    if state == "STABLE":
        server.importing.pop(slot, None)
        server.migrating.pop(slot, None)
        return
    record = server.table.get(node)
    if record is None:
        raise RefusalError(f"ERR I don't know about node {node}")
    mine = bool(server.me.slots >> slot & 1)
    if state == "MIGRATING":
        if not mine:
            raise RefusalError(f"ERR I'm not the owner of hash slot {slot}")
        server.migrating[slot] = node
    elif state == "IMPORTING":
        if mine:
            raise RefusalError(f"ERR I'm already the owner of hash slot {slot}")
        server.importing[slot] = node
    else:
        _set_owner(server, slot, record)


def _set_owner(server: Server, slot: int, record: Record) -> None:
    mine = bool(server.me.slots >> slot & 1)
    if mine and record.id != server.id and server.keys.get(slot):
        raise RefusalError(
            f"ERR Can't assign hashslot {slot} to a different node while I still hold keys "
            "for this hash slot."
        )
    bit = 1 << slot
    for other in server.table.values():
        if other.slots & bit:
            other.slots ^= bit
    record.slots |= bit
    server.migrating.pop(slot, None)
    if record.id == server.id and server.importing.pop(slot, None) is not None:
        bump_epoch(server)


def reset(world: SimulatedCluster, server: Server, *, hard: bool) -> None:
    """CLUSTER RESET: forget all nodes; a replica loses its data, a primary with keys refuses."""
    if server.is_primary and server.key_count:
        raise RefusalError("ERR CLUSTER RESET can't be called with master nodes containing keys")
    server.keys = {}
    me = server.me
    server.table = {}
    server.importing, server.migrating = {}, {}
    server.link_up = False
    if hard:
        server.id = world.new_id()
        server.current_epoch = server.last_vote_epoch = 0
        server.table[server.id] = Record(id=server.id, ip=server.ip)
    else:
        server.table[server.id] = Record(id=server.id, ip=server.ip, epoch=me.epoch)


def migrate(
    world: SimulatedCluster,
    server: Server,
    ip: str,
    keys: list[str],
    *,
    replace: bool = False,
    copy: bool = False,
    login: tuple[str, str] | None = None,
) -> str:
    """MIGRATE keys of one slot to another server, while both are blocked.

    Everything is sent before an answer is read: when the answers do not come, the keys are on both
    sides, or will be once the target continues. Of several keys those that were not refused move.
    """
    found = [(slot, key) for key in keys if (slot := _slot_of(server, key)) is not None]
    if not found:
        return "NOKEY"
    if disk.refuses_writes(server):
        raise RefusalError("MISCONF Errors writing to the AOF file: No space left on device")
    target = world.migration_target(server, ip)
    if login is not None:  # else whoever breaks things on purpose knows the password
        world.check_login(target, login)
    sent = [(slot, key, server.keys[slot][key], server.expires.get(key)) for slot, key in found]
    if target.stopped:
        target.late += [(*one, replace) for one in sent]
        raise RefusalError("IOERR error or timeout reading from target instance")
    broken = world.migration_breaks(len(sent))
    refusal: RefusalError | None = None
    for number, (slot, key, value, end) in enumerate(sent):
        try:
            restore(target, slot, key, value, end, replace=replace)
        except RefusalError as error:
            refusal = refusal or error
            continue
        if not copy and number < broken:
            del server.keys[slot][key]
            server.expires.pop(key, None)
    server.offset += len(sent)
    target.offset += len(sent)
    if broken < len(sent):
        raise RefusalError("IOERR error or timeout reading from target instance")
    if refusal is not None:
        raise refusal
    return "OK"


def _slot_of(server: Server, key: str) -> int | None:
    slot = key_slot(key)
    if key in server.keys.get(slot, {}):
        return slot
    return next((s for s, held in server.keys.items() if key in held), None)  # as tests put them


def restore(
    target: Server, slot: int, key: str, value: str, end: float | None, *, replace: bool
) -> None:
    """RESTORE-ASKING: only who owns or imports the slot takes the key."""
    if not target.is_primary:
        raise RefusalError("ERR Target instance replied with error: READONLY You can't write")
    if disk.refuses_writes(target):
        raise RefusalError("ERR Target instance replied with error: MISCONF its disk is full")
    if is_out_of_memory(target):
        raise RefusalError(f"ERR Target instance replied with error: {OOM}")
    owned = target.me.slots >> slot & 1
    if not owned and slot not in target.importing:
        raise RefusalError(f"ERR Target instance replied with error: MOVED {slot}")
    held = target.keys.setdefault(slot, {})
    if key in held and not replace:
        raise RefusalError(
            "ERR Target instance replied with error: BUSYKEY Target key name already exists."
        )
    held[key] = value
    target.expires.pop(key, None)
    if end is not None:
        target.expires[key] = end


_MAY_BE_EMPTY = ("save", "masteruser", "masterauth")


def config_set(server: Server, values: dict[str, str]) -> None:
    """CONFIG SET, all or nothing."""
    for name, value in values.items():
        if name not in server.config:
            raise RefusalError(
                f"ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            )
        if value == "" and name not in _MAY_BE_EMPTY:
            raise RefusalError(f"ERR CONFIG SET failed (possibly related to argument '{name}')")
    spelled = {n: server.spellings.get((n, value), value) for n, value in values.items()}
    server.config.update(spelled)
