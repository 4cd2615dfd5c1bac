"""The questions to the server of mode Standalone: identified by run id, new at each start."""

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
from redis_operator.operator.servers.replication import replication_effects
from redis_operator.planning.identity import Role, RunId
from redis_operator.planning.observed import Seen
from redis_operator.planning.preconditions import ServerFacts
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Connection
from redis_operator.redis.replies import Info

__all__ = ["STANDALONE"]


async def _see(connection: Connection, question: Question, timeout: float, now: float) -> Seen:
    answers = await connection.run_all(common_questions(connection, question), timeout=timeout)
    fields = common_fields(connection, question, answers, now)
    info: Info = must(answers[0])
    return Seen(**fields, id=RunId(info.server.run_id), role=_role(info))


async def _identity(connection: Connection) -> str:
    info = await connection.run(commands.info(), timeout=TIMEOUT)
    return info.server.run_id


async def _facts(connection: Connection) -> ServerFacts:
    """Ask a server for its role and keys, in one round trip."""
    questions: list[Command[Any]] = [commands.info(), commands.dbsize()]
    info, keys = map(must, await connection.run_all(questions, timeout=TIMEOUT))
    replication = info.replication
    return ServerFacts(
        id=RunId(info.server.run_id),
        role=_role(info),
        keys=keys,
        offset=replication.offset,
        follows=""
        if replication.is_primary
        else f"{replication.primary_host}:{replication.primary_port}",
        replication_id=replication.replication_id,
    )


def _role(info: Info) -> Role:
    return Role.PRIMARY if info.replication.is_primary else Role.REPLICA


STANDALONE = Dialect(see=_see, identity=_identity, facts=_facts, effects=replication_effects)
