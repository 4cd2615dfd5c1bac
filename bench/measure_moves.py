"""Slots moved while an application writes: 3 to 4 shards, scripts on Redis, atomic on Valkey.

The peers are redis-cli as it is, redis-cli with `--cluster-pipeline 100`, and on Valkey also its
own CLUSTER MIGRATESLOTS by hand, one job for each source (what valkey-cli's atomic flag does). Keys
of 32 B, 1 KB and 100 KB, and a cluster with replicas. `BENCH_KEYS` is how many of 32 B (a million).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from bench.database import Database, engine, seeds_of, wait_ok
from bench.keys import fill, keys_of
from bench.peers import redis_cli, valkey_cli
from bench.rows import Row, at_most, better_if_less, stated
from bench.turns import RUNS, in_turns
from bench.writer import Writer
from redis_operator.redis import commands
from redis_operator.redis.slots import SlotSet
from redis_operator.redis.versions import Ability, can
from redis_testing.servers import EngineBinary, Server, Servers

SECONDS = 1500 / 5 * RUNS
_KEYS = int(os.environ.get("BENCH_KEYS", "1000000"))
_NODE_TIMEOUT = 5000
_OPTIONS = {"cluster-node-timeout": str(_NODE_TIMEOUT), "save": ""}
_WRITES_PER_SECOND = 1000
_CLI_SECONDS = 150.0
_SHARDS = 3


class _Load(Struct, frozen=True):
    """What lies in the cluster that is rebalanced."""

    name: str
    keys: int
    value_bytes: int = 32
    replicas: int = 0


_SMALL = _Load("32 B", _KEYS)
_OTHERS = (
    _Load("32 B, a replica each", _KEYS // 2, replicas=1),
    _Load("1 KB", _KEYS // 4, 1000),
    _Load("100 KB", _KEYS // 200, 100_000),
)


class _Moved(Struct, frozen=True):
    seconds: float
    longest_wait: float
    lost: int


_Mover = Callable[[list[Server], Server], Awaitable[None]]


def run() -> list[Row]:
    """Measure both engines where they are here."""
    return asyncio.run(_run())


async def _run() -> list[Row]:
    redis, valkey = engine("redis-7"), engine("valkey-9")
    rows = await _against(redis, _SMALL, {"redis-cli": _by_cli(redis_cli())}, speed=3, wait=10)
    tuned = _by_cli(redis_cli(), "--cluster-pipeline", "100")
    rows += await _against(redis, _SMALL, {"redis-cli --cluster-pipeline 100": tuned})
    theirs = _valkey_cli()
    rows += await _against(valkey, _SMALL, {theirs[0]: theirs[1]}, speed=25, wait=25)
    rows += await _against(valkey, _SMALL, {"CLUSTER MIGRATESLOTS by hand": _by_jobs})
    for load in _OTHERS:
        rows += await _against(redis, load, {"redis-cli": _by_cli(redis_cli())}, wait=10)
        rows += await _against(valkey, load, {"CLUSTER MIGRATESLOTS by hand": _by_jobs}, wait=25)
    return rows


def _valkey_cli() -> tuple[str, _Mover]:
    """On Valkey the peer is its own command line where there is one, else redis-cli."""
    program = valkey_cli()
    return ("valkey-cli", _by_cli(program)) if program else ("redis-cli", _by_cli(redis_cli()))


async def _against(
    binary: EngineBinary,
    load: _Load,
    peers: dict[str, _Mover],
    *,
    speed: float | None = None,
    wait: float | None = None,
) -> list[Row]:
    """Compare our mover with others, in turns."""

    def side(mover: _Mover | None) -> Callable[[], Awaitable[_Moved]]:
        return lambda: _rebalance(binary, load, mover)

    ours, *theirs = await in_turns(side(None), *(side(mover) for mover in peers.values()))
    what = f"{load.keys:,} keys of {load.name}, {binary.name}"
    rows: list[Row] = []
    for name, results in zip(peers, theirs, strict=True):
        seconds = [m.seconds for m in ours], [m.seconds for m in results]
        waits = [m.longest_wait * 1000 for m in ours], [m.longest_wait * 1000 for m in results]
        title = f"rebalance 3 to 4 shards with {what}, {name}"
        if speed is not None:
            rows.append(better_if_less(title, *seconds, "s", aim=speed))
        else:
            rows.append(stated(title, *seconds, "s"))
        rows.append(stated(f"longest wait of a write meanwhile, {what}, {name}", *waits, "ms"))
        if wait is not None:
            title = f"longest wait of a write meanwhile, {what}"
            rows.append(at_most(title, waits[0], "ms", limit=wait))
    lost = sum(moved.lost for moved in ours)
    return [*rows, at_most(f"acknowledged writes lost meanwhile, {what}", lost, "writes", limit=0)]


async def _rebalance(binary: EngineBinary, load: _Load, mover: _Mover | None) -> _Moved:
    """Add a fourth shard to three that hold the keys, by our passes or by another mover."""
    each = 1 + load.replicas
    async with Servers(binary, options=_OPTIONS) as servers:
        members = await servers.start(_SHARDS * each)
        database = Database(
            members, shards=_SHARDS, replicas=load.replicas, node_timeout_ms=_NODE_TIMEOUT
        )
        await database.settle()
        primaries = members[::each]
        filled = await fill(primaries, keys=load.keys, value_bytes=load.value_bytes)
        newcomers = await servers.start(each)
        await _join(newcomers, members)
        async with Writer(seeds_of(primaries), writes_per_second=_WRITES_PER_SECOND) as writer:
            await asyncio.sleep(0.5)
            await writer.reset()
            begun = time.perf_counter()
            if mover is None:
                database.servers = [*members, *newcomers]
                database.want(shards=_SHARDS + 1)
                await database.settle(seconds=120)
            else:
                await mover(primaries, newcomers[0])
            took = time.perf_counter() - begun
            report = await writer.finish()
        held = await keys_of([*primaries, newcomers[0]])
        assert held >= filled, f"{held} keys of {filled} are left"
        database.close()
        return _Moved(took, report.longest_wait_seconds, len(report.lost))


async def _join(newcomers: list[Server], members: list[Server]) -> None:
    """Let a primary and its replicas join, which both sides would do the same way."""
    known = list(members)
    for newcomer in newcomers:
        async with await newcomer.connect() as connection:
            for member in known:
                address = member.address
                meet = commands.meet(address.host, address.port, address.port + 10000)
                await connection.run(meet, timeout=5)
        known.append(newcomer)
        await wait_ok(known, seconds=30)
    async with await newcomers[0].connect() as connection:
        primary = await connection.run(commands.my_id(), timeout=5)
    for replica in newcomers[1:]:
        async with await replica.connect() as connection:
            await connection.run(commands.replicate(primary), timeout=5)
    await wait_ok(known, seconds=30)


def _by_cli(program: str, *flags: str) -> _Mover:
    async def move(primaries: list[Server], _: Server) -> None:
        place = f"{primaries[0].address.host}:{primaries[0].address.port}"
        process = await asyncio.create_subprocess_exec(
            program, "--cluster", "rebalance", place, "--cluster-use-empty-masters", *flags,
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            code = await asyncio.wait_for(process.wait(), _CLI_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        if code:
            raise RuntimeError(f"{program} --cluster rebalance ended with {code}")

    return move


async def _by_jobs(primaries: list[Server], newcomer: Server) -> None:
    """One job for each source, all at once; ended when the newcomer owns a quarter."""
    async with await newcomer.connect() as connection:
        target = await connection.run(commands.my_id(), timeout=5)
        assert can(newcomer.binary.version, Ability.MIGRATESLOTS)
        given = 0
        for number, primary in enumerate(primaries):
            async with await primary.connect() as source:
                nodes = await source.run(commands.cluster_nodes(), timeout=5)
                owned = next(node.slots for node in nodes if node.is_myself)
                share = (4096 - given) // (len(primaries) - number)
                part = SlotSet(list(owned)[:share])
                given += len(part)
                await source.run(commands.migrate_slots(part, target), timeout=5)
        async with asyncio.timeout(_CLI_SECONDS):
            while True:
                nodes = await connection.run(commands.cluster_nodes(), timeout=5)
                if len(next(node.slots for node in nodes if node.is_myself)) >= given:
                    return
                await asyncio.sleep(0.01)
