"""Values of every type and encoding arrive as they were when a worker splits a snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from backup.conftest import LOGIN, RULES, STORE, task
from backup.test_carry import Stage, has_functions, shares
from redis_operator.backup.carry import _backup_pieces
from redis_operator.backup.split import Survey, survey
from redis_operator.backup.store import open_shelf
from redis_operator.backup.take import take
from redis_operator.backup.task import CarryTask
from redis_operator.redis.slots import key_slot
from redis_testing.servers import EngineBinary, Server, Servers
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers
Line = tuple[bytes | str | int, ...]
LATER = 4_000_000_000_000  # in the year 2096


@pytest.fixture
async def stage(engine: EngineBinary, tmp_path: Path) -> AsyncIterator[Stage]:
    options = {"enable-debug-command": "yes"} if has_functions(engine) else {}
    async with Servers(engine, options=options) as servers:
        yield Stage(servers, tmp_path)


def lines(engine: EngineBinary) -> list[Line]:
    """Return commands that make values of all types, each in its small and its large encodings."""
    text, noise = "a text that can be compressed " * 40, bytes(range(256)) * 5
    found: list[Line] = [
        *(
            ("SET", f"number:{n}", n)
            for n in (0, -1, 127, -128, 32767, -32768, 1 << 31, -(1 << 40))
        ),
        *(("SET", f"size:{n}", b"\0" * n) for n in (0, 1, 63, 64, 16383, 16384, 70_000)),
        ("SET", "text", text),
        ("SET", "noise", noise),
        ("SET", "mortal", "v", "PXAT", LATER),
        ("SET", "mortal text", text, "PXAT", LATER),
        *(
            ("SET", key, key)
            for key in ("12", "-7", "70000", "3000000000", "k" * 300, "k" * 20_000)
        ),
        *(("SET", key, "tagged") for key in ("{tag}a", "b{tag}c", "{}d", "e{f", "{{g}}h")),
        ("SET", bytes(range(256)), "binary"),
        ("RPUSH", "list", *range(20), "word", text),
        *(
            ("RPUSH", "long list", *(f"{n} {text}" for n in range(k, k + 50)))
            for k in range(0, 500, 50)
        ),
        ("RPUSH", "list of one large", "x" * 20_000),
        ("SADD", "integers", *range(-5, 100, 7)),
        ("SADD", "set", "a", "b", text),
        ("SADD", "small set", "a", "b", 3),
        *(
            ("SADD", "large set", *(f"member {n}" for n in range(k, k + 100)))
            for k in range(0, 900, 100)
        ),
        ("HSET", "hash", "field", "value", "number", 12, "f", noise[:30]),
        ("HSET", "hash of large", "field", text, "other", noise),
        ("PEXPIREAT", "hash", LATER),
        *(("HSET", "large hash", f"field {n}", n) for n in range(700)),
        ("ZADD", "sorted", 1, "a", "-inf", "b", "3.5", "c", "+inf", "d"),
        *(("ZADD", "large sorted", f"{n}.25", f"member {n}") for n in range(300)),
        *(("XADD", "stream", f"{n}-1", "field", n, "text", text) for n in range(1, 150)),
        ("XDEL", "stream", "3-1"),
        ("XGROUP", "CREATE", "stream", "group", "0"),
        ("XGROUP", "CREATE", "stream", "idle group", "5-1"),
        ("XREADGROUP", "GROUP", "group", "reader", "COUNT", 70, "STREAMS", "stream", ">"),
        ("XREADGROUP", "GROUP", "group", "other", "COUNT", 5, "STREAMS", "stream", ">"),
        ("XACK", "stream", "group", "1-1", "2-1"),
        ("XGROUP", "CREATE", "empty stream", "group", "$", "MKSTREAM"),
        ("PFADD", "log", *range(500)),
        ("SETBIT", "bits", 70_000, 1),
    ]
    if engine.version.engine == "valkey":
        found += [
            ("HSET", "fields", "a", 1, "b", text, "c", 3),
            ("HPEXPIREAT", "fields", LATER, "FIELDS", 2, "a", "b"),
        ]
    if has_functions(engine):
        code = "#!lua name=lib\nredis.register_function('hello', function() return 'hi' end)"
        found.append(("FUNCTION", "LOAD", "REPLACE", code))
    return found


async def everything(server: Server) -> dict[bytes, object]:
    """Return what each key of a server holds, and until when."""
    [names] = await speak(server, ("KEYS", "*"))
    assert isinstance(names, list)
    found: dict[bytes, object] = {}
    for name in names:
        assert isinstance(name, bytes)
        digest, left, encoding = await speak(
            server, ("DEBUG", "DIGEST-VALUE", name), ("PTTL", name), ("OBJECT", "ENCODING", name)
        )
        assert isinstance(left, int), left
        found[name] = (digest, left > 0, encoding)
        if encoding == b"stream":
            pending = await speak(server, ("XINFO", "GROUPS", name), ("XPENDING", name, "group"))
            found[name] = (digest, pending)
        if name == b"fields":
            asked = ("HPEXPIRETIME", name, "FIELDS", 3, "a", "b", "c")
            found[name] = (digest, await speak(server, asked))
    return found


async def surveyed(stage: Stage) -> Survey:
    shelf = open_shelf(STORE, folder=str(stage.folder))
    [piece] = await _backup_pieces(CarryTask(STORE, "replication", ()), shelf)
    return await survey(piece)


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["yes", "no"])
async def test_values_of_every_type_and_encoding_arrive_as_they_were(
    stage: Stage, engine: EngineBinary, compression: str
) -> None:
    [old], new = await stage.shards(1), await stage.shards(3)
    for policy in ("allkeys-lru", "allkeys-lfu"):
        await speak(old, ("CONFIG", "SET", "maxmemory-policy", policy))
        await speak(old, ("CONFIG", "SET", "rdbcompression", compression), ("FLUSHALL",))
        wrong = await speak(old, *lines(engine))
        assert not [answer for answer in wrong if isinstance(answer, Exception)]
        wanted = await everything(old)
        (stage.folder / STORE.path / "manifest.json").unlink(missing_ok=True)
        await stage.backup([old])
        assert (await surveyed(stage)) == Survey(
            {0: len(wanted)}, (await surveyed(stage)).functions
        )
        assert await stage.carry(new) == len(wanted)
    found: dict[bytes, object] = {}
    for server, share in zip(new, shares(3), strict=True):
        held = await everything(server)
        assert all(key_slot(name) in share for name in held)
        found |= held
        if has_functions(engine):
            assert await speak(server, ("FCALL", "hello", 0)) == [b"hi"]
    assert {name for name in wanted if wanted[name] != found.get(name)} == set()
    assert set(found) == set(wanted)


async def test_a_snapshot_of_a_shard_of_a_cluster_can_be_split(stage: Stage) -> None:
    """It has marks of slots between its keys, which engines write in mode Cluster alone."""
    old = await stage.shards(2)
    for server, share in zip(old, shares(2), strict=True):
        keys = [f"key:{n}" for n in range(500) if key_slot(f"key:{n}") in share]
        await speak(server, *(("SET", key, "value") for key in keys))
    await stage.backup(old)
    shelf = open_shelf(STORE, folder=str(stage.folder))
    pieces = await _backup_pieces(CarryTask(STORE, "replication", ()), shelf)
    found = [await survey(piece) for piece in pieces]
    assert [one.obstacle for one in found] == ["", ""]
    assert sum(one.keys[0] for one in found) == 500


async def test_a_snapshot_in_the_format_for_earlier_replicas_can_be_split(
    stage: Stage, engine: EngineBinary
) -> None:
    if engine.version.engine != "valkey":
        pytest.skip("only Valkey writes the format of the version that a replica names")
    [old] = await stage.shards(1)
    await speak(old, *lines(engine), ("DEL", "fields"), ("ACL", "SETUSER", "backup", *RULES))
    [keys] = await speak(old, ("DBSIZE",))
    shelf = open_shelf(STORE, folder=str(stage.folder))
    manifest = await take(replace(task(old), version="8.1.0"), shelf, lambda: LOGIN)
    assert manifest.parts[0].rdb == "REDIS0011"
    assert (await surveyed(stage)).keys == {0: keys}


async def test_what_a_primary_refuses_for_now_is_sent_again(stage: Stage) -> None:
    [old], [new] = await stage.shards(1), await stage.shards(1)
    await speak(old, ("SET", "a", 1), ("RPUSH", "b", 2), ("SELECT", 3), ("SET", "c", 3))
    await stage.backup([old])
    await speak(new, ("CONFIG", "SET", "min-replicas-to-write", 1))
    carrying = asyncio.ensure_future(stage.carry([new], patience=60))

    async def refused() -> bool:
        [told] = await speak(new, ("INFO", "errorstats"))
        return isinstance(told, bytes) and b"NOREPLICAS" in told

    await eventually(refused)
    await speak(new, ("CONFIG", "SET", "min-replicas-to-write", 0))
    assert await carrying == 3
    found = await speak(new, ("GET", "a"), ("LRANGE", "b", 0, -1), ("SELECT", 3), ("GET", "c"))
    assert found == [b"1", [b"2"], b"OK", b"3"]


async def test_a_snapshot_with_a_value_too_large_to_split_is_carried_all_the_same(
    stage: Stage,
) -> None:
    [old], new = await stage.shards(1), await stage.shards(3)
    await speak(old, ("CONFIG", "SET", "rdbcompression", "no"))
    await speak(old, ("SET", "small", "v"), ("SETRANGE", "large", 12 << 20, "end"))
    await stage.backup([old])
    assert "larger than 8 MiB" in (await surveyed(stage)).obstacle
    assert await stage.carry(new) == 2
    sizes = [await speak(server, ("STRLEN", "large"), ("GET", "small")) for server in new]
    assert sum(size for size, _ in sizes if isinstance(size, int)) == (12 << 20) + 3
