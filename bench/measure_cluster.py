"""Clusters of real servers: formed, hurt and moved, against redis-cli and the engine alone.

What the engine does alone is stated where it ends at all; where it does not, that is said in
words, without a ratio.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.database import Database, engine, seeds_of, wait_ok
from bench.peers import redis_cli
from bench.rows import Row, at_most, better_if_less, stated
from bench.turns import RUNS, in_turns
from bench.writer import Writer
from kubelocal.loopback import free_host
from redis_operator.planning.identity import Role
from redis_operator.redis.connection import Address
from redis_testing.servers import EngineBinary, Server, Servers

_NODE_TIMEOUT = 5000
_OLD_ENOUGH = 2.2  # a younger server is writable at once, which no pod of a real cluster is
_OPTIONS = {"cluster-node-timeout": str(_NODE_TIMEOUT)}
_ALONE_SECONDS = 10.0


SECONDS = 900 / 5 * RUNS


def run() -> list[Row]:
    """Measure on the engine redis-cli was made for, and on the newest Valkey where it differs."""
    return asyncio.run(_run(engine("redis-7"), redis_cli()))


async def _run(redis: EngineBinary, cli: str) -> list[Row]:
    rows = []
    for shards in (3, 15):
        ours, theirs = await in_turns(
            lambda shards=shards: _form(redis, shards),  # type: ignore[misc]
            lambda shards=shards: _form_with_cli(redis, shards, cli),  # type: ignore[misc]
        )
        name = f"forming {shards}+{shards} until ok, redis-cli --cluster create"
        rows.append(better_if_less(name, ours, theirs, "s", aim=8))
    for binary in (redis, engine("valkey")):
        rows += await _kill(binary)
        rows += await _new_addresses(binary)
    return rows


# Forming


async def _form(binary: EngineBinary, shards: int) -> float:
    async with Servers(binary, options=_OPTIONS) as servers:
        members = await servers.start(2 * shards)
        await asyncio.sleep(_OLD_ENOUGH)
        database = Database(members, shards=shards, replicas=1, node_timeout_ms=_NODE_TIMEOUT)
        # The clock stops when all is well, for both sides; tidying up afterwards is not waited for.
        took, _ = await asyncio.gather(wait_ok(members, seconds=60), database.settle(seconds=60))
        database.close()
        return took


async def _form_with_cli(binary: EngineBinary, shards: int, cli: str) -> float:
    async with Servers(binary, options=_OPTIONS) as servers:
        members = await servers.start(2 * shards)
        await asyncio.sleep(_OLD_ENOUGH)
        places = [f"{member.address.host}:{member.address.port}" for member in members]
        begun = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            cli, "--cluster", "create", *places, "--cluster-replicas", "1", "--cluster-yes",
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        await process.wait()
        await wait_ok(members, seconds=60)
        return time.perf_counter() - begun


# A primary dies


async def _kill(binary: EngineBinary) -> list[Row]:
    with_operator, alone = await in_turns(
        lambda: _write_gap(binary, assisted=True), lambda: _write_gap(binary, assisted=False)
    )
    name = f"kill -9 of a primary: longest write wait, {binary.name}, the operator's passes alone"
    return [
        at_most(name, with_operator, "s", limit=0.15),
        stated(f"{name} against the engine alone", with_operator, alone, "s"),
    ]


async def _write_gap(binary: EngineBinary, *, assisted: bool) -> float:
    async with Servers(binary, options=_OPTIONS) as servers:
        members = await servers.start(6)
        database = Database(members, shards=3, replicas=1, node_timeout_ms=_NODE_TIMEOUT)
        observed = await database.settle()
        primary = next(n for n in observed.seen if n.role is Role.PRIMARY and n.slots)
        victim = next(s for s in members if s.address.host == primary.pod.ip)
        watching = asyncio.create_task(database.look_after()) if assisted else None
        async with Writer(seeds_of(members), writes_per_second=500) as writer:
            await asyncio.sleep(1.0)
            await writer.reset()
            await victim.kill()
            await asyncio.sleep(2.0 if assisted else 12.0)
            report = await writer.finish()
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        database.close()
        return report.longest_wait_seconds


# Every server comes back somewhere else


async def _new_addresses(binary: EngineBinary) -> list[Row]:
    took = []
    for _ in range(RUNS):
        healed = await _moved(binary, assisted=True)
        assert healed is not None, "with the operator it must heal"
        took.append(healed)
    alone = await _moved(binary, assisted=False)
    ending = f"not within {_ALONE_SECONDS:g} s" if alone is None else f"{alone:.1f} s"
    name = f"all servers back at new addresses: until ok, {binary.name} (engine alone: {ending})"
    return [at_most(name, took, "s", limit=3)]


async def _moved(binary: EngineBinary, *, assisted: bool) -> float | None:
    options = {**_OPTIONS, "appendonly": "yes"}
    async with Servers(binary, options=options) as servers:
        members = await servers.start(6)
        database = Database(members, shards=3, replicas=1, node_timeout_ms=_NODE_TIMEOUT)
        await database.settle()
        await asyncio.gather(*(member.stop() for member in members))
        for member in members:
            _give_new_address(member)
        await asyncio.gather(*(member.start() for member in members))
        database.restarted()
        begun = time.perf_counter()
        try:
            if assisted:
                await database.settle(seconds=30)
            await wait_ok(members, seconds=30 if assisted else _ALONE_SECONDS)
        except TimeoutError:
            if assisted:
                raise
            return None
        finally:
            database.close()
        return time.perf_counter() - begun


def _give_new_address(server: Server) -> None:
    host = free_host(server.address.port)
    server.address = Address(host, server.address.port)
    server.options["cluster-announce-ip"] = host
    assert Path(server.directory / "nodes.conf").exists()
