"""A primary with replicas under load, an archiver behind them, and a server to be fed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from redis_operator.backup.replica import Login
from redis_operator.backup.store import Shelf, open_shelf
from redis_operator.backup.stream.archiver import Archiver, Limits, Shard
from redis_operator.backup.stream.catalogue import Catalogue, read_catalogue
from redis_operator.backup.stream.feed import feed
from redis_operator.backup.stream.plan import ReplayPlan
from redis_operator.backup.task import Source, Store
from redis_operator.manifests.users import BACKUP_RULES
from redis_testing.servers import EngineBinary, Server, Servers
from support.pair_of_servers import eventually, speak

LOGIN = Login("backup", "secret")
RULES = ("on", ">secret", *BACKUP_RULES.split())
QUICK = Limits(segment_seconds=0.4, segment_bytes=200_000, review_seconds=0.3, patience_seconds=3.0)
Words = tuple[bytes | str | int, ...]


class Replicated:
    """Servers of one shard: the first is the primary when it starts."""

    def __init__(self, servers: list[Server], starter: Servers) -> None:
        self.servers = servers
        self._starter = starter

    @property
    def primary(self) -> Server:
        return self.servers[0]

    def sources(self) -> tuple[Source, ...]:
        return tuple(Source(f"pod-{n}", s.address.host) for n, s in enumerate(self.servers))

    async def follow(self, replica: Server, primary: Server) -> None:
        await speak(replica, ("REPLICAOF", primary.address.host, primary.address.port))
        await self.in_sync(replica)

    async def in_sync(self, replica: Server) -> None:
        await eventually(lambda: self._linked(replica))

    async def _linked(self, replica: Server) -> bool:
        told = await info(replica)
        return told.get("master_link_status") == "up" and told["master_sync_in_progress"] == "0"

    async def add(self) -> Server:
        [server] = await self._starter.start(1, cluster=False)
        await _allow(server)
        self.servers.append(server)
        return server


async def _allow(server: Server) -> None:
    await speak(server, ("ACL", "SETUSER", "backup", *RULES))


@contextlib.asynccontextmanager
async def replicated(
    engine: EngineBinary, replicas: int = 2, **options: str
) -> AsyncIterator[Replicated]:
    debug = {"enable-debug-command": "yes"} if engine.version.major >= 7 else {}
    quick = {"repl-diskless-sync-delay": "0", "repl-ping-replica-period": "1", **debug}
    given = {name.replace("_", "-"): value for name, value in options.items()}
    async with Servers(engine, options=quick | given) as starter:
        servers = await starter.start(1 + replicas, cluster=False)
        shard = Replicated(servers, starter)
        for server in servers:
            await _allow(server)
        for server in servers[1:]:
            await shard.follow(server, servers[0])
        yield shard


async def info(server: Server) -> dict[str, str]:
    [reply] = await speak(server, ("INFO", "replication"))
    assert isinstance(reply, bytes)
    lines = [line.partition(":") for line in reply.decode().splitlines()]
    return {name: value for name, mark, value in lines if mark}


def shelf_in(folder: Path) -> Shelf:
    return open_shelf(Store("archive/server-0"), folder=str(folder))


def archiver_of(
    shard: Replicated,
    folder: Path,
    *,
    shelf: Shelf | None = None,
    limits: Limits = QUICK,
    allow_primary: bool = False,
    bridge: bool = False,
    sources: Callable[[], tuple[Source, ...]] | None = None,
) -> Archiver:
    version = shard.primary.binary.version
    return Archiver(
        Shard(
            "server-0",
            version.engine,
            ".".join(map(str, version.number)),
            allow_primary=allow_primary,
            bridge=bridge,
        ),
        shelf or shelf_in(folder),
        folder / "spool",
        sources or shard.sources,
        lambda: LOGIN,
        limits=limits,
    )


@contextlib.asynccontextmanager
async def running(archiver: Archiver) -> AsyncIterator[asyncio.Task[None]]:
    """Run an archiver until the end of the context, and then end it as SIGTERM does."""
    stop = asyncio.Event()
    task = asyncio.create_task(archiver.run(stop))
    try:
        yield task
    finally:
        stop.set()
        if not task.cancelled():
            await task


async def archived(folder: Path, offset: int, *, history: str = "") -> Catalogue:
    """Wait until the store has the stream up to an offset."""
    found: list[Catalogue] = []

    async def reached() -> bool:
        catalogue = await read_catalogue(shelf_in(folder))
        newest = await catalogue.newest()
        bases = [number for listed in catalogue.lines[-1:] for number in listed.bases]
        found[:] = [catalogue]
        if newest is None or history not in ("", newest.replication_id):
            return False
        return newest.last >= offset and bool(bases)

    await eventually(reached)
    return found[0]


async def sampled(archiver: Archiver) -> None:
    """Wait for the next answer of the primary: without one no time can be gone back to."""
    before = archiver.state().sampled

    async def more() -> bool:
        return archiver.state().sampled > before

    await eventually(more)


async def begun(folder: Path) -> None:
    """Wait until the store has a base."""

    async def stored() -> bool:
        catalogue = await read_catalogue(shelf_in(folder))
        return any(listed.bases for listed in catalogue.lines)

    await eventually(stored)


async def offset_of(server: Server) -> int:
    return int((await info(server))["master_repl_offset"])


def mixed(rng: random.Random, count: int, *, valkey: bool) -> list[Words]:
    """Commands of every kind that leaves something else in the stream than what was said."""
    lines: list[Words] = []
    for number in range(count):
        key = f"k:{rng.randrange(300)}"
        kinds: list[list[Words]] = [
            [("SET", f"s{key}", "v" * rng.randrange(300))],
            [("SET", f"m{key}", "x", "EX", 5000)],
            [("INCRBYFLOAT", f"f{key}", "1.5")],
            [("SADD", f"S{key}", *range(9)), ("SPOP", f"S{key}", 2)],
            [("MULTI",), ("INCR", f"n{key}"), ("RPUSH", f"l{key}", number), ("EXEC",)],
            [("XADD", f"x{key}", "*", "f", number)],
            [("EVAL", "redis.call('INCR', KEYS[1]) redis.call('INCR', KEYS[1])", 1, f"e{key}")],
            [("SELECT", rng.randrange(3))],
            [("ZADD", f"z{key}", number, f"member{rng.randrange(20)}")],
            [("DEL", f"s{key}")],
            [("EXPIRE", f"f{key}", 4000)],
        ]
        if valkey:
            kinds.append(
                [("HSET", f"h{key}", "a", 1), ("HEXPIRE", f"h{key}", 900, "FIELDS", 1, "a")]
            )
        lines += rng.choice(kinds)
    return lines


async def digest(server: Server) -> tuple[object, ...]:
    lines: list[Words] = [("DEBUG", "DIGEST")]
    for number in range(3):
        lines += [("SELECT", number), ("DBSIZE",)]
    return tuple(await speak(server, *lines))


async def fed(engine: EngineBinary, folder: Path, plan: ReplayPlan) -> tuple[Server, Servers]:
    """Return a new server that was fed; the caller ends it with its group."""
    debug = {"enable-debug-command": "yes"} if engine.version.major >= 7 else {}
    servers = Servers(engine, options=debug)
    [server] = await servers.start(1, cluster=False)
    await feed(shelf_in(folder), plan, server.address)
    return server, servers
