"""Carry out actions on a simulated database as the operator would: check again, then do.

Every action is a generator that stops after each command a server or the API has obeyed, so that a
test can end the operator between any two of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, assert_never

from ...planning.actions import (
    Action,
    AssignSlots,
    At,
    CancelJob,
    CloseSlots,
    ConfigSet,
    DeletePod,
    DeleteWorkload,
    DiscardData,
    Failover,
    FailoverMode,
    Fence,
    Forget,
    GrowVolume,
    InheritSlots,
    LabelPod,
    LabelRole,
    Meet,
    MoveSlots,
    Replicate,
    RescueKeys,
    ResetEmptyNode,
    ResizePod,
    ScaleWorkload,
    SetConfigEpoch,
    StopMoving,
    TuneForBootstrap,
)
from ...planning.observed import Election, NodeId
from ...redis.slots import SlotSet
from . import verbs
from .state import Server
from .verbs import RefusalError

if TYPE_CHECKING:
    from .database import SimulatedDatabase

__all__ = ["MovedOnError", "act"]

GROUP = 64


class MovedOnError(Exception):
    """What the action carries is not true any more. Look again."""


def act(database: SimulatedDatabase, action: Action) -> Iterator[None]:
    """Do an action, one command at a time."""
    match action:
        case Meet() | TuneForBootstrap() | SetConfigEpoch() | AssignSlots() | Replicate():
            yield from _join(database, action)
        case Failover():
            yield from _failover(database, action)
        case InheritSlots():
            yield from _inherit(database, action)
        case Forget() | CloseSlots() | ConfigSet() | ResetEmptyNode():
            yield from _tidy(database, action)
        case MoveSlots():
            yield from _move(database, action)
        case RescueKeys():
            yield from _rescue(database, action)
        case CancelJob() | StopMoving() | LabelPod():
            yield
        case (
            LabelRole()
            | DeletePod()
            | ScaleWorkload()
            | DeleteWorkload()
            | GrowVolume()
            | ResizePod()
        ):
            yield from database.apply(action)
        case DiscardData():
            keeper = _server(database, action.keeper)
            _require(keeper.is_primary and keeper.key_count, "the keeper holds nothing by now")
            yield from database.discard(action)
        case _:
            assert_never(action)


def _server(database: SimulatedDatabase, place: At) -> Server:
    """The live server an action means; anything else has moved on."""
    world = database.world
    server = world.at(place.ip)
    if server is None or not server.answers(world.now):
        raise MovedOnError(f"{place.pod} does not answer")
    if server.id != place.id:
        raise MovedOnError(f"{place.pod} is another node by now")
    return server


def _require(condition: object, why: str) -> None:
    if not condition:
        raise MovedOnError(why)


def _join(
    database: SimulatedDatabase,
    action: Meet | TuneForBootstrap | SetConfigEpoch | AssignSlots | Replicate,
) -> Iterator[None]:
    world = database.world
    server = _server(database, action.node)
    match action:
        case Meet(peer=peer):
            verbs.meet(world, server, _server(database, peer).ip)
        case TuneForBootstrap(values=values):
            _require(not server.key_count and not server.me.slots, "it holds something by now")
            verbs.config_set(server, dict(values))
        case SetConfigEpoch(epoch=epoch):
            _require(len(server.table) == 1 and not server.me.epoch, "it knows somebody by now")
            verbs.set_config_epoch(server, epoch)
        case AssignSlots(slots=slots, expect_keys=keys):
            _require(server.key_count <= keys, "it holds more keys by now")
            verbs.add_slots(server, slots)
        case Replicate(primary=primary, expect_primary=expected):
            _require(server.me.replica_of == expected, "it follows somebody else by now")
            _require(not server.me.slots, "it owns slots by now")
            _require(expected is not None or not server.key_count, "it holds keys by now")
            while primary.id not in server.table and server.handshakes:
                world.advance(0.1)  # the handshake is under way
            verbs.replicate(world, server, primary.id)
        case _:
            assert_never(action)
    yield


def _failover(database: SimulatedDatabase, action: Failover) -> Iterator[None]:
    world = database.world
    server = _server(database, action.node)
    _require(server.me.replica_of == action.primary, "it follows somebody else by now")
    _require(server.offset >= action.min_offset, "it is behind what was seen")
    old = next((s for s in world.servers.values() if s.id == action.primary and s.alive), None)
    match action.fence:
        case Fence.HANDSHAKE:
            _require(action.mode is FailoverMode.PLAIN, "a handshake is a plain failover")
        case Fence.PROCESS_GONE | Fence.CONTAINER_ENDED | Fence.POD_GONE:
            _require(old is None or old.name not in database.pod_names, "the primary is back")
        case Fence.EMPTY_AND_PAUSED:
            _require(old is not None and not old.key_count, "the primary has keys")
            assert old is not None
            old.paused_until = world.now + 3.0
        case _:
            assert_never(action.fence)
    words = {FailoverMode.PLAIN: "", FailoverMode.FORCE: "FORCE", FailoverMode.TAKEOVER: "TAKEOVER"}
    verbs.failover(world, server, words[action.mode])
    if server.is_primary:
        election = Election(node=NodeId(server.id), at=world.now, over=action.primary)
        database.elections.append(election)
    yield


def _inherit(database: SimulatedDatabase, action: InheritSlots) -> Iterator[None]:
    server = _server(database, action.node)
    _require(server.is_primary, "it is no primary by now")
    other = next(node for node in server.table if node != server.id)
    for slot in action.slots - server.slots:
        verbs.set_slot(server, slot, "IMPORTING", other)
        yield
        verbs.set_slot(server, slot, "NODE", server.id)
        yield


def _tidy(
    database: SimulatedDatabase, action: Forget | CloseSlots | ConfigSet | ResetEmptyNode
) -> Iterator[None]:
    world = database.world
    server = _server(database, action.node)
    match action:
        case Forget(id=node, expect_slots=expected):
            record = server.table.get(node)
            _require(record is not None, "it has forgotten by now")
            assert record is not None
            _require(not SlotSet.from_bits(record.slots) - expected, "it owns slots by now")
            verbs.forget(world, server, node)
            yield
        case CloseSlots(slots=slots):
            for slot in slots:
                verbs.set_slot(server, slot, "STABLE")
                yield
        case ConfigSet(values=values):
            verbs.config_set(server, dict(values))
            yield
        case ResetEmptyNode():
            _require(not server.key_count, "it holds keys by now")
            verbs.reset(world, server, hard=True)
            yield
        case _:
            assert_never(action)


def _move(database: SimulatedDatabase, action: MoveSlots) -> Iterator[None]:
    """The legacy mover, in groups; importing first, owner on the target before the source. I4"""
    source, target = _server(database, action.source), _server(database, action.target)
    _require(source.is_primary and target.is_primary, "one of them is no primary by now")
    left = action.slots & (source.slots | target.slots)
    _require(left == action.slots, "somebody else owns the slots by now")
    while left:
        group = left.lowest(GROUP)
        left -= group
        yield from _move_group(database, action, group)


def _move_group(database: SimulatedDatabase, action: MoveSlots, group: SlotSet) -> Iterator[None]:
    world = database.world
    source, target = _server(database, action.source), _server(database, action.target)
    for slot in group:
        if not target.me.slots >> slot & 1:
            verbs.set_slot(target, slot, "IMPORTING", source.id)
    yield
    for slot in group:
        if source.me.slots >> slot & 1:
            verbs.set_slot(source, slot, "MIGRATING", target.id)
    yield
    for slot in group:
        for key in list(source.keys.get(slot, ())):
            source, target = _server(database, action.source), _server(database, action.target)
            verbs.migrate(world, source, target.ip, [key], replace=True)
            yield
    source, target = _server(database, action.source), _server(database, action.target)
    for slot in group:
        verbs.set_slot(target, slot, "NODE", target.id)
    yield
    source = _server(database, action.source)
    for slot in group:
        verbs.set_slot(source, slot, "NODE", target.id)
    yield


def _rescue(database: SimulatedDatabase, action: RescueKeys) -> Iterator[None]:
    """Move stray keys to the owner. Where both have one the owner's is what clients see."""
    world = database.world
    for slot in action.slots:
        holder, owner = _server(database, action.holder), _server(database, action.owner)
        _require(owner.me.slots >> slot & 1, "somebody else owns the slot by now")
        _require(not holder.me.slots >> slot & 1, "the holder owns the slot by now")
        verbs.set_slot(holder, slot, "IMPORTING", owner.id)
        yield
        half_moved = owner.migrating.get(slot) == holder.id
        for key in list(holder.keys.get(slot, ())):
            try:
                verbs.migrate(world, holder, owner.ip, [key], replace=False)
            except RefusalError as refusal:
                if not str(refusal).startswith("BUSYKEY"):
                    raise
                del holder.keys[slot][key]
            yield
        verbs.set_slot(holder, slot, "STABLE")
        if half_moved:
            verbs.set_slot(owner, slot, "STABLE")
        yield
