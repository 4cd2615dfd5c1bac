"""Load an archive into a server up to a cut: the one function that restores are built on.

The worker acts as the primary: base, then the stream. It is never a client: a replica does not
expire keys by itself, so none is created again without its time to live.

Guarantees: the server is promoted only after it has acknowledged every byte and refused no command.
Errors: `FeedError`, `Damaged`. The server is then left as a replica: it takes no writes.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Address, Connection, Credentials, connect
from redis_operator.redis.errors import RedisError
from redis_operator.redis.resp import Reply

from ..errors import WorkerError
from ..manifest import Manifest
from ..primary import Primary, verify
from ..replica import Login
from ..store import Shelf
from .plan import ReplayPlan
from .refusals import read_errors, refusal
from .replay import replay, verify_stream

__all__ = ["FeedError", "feed", "manifest_for", "primary_of"]

_ANSWER_SECONDS = 10.0
_LOOK_SECONDS = 0.2
_STUCK_SECONDS = 300.0


class FeedError(WorkerError):
    """The server does not accept the data."""

    reason = "FeedFailed"


async def primary_of(shelf: Shelf, plan: ReplayPlan, login: Callable[[], Login]) -> Primary:
    """Return a primary that gives the base and the stream up to the cut.

    Everything is read and compared with its manifests first. Raises `Damaged`.
    """
    await verify(shelf, plan.base.part)
    size = await verify_stream(shelf, plan)
    return Primary(
        shelf,
        manifest_for(plan),
        plan.base.part,
        login,
        stream=lambda: replay(shelf, plan),
        stream_size=size,
    )


def manifest_for(plan: ReplayPlan) -> Manifest:
    """Return what is known of the servers that wrote the base of a plan."""
    base = plan.base
    return Manifest(
        namespace="",
        redis="",
        uid="",
        mode="Cluster" if base.cluster else "Standalone",
        engine=base.engine,
        version=base.version,
        begun="",
        ended="",
        parts=(base.part,),
    )


async def feed(
    shelf: Shelf,
    plan: ReplayPlan,
    server: Address,
    *,
    credentials: Credentials | None = None,
    listen: str = "127.0.0.1",
    stuck: float = _STUCK_SECONDS,
) -> int:
    """Have an empty server hold what the plan says; return how many keys it has then.

    `listen`: an address of the worker that the server can connect to. Everything is read and
    compared with its manifests before the server is changed.
    """
    login = Login("feeder", secrets.token_hex(32))
    primary = await primary_of(shelf, plan, lambda: login)
    listening = await primary.serve(listen, 0)
    try:
        port = listening.sockets[0].getsockname()[1]
        async with await connect(
            server, timeout=_ANSWER_SECONDS, credentials=credentials
        ) as connection:
            before = await _errors(connection)
            for name, value in (("masteruser", login.user), ("masterauth", login.password)):
                await connection.run(commands.config_set({name: value}), timeout=_ANSWER_SECONDS)
            await connection.run(commands.replica_of(listen, port), timeout=_ANSWER_SECONDS)
            await _wait_whole(primary, connection, stuck)
            refused = refusal(before, await _errors(connection))
            if refused is not None:
                raise FeedError(f"{refused}. It was not promoted")
            await connection.run(commands.replica_of_no_one(), timeout=_ANSWER_SECONDS)
            return await connection.run(commands.dbsize(), timeout=_ANSWER_SECONDS)
    except RedisError as error:
        raise FeedError(f"{server}: {error}") from error
    finally:
        listening.close()


async def _wait_whole(primary: Primary, connection: Connection, stuck: float) -> None:
    last, since = "", time.monotonic()
    while not primary.whole.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await primary.whole.wait()
        if primary.failure is not None:
            raise primary.failure
        try:
            replication = await connection.run(commands.info_replication(), timeout=_ANSWER_SECONDS)
            sign = f"{replication.offset} {replication.sync_bytes_left}"
        except RedisError as error:  # it does not respond while it loads
            sign = str(error)
        if sign != last:
            last, since = sign, time.monotonic()
        if time.monotonic() - since > stuck:
            raise FeedError(
                f"{connection.address} has taken no more for {stuck:g} s: {sign}; its log has the "
                "reason"
            )


async def _errors(connection: Connection) -> dict[str, int]:
    def read(reply: Reply) -> dict[str, int]:
        assert isinstance(reply, bytes)
        return read_errors(reply)

    return await connection.run(Command(("INFO", "errorstats"), read), timeout=_ANSWER_SECONDS)
