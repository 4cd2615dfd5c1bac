"""One turn of a simulated sentinel, ten times a second: asking, hearing, and losing faith.

Numbers and order are those of sentinel.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis_operator.redis.versions import Ability

from ..cluster import replication
from . import failing_over
from .state import Address, Ask, Hello, Kind, Monitored, Sentinel, State, Told, Watched

if TYPE_CHECKING:
    from ..cluster.state import Server
    from ..cluster.world import SimulatedCluster

__all__ = ["hear", "monitor", "turn"]

_PING_SECONDS = 1.0
_INFO_SECONDS = 10.0
_HELLO_SECONDS = 2.0
_ASK_SECONDS = 1.0
_TILT_TRIGGER = 2.0
_TILT_SECONDS = 30.0
_CONVERT_SECONDS = 4 * _HELLO_SECONDS


def turn(world: SimulatedCluster, server: Server) -> None:
    """Do what the timer of a sentinel does."""
    sentinel = server.sentinel
    assert sentinel is not None
    now = sentinel.clock(world.now)
    _check_clock(sentinel, now)
    _read_inbox(world, sentinel, now)
    for primary in list(sentinel.primaries.values()):
        _handle(world, server, primary, primary, now)
        for watched in [*primary.replicas.values(), *primary.sentinels.values()]:
            _handle(world, server, primary, watched, now)
        if primary.state is State.UPDATE:
            failing_over.switch_to_chosen(server, primary, now)


def monitor(sentinel: Sentinel, name: str, address: Address, quorum: int, now: float) -> Monitored:
    """Start to monitor a primary. INFO is asked at once, and the first hello is two seconds off."""
    fresh = Monitored(Kind.PRIMARY, *address, last_ok=now, role_since=now, published_at=now)
    fresh.name, fresh.quorum = name, quorum
    sentinel.primaries[name] = fresh
    sentinel.note(f"+monitor {name} {address[0]}")
    return fresh


def _check_clock(sentinel: Sentinel, now: float) -> None:
    last, sentinel.turned_at = sentinel.turned_at, now
    if last is not None and not 0 <= now - last <= _TILT_TRIGGER:
        sentinel.tilt_since = now
        sentinel.note("+tilt")
    elif sentinel.tilt_since is not None and now - sentinel.tilt_since >= _TILT_SECONDS:
        sentinel.tilt_since = None
        sentinel.note("-tilt")


def _handle(
    world: SimulatedCluster, server: Server, primary: Monitored, watched: Watched, now: float
) -> None:
    sentinel = server.sentinel
    assert sentinel is not None
    _talk(world, server, primary, watched, now)
    if sentinel.tilt_since is not None:
        return
    _judge(primary, watched, now)
    if isinstance(watched, Monitored):
        _judge_together(primary, now)
        if failing_over.start_if_needed(world, sentinel, primary, now):
            ask_others(world, server, primary, now, forced=True)
        failing_over.proceed(world, server, primary, now)
        ask_others(world, server, primary, now, forced=False)


# Talking


def _talk(
    world: SimulatedCluster, server: Server, primary: Monitored, watched: Watched, now: float
) -> None:
    other = world.at(watched.ip) if watched.port else None
    if other is None or other is server:
        watched.connected = False  # refused
        return
    watched.connected = True
    silent = other.stopped or world.is_cut(server, other)
    if now - watched.pinged_at >= min(_PING_SECONDS, primary.down_after):
        watched.pinged_at = now
        if watched.ping_since is None:
            watched.ping_since = now
    if silent:
        return
    _read_ping(world, primary, watched, other, now)
    due = now - watched.asked_at >= _info_period(primary, watched)
    if watched.kind is not Kind.SENTINEL and due and _may_talk(world, primary, other):
        watched.asked_at = now
        _read_info(world, server, primary, watched, other)
    if now - watched.published_at >= _HELLO_SECONDS:
        watched.published_at = now
        _say_hello(world, server, primary, watched, other)


def _info_period(primary: Monitored, watched: Watched) -> float:
    if watched.info_at is None:
        return 0.0
    hurry = primary.together_since is not None or primary.state is not State.NONE
    if watched.kind is Kind.REPLICA and (hurry or watched.link_down_seconds):
        return 1.0
    return _INFO_SECONDS


def _may_talk(world: SimulatedCluster, primary: Monitored, other: Server) -> bool:
    return world.lets_in(other, *primary.auth)


def _read_ping(
    world: SimulatedCluster, primary: Monitored, watched: Watched, other: Server, now: float
) -> None:
    """A pong will do, and LOADING; any other error is as good as silence."""
    if watched.ping_since is None:
        return
    if watched.kind is not Kind.SENTINEL:
        fine = _may_talk(world, primary, other) and not world.refuses_ping(other)
        fine = fine and other.sentinel is None
    else:
        fine = other.sentinel is not None
    if fine:
        watched.last_ok, watched.ping_since = now, None


def _read_info(
    world: SimulatedCluster,
    server: Server,
    primary: Monitored,
    watched: Watched,
    other: Server,
) -> None:
    sentinel = server.sentinel
    assert sentinel is not None
    now = sentinel.clock(world.now)
    watched.info_at, watched.run_id = now, world.run_id(other)
    role = "master" if other.is_primary else "slave"
    if role != watched.role:
        watched.role, watched.role_since = role, now
    if other.is_primary:
        for copy in world.copies(other):
            if copy.link_up or copy.sync_done_at is not None:
                _learn_replica(sentinel, primary, (world.announced(copy), 6379), now)
    if watched.kind is Kind.REPLICA:
        _read_replica(world, watched, other, now)
    if sentinel.tilt_since is None and watched.kind is Kind.REPLICA:
        _correct(world, server, primary, watched, other)


def _learn_replica(sentinel: Sentinel, primary: Monitored, address: Address, now: float) -> None:
    if address not in primary.replicas and address != primary.address:
        primary.replicas[address] = Watched(
            Kind.REPLICA, *address, last_ok=now, role_since=now, published_at=now
        )
        sentinel.note(f"+slave {primary.name} {address[0]}")


def _read_replica(world: SimulatedCluster, watched: Watched, other: Server, now: float) -> None:
    if other.follows is not None:
        if other.follows != watched.follows:
            watched.follows, watched.follows_since = other.follows, now
        watched.link_up = other.link_up
        down = 0.0 if other.link_up else max(0.1, world.now - other.link_down_since)
        watched.link_down_seconds = down
    else:
        watched.link_down_seconds = 0.0
    watched.priority = int(other.config.get("replica-priority", "100"))
    watched.offset = other.offset


def _correct(
    world: SimulatedCluster,
    server: Server,
    primary: Monitored,
    watched: Watched,
    other: Server,
) -> None:
    """What a replica does that is not what the sentinel wants of it."""
    sentinel = server.sentinel
    assert sentinel is not None
    now = sentinel.clock(world.now)
    if watched.role == "master":
        if watched.promoted and primary.state is State.WAIT_PROMOTION:
            failing_over.promoted(server, primary, now)
            for one in [primary, *primary.replicas.values(), *primary.sentinels.values()]:
                one.published_at = -1e9  # announce it at once
        elif not watched.promoted and _is_sane(primary, now):
            well = now - watched.last_down > _CONVERT_SECONDS
            if well and now - watched.role_since > _CONVERT_SECONDS:
                sentinel.note(f"+convert-to-slave {watched.ip}")
                make_follow(world, other, primary.address)
        return
    if watched.follows is not None and watched.follows != primary.address:
        wait = primary.failover_timeout
        settled = now - watched.last_down > wait and now - watched.follows_since > wait
        if primary.state is State.NONE and _is_sane(primary, now) and settled:
            sentinel.note(f"+fix-slave-config {watched.ip}")
            make_follow(world, other, primary.address)
    failing_over.note_reconfigured(primary, watched, now)


def _is_sane(primary: Monitored, now: float) -> bool:
    fresh = primary.info_at is not None and now - primary.info_at < 2 * _INFO_SECONDS
    well = primary.down_since is None and primary.together_since is None
    return fresh and well and primary.role == "master"


def make_follow(world: SimulatedCluster, other: Server, address: Address | None) -> None:
    """REPLICAOF as sentinels send it: the clients of the server are disconnected with it."""
    if address is None:
        replication.lead(world, other)
    else:
        replication.follow(world, other, address)
    world.kicked.append(other.name)


# Hello


def _say_hello(
    world: SimulatedCluster, server: Server, primary: Monitored, watched: Watched, other: Server
) -> None:
    """Publish who and what is monitored: through a server to all that listen there."""
    if watched.kind is Kind.SENTINEL:
        _hear(world, other, server, primary)
        return
    if not _may_talk(world, primary, other):
        return
    for listener in world.servers.values():
        if listener.sentinel is None or listener is server or not listener.answers(world.now):
            continue
        listens = any(
            known.connected and world.at(known.ip) is other
            for mine in listener.sentinel.primaries.values()
            for known in (mine, *mine.replicas.values())
        )
        if listens and not world.is_cut(listener, other):
            _hear(world, listener, server, primary)


def _hear(world: SimulatedCluster, server: Server, sender: Server, said: Monitored) -> None:
    other = sender.sentinel
    if other is None:
        return
    hello = Hello(
        ip=other.announce_ip or sender.ip,
        port=26379,
        id=other.id,
        current_epoch=other.current_epoch,
        primary=said.name,
        address=said.told_address,
        config_epoch=said.config_epoch,
    )
    hear(world, server, hello)


def hear(world: SimulatedCluster, server: Server, hello: Hello) -> None:
    """Take in what a sentinel says, through a server or directly."""
    sentinel = server.sentinel
    if sentinel is None or hello.id == sentinel.id:
        return
    primary = sentinel.primaries.get(hello.primary)
    if primary is None:
        return
    now = sentinel.clock(world.now)
    known = primary.sentinels.get(hello.id)
    if known is None or known.address != (hello.ip, hello.port):
        there = [o for o in primary.sentinels.values() if o.address == (hello.ip, hello.port)]
        for same in [o for o in there if o.run_id != hello.id]:
            if server.can(Ability.FUNCTIONS):  # Redis 7 and Valkey
                del primary.sentinels[same.run_id]
            else:
                same.port = 0  # its address is another's now
        known = Watched(
            Kind.SENTINEL, hello.ip, hello.port, hello.id, last_ok=now, published_at=now
        )
        primary.sentinels[hello.id] = known
        sentinel.note(f"+sentinel {hello.id[:8]} {hello.ip}")
    known.heard_at = now
    sentinel.current_epoch = max(sentinel.current_epoch, hello.current_epoch)
    if hello.config_epoch > primary.config_epoch:
        primary.config_epoch = hello.config_epoch
        if hello.address != primary.address:
            failing_over.switch(server, primary, hello.address, now)


# Losing faith


def _judge(primary: Monitored, watched: Watched, now: float) -> None:
    elapsed = 0.0
    if watched.ping_since is not None:
        elapsed = now - watched.ping_since
    elif not watched.connected:
        elapsed = now - watched.last_ok
    lies = (
        watched.kind is Kind.PRIMARY
        and watched.role == "slave"
        and now - watched.role_since > primary.down_after + 2 * _INFO_SECONDS
    )
    if elapsed > primary.down_after or lies:
        if watched.down_since is None:
            watched.down_since = watched.last_down = now
    else:
        watched.down_since = None


def _judge_together(primary: Monitored, now: float) -> None:
    votes = 1 + sum(other.says_down for other in primary.sentinels.values())
    if primary.down_since is not None and votes >= primary.quorum:
        if primary.together_since is None:
            primary.together_since = primary.last_together = now
    else:
        primary.together_since = None


def ask_others(
    world: SimulatedCluster, server: Server, primary: Monitored, now: float, *, forced: bool
) -> None:
    """Ask all others whether the primary is down, and for their votes during a failover."""
    sentinel = server.sentinel
    assert sentinel is not None
    for known in primary.sentinels.values():
        if now - known.told_at > 5 * _ASK_SECONDS:
            known.says_down, known.leader = False, ""
        if primary.down_since is None or not known.connected:
            continue
        if not forced and now - known.told_at < _ASK_SECONDS:
            continue
        other = world.reach(server, known.ip)
        if other is None or other.sentinel is None or world.weather.loses(world.random):
            continue
        candidate = sentinel.id if primary.state is not State.NONE else "*"
        epoch = sentinel.current_epoch
        other.sentinel.inbox.append(
            Ask(server.name, primary.name, primary.address, epoch, candidate)
        )


def _read_inbox(world: SimulatedCluster, sentinel: Sentinel, now: float) -> None:
    letters, sentinel.inbox = sentinel.inbox, []
    for letter in letters:
        if isinstance(letter, Ask):
            _answer(world, sentinel, letter)
            continue
        primary = sentinel.primaries.get(letter.primary)
        known = primary.sentinels.get(letter.sender) if primary is not None else None
        if known is not None:
            known.told_at, known.says_down = now, letter.down
            if letter.leader:
                known.leader, known.leader_epoch = letter.leader, letter.leader_epoch


def _answer(world: SimulatedCluster, sentinel: Sentinel, asked: Ask) -> None:
    # The request has its address: the name under which another monitors it is not sent.
    found = [p for p in sentinel.primaries.values() if p.address == asked.address]
    primary = found[0] if found else None
    down = primary is not None and primary.down_since is not None and sentinel.tilt_since is None
    leader, epoch = "", 0
    if primary is not None and asked.candidate != "*":
        leader, epoch = failing_over.vote(world, sentinel, primary, asked.epoch, asked.candidate)
    asker = world.servers.get(asked.sender)
    if asker is not None and asker.sentinel is not None and asker.answers(world.now):
        asker.sentinel.inbox.append(Told(sentinel.id, asked.primary, down, leader, epoch))
