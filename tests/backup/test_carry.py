"""A backup of some shards becomes a database of another shape, key by key; on real servers."""

from __future__ import annotations

import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from backup.conftest import LOGIN, RULES, STORE, container, task
from kubelocal.loopback import free_host
from redis_operator.backup.carry import carry
from redis_operator.backup.errors import Damaged, TargetError
from redis_operator.backup.manifest import Manifest
from redis_operator.backup.replica import Login
from redis_operator.backup.store import open_shelf
from redis_operator.backup.take import take
from redis_operator.backup.task import CarryTask, FillTarget, ShardTask, Source
from redis_operator.redis.slots import SlotSet, even_shares, key_slot
from redis_testing.servers import EngineBinary, Server, Servers
from support.pair_of_servers import eventually, speak

REPLICATION = Login("replication", "word")
pytestmark = pytest.mark.servers
RIGHTS = "on >word ~* &* -@all +restore +select +info +set"
OPTIONS = {"cluster-require-full-coverage": "no"}
KEYS = 3000


def has_functions(engine: EngineBinary) -> bool:
    return engine.version.engine == "valkey" or engine.version.major >= 7


class Stage:
    """Servers of one engine: a database that was, one that begins, and the one beside a worker."""

    def __init__(self, servers: Servers, folder: Path) -> None:
        self.servers, self.folder = servers, folder

    async def shards(self, count: int) -> list[Server]:
        """Start primaries that share all slots; one alone is not in cluster mode."""
        options = {"repl-diskless-sync-delay": "0"}
        if count == 1:
            return await self.servers.start(1, cluster=False, options=options)
        found = await self.servers.start(count, options=options | OPTIONS)
        for server, share in zip(found, even_shares(count), strict=True):
            await speak(server, ("CLUSTER", "ADDSLOTS", *share))

        async def serve() -> bool:
            told = [await speak(server, ("CLUSTER", "INFO")) for server in found]
            return all(b"cluster_state:ok" in bytes(one) for [one] in told)  # type: ignore[call-overload]

        await eventually(serve)
        return found

    async def backup(self, shards: list[Server]) -> Manifest:
        """Take a backup of all shards."""
        for server in shards:
            await speak(server, ("ACL", "SETUSER", "backup", *RULES))
        wanted = tuple(
            ShardTask(f"shard-{n}", (Source(f"pod-{n}", server.address.host),), str(share))
            for n, (server, share) in enumerate(zip(shards, shares(len(shards)), strict=True))
        )
        asked = replace(task(shards[0]), shards=wanted)
        return await take(asked, open_shelf(STORE, folder=str(self.folder)), lambda: LOGIN)

    async def carry(
        self, targets: list[Server], history: str = "", *, patience: float = 2, **more: Any
    ) -> int:
        """Give the backup to new primaries; return how many keys were carried."""
        found = []
        for number, server in enumerate(targets):
            rights = RIGHTS.split()
            if has_functions(server.binary):
                rights += ["+function|restore", "+function|flush"]
            if more.get("empty"):
                rights.append("+flushall")
            await speak(server, ("ACL", "SETUSER", "replication", *rights))
            [told] = await speak(server, ("INFO", "replication"))
            assert isinstance(told, bytes)
            known = told.decode().partition("master_replid:")[2].split()[0]
            share = str(shares(len(targets))[number])
            found.append(FillTarget(f"new-{number}", server.address.host, history or known, share))
        asked = CarryTask(STORE, "replication", tuple(found), cluster=len(targets) > 1, **more)
        shelf = open_shelf(STORE, folder=str(self.folder))
        beside = Path(tempfile.mkdtemp(dir=self.folder))
        async with container(self.servers.binary, beside):
            done = await carry(
                asked,
                shelf,
                lambda: REPLICATION,
                folder=beside,
                host=free_host(),
                patience=patience,
            )
        return done.keys


async def info(server: Server, section: str) -> str:
    [told] = await speak(server, ("INFO", section))
    assert isinstance(told, bytes)
    return told.decode()


def shares(count: int) -> tuple[SlotSet, ...]:
    return even_shares(count) if count > 1 else (SlotSet(),)


def owner(servers: list[Server], key: str) -> Server:
    slot = key_slot(key)
    return next(
        server
        for server, share in zip(servers, shares(len(servers)), strict=True)
        if not share or slot in share
    )


async def fill(servers: list[Server]) -> dict[str, object]:
    """Write values of all kinds, some with a time to live; return what each key holds."""
    lines: dict[int, list[tuple[bytes | str | int, ...]]] = {}
    for n in range(KEYS):
        key = f"key:{n}"
        kinds: list[list[tuple[bytes | str | int, ...]]] = [
            [("SET", key, "v" * (n % 300))],
            [("HSET", key, "field", n)],
            [("RPUSH", key, *range(20))],
            [("ZADD", key, n, "member")],
            [("XADD", key, "1-1", "f", n)],
            [("SET", key, "mortal", "EX", 5000)],
        ]
        lines.setdefault(servers.index(owner(servers, key)), []).extend(kinds[n % len(kinds)])
    for number, found in lines.items():
        assert not [a for a in await speak(servers[number], *found) if isinstance(a, Exception)]
    return await content(servers)


async def content(servers: list[Server]) -> dict[str, object]:
    found: dict[str, object] = {}
    for server in servers:
        keys = [f"key:{n}" for n in range(KEYS) if owner(servers, f"key:{n}") is server]
        values = await speak(server, *(("DUMP", key) for key in keys))
        mortal = await speak(server, *(("TTL", key) for key in keys))
        for key, value, left in zip(keys, values, mortal, strict=True):
            assert isinstance(left, int)
            found[key] = (value, left > 0, left > 4000)
    return found


@pytest.fixture
async def stage(engine: EngineBinary, tmp_path: Path) -> AsyncIterator[Stage]:
    async with Servers(engine) as servers:
        yield Stage(servers, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(3, 3), (2, 3), (3, 1), (1, 3)])
async def test_every_key_finds_its_primary_in_the_new_shape(
    stage: Stage, before: int, after: int
) -> None:
    old, new = await stage.shards(before), await stage.shards(after)
    wanted = await fill(old)
    await stage.backup(old)
    assert await stage.carry(new) == KEYS
    assert await content(new) == wanted
    assert await stage.carry(new) == KEYS  # another worker, after one that was killed
    assert await content(new) == wanted


async def test_functions_come_along(stage: Stage, engine: EngineBinary) -> None:
    if not has_functions(engine):
        pytest.skip("the engine has no functions")
    code = "#!lua name=lib\nredis.register_function('hello', function() return 'hi' end)"
    old, new = await stage.shards(2), await stage.shards(3)
    for server in old:
        await speak(server, ("FUNCTION", "LOAD", code))
    await stage.backup(old)
    await stage.carry(new)
    for server in new:
        assert await speak(server, ("FCALL", "hello", 0)) == [b"hi"]


async def test_databases_come_along_but_into_mode_cluster(stage: Stage) -> None:
    [old] = await stage.shards(1)
    await speak(old, ("SET", "a", 0), ("SELECT", 3), ("SET", "a", 3), ("SET", "b", 3, "EX", 900))
    await stage.backup([old])
    [new] = await stage.shards(1)
    await stage.carry([new])
    found = await speak(new, ("GET", "a"), ("SELECT", 3), ("GET", "a"), ("TTL", "b"))
    assert found[0] == b"0"
    assert found[2] == b"3"
    assert isinstance(found[3], int)
    assert found[3] > 800
    cluster = await stage.shards(3)
    with pytest.raises(TargetError, match="2 keys in database 3"):
        await stage.carry(cluster)
    for server in cluster:
        assert await speak(server, ("DBSIZE",)) == [0]


async def test_nothing_is_carried_of_a_backup_with_a_damaged_part(stage: Stage) -> None:
    old, new = await stage.shards(2), await stage.shards(3)
    await fill(old)
    manifest = await stage.backup(old)
    path = stage.folder / STORE.path / manifest.parts[1].object
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BaseExceptionGroup) as failure:
        await stage.carry(new)
    assert failure.group_contains(Damaged, match=manifest.parts[1].object)
    for server in new:
        assert await speak(server, ("DBSIZE",)) == [0]


async def test_a_primary_that_began_again_is_not_taken_for_the_one_that_was_given_keys(
    stage: Stage,
) -> None:
    old, new = await stage.shards(1), await stage.shards(1)
    await fill(old)
    await stage.backup(old)
    with pytest.raises(TargetError, match="new-0 is not the primary any more"):
        await stage.carry(new, history="0" * 40)


async def test_a_key_that_moved_meanwhile_is_found_and_its_owners_value_wins(stage: Stage) -> None:
    """Parts are read at the same time, and not at the same moment."""
    old, new = await stage.shards(2), await stage.shards(3)
    host = old[1].address.host
    await speak(old[0], ("CLUSTER", "MEET", host, 6379))
    [me] = await speak(old[1], ("CLUSTER", "MYID"))
    assert isinstance(me, bytes)

    async def met() -> bool:
        [told] = await speak(old[0], ("CLUSTER", "INFO"))
        assert isinstance(told, bytes)
        return b"cluster_slots_ok:16384" in told

    await eventually(met)
    late, seen = [f"k{n}" for n in range(99) if key_slot(f"k{n}") > 9000][:2]
    await speak(old[1], ("SET", seen, "new"))
    for key in (late, seen):  # as an open slot has them
        slot = key_slot(key)
        opened = ("CLUSTER", "SETSLOT", slot, "IMPORTING", me)
        assert await speak(old[0], opened, ("ASKING",), ("SET", key, "old")) == [b"OK"] * 3
    await stage.backup(old)
    assert await speak(old[0], ("DBSIZE",)) == [2]
    await stage.carry(new)
    assert await speak(owner(new, late), ("GET", late)) == [b"old"]
    assert await speak(owner(new, seen), ("GET", seen)) == [b"new"]


async def test_a_target_without_room_is_named_with_what_to_do(stage: Stage) -> None:
    old, new = await stage.shards(1), await stage.shards(1)
    await fill(old)
    await stage.backup(old)
    await speak(new[0], ("CONFIG", "SET", "maxmemory", "1mb"))
    with pytest.raises(TargetError, match=r"OOM.*spec\.resources\.limits\.memory"):
        await stage.carry(new)


async def test_a_database_that_may_evict_any_key_is_restored_as_far_as_it_has_room(
    stage: Stage,
) -> None:
    """A full cache would never be restored otherwise, and its clients would wait for ever."""
    [old] = await stage.shards(1)
    await speak(old, *(("SET", f"key:{n}", "v" * 2000) for n in range(8000)))
    await stage.backup([old])
    new = await stage.shards(3)
    for server in new:
        [used] = re.findall(r"used_memory:(\d+)", await info(server, "memory"))
        room = ("maxmemory", int(used) + (3 << 20), "maxmemory-policy", "allkeys-lru")
        for name, value in zip(room[::2], room[1::2], strict=True):
            await speak(server, ("CONFIG", "SET", name, value))
    carried = await stage.carry(new)
    sizes = [(await speak(server, ("DBSIZE",)))[0] for server in new]
    assert 0 < carried < 8000
    assert abs(sum(map(int, map(str, sizes))) - carried) < 500  # more may be evicted meanwhile


async def test_primaries_in_use_have_what_the_backup_has_and_nothing_else(stage: Stage) -> None:
    old = await stage.shards(2)
    wanted = await fill(old)
    await stage.backup(old)
    functions = has_functions(old[0].binary)
    code = "#!lua name=late\nredis.register_function('late', function() return 1 end)"
    for server in old:
        if functions:
            assert await speak(server, ("FUNCTION", "LOAD", code)) == [b"late"]
    for n in range(0, KEYS, 7):
        await speak(owner(old, f"key:{n}"), ("SET", f"key:{n}", "changed"))
    for n in range(KEYS, KEYS + 50):
        await speak(owner(old, f"key:{n}"), ("SET", f"key:{n}", "late"))
    assert await stage.carry(old, empty=True) == KEYS
    assert await content(old) == wanted
    assert sum([(await speak(server, ("DBSIZE",)))[0] for server in old]) == KEYS  # type: ignore[misc]
    for server in old:
        if functions:
            assert await speak(server, ("FUNCTION", "LIST")) == [[]]


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["a part is damaged", "a primary is another one"])
async def test_nothing_is_dropped_where_the_restore_cannot_begin(
    stage: Stage, trouble: str
) -> None:
    old = await stage.shards(2)
    wanted = await fill(old)
    manifest = await stage.backup(old)
    history = "0" * 40
    if trouble == "a part is damaged":
        history = ""
        path = stage.folder / STORE.path / manifest.parts[1].object
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises((BaseExceptionGroup, TargetError)):
        await stage.carry(old, history, empty=True)
    assert await content(old) == wanted


async def test_a_rehearsal_counts_keys_and_says_what_would_be_wrong(stage: Stage) -> None:
    old = await stage.shards(1)
    wanted = await fill(old)
    await stage.backup(old)
    assert await stage.carry([], rehearsal=True) == KEYS
    assert await content(old) == wanted
