"""The questions to the servers of one mode, and how they are identified.

A mode provides its `Dialect`; code that observes servers or acts on them uses it and never asks for
the mode. What every server can report is read here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from redis_operator.api.redis import Mode
from redis_operator.operator.servers.links import Target
from redis_operator.planning.observed import Node, Pod, Replication, Seen, SentinelSeen
from redis_operator.planning.preconditions import ServerFacts
from redis_operator.planning.traffic import Traffic
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Connection
from redis_operator.redis.errors import MalformedReplyError, RedisError, ReplyError
from redis_operator.redis.replies import Info
from redis_operator.redis.versions import Ability, can, parse_version

__all__ = ["TIMEOUT", "Dialect", "Question", "common_fields", "common_questions", "must"]

TIMEOUT = 2.0

T = TypeVar("T")


class Question(Struct, frozen=True):
    """Which server to ask, and what in addition to the usual."""

    pod: Pod
    target: Target
    directives: tuple[str, ...] = ()  # directives whose values are wanted
    count_strays: bool = False  # count keys in slots that the server does not own
    ended: bool = False  # the kubelet reports that the container has ended
    mode: Mode = Mode.CLUSTER


class Dialect(Struct, frozen=True):
    """The questions to servers of one mode."""

    see: Callable[[Connection, Question, float, float], Awaitable[Seen]]
    """Everything that planning needs; with a time limit for each round trip, and the time."""
    identity: Callable[[Connection], Awaitable[str]]
    """Its id: asked again right before any action on it. I11"""
    facts: Callable[[Connection], Awaitable[ServerFacts]]
    """What preconditions need."""
    see_sentinel: Callable[[Connection, Question, float, float], Awaitable[SentinelSeen]] | None = (
        None
    )
    """The same for a sentinel, if the mode has any."""
    related: Callable[[tuple[Node, ...]], tuple[Node, ...]] = lambda nodes: nodes
    """The servers with facts that only follow from the answers of all."""
    effects: Callable[[Any, Any, Any], Mapping[Any, Any]] = lambda _servers, _passwords, _source: {}
    """How actions of this mode are carried out, given the servers, the passwords, and the
    external server if there is one."""


def common_questions(connection: Connection, question: Question) -> list[Command[Any]]:
    """The questions to every server: the answers are for `common_fields`.

    Directives are read in one command if the server is known to support it.
    """
    names, version = question.directives, connection.version
    together = names and version is not None and can(version, Ability.MULTI_CONFIG)
    return [
        commands.info(),
        commands.dbsize(),
        *([commands.config_get(*names)] if together else map(commands.config_get, names)),
    ]


def common_fields(
    connection: Connection, question: Question, answers: list[Any], now: float
) -> dict[str, Any]:
    """What every server reports about itself, as fields of `Seen`."""
    info: Info = must(answers[0])
    connection.version = parse_version(info.server.engine, info.server.version)
    keys = answers[1]
    settings = [a for a in answers[2:] if isinstance(a, dict)]
    return {
        "pod": question.pod,
        "replication": _replication(info),
        "keys": keys if isinstance(keys, int) else info.keys,
        "engine": info.server.engine,
        "version": info.server.version,
        "config": tuple(sorted(pair for values in settings for pair in values.items())),
        "loading": info.persistence.loading,
        "saving": info.persistence.aof_pending,
        "aof_written": info.persistence.aof_written,
        "aof_failed": info.persistence.aof_enabled and not info.persistence.last_aof_write_ok,
        "full_syncs": info.stats.full_syncs,
        "refused_commands": info.stats.refused_commands,
        "snapshot_failed": not info.persistence.last_bgsave_ok,
        "used_memory": info.memory.used_bytes,
        "max_memory": info.memory.maxmemory_bytes,
        "started_at": now - info.server.uptime_seconds,
        "traffic": _traffic(info),
    }


def must(answer: T | ReplyError | MalformedReplyError) -> T:
    """Return an answer, or raise the error that came instead."""
    if isinstance(answer, RedisError):
        raise answer
    return answer


def _traffic(info: Info) -> Traffic:
    return Traffic(
        connected_clients=info.connected_clients,
        commands_per_second=info.stats.commands_per_second,
        commands_processed=info.stats.commands_processed,
        keyspace_hits=info.stats.keyspace_hits,
        keyspace_misses=info.stats.keyspace_misses,
        evicted_keys=info.stats.evicted_keys,
    )


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
        id2_offset=found.second_offset,
        follows="" if found.is_primary else f"{found.primary_host}:{found.primary_port}",
        priority=found.priority,
    )
