"""One question to one server: everything planning wants to know, in one or two round trips."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from redis_operator.operator.links import Links, Target
from redis_operator.planning.observed import (
    Counted,
    Evidence,
    Job,
    Node,
    NodeId,
    NotCounted,
    NotWeighed,
    OpenSlot,
    Peer,
    PeerFlag,
    Pod,
    PodPhase,
    Replication,
    Role,
    Seen,
    SlotState,
    Unreachable,
    Weighed,
)
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Connection
from redis_operator.redis.errors import (
    LinkError,
    LostError,
    MalformedReplyError,
    RedisError,
    RefusedError,
    ReplyError,
)
from redis_operator.redis.replies import ClusterInfo, ClusterNode, Info, MigrationJob
from redis_operator.redis.slots import ALL_SLOTS, SlotSet
from redis_operator.redis.tally import count_keys
from redis_operator.redis.versions import Ability, Version, can, parse_version

__all__ = ["Question", "peer_of", "probe"]

_FLAGS = {flag.value: flag for flag in PeerFlag}
_COUNT_SECONDS = 5.0

T = TypeVar("T")


class Question(Struct, frozen=True):
    """Whom to ask and what, beyond the usual."""

    pod: Pod
    target: Target
    directives: tuple[str, ...] = ()  # settings whose values are wanted
    count_strays: bool = False  # look for keys in slots the server does not own
    ended: bool = False  # the kubelet says that the container has ended


async def probe(
    links: Links, question: Question, *, timeout: float, clock: Callable[[], float] = time.time
) -> Node:
    """Ask one server; an answer is `Seen`, everything else `Unreachable` with its evidence."""
    try:
        try:
            return await _ask(links, question, timeout, clock)
        except LostError:
            # An old connection may have ended long ago. The address itself says what is true now.
            links.drop(question.target.uid)
            return await _ask(links, question, timeout, clock)
    except RedisError as error:
        return _unreachable(links, question, error, clock())


async def _ask(
    links: Links, question: Question, timeout: float, clock: Callable[[], float]
) -> Seen:
    connection = await links.open(question.target, timeout=timeout)
    questions: list[Command[Any]] = [
        commands.cluster_nodes(),
        commands.cluster_info(),
        commands.info(),
        commands.dbsize(),
        *(commands.config_get(name) for name in question.directives),
    ]
    answers = await connection.run_all(questions, timeout=timeout)
    nodes: tuple[ClusterNode, ...] = _must(answers[0])
    cluster: ClusterInfo = _must(answers[1])
    info: Info = _must(answers[2])
    keys = answers[3]
    myself = next((node for node in nodes if node.is_myself), None)
    if myself is None:
        raise MalformedReplyError("CLUSTER NODES has no line about the server itself", reply=nodes)
    links.answered(question.target.uid, myself.id)
    settings = [a for a in answers[4:] if isinstance(a, dict)]
    version = parse_version(info.server.engine, info.server.version)
    return Seen(
        pod=question.pod,
        id=NodeId(myself.id),
        role=Role.REPLICA if myself.is_replica else Role.PRIMARY,
        ip=myself.ip,
        replica_of=NodeId(myself.primary) if myself.primary else None,
        slots=myself.slots,
        config_epoch=myself.config_epoch,
        current_epoch=cluster.current_epoch,
        state_ok=cluster.is_ok,
        peers=tuple(peer_of(node) for node in nodes if not node.is_myself),
        open_slots=_open_slots(myself),
        jobs=await _jobs(connection, version, myself.id, timeout),
        replication=_replication(info),
        keys=keys if isinstance(keys, int) else info.keys,
        stranded=await _strays(connection, myself, info, count=question.count_strays),
        weighed=await _weights(connection, myself, info, version, ask=question.count_strays),
        engine=info.server.engine,
        version=info.server.version,
        config=tuple(sorted(pair for values in settings for pair in values.items())),
        loading=info.persistence.loading,
        saving=info.persistence.aof_pending,
        aof_written=info.persistence.aof_written,
        used_memory=info.memory.used_bytes,
        max_memory=info.memory.maxmemory_bytes,
        started_at=clock() - info.server.uptime_seconds,
    )


def _must(answer: T | ReplyError | MalformedReplyError) -> T:
    if isinstance(answer, RedisError):
        raise answer
    return answer


def peer_of(node: ClusterNode) -> Peer:
    """Return what a server says about another one."""
    return Peer(
        id=NodeId(node.id),
        ip=node.ip,
        role=Role.REPLICA if node.is_replica else Role.PRIMARY,
        replica_of=NodeId(node.primary) if node.primary else None,
        config_epoch=node.config_epoch,
        slots=node.slots,
        connected=node.link_connected,
        flags=frozenset(_FLAGS[flag] for flag in node.flags if flag in _FLAGS),
    )


def _open_slots(myself: ClusterNode) -> tuple[OpenSlot, ...]:
    leaving = [OpenSlot(s, SlotState.MIGRATING, NodeId(peer)) for s, peer in myself.migrating]
    coming = [OpenSlot(s, SlotState.IMPORTING, NodeId(peer)) for s, peer in myself.importing]
    return tuple(sorted(leaving + coming, key=lambda o: (o.slot, o.state.value)))


def _replication(info: Info) -> Replication:
    found = info.replication
    # Whole seconds: 0 is "less than one", and -1 "never linked", which planning knows as 0.
    down = 0.5 if found.link_down_seconds == 0 else max(0.0, float(found.link_down_seconds))
    linked = found.is_primary or found.link_up
    return Replication(
        id=found.replication_id,
        id2=found.replication_id2,
        offset=found.offset,
        link_up=linked,
        syncing=found.sync_in_progress,
        down_seconds=0.0 if linked else down,
        unlinked=not linked and found.link_down_seconds < 0,
    )


async def _jobs(
    connection: Connection, version: Version | None, myself: str, timeout: float
) -> tuple[Job, ...]:
    """Return the atomic slot migrations that this server says are not at their end."""
    if version is None:
        return ()
    if can(version, Ability.MIGRATESLOTS):
        question: Command[tuple[MigrationJob, ...]] = commands.slot_migrations()
    elif can(version, Ability.MIGRATION_IMPORT):
        question = commands.migration_status()
    else:
        return ()
    try:
        jobs = await connection.run(question, timeout=timeout)
    except ReplyError:
        return ()  # an engine that says it can and does not: then it runs none either
    return tuple(
        Job(
            id=job.name,
            source=NodeId(job.source or myself),
            target=NodeId(job.target or myself),
            slots=job.slots,
        )
        for job in jobs
        if not job.is_finished
    )


async def _strays(
    connection: Connection, myself: ClusterNode, info: Info, *, count: bool
) -> Counted | NotCounted:
    """Count keys in slots the server does not own: only a primary with keys can have any."""
    if myself.is_replica or not info.keys:
        return Counted()
    if not count:
        return NotCounted()
    foreign = ALL_SLOTS - SlotSet(myself.slots)
    try:
        return Counted(await count_keys(connection, foreign, timeout=_COUNT_SECONDS))
    except RedisError:
        return NotCounted()  # too busy to count, which is not to say that it does not serve


async def _weights(
    connection: Connection, myself: ClusterNode, info: Info, version: Version | None, *, ask: bool
) -> Weighed | NotWeighed:
    """Weigh the slots of a server: by bytes where the engine tells them, else by keys."""
    if myself.is_replica or not info.keys:
        return Weighed()
    if not ask:
        return NotWeighed()
    slots = SlotSet(myself.slots)
    if slots and version is not None and can(version, Ability.SLOT_STATS):
        by_bytes = await _slot_bytes(connection, slots)
        if by_bytes:
            return Weighed(by_bytes, "memory-bytes")
    try:
        found = await count_keys(connection, slots, timeout=_COUNT_SECONDS)
    except RedisError:
        return NotWeighed()
    return Weighed(found, "key-count")


async def _slot_bytes(connection: Connection, slots: SlotSet) -> tuple[tuple[int, int], ...]:
    """Ask for the bytes of each slot; none where the engine does not keep them, or not for us."""
    first, last = slots.ranges()[0][0], slots.ranges()[-1][1]
    try:
        told = await connection.run(commands.slot_stats(first, first), timeout=_COUNT_SECONDS)
        if not any("memory-bytes" in stats for _, stats in told):
            return ()
        told = await connection.run(commands.slot_stats(first, last), timeout=_COUNT_SECONDS)
    except ReplyError:
        return ()
    found = ((slot, stats.get("memory-bytes", 0)) for slot, stats in told)
    return tuple(pair for pair in found if pair[1])


def _unreachable(links: Links, question: Question, error: RedisError, now: float) -> Unreachable:
    uid, pod = question.target.uid, question.pod
    last_id = links.last_id(uid)
    if not pod.ip or pod.phase is PodPhase.PENDING:
        evidence = Evidence.NOT_STARTED
    elif question.ended:
        evidence = Evidence.TERMINATED
    elif isinstance(error, RefusedError) and last_id is not None:
        evidence = Evidence.REFUSED
    else:
        evidence = Evidence.SILENT
    if isinstance(error, LinkError):
        links.drop(uid)
    return Unreachable(
        pod=pod,
        error=str(error),
        since=links.failed(uid, now),
        evidence=evidence,
        last_id=NodeId(last_id) if last_id is not None else None,
    )
