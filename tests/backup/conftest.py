"""A real server to read from, and what is asked of a worker about it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from redis_operator.backup.replica import Login
from redis_operator.backup.task import ShardTask, Source, Store, TakeTask
from redis_testing.servers import EngineBinary, Server, Servers, find_engines
from support.pair_of_servers import eventually, speak

LOGIN = Login("backup", "secret")
RULES = ("on", ">secret", "-@all", "+psync", "+replconf", "+ping")
STORE = Store("ns/cache/monday")


@pytest.fixture(params=find_engines(), ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> EngineBinary:
    return request.param  # type: ignore[no-any-return]


@contextlib.asynccontextmanager
async def source(engine: EngineBinary) -> AsyncIterator[Server]:
    async with Servers(engine) as servers:
        [server] = await servers.start(1, cluster=False, options={"repl-diskless-sync-delay": "0"})
        await speak(server, ("ACL", "SETUSER", "backup", *RULES))
        yield server


@contextlib.asynccontextmanager
async def container(engine: EngineBinary, folder: Path, *options: str) -> AsyncIterator[None]:
    """Do what the container beside the worker does: start a server once its settings are there."""

    async def there() -> bool:
        return (folder / "server.conf").exists()

    async def run() -> None:
        await eventually(there)
        process = await asyncio.create_subprocess_exec(
            engine.path, "server.conf", *options, cwd=folder, stdout=asyncio.subprocess.DEVNULL
        )
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    running = asyncio.ensure_future(run())
    try:
        yield
    finally:
        await asyncio.sleep(0)
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            # who has verified ends the server; who fails before it begins never starts one
            await asyncio.wait_for(running, 20 if await there() else 0)


def task(
    *servers: Server, attempt: str = "one", name: str = "server-0", store: Store = STORE
) -> TakeTask:
    version = servers[0].binary.version
    sources = tuple(Source(f"pod-{n}", s.address.host) for n, s in enumerate(servers))
    return TakeTask(
        store=store,
        namespace="ns",
        redis="cache",
        uid="u",
        mode="Standalone",
        engine=version.engine,
        version=".".join(map(str, version.number)),
        user="backup",
        attempt=attempt,
        shards=(ShardTask(name, sources),),
    )


async def fill(server: Server) -> None:
    await speak(
        server,
        *(("SET", f"key:{n}", "v" * (n % 300)) for n in range(20_000)),
        *(("HSET", f"hash:{n}", "field", n) for n in range(500)),
        *(("RPUSH", f"list:{n}", *range(20)) for n in range(500)),
        *(("ZADD", f"zset:{n}", n, "member") for n in range(500)),
        *(("XADD", f"stream:{n}", "*", "f", n) for n in range(100)),
        *(("SET", f"mortal:{n}", "soon", "EX", 5000) for n in range(100)),
        ("SELECT", 3),
        ("SET", "elsewhere", "yes"),
    )
