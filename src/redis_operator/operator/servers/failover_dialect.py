"""The questions to servers and sentinels of mode Failover.

A server is identified by its run id, which changes with each start, and names its primary by an
address; a sentinel is identified by the id that other sentinels use.
"""

from __future__ import annotations

from msgspec.structs import replace

from redis_operator.operator.servers.dialect import Dialect, Question
from redis_operator.operator.servers.replication import replication_effects
from redis_operator.operator.servers.sentinels import view_sentinel
from redis_operator.operator.servers.standalone_dialect import STANDALONE
from redis_operator.planning.identity import RunId
from redis_operator.planning.observed import Node, Seen, SentinelSeen
from redis_operator.redis.connection import Connection

__all__ = ["FAILOVER"]

_PORT = 6379


async def _see_sentinel(
    connection: Connection, question: Question, timeout: float, now: float
) -> SentinelSeen:
    view = await view_sentinel(connection, timeout=timeout, now=now)
    return SentinelSeen(pod=question.pod, id=RunId(view.id), view=view)


def _related(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Name the server that each replica follows, by the address of its pod."""
    ids = {
        f"{node.pod.ip}:{_PORT}": node.id if isinstance(node, Seen) else node.last_id
        for node in nodes
        if node.pod.ip
    }
    return tuple(
        replace(node, replica_of=ids.get(node.replication.follows))
        if isinstance(node, Seen) and node.replication.follows
        else node
        for node in nodes
    )


FAILOVER = Dialect(
    see=STANDALONE.see,
    identity=STANDALONE.identity,
    facts=STANDALONE.facts,
    see_sentinel=_see_sentinel,
    related=_related,
    effects=replication_effects,
)
