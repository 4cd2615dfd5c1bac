"""What a restore costs: beside the engine's own loading, and beside `redis-cli --pipe`.

A server holds values of 1 kB, half of each random (`BENCH_RESTORE_MIB`, 256 of them by default),
and a backup of it is on this disk. Same shape: an empty server copies the worker, and the engine
starts with the same RDB as its own file. Other shape: the worker splits the backup for a cluster of
three, and `redis-cli --pipe` sends the same keys to an empty server over one connection. The worker
is a process of its own; both sides run in turns, and what is measured is how long each takes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import hiredis

from bench.measure_backup import asked, fill, said
from bench.missing import Missing
from bench.rows import Row, better_if_less
from bench.turns import RUNS, in_turns
from kubelocal.loopback import free_host
from redis_operator.backup.carry import carry
from redis_operator.backup.link import connect
from redis_operator.backup.loader import info_fields
from redis_operator.backup.primary import Primary, find_part, rdb_of
from redis_operator.backup.replica import Login
from redis_operator.backup.store import open_shelf
from redis_operator.backup.take import take
from redis_operator.backup.task import CarryTask, FillTarget, ShardTask, Source, Store, TakeTask
from redis_operator.redis.resp import encode
from redis_operator.redis.slots import even_shares
from redis_testing.servers import EngineBinary, Server, Servers, find_engines

_MIB = int(os.environ.get("BENCH_RESTORE_MIB", "256"))
_LOGIN = Login("replication", "word")
_STORE = Store("backup")
_SNAPSHOT = ["on", ">word", "-@all", "+psync", "+replconf", "+ping"]
_RIGHTS = ["on", ">word", "~*", "&*", "-@all", "+restore", "+select", "+info", "+set"]
_SHARDS = 3
_PORT = 6379
SECONDS = 60 + RUNS * 4 * (5 + _MIB / 20)


def run() -> list[Row]:
    """Measure on the newest engine of this machine."""
    return asyncio.run(_run())


async def _run() -> list[Row]:
    engine = find_engines()[-1]
    if shutil.which(_client()) is None:
        raise Missing("redis-cli is not there")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        await _prepare(engine, folder)
        copied, loaded = await in_turns(
            lambda: _copied(engine, folder), lambda: _loaded(engine, folder)
        )
        carried, piped = await in_turns(
            lambda: _carried(engine, folder), lambda: _piped(engine, folder)
        )
    what = f"restore of {_MIB} MiB"
    into = f"{what}, into {_SHARDS} shards, beside redis-cli --pipe"
    return [
        better_if_less(f"{what}, same shape, beside loading", copied, loaded, "s", aim=1 / 1.2),
        better_if_less(into, carried, piped, "s", aim=2),
    ]


def _client() -> str:
    return shutil.which("redis-cli", path=str(Path(sys.executable).parent)) or "redis-cli"


async def _prepare(engine: EngineBinary, folder: Path) -> None:
    """Leave a backup, its RDB as a file, and its keys as commands."""
    options = {"repl-diskless-sync-delay": "0", "rdbcompression": "no"}
    async with Servers(engine, options=options) as servers:
        [server] = await servers.start(1, cluster=False)
        await said(server, "ACL", "SETUSER", "replication", *_SNAPSHOT)
        await fill(server, _MIB)
        version = engine.version
        task = TakeTask(
            store=_STORE,
            namespace="bench",
            redis="bench",
            uid="u",
            mode="Standalone",
            engine=version.engine,
            version=".".join(map(str, version.number)),
            user="replication",
            attempt="1",
            shards=(ShardTask("server-0", (Source("pod-0", server.address.host),)),),
        )
        shelf = open_shelf(_STORE, folder=str(folder))
        await take(task, shelf, lambda: _LOGIN)
        await _write_commands(server, folder / "commands")
    _, part = await find_part(shelf)
    await asyncio.to_thread((folder / "server").mkdir)
    with (folder / "server/dump.rdb").open("wb") as file:
        async for piece in rdb_of(shelf, part):
            file.write(piece)


async def _write_commands(server: Server, path: Path) -> None:
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    parser = hiredis.Reader()
    with path.open("wb") as file:
        for first in range(0, _MIB * 1024, 1024):
            names = [f"key:{first + n}" for n in range(1024)]
            writer.write(encode(("MGET", *names)))
            while (values := parser.gets()) is False:
                parser.feed(await reader.read(1 << 20))
            file.writelines(encode(("SET", *pair)) for pair in zip(names, values, strict=True))
    writer.close()


async def _loaded(engine: EngineBinary, folder: Path) -> float:
    """Start a server with the RDB as its file; return after how many seconds it serves."""
    host, begun = free_host(), time.monotonic()
    settings = ("--bind", host, "--port", str(_PORT), "--save", "", "--dir", str(folder / "server"))
    process = await asyncio.create_subprocess_exec(
        engine.path, *settings, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        while not await _serves(host):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.01)
        return time.monotonic() - begun
    finally:
        process.kill()
        await process.wait()


async def _serves(host: str) -> bool:
    try:
        reader, writer = await asyncio.open_connection(host, _PORT)
    except OSError:
        return False
    writer.write(encode(("PING",)))
    answer = await reader.readline()
    writer.close()
    return answer.startswith(b"+PONG")


async def _copied(engine: EngineBinary, folder: Path) -> float:
    options = {"masteruser": _LOGIN.user, "masterauth": _LOGIN.password}
    options["repl-diskless-load"] = "on-empty-db"  # as servers of the operator have it
    async with Servers(engine, options=options) as servers:
        [empty] = await servers.start(1, cluster=False)
        return await _worker(folder, "copy", empty.address.host)


async def _carried(engine: EngineBinary, folder: Path) -> float:
    async with Servers(engine) as servers:
        targets = await servers.start(_SHARDS, options={"cluster-require-full-coverage": "no"})
        for server, share in zip(targets, even_shares(_SHARDS), strict=True):
            await said(server, "CLUSTER", "ADDSLOTS", *map(str, share))
            await said(server, "ACL", "SETUSER", "replication", *_RIGHTS, "+function|restore")
        while not await _all_serve(targets):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.1)
        return await _worker(folder, "carry", *(one.address.host for one in targets))


async def _all_serve(servers: list[Server]) -> bool:
    told = [await asked(server, "CLUSTER", "INFO") for server in servers]
    return all(b"cluster_state:ok" in one for [one] in told)


async def _piped(engine: EngineBinary, folder: Path) -> float:
    async with Servers(engine) as servers:
        [empty] = await servers.start(1, cluster=False)
        begun = time.monotonic()
        with (folder / "commands").open("rb") as file:
            process = await asyncio.create_subprocess_exec(
                *(_client(), "-h", empty.address.host, "--pipe"),
                stdin=file,
                stdout=asyncio.subprocess.DEVNULL,
            )
            await process.wait()
        seconds = time.monotonic() - begun
        assert await asked(empty, "DBSIZE") == [_MIB * 1024]
        return seconds


async def _worker(folder: Path, *words: str) -> float:
    """Have a process of its own restore; return its seconds."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.measure_restore", str(folder), *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,  # connections that end with the worker
    )
    told, _ = await process.communicate()
    return float(told)


async def _copy(folder: Path, host: str) -> None:
    """Do what a worker does whose content a server copies, until it has all."""
    shelf = open_shelf(_STORE, folder=str(folder))
    manifest, part = await find_part(shelf)
    primary, own = Primary(shelf, manifest, part, lambda: _LOGIN), free_host()
    server = await primary.serve(own, _PORT)
    link = await connect("empty", host=host)
    await link.ask("REPLICAOF", own, _PORT)
    await primary.whole.wait()
    server.close()
    link.close()


async def _carry(folder: Path, *hosts: str) -> None:
    targets = []
    for number, (host, share) in enumerate(zip(hosts, even_shares(_SHARDS), strict=True)):
        link = await connect(host, host=host)
        told = info_fields(await link.ask("INFO", "replication"))
        link.close()
        targets.append(FillTarget(f"new-{number}", host, told["master_replid"], str(share)))
    task = CarryTask(_STORE, _LOGIN.user, tuple(targets), cluster=True)
    shelf = open_shelf(_STORE, folder=str(folder))
    await carry(task, shelf, lambda: _LOGIN, folder=folder / "beside", host=free_host())


async def _restore(folder: str, way: str, *hosts: str) -> None:
    begun = time.monotonic()
    if way == "copy":
        await _copy(Path(folder), *hosts)
    else:
        await _carry(Path(folder), *hosts)
    sys.stdout.write(f"{time.monotonic() - begun}\n")


if __name__ == "__main__":
    asyncio.run(_restore(*sys.argv[1:]))
