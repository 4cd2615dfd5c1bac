"""The cluster bus of the simulation: pings and what they carry, suspicion, claims and epochs.

Follows the engine's laws where they decide about data: the highest epoch owns a slot; whoever
loses a slot deletes its keys, or follows the winner when it was the last slot; unknown senders are
answered and not believed; a server is known by its address only as long as the answer bears the
expected name. How messages fare on their way is the world's `weather`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from redis_operator.redis.slots import SlotSet
from redis_operator.redis.versions import Ability

from .state import Handshake, Record, Server

if TYPE_CHECKING:
    from .world import SimulatedCluster

__all__ = [
    "Message",
    "become_replica",
    "believe_slots",
    "broadcast",
    "deliver_late",
    "meet_all",
    "ping_all",
    "shake_hands",
    "suspect",
]

_BIT_OF_A_TIMEOUT = 2.0
_PINGS_A_TICK = 0.1  # of each server, where they are rare


@dataclass(slots=True)
class Message:
    """A header and its gossip about others, as it was when it was sent."""

    id: str
    ip: str
    replica_of: str | None
    epoch: int
    slots: int
    current_epoch: int
    gossip: Collection[Record]
    well: Mapping[str, Record] | None = None  # its gossip, when it suspects none of them


def _message(world: SimulatedCluster, sender: Server) -> Message:
    """What a server says of itself and of others: of all, or of a few and those it suspects."""
    told: Collection[Record] = sender.table.values()
    well = sender.table if sender.calm else None
    few = world.weather.few
    if few and len(told) > few:
        chosen = {record.id for record in world.random.sample(list(told), few)}
        told = [r for r in told if r.id in chosen or r.pfail or r.fail]
        well = None
    me = sender.me
    return Message(
        sender.id, sender.ip, me.replica_of, me.epoch, me.slots, sender.current_epoch, told, well
    )


def _send(world: SimulatedCluster, sender: Server, receiver: Server) -> None:
    """Let a message arrive: at once, late, twice or not at all."""
    weather, random = world.weather, world.random
    if weather.is_still:
        _hear(world, receiver, sender)
        return
    if weather.loses(random):
        return
    for _ in range(weather.copies(random)):
        delay = weather.delay(random)
        if delay:
            message = _message(world, sender)
            told = [_as_told(record) for record in message.gossip]
            kept = replace(message, gossip=told, well=None)
            world.mail.append((world.now + delay, receiver.name, receiver.started_at, kept))
        else:
            _hear(world, receiver, sender)


def _as_told(record: Record) -> Record:
    """What gossip says of a node, as it is now: the rest of a line is its owner's own affair."""
    return Record(
        record.id,
        record.ip,
        pfail=record.pfail,
        fail=record.fail,
        noaddr=record.noaddr,
        connected=record.connected,
    )


def deliver_late(world: SimulatedCluster) -> None:
    """Let messages arrive whose time has come, at servers that have not started again since."""
    due = [letter for letter in world.mail if letter[0] <= world.now]
    world.mail = [letter for letter in world.mail if letter[0] > world.now]
    for _, name, started, message in sorted(due, key=lambda letter: letter[0]):
        server = world.servers.get(name)
        if server is not None and server.answers(world.now) and server.started_at == started:
            _receive(world, server, message)


def ping_all(world: SimulatedCluster, server: Server) -> None:
    """One round of pings to everyone in the table, or to those whose turn it is."""
    others, table, rare = server.others(), server.table, world.weather.rare
    chance = _PINGS_A_TICK / max(1, len(others))
    for record in others:
        if record.id not in table:
            continue
        if rare:
            due = world.now - record.pinged_at > server.node_timeout / 2
            if not due and record.ping_since is None and world.random.random() >= chance:
                continue
        record.pinged_at = world.now
        _ping(world, server, record)


def _ping(world: SimulatedCluster, server: Server, record: Record) -> None:
    if record.noaddr:
        record.connected = False
        return
    other = world.reach(server, record.ip)
    if other is None:
        record.connected = world.is_silent(server, record.ip) and record.connected
        if record.ping_since is None:
            record.ping_since = world.now
        return
    _send(world, server, other)
    if other.id != record.id:
        # The reply has another node id: the address belongs to another server now.
        record.noaddr = True
        server.calm = False
        record.connected = False
        record.ping_since = record.ping_since if record.ping_since is not None else world.now
        return
    record.connected = True
    record.ping_since = None
    record.pfail = False
    if record.fail:
        _clear_failure(world, server, record)
    _send(world, other, server)
    _meet_again(world, server, record, other)


def _meet_again(world: SimulatedCluster, server: Server, record: Record, other: Server) -> None:
    """Valkey introduces itself again to a peer that answers and never asks, even to one that
    has forgotten it on purpose: a living node is not forgotten for long.
    """
    if server.engine != "valkey" or server.id in other.table:
        record.unheard_since = None
    elif record.unheard_since is None:
        record.unheard_since = world.now
    elif world.now - record.unheard_since > server.node_timeout:
        record.unheard_since = None
        _introduce(world, other, server)


def _clear_failure(world: SimulatedCluster, server: Server, record: Record) -> None:
    grace = server.node_timeout * _BIT_OF_A_TIMEOUT
    if not record.votes or world.now - record.failed_at > grace:
        record.fail = False


def _hear(world: SimulatedCluster, server: Server, sender: Server) -> None:
    """Receive what a server says of itself and of all others right now.

    Most pings have no news: those are done after a few comparisons, and everything else is a
    message like all others.
    """
    table = server.table
    record = table.get(sender.id)
    if record is None or record.id == server.id:
        return
    me = sender.table[sender.id]
    if (
        server.calm
        and sender.calm
        and record.ip == sender.ip
        and not record.noaddr
        and record.replica_of == me.replica_of
        and sender.current_epoch <= server.current_epoch
        and sender.table.keys() <= table.keys()
    ) and (me.replica_of is not None or _is_known_claim(server, record, me)):
        record.heard_at = world.now
        return
    _receive(world, server, _message(world, sender))


def _is_known_claim(server: Server, record: Record, me: Record) -> bool:
    """Whether a primary's claim is what its line here says, and no other has a higher right."""
    epoch, slots = me.epoch, me.slots
    if record.epoch != epoch or (record.slots is not slots and record.slots != slots):
        return False
    if epoch == server.table[server.id].epoch:
        return False
    for other in server.table.values():  # noqa: SIM110 - no line of a simulation runs as often
        if other.epoch > epoch and other.slots & slots:
            return False
    return True


def _receive(world: SimulatedCluster, server: Server, message: Message) -> None:
    """What a server makes of a header and gossip that reached it."""
    record = server.table.get(message.id)
    if record is None or record.id == server.id:
        return
    record.heard_at = world.now
    if record.ip != message.ip or record.noaddr:
        record.ip = message.ip
        record.noaddr = False
        record.ping_since = None
    _note_header(server, record, message)
    if message.replica_of is None:
        if message.slots is not record.slots and message.slots != record.slots:
            believe_slots(world, server, record, message.slots, message.epoch)
            if server.heals_maps:
                record.given_up = record.slots & ~message.slots
            if server.importing and server.can(Ability.REPLICATED_SETSLOT):
                _take_imported(server, record, message.slots)
        elif record.given_up:
            record.given_up = 0
        _send_update(world, server, message)
        if record.epoch == server.me.epoch:
            _part_epochs(server, record)
    well = message.well
    if well is None or not server.calm or not well.keys() <= server.table.keys():
        _note_gossip(world, server, message)  # else it has no news: most do not


def _note_header(server: Server, record: Record, message: Message) -> None:
    server.current_epoch = max(server.current_epoch, message.current_epoch)
    if message.replica_of is None:
        record.replica_of = None
        record.epoch = max(record.epoch, message.epoch)
        return
    if record.replica_of is None and record.slots:
        record.slots = record.given_up = 0  # it turned into a replica: it claims nothing any more
    record.replica_of = message.replica_of


def _send_update(world: SimulatedCluster, server: Server, message: Message) -> None:
    """Notify a sender that claims old slots of their current owner."""
    epoch, claimed = message.epoch, message.slots
    newer = [
        r for r in server.table.values() if r.epoch > epoch and r.slots & ~r.given_up & claimed
    ]
    sender = world.reach(server, message.ip) if newer else None
    if sender is None or sender.id != message.id:
        return
    for record in newer:
        known = sender.table.get(record.id)
        if record.id == sender.id or known is None or known.epoch >= record.epoch:
            continue
        if world.weather.loses(world.random):
            continue
        known.epoch = record.epoch
        if known.id != sender.id:
            known.replica_of = None
        believe_slots(world, sender, known, record.slots & ~record.given_up, record.epoch)


def believe_slots(
    world: SimulatedCluster, server: Server, owner: Record, claimed: int, epoch: int
) -> None:
    """Give a claimant the slots it may have by its epoch; lose keys or freedom as the law says."""
    me = server.me
    followed = me if me.replica_of is None else server.table.get(me.replica_of)
    taken = _claimable(server, owner, claimed, epoch)
    if not taken:
        return
    lost_by_followed = followed.slots & taken if followed is not None else 0
    dirty = me.slots & taken if owner.id != server.id else 0
    for record in server.table.values():
        if record.id != owner.id:
            record.slots &= ~taken
            record.given_up &= ~taken
    owner.slots |= taken
    if server.importing:
        _import_no_more(server, owner, taken)
    for slot in [s for s, peer in server.migrating.items() if peer == owner.id]:
        if owner.slots >> slot & 1:
            del server.migrating[slot]
    if lost_by_followed and followed is not None and not followed.slots and owner.id != server.id:
        moves_along = server.config["cluster-allow-replica-migration"] == "yes"
        if moves_along or claimed == lost_by_followed:
            become_replica(world, server, owner.id)
            return
    _drop_keys(server, dirty)


def _import_no_more(server: Server, owner: Record, taken: int) -> None:
    """Slots have another owner than the one they are imported from: one of its shard, or not."""
    for slot, peer in tuple(server.importing.items()):
        if not taken >> slot & 1 or peer == owner.id:
            continue
        source = server.table.get(peer)
        if source is not None and source.replica_of == owner.id:
            server.importing[slot] = owner.id
        else:
            del server.importing[slot]


def _take_imported(server: Server, source: Record, claimed: int) -> None:
    """Take the slots that a server is imported from and claims no more, by a new epoch.

    It takes them for its own move that was finished without it. When they went elsewhere, the
    server that got them deletes their keys.
    """
    given = [
        s for s, peer in server.importing.items() if peer == source.id and not claimed >> s & 1
    ]
    if not given or not server.is_primary:
        return
    for slot in given:
        del server.importing[slot]
    bits = SlotSet(given).bits & ~server.me.slots
    if not bits:
        return
    for record in server.table.values():
        record.slots &= ~bits
    server.me.slots |= bits
    highest = max(server.current_epoch, *(record.epoch for record in server.table.values()))
    if server.me.epoch != highest or not server.me.epoch:
        server.current_epoch = server.me.epoch = highest + 1


def _claimable(server: Server, owner: Record, claimed: int, epoch: int) -> int:
    """Return the claimed slots that are new here, are not open, and have no owner with a higher
    epoch."""
    taken = claimed & ~owner.slots
    if taken and server.importing and not server.can(Ability.REPLICATED_SETSLOT):
        taken &= ~SlotSet(server.importing).bits
    for record in server.table.values():
        if record.id != owner.id and record.slots & taken and record.epoch >= epoch:
            taken &= ~record.slots | record.given_up
    return taken


def _drop_keys(server: Server, bits: int) -> None:
    """A primary that lost slots deletes their keys: why claims are weapons."""
    if not bits or not server.is_primary:
        return
    for slot in [slot for slot in server.keys if bits >> slot & 1]:
        del server.keys[slot]


def become_replica(world: SimulatedCluster, server: Server, primary: str) -> None:
    """Follow a primary; the data is replaced when the link is up."""
    server.me.slots = 0
    server.me.replica_of = primary
    server.importing.clear()
    server.migrating.clear()
    server.link_up = server.synced = False
    server.link_down_since = world.now
    server.sync_done_at = None
    server.election_at = server.failover_until = None
    server.paused_until = 0.0


def _part_epochs(server: Server, record: Record) -> None:
    """Two primaries with one epoch: the one with the smaller name takes the next."""
    me = server.me
    if not server.is_primary or not record.is_primary or record.epoch != me.epoch:
        return
    if server.id < record.id:
        server.current_epoch += 1
        me.epoch = server.current_epoch


def _note_gossip(world: SimulatedCluster, server: Server, sender: Message) -> None:
    judge, now = server.table[sender.id].votes, world.now
    mine, theirs, table = server.id, sender.id, server.table
    server.calm = False
    for told in sender.gossip:
        named = told.id
        if named in (mine, theirs):
            continue
        known = table.get(named)
        suspected = told.pfail or told.fail
        if known is None:
            banned = server.banned.get(named, 0.0) > now
            if not banned and not told.noaddr and not told.fail:
                shake_hands(world, server, told.ip, meet=False)
            continue
        if judge:
            if suspected:
                known.reports[theirs] = now
            elif known.reports:
                known.reports.pop(theirs, None)
        if known.pfail or known.fail or known.noaddr:
            well = told.connected and not suspected and not told.noaddr
            if well and told.ip != known.ip:
                known.ip = told.ip
                known.noaddr = False
                known.ping_since = None


def shake_hands(world: SimulatedCluster, server: Server, ip: str, *, meet: bool) -> None:
    """Remember an address to be asked for its name."""
    if ip == server.ip or not ip:
        return
    if ip not in server.handshakes:
        server.handshakes[ip] = Handshake(world.new_id("h"), world.now, meet)
    elif meet:
        server.handshakes[ip].meet = True


def meet_all(world: SimulatedCluster, server: Server) -> None:
    """Carry on handshakes; give up those that never answered."""
    for ip, shake in list(server.handshakes.items()):
        other = world.reach(server, ip)
        if other is None:
            if world.now - shake.started > max(server.node_timeout, 1.0):
                del server.handshakes[ip]
            continue
        del server.handshakes[ip]
        if other.id == server.id:
            continue
        if shake.meet:
            _introduce(world, other, server)
        known = server.table.get(other.id)
        if known is None:
            server.table[other.id] = Record(id=other.id, ip=ip)
        else:
            known.ip, known.noaddr, known.ping_since = ip, False, None
        _receive(world, server, _message(world, other))


def _introduce(world: SimulatedCluster, server: Server, sender: Server) -> None:
    """A MEET arrives: learn the sender, and one's own address from where it was sent to."""
    server.me.ip = server.ip
    if sender.id not in server.table:
        shake_hands(world, server, sender.ip, meet=False)
    else:
        _receive(world, server, _message(world, sender))


def suspect(world: SimulatedCluster, server: Server) -> None:
    """Turn long silence into suspicion, and a majority's suspicion into failure."""
    now, patience = world.now, server.node_timeout
    for record in server.others():
        asked = record.ping_since is not None and now - record.ping_since > patience
        if asked and now - record.heard_at > patience:
            record.pfail = True
        if record.pfail and not record.fail:
            _judge(world, server, record, patience)


def _judge(world: SimulatedCluster, server: Server, record: Record, patience: float) -> None:
    """Let a node have failed when a majority suspects it."""
    now = world.now
    voters = [line.id for line in server.table.values() if line.votes]
    fresh = [w for w, at in record.reports.items() if now - at <= 2 * patience and w in voters]
    count = len(fresh) + (1 if server.me.votes else 0)
    if count >= len(voters) // 2 + 1:
        record.fail, record.failed_at = True, now
        _tell_failure(world, server, record.id)


def _tell_failure(world: SimulatedCluster, server: Server, failed: str) -> None:
    for record in server.others():
        other = world.reach(server, record.ip)
        if other is None or other.id != record.id or server.id not in other.table:
            continue
        if world.weather.loses(world.random):
            continue
        known = other.table.get(failed)
        if known is not None and known is not other.me and not known.fail:
            known.fail, known.failed_at = True, world.now


def broadcast(world: SimulatedCluster, server: Server) -> None:
    """Send the own header to all nodes now, as after a promotion."""
    for record in server.others():
        other = world.reach(server, record.ip)
        if other is not None and other.id == record.id:
            _send(world, server, other)
