"""The questions to servers of mode Cluster: identified by node id, with views of each other."""

from __future__ import annotations

from typing import Any

from redis_operator.operator.servers.dialect import (
    TIMEOUT,
    Dialect,
    Question,
    common_fields,
    common_questions,
    must,
)
from redis_operator.planning.clusters import (
    ClusterView,
    Counted,
    NotCounted,
    NotWeighed,
    OpenSlot,
    Peer,
    PeerFlag,
    SlotMigration,
    SlotState,
    Weighed,
)
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import Seen
from redis_operator.planning.preconditions import ServerFacts
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Connection
from redis_operator.redis.errors import MalformedReplyError, RedisError, ReplyError
from redis_operator.redis.replies import ClusterInfo, ClusterNode, Info, MigrationJob
from redis_operator.redis.slots import ALL_SLOTS, SlotSet
from redis_operator.redis.tally import count_keys
from redis_operator.redis.versions import Ability, Version, can, parse_version

__all__ = ["CLUSTER"]

_FLAGS = {flag.value: flag for flag in PeerFlag}
_COUNT_SECONDS = 5.0


async def _see(connection: Connection, question: Question, timeout: float, now: float) -> Seen:
    questions: list[Command[Any]] = [
        commands.cluster_nodes(),
        commands.cluster_info(),
        *common_questions(connection, question),
    ]
    answers = await connection.run_all(questions, timeout=timeout)
    nodes: tuple[ClusterNode, ...] = must(answers[0])
    cluster: ClusterInfo = must(answers[1])
    fields = common_fields(connection, question, answers[2:], now)
    info: Info = must(answers[2])
    myself = next((node for node in nodes if node.is_myself), None)
    if myself is None:
        raise MalformedReplyError("CLUSTER NODES has no line about the server itself", reply=nodes)
    version = parse_version(info.server.engine, info.server.version)
    return Seen(
        **fields,
        id=NodeId(myself.id),
        role=Role.REPLICA if myself.is_replica else Role.PRIMARY,
        replica_of=NodeId(myself.primary) if myself.primary else None,
        view=ClusterView(
            ip=myself.ip,
            slots=myself.slots,
            config_epoch=myself.config_epoch,
            current_epoch=cluster.current_epoch,
            state_ok=cluster.is_ok,
            peers=tuple(_peer_of(node) for node in nodes if not node.is_myself),
            open_slots=_open_slots(myself),
            jobs=await _jobs(connection, version, myself.id, timeout),
            stranded=await _strays(connection, myself, info, count=question.count_strays),
            weighed=await _weights(connection, myself, info, version, ask=question.count_strays),
        ),
    )


async def _identity(connection: Connection) -> str:
    return await connection.run(commands.my_id(), timeout=TIMEOUT)


async def _facts(connection: Connection) -> ServerFacts:
    """Ask a server for its role, slots and keys, in one round trip."""
    questions: list[Command[Any]] = [
        commands.cluster_nodes(),
        commands.dbsize(),
        commands.info_replication(),
    ]
    nodes, keys, replication = map(must, await connection.run_all(questions, timeout=TIMEOUT))
    myself = next(node for node in nodes if node.is_myself)
    return ServerFacts(
        id=NodeId(myself.id),
        role=Role.REPLICA if myself.is_replica else Role.PRIMARY,
        replica_of=NodeId(myself.primary) if myself.primary else None,
        slots=myself.slots,
        keys=keys,
        offset=replication.offset,
        peers=tuple(_peer_of(node) for node in nodes if not node.is_myself),
    )


def _peer_of(node: ClusterNode) -> Peer:
    """Return the view that a server has of another one: the same object for the same line.

    Planning compares views by identity, without comparing their content.
    """
    known = _PEERS.get(id(node))
    if known is not None:
        return known[1]
    if len(_PEERS) >= _MOST_PEERS:
        _PEERS.clear()
    made = _made_peer(node)
    _PEERS[id(node)] = (node, made)
    return made


_MOST_PEERS = 16384
_PEERS: dict[int, tuple[ClusterNode, Peer]] = {}
"""Parsed lines by the identity of the line, which is kept too, so that its id stays valid."""


def _made_peer(node: ClusterNode) -> Peer:
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


async def _jobs(
    connection: Connection, version: Version | None, myself: str, timeout: float
) -> tuple[SlotMigration, ...]:
    """Return the atomic slot migrations of this server that are not finished."""
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
        return ()  # the engine reports the ability without having it: then it runs none either
    return tuple(
        SlotMigration(
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
    """Count keys in slots that the server does not own: only a primary with keys can have any."""
    if myself.is_replica or not info.keys:
        return Counted()
    if not count:
        return NotCounted()
    foreign = ALL_SLOTS - SlotSet(myself.slots)
    try:
        return Counted(await count_keys(connection, foreign, timeout=_COUNT_SECONDS))
    except RedisError:
        return NotCounted()  # too busy to count, though it may still serve


async def _weights(
    connection: Connection, myself: ClusterNode, info: Info, version: Version | None, *, ask: bool
) -> Weighed | NotWeighed:
    """Weigh the slots of a server: by bytes if the engine reports them, else by keys."""
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
    """Ask for the bytes of each slot; none if the engine does not report them, or not to us."""
    first, last = slots.ranges()[0][0], slots.ranges()[-1][1]
    try:
        answer = await connection.run(commands.slot_stats(first, first), timeout=_COUNT_SECONDS)
        if not any("memory-bytes" in stats for _, stats in answer):
            return ()
        answer = await connection.run(commands.slot_stats(first, last), timeout=_COUNT_SECONDS)
    except ReplyError:
        return ()
    found = ((slot, stats.get("memory-bytes", 0)) for slot, stats in answer)
    return tuple(pair for pair in found if pair[1])


CLUSTER = Dialect(see=_see, identity=_identity, facts=_facts)
