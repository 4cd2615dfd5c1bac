"""Read the clock and the offset of the primary, some 20 times a second.

Time and offset come from one transaction, so that no write lies between them; so does the
replication id, which identifies the history should the primary change between two samples.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Address, Connection, Credentials, connect
from redis_operator.redis.errors import RedisError
from redis_operator.redis.replies import ClusterNode, InfoReplication

from ..replica import Login
from ..task import Source
from .follow import View
from .records import Owned, Sample

__all__ = ["Asked", "ask", "look", "look_at", "open_link", "sample_for_ever"]

_ANSWER_SECONDS = 2.0
_RETRY_SECONDS = 0.2


class Asked(Struct, frozen=True):
    """One reply of a server, and the worker's clock before and after it."""

    replication: InfoReplication
    sample: Sample
    owned: Owned | None = None


async def open_link(source: Source, login: Login) -> Connection:
    """Connect to a server. Raises `RedisError`."""
    return await connect(
        Address(source.host, source.port),
        timeout=_ANSWER_SECONDS,
        credentials=Credentials(login.user, login.password),
    )


async def look(source: Source, login: Login) -> InfoReplication | str:
    """Return the replication state of a server, or why it is unknown."""
    try:
        async with await open_link(source, login) as link:
            return await link.run(commands.info_replication(), timeout=_ANSWER_SECONDS)
    except RedisError as error:
        return f"{source.pod}: {error}"


async def look_at(sources: Sequence[Source], login: Login) -> tuple[list[View], list[str]]:
    """Return what servers say of their replication, and why others do not."""
    answers = await asyncio.gather(*(look(source, login) for source in sources))
    pairs = list(zip(sources, answers, strict=True))
    return (
        [View(source, answer) for source, answer in pairs if not isinstance(answer, str)],
        [answer for answer in answers if isinstance(answer, str)],
    )


async def ask(link: Connection, *, cluster: bool = False) -> Asked:
    """Take one sample. Raises `RedisError`."""
    wanted: list[Command[Any]] = [commands.server_time(), commands.info_replication()]
    if cluster:
        wanted.append(commands.cluster_nodes())
    sent = time.time_ns() // 1000
    answers = await link.run_all(commands.transaction(wanted), timeout=_ANSWER_SECONDS)
    received = time.time_ns() // 1000
    refused = [answer for answer in answers if isinstance(answer, RedisError)]
    if refused:
        raise refused[0]
    values: list[Any] = answers[-1]  # type: ignore[assignment]  # errors were raised above
    clock, replication, *nodes = values
    sample = Sample(replication.offset, clock, sent, received)
    owned = _owned(nodes[0], sample) if nodes else None
    return Asked(replication, sample, owned)


def _owned(nodes: tuple[ClusterNode, ...], sample: Sample) -> Owned | None:
    for node in nodes:
        if node.is_myself:
            return Owned(
                offset=sample.offset,
                server=sample.server,
                epoch=node.config_epoch,
                slots=str(node.slots),
                migrating=tuple(sorted(node.migrating)),
                importing=tuple(sorted(node.importing)),
                node=node.id,
            )
    return None


async def sample_for_ever(
    primary: Callable[[], Source | None],
    login: Callable[[], Login],
    take: Callable[[Asked], bool],
    *,
    interval: float,
    cluster: bool = False,
) -> None:
    """Pass every sample of a primary to `take`, which returns whether it is of use.

    When it is not, or the server does not respond, the primary is searched for again.
    """
    while True:
        source = primary()
        if source is None:
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        with suppress(RedisError):
            async with await open_link(source, login()) as link:
                while take(await ask(link, cluster=cluster)):  # noqa: ASYNC110 - asks again
                    await asyncio.sleep(interval)
        await asyncio.sleep(_RETRY_SECONDS)
