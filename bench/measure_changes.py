"""Changes of a running cluster of real servers: slots moved, primaries switched, settings changed.

`BENCH_KEYS` keys (a million unless set) lie in the cluster while slots move.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time

from msgspec import Struct

from bench.database import Database, engine, seeds_of, wait_ok
from bench.keys import fill, keys_of
from bench.missing import Missing
from bench.rows import Row, at_most, better_if_less, no_longer, stated
from bench.writer import Writer
from redis_operator.planning.advice import Switchover
from redis_operator.planning.observed import Role, Seen
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.testing.servers import EngineBinary, Server, Servers

_KEYS = int(os.environ.get("BENCH_KEYS", "1000000"))
_NODE_TIMEOUT = 5000
_OPTIONS = {"cluster-node-timeout": str(_NODE_TIMEOUT)}
_WRITES_PER_SECOND = 200
_CLI_SECONDS = 150.0
_CLUSTERS = 5  # of three switchovers each


def run() -> list[Row]:
    """Measure both engines where they are here."""
    cli = shutil.which("redis-cli")
    if cli is None:
        raise Missing("there is no redis-cli on this machine")
    return asyncio.run(_run(cli))


async def _run(cli: str) -> list[Row]:
    """Slots are moved by valkey-cli too where it is here, with and without its atomic flag."""
    plain = _Mover("redis-cli", cli)
    by_engine = [(engine("redis-7"), [(plain, 3.0)])]
    valkey_cli = os.environ.get("BENCH_VALKEY_CLI") or shutil.which("valkey-cli")
    if valkey_cli is None:
        by_engine.append((engine("valkey-9"), [(plain, 25.0)]))
    else:
        theirs = _Mover("valkey-cli", valkey_cli)
        atomic = _Mover("valkey-cli, atomic", valkey_cli, ("--cluster-use-atomic-slot-migration",))
        by_engine.append((engine("valkey-9"), [(theirs, 25.0), (atomic, 1.4)]))
    rows: list[Row] = []
    for binary, peers in by_engine:
        rows += await _rebalances(binary, peers)
        rows += await _switchovers(binary)
        rows.append(await _configure(binary))
    return rows


# Slots


class _Moved(Struct, frozen=True):
    seconds: float
    longest_wait: float
    lost: int


class _Mover(Struct, frozen=True):
    """A command line that moves slots."""

    name: str
    program: str
    flags: tuple[str, ...] = ()


async def _rebalances(binary: EngineBinary, peers: list[tuple[_Mover, float]]) -> list[Row]:
    ours = await _rebalance(binary, None)
    name = f"rebalance 3 to 4 shards with {_KEYS:,} keys, {binary.name}"
    rows: list[Row] = []
    for peer, aim in peers:
        theirs = await _rebalance(binary, peer)
        rows += [
            better_if_less(f"{name}, {peer.name}", ours.seconds, theirs.seconds, "s", aim=aim),
            stated(
                f"longest wait of a write while slots move, {binary.name}, {peer.name}",
                ours.longest_wait * 1000,
                theirs.longest_wait * 1000,
                "ms",
            ),
        ]
    lost = f"acknowledged writes lost meanwhile, {binary.name}"
    return [*rows, at_most(lost, ours.lost, "writes", limit=0)]


async def _rebalance(binary: EngineBinary, peer: _Mover | None) -> _Moved:
    """Add a fourth shard to three that hold the keys, by our passes or by a command line."""
    async with Servers(binary, options=_OPTIONS) as servers:
        members = await servers.start(3)
        database = Database(members, shards=3, replicas=0, node_timeout_ms=_NODE_TIMEOUT)
        await database.settle()
        filled = await fill(members, keys=_KEYS)
        (newcomer,) = await servers.start(1)
        await _introduce(newcomer, members)
        async with Writer(seeds_of(members), writes_per_second=_WRITES_PER_SECOND) as writer:
            await asyncio.sleep(0.5)
            await writer.reset()
            begun = time.perf_counter()
            if peer is None:
                database.servers = [*members, newcomer]
                database.want(shards=4)
                await database.settle(seconds=120)
            else:
                await _rebalance_by(peer, members[0])
            took = time.perf_counter() - begun
            report = await writer.finish()
        held = await keys_of([*members, newcomer])
        least, most = filled + report.acknowledged, filled + report.sent
        assert least <= held <= most, f"{held} keys, not {least} to {most}"
        database.close()
        return _Moved(took, report.longest_wait_seconds, len(report.lost))


async def _introduce(newcomer: Server, members: list[Server]) -> None:
    """Let the new server join, which both sides would do the same way."""
    async with await newcomer.connect() as connection:
        for member in members:
            address = member.address
            meet = commands.meet(address.host, address.port, address.port + 10000)
            await connection.run(meet, timeout=5)
    await wait_ok([*members, newcomer], seconds=30)


async def _rebalance_by(peer: _Mover, server: Server) -> None:
    place = f"{server.address.host}:{server.address.port}"
    process = await asyncio.create_subprocess_exec(
        peer.program, "--cluster", "rebalance", place, "--cluster-use-empty-masters", *peer.flags,
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        code = await asyncio.wait_for(process.wait(), _CLI_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        return  # what it took until then is what it took at least
    if code:
        raise RuntimeError(f"{peer.name} --cluster rebalance ended with {code}")


# Primaries


async def _switchovers(binary: EngineBinary) -> list[Row]:
    """Compare several, taken in turn: a server may acknowledge the news at once, or after 40 ms."""
    ours: list[_Moved] = []
    plain: list[_Moved] = []
    for _ in range(_CLUSTERS):
        ours += await _switch_each(binary, by_operator=True)
        plain += await _switch_each(binary, by_operator=False)
    name = f"planned switchover: longest wait of a write, {binary.name}"
    return [
        no_longer(
            f"{name}, CLUSTER FAILOVER",
            [moved.longest_wait * 1000 for moved in ours],
            [moved.longest_wait * 1000 for moved in plain],
            "ms",
        ),
        at_most(f"{name}: writes lost", sum(m.lost for m in ours), "writes", limit=0),
    ]


async def _switch_each(binary: EngineBinary, *, by_operator: bool) -> list[_Moved]:
    """Switch the primary of each shard of one cluster, one after the other."""
    async with Servers(binary, options=_OPTIONS) as servers:
        members = await servers.start(6)
        database = Database(members, shards=3, replicas=1, node_timeout_ms=_NODE_TIMEOUT)
        observed = await database.settle()
        await wait_ok(members, seconds=30)
        moved = []
        for replica in (node for node in observed.seen if node.role is Role.REPLICA):
            async with Writer(seeds_of(members), writes_per_second=1000) as writer:
                await asyncio.sleep(1.0)
                await writer.reset()
                begun = time.perf_counter()
                if by_operator:
                    database.want(switchover=Switchover(replica.pod.name))
                    await _until_primary(database, replica)
                else:
                    server = next(s for s in members if s.address.host == replica.pod.ip)
                    await server.ask(commands.failover())
                await asyncio.sleep(1.5)
                took = time.perf_counter() - begun
                report = await writer.finish()
            moved.append(_Moved(took, report.longest_wait_seconds, len(report.lost)))
        database.close()
        return moved


async def _until_primary(database: Database, wanted: Seen) -> None:
    async with asyncio.timeout(30):
        while True:
            _, _, observed = await database.step()
            if any(n.id == wanted.id and n.role is Role.PRIMARY for n in observed.seen):
                return
            await asyncio.sleep(0.02)


# Settings


async def _configure(binary: EngineBinary) -> Row:
    """Change a live setting and look until every server has it."""
    async with Servers(binary, options=_OPTIONS) as servers:
        members = await servers.start(6)
        database = Database(members, shards=3, replicas=1, node_timeout_ms=_NODE_TIMEOUT)
        await database.settle()
        wanted = (*database.wanted.config, ("maxmemory-policy", "allkeys-lfu"))
        begun = time.perf_counter()
        database.want(config=wanted)
        await database.settle()
        took = time.perf_counter() - begun
        question: Command[dict[str, str]] = commands.config_get("maxmemory-policy")
        for member in members:
            assert await member.ask(question) == [{"maxmemory-policy": "allkeys-lfu"}]
        database.close()
        name = f"a live setting on all six servers, {binary.name}"
        return at_most(name, took, "s", limit=1)
