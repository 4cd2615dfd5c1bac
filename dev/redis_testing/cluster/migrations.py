"""Atomic slot migration of the simulation: jobs of Valkey 9 on the source, Redis 8.4 on the target.

A job takes time and changes nothing until it ends: then the target has the keys and claims the
slots under a new epoch, and the source learns of that as of any other claim. A job ends early when
either end dies, changes its role or loses the slots; it is not kept on disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from redis_operator.redis.slots import SlotSet

from . import bus
from .state import Server
from .verbs import RefusalError, bump_epoch

if TYPE_CHECKING:
    from .world import SimulatedCluster

__all__ = ["Job", "cancel", "export_slots", "import_slots", "proceed"]

_SECONDS = 0.15  # of a job without keys
_SECONDS_A_KEY = 0.002
_LOST = (
    "Connection lost to target. Check CLUSTER GETSLOTMIGRATIONS on the target node for more "
    "information."
)
_DONE = ("success", "completed", "failed", "cancelled", "canceled")


@dataclass
class Job:
    """One migration, kept by the server that was asked for it."""

    name: str
    slots: SlotSet
    source: str
    target: str
    begun: float
    ends: float
    state: str = "connecting"
    message: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether it changes no more."""
        return self.state in _DONE


def export_slots(world: SimulatedCluster, server: Server, slots: SlotSet, target: str) -> None:
    """CLUSTER MIGRATESLOTS: OK means that a job was started."""
    if not server.is_primary:
        raise RefusalError("ERR Slot migration can only be used on primary nodes.")
    if target not in server.table:
        raise RefusalError(f"ERR Unknown node name: {target}")
    if target == server.id:
        raise RefusalError("ERR Target node can not be this node.")
    if slots.bits & ~server.me.slots:
        raise RefusalError("ERR Slots are not served by this node.")
    _refuse_twice(server, slots)
    _start(world, server, slots, source=server.id, target=target)


def import_slots(world: SimulatedCluster, server: Server, slots: SlotSet) -> str:
    """CLUSTER MIGRATION IMPORT: the task's name."""
    if not server.is_primary:
        raise RefusalError("ERR CLUSTER MIGRATION IMPORT is only allowed on master nodes")
    owners = [r for r in server.table.values() if r.slots & slots.bits]
    if len(owners) != 1 or slots.bits & ~owners[0].slots:
        raise RefusalError("ERR slots belong to different source nodes")
    if owners[0].id == server.id:
        raise RefusalError("ERR this node is already the owner of the slot range")
    _refuse_twice(server, slots)
    return _start(world, server, slots, source=owners[0].id, target=server.id).name


def _refuse_twice(server: Server, slots: SlotSet) -> None:
    for job in server.jobs:
        both = slots & job.slots
        if not job.is_finished and both:
            raise RefusalError(f"ERR I am already migrating slot {next(iter(both))}.")


def _start(
    world: SimulatedCluster, server: Server, slots: SlotSet, *, source: str, target: str
) -> Job:
    keys = sum(len(held) for slot, held in server.keys.items() if slot in slots)
    seconds = _SECONDS + keys * _SECONDS_A_KEY + world.random.random() * _SECONDS
    job = Job(world.new_id("j"), slots, source, target, world.now, world.now + seconds)
    server.jobs.insert(0, job)
    return job


def cancel(server: Server) -> int:
    """Cancel all jobs that run; how many there were."""
    running = [job for job in server.jobs if not job.is_finished]
    for job in running:
        job.state = "cancelled" if server.engine == "valkey" else "canceled"
    return len(running)


def proceed(world: SimulatedCluster, server: Server) -> None:
    """One turn of the jobs of a server."""
    for job in server.jobs:
        if not job.is_finished:
            _proceed(world, server, job)


def _proceed(world: SimulatedCluster, server: Server, job: Job) -> None:
    exports = job.source == server.id
    mine = server.is_primary and server.id in (job.source, job.target)
    line = server.table.get(job.target if exports else job.source)
    if not mine or line is None:
        _fail(job, "A topology update occurred during slot migration.")
        return
    peer = world.reach(server, line.ip)
    if peer is None:
        if not world.is_silent(server, line.ip):
            _fail(job, _LOST)
        return
    source, target = (server, peer) if exports else (peer, server)
    if peer.id != line.id or not peer.is_primary:
        _fail(
            job,
            "Received error during handshake to target: -ERR Slot migration can only be used on "
            "primary nodes.",
        )
    elif job.slots.bits & ~source.me.slots:
        _fail(job, "Slots are no longer owned by myself")
    elif world.now < job.ends:
        job.state = "waiting-to-snapshot" if server.engine == "valkey" else "migrating"
    elif source.id in target.table and target.id in source.table:
        _hand_over(world, source, target, job)
        job.state = "success" if server.engine == "valkey" else "completed"


def _fail(job: Job, why: str) -> None:
    job.state, job.message = "failed", why


def _hand_over(world: SimulatedCluster, source: Server, target: Server, job: Job) -> None:
    """The source is paused; the target has all keys and claims the slots under a new epoch."""
    for slot in job.slots:
        held = source.keys.get(slot)
        if held:
            target.keys[slot] = dict(held)
            target.offset += len(held)
        else:
            target.keys.pop(slot, None)
        target.importing.pop(slot, None)
    carried = {key for slot in job.slots for key in source.keys.get(slot, ())}
    target.expires |= {key: end for key, end in source.expires.items() if key in carried}
    for record in target.table.values():
        record.slots &= ~job.slots.bits
    target.me.slots |= job.slots.bits
    target.offset += 1
    bump_epoch(target)
    bus.broadcast(world, target)
