"""Ways to break a simulated database, by name: what nights, people and bugs do.

Each takes a whole or half-broken database and makes it worse, drawing on the given random numbers.
None destroys the last copy of a key unless its name says so, so whatever follows, every key that
was there must be found again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from random import Random

from redis_operator.redis.slots import ALL_SLOTS, SLOTS, key_slot

from . import disk, verbs
from .bus import broadcast
from .database import SimulatedDatabase
from .state import Record, Server
from .verbs import RefusalError

__all__ = ["BREAKAGES", "Breakage", "draw_breakages", "epochs_collide", "files_are_broken", "fill"]

Breakage = Callable[[SimulatedDatabase, Random], None]

_HEARD_SECONDS = 0.5  # by then all servers know who was promoted


def fill(database: SimulatedDatabase, keys: int = 40) -> dict[str, str]:
    """Write keys through the front door and let them reach the replicas; what was written."""
    written = {}
    for number in range(keys):
        key = f"key-{number}"
        if database.world.write(database.wanted.name, key, str(number)):
            written[key] = str(number)
    database.world.advance(0.5)
    return written


@lru_cache(maxsize=1)
def _names() -> dict[int, str]:
    """A key for each slot."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < SLOTS:
        found.setdefault(key_slot(f"stray-{number}"), f"stray-{number}")
        number += 1
    return found


def _alive(database: SimulatedDatabase) -> list[Server]:
    return [s for s in database.servers if s.answers(database.world.now)]


def _primaries(database: SimulatedDatabase) -> list[Server]:
    return [s for s in _alive(database) if s.is_primary and s.me.slots]


def _written_to(database: SimulatedDatabase) -> list[Server]:
    """Primaries whose disk is not full: others refuse the keys that a move brings."""
    return [s for s in _primaries(database) if not s.disk_full]


def _let_replicas_follow(database: SimulatedDatabase) -> None:
    """Let time pass until replicas have what their primaries have, however late they are.

    What only a primary has may be lost with it, by any engine: that is not what is tested.
    """
    database.world.advance(0.2)
    for _ in range(50):
        primaries = _primaries(database)
        copies = ((p, copy) for p in primaries for copy in database.world.copies(p))
        if all(copy.offset >= p.offset for p, copy in copies if copy.link_up):
            return
        database.world.advance(0.1)


def _has_copy(database: SimulatedDatabase, server: Server) -> bool:
    """Whether another live server has all that a server has."""
    return any(
        s.me.replica_of == server.id and s.link_up and s.offset == server.offset
        for s in _alive(database)
    )


def a_pod_is_deleted(database: SimulatedDatabase, random: Random) -> None:
    """It comes back later, at another address, with its volume if it has one."""
    pods = [p for p in database.pods if database.wanted.persistent or _spare(database, p.name)]
    if pods:
        pod = random.choice(pods)
        database.remove_pod(pod.shard, pod.ordinal, comes_back_after=random.choice([0.1, 3.0]))


def _spare(database: SimulatedDatabase, name: str) -> bool:
    server = database.world.servers[name]
    if not server.alive:
        return False
    return _has_copy(database, server) if server.is_primary else _is_a_copy(database, server)


def _may_restart(database: SimulatedDatabase, server: Server) -> bool:
    """Whether all it has is there after a restart at its own address.

    A primary in memory comes back empty, and its replica copies that before anyone can promote it:
    measured on Redis 6.2; Valkey 9.1 mostly promotes the replica first.
    """
    spare = not server.is_primary and _spare(database, server.name)
    return database.wanted.persistent or spare


def a_process_is_killed(database: SimulatedDatabase, random: Random) -> None:
    """It stays down until someone deletes the pod or starts it."""
    servers = _alive(database)
    if len(servers) > 1 and database.wanted.persistent:
        database.world.kill(random.choice(servers).name)


def a_process_restarts(database: SimulatedDatabase, random: Random) -> None:
    """Same address, same disk."""
    servers = [s for s in _alive(database) if _may_restart(database, s)]
    if servers:
        server = random.choice(servers)
        database.world.kill(server.name)
        database.world.start(server.name)


def a_process_freezes(database: SimulatedDatabase, random: Random) -> None:
    """SIGSTOP, a long fork, a lost node: neither answers nor refuses."""
    servers = _alive(database)
    if len(servers) > len(database.servers) // 2:
        random.choice(servers).stopped = True


def all_pods_are_new(database: SimulatedDatabase, random: Random) -> None:
    """All addresses change at once; volumes stay."""
    del random
    if not database.wanted.persistent:
        return
    for pod in database.pods:
        database.remove_pod(pod.shard, pod.ordinal, comes_back_after=0.0)
    database.run_controllers()


def a_replica_is_led_astray(database: SimulatedDatabase, random: Random) -> None:
    """Someone makes it copy another shard."""
    replicas = [s for s in _alive(database) if not s.is_primary]
    primaries = _primaries(database)
    if not replicas or not primaries:
        return
    replica, primary = random.choice(replicas), random.choice(primaries)
    if not _is_a_copy(database, replica):
        return  # it may be the last one
    _try(lambda: verbs.replicate(database.world, replica, primary.id))


def _is_a_copy(database: SimulatedDatabase, replica: Server) -> bool:
    """Whether its primary is there still: one that restarted empty in this moment is another."""
    record = replica.primary_record()
    followed = database.world.at(record.ip) if record is not None else None
    return (
        followed is not None
        and followed.id == replica.me.replica_of
        and followed.answers(database.world.now)
    )


def a_replica_is_reset(database: SimulatedDatabase, random: Random) -> None:
    """It becomes an empty primary that knows no other node."""
    replicas = [
        s for s in _alive(database) if not s.is_primary and s.link_up and _is_a_copy(database, s)
    ]
    if replicas:
        verbs.reset(database.world, random.choice(replicas), hard=random.random() < 0.5)


def slots_are_left_open(database: SimulatedDatabase, random: Random) -> None:
    """A move of a few slots ends somewhere in the middle."""
    primaries = _written_to(database)
    if len(primaries) < 2:
        return
    source, target = random.sample(primaries, 2)
    for slot in random.sample(list(source.slots), min(3, len(source.slots))):
        how = random.randrange(6)
        if how != 0:
            _try(partial(verbs.set_slot, target, slot, "IMPORTING", source.id))
        if how != 1:
            _try(partial(verbs.set_slot, source, slot, "MIGRATING", target.id))
        if how in (2, 3, 4):
            _strand(source, target, slot)
        if how == 4:
            _try(partial(verbs.set_slot, source, slot, "STABLE"))
    _let_replicas_follow(database)


def _strand(source: Server, target: Server, slot: int) -> None:
    """A key that the mover has already brought over."""
    key = _names()[slot]
    for held, value in list(source.keys.get(slot, {}).items()):
        if held not in target.keys.get(slot, {}):
            target.keys.setdefault(slot, {})[held] = value
            del source.keys[slot][held]
    if all(key not in keys for keys in (source.keys.get(slot, {}), target.keys.get(slot, {}))):
        target.keys.setdefault(slot, {})[key] = "1"
        target.offset += 1
        source.offset += 1


def keys_are_stranded(database: SimulatedDatabase, random: Random) -> None:
    """A primary holds a key of a slot that it does not own; no one else has it."""
    primaries = _written_to(database)
    if len(primaries) < 2:
        return
    holder = random.choice(primaries)
    slot = random.randrange(SLOTS)
    if not holder.me.slots >> slot & 1:
        held = any(_names()[slot] in s.keys.get(slot, {}) for s in database.servers)
        if not held:
            holder.keys.setdefault(slot, {})[_names()[slot]] = "1"
            holder.offset += 1
            _let_replicas_follow(database)


def a_ghost_appears(database: SimulatedDatabase, random: Random) -> None:
    """The view of every node has a node that does not exist."""
    world = database.world
    ghost = world.new_id("g")
    address = world.new_address()
    follows = random.choice([None, *(s.id for s in _primaries(database))])
    for server in _alive(database):
        record = Record(id=ghost, ip=address, replica_of=follows, connected=False)
        record.fail, record.failed_at = True, world.now
        server.table[ghost] = record


def a_stranger_is_met(database: SimulatedDatabase, random: Random) -> None:
    """An empty server of another database is among us."""
    world = database.world
    stranger = world.add(f"other-{len(world.servers)}", database="other")
    for server in _alive(database):
        verbs.meet(world, server, stranger.ip)
    world.advance(random.choice([0.1, 1.0]))


def epochs_collide(database: SimulatedDatabase, random: Random) -> None:
    """Two primaries take the next epoch in the same moment, and announce it as they do.

    They part as soon as they hear each other; cut from each other they can not.
    """
    primaries = _primaries(database)
    if len(primaries) < 2:
        return
    one, two = random.sample(primaries, 2)
    if random.random() < 0.5:
        database.world.cut.add(frozenset((one.name, two.name)))
    next_epoch = max(server.current_epoch for server in database.servers) + 1
    for server in (one, two):
        server.current_epoch = server.me.epoch = next_epoch
    for server in (one, two):
        broadcast(database.world, server)


def a_primary_takes_anothers_range(database: SimulatedDatabase, random: Random) -> None:
    """Someone moves all slots of one shard to another by hand, keys and all."""
    primaries = _written_to(database)
    if len(primaries) < 2:
        return
    source, target = random.sample(primaries, 2)
    if not source.slots or source.importing or source.migrating or target.importing:
        return
    for slot, keys in list(source.keys.items()):
        if source.me.slots >> slot & 1:
            target.keys.setdefault(slot, {}).update(keys)
            del source.keys[slot]
    moved = source.me.slots
    source.me.slots = 0
    target.me.slots |= moved
    verbs.bump_epoch(target)
    for server in _alive(database):
        for record in server.table.values():
            record.slots &= ~moved
        if target.id in server.table:
            server.table[target.id].slots |= moved
            server.table[target.id].epoch = target.me.epoch
            server.current_epoch = max(server.current_epoch, target.me.epoch)
    source.offset += 1
    target.offset += 1
    _let_replicas_follow(database)


def slots_are_deleted(database: SimulatedDatabase, random: Random) -> None:
    """DELSLOTS on every server: the keys stay, the owner is gone."""
    primaries = _primaries(database)
    if not primaries:
        return
    filled = [s for p in primaries for s, keys in p.keys.items() if keys and p.me.slots >> s & 1]
    for slot in random.sample(filled, min(2, len(filled))):
        for server in _alive(database):
            for record in server.table.values():
                record.slots &= ~(1 << slot)


def a_failover_happens(database: SimulatedDatabase, random: Random) -> None:
    """A person promotes a replica by hand, and the others learn of it.

    An old primary that ends before it has heard leads its slots again when it is back, and takes
    writes until it meets its successor: a known fault (docs/roadmap.md).
    """
    replicas = [s for s in _alive(database) if not s.is_primary and s.link_up]
    if replicas:
        _try(lambda: verbs.failover(database.world, random.choice(replicas)))
        database.advance(_HEARD_SECONDS)


def a_book_is_torn(database: SimulatedDatabase, random: Random) -> None:
    """One server forgets another one."""
    servers = _alive(database)
    if len(servers) < 2:
        return
    one, two = random.sample(servers, 2)
    record = one.table.get(two.id)
    if record is not None and not record.slots:
        _try(lambda: verbs.forget(database.world, one, two.id))


def the_network_is_cut(database: SimulatedDatabase, random: Random) -> None:
    """Two servers cannot talk for a while."""
    servers = list(database.servers)
    if len(servers) >= 2:
        one, two = random.sample(servers, 2)
        database.world.cut.add(frozenset((one.name, two.name)))


def a_disk_is_full(database: SimulatedDatabase, random: Random) -> None:
    """A server cannot write its files; someone makes room after a while."""
    servers = [s for s in _alive(database) if database.wanted.persistent]
    if servers:
        disk.fill_up(database.world, random.choice(servers))


def a_server_is_killed_for_memory(database: SimulatedDatabase, random: Random) -> None:
    """The kernel ends it, its node says so and starts it again."""
    servers = [s for s in _alive(database) if _may_restart(database, s)]
    if servers:
        server = random.choice(servers)
        database.killed_for_memory[server.name] = database.world.now
        database.world.kill(server.name)
        database.world.start(server.name)


def a_volume_is_lost(database: SimulatedDatabase, random: Random) -> None:
    """A node dies with its disk: the pod comes back elsewhere, empty; others have all it had.

    A majority of slot owners is left: where there is none, a person is needed.
    """
    owners = _primaries(database)
    whole = sum(len(server.slots) for server in owners) == len(ALL_SLOTS)
    kept = set() if whole and len(owners) > 2 else {server.name for server in owners}
    pods = [p for p in database.pods if _spare(database, p.name) and p.name not in kept]
    if pods and whole:
        pod = random.choice(pods)
        database.remove_pod(pod.shard, pod.ordinal, comes_back_after=random.choice([0.1, 3.0]))
        database.world.wipe(pod.name)


def files_are_broken(database: SimulatedDatabase, random: Random) -> None:
    """A server ends and cannot load its files again; another one has all that is in them."""
    servers = [
        s
        for s in _alive(database)
        if database.wanted.persistent and (s.link_up if s.me.replica_of else _has_copy(database, s))
    ]
    if servers:
        name = random.choice(servers).name
        shard, ordinal = next((p.shard, p.ordinal) for p in database.pods if p.name == name)
        database.corrupt(shard, ordinal)


def _try(verb: Callable[[], object]) -> None:
    try:
        verb()
    except RefusalError:
        return


BREAKAGES: tuple[Breakage, ...] = (
    a_pod_is_deleted,
    a_process_is_killed,
    a_process_restarts,
    a_process_freezes,
    all_pods_are_new,
    a_replica_is_led_astray,
    a_replica_is_reset,
    slots_are_left_open,
    keys_are_stranded,
    a_ghost_appears,
    a_stranger_is_met,
    epochs_collide,
    a_primary_takes_anothers_range,
    slots_are_deleted,
    a_failover_happens,
    a_book_is_torn,
    the_network_is_cut,
    a_disk_is_full,
    a_server_is_killed_for_memory,
    a_volume_is_lost,
)


# A lost volume together with another disaster may leave what only a person can decide. Two servers
# with one epoch, one of them dead before any other knew it: a known fault (docs/roadmap.md).
_COMBINED: tuple[Breakage, ...] = tuple(
    b for b in BREAKAGES if b not in (a_volume_is_lost, epochs_collide)
)


def draw_breakages(random: Random, counts: Sequence[int]) -> list[Breakage]:
    """Draw some breakages that may come together."""
    return random.choices(_COMBINED, k=random.choice(counts))
