"""One question to one server: everything that planning needs, in one or two round trips."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis_operator.operator.servers.dialect import Question
from redis_operator.operator.servers.dialects import DIALECTS
from redis_operator.operator.servers.links import Links
from redis_operator.planning.identity import NodeId
from redis_operator.planning.observed import (
    Evidence,
    Node,
    PodPhase,
    Seen,
    SentinelNode,
    SentinelSeen,
    Unreachable,
)
from redis_operator.redis.connection import Connection
from redis_operator.redis.errors import LinkError, LostError, RedisError, RefusedError

__all__ = ["Question", "probe", "probe_sentinel"]

S = TypeVar("S", Seen, SentinelSeen)


async def probe(
    links: Links, question: Question, *, timeout: float, clock: Callable[[], float] = time.time
) -> Node:
    """Ask one server; an answer is `Seen`, everything else `Unreachable` with its evidence."""
    see = DIALECTS[question.mode].see
    return await _asked(links, question, see, timeout=timeout, clock=clock)


async def probe_sentinel(
    links: Links, question: Question, *, timeout: float, clock: Callable[[], float] = time.time
) -> SentinelNode:
    """Ask one sentinel, in the same way."""
    see = DIALECTS[question.mode].see_sentinel
    assert see is not None, "a mode whose layout has sentinels knows how to ask them"
    return await _asked(links, question, see, timeout=timeout, clock=clock)


async def _asked(
    links: Links,
    question: Question,
    see: Callable[[Connection, Question, float, float], Awaitable[S]],
    *,
    timeout: float,
    clock: Callable[[], float],
) -> S | Unreachable:
    async def ask() -> S:
        connection = await links.open(question.target, timeout=timeout)
        seen = await see(connection, question, timeout, clock())
        links.answered(question.target.uid, seen.id)
        return seen

    try:
        try:
            return await ask()
        except LostError:
            # An old connection may have ended long ago. Only the address shows the current state.
            links.drop(question.target.uid)
            return await ask()
    except RedisError as error:
        return _unreachable(links, question, error, clock())


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
