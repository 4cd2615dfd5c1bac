"""A backup is loaded into a scratch server; what is not as it was written is named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from obstore.store import LocalStore

from backup.conftest import LOGIN, container, fill, source, task
from kubelocal.loopback import free_host
from redis_operator.backup.check import check
from redis_operator.backup.errors import Damaged, StoreError
from redis_operator.backup.manifest import MANIFEST, Manifest
from redis_operator.backup.scratch import ScratchError
from redis_operator.backup.store import Shelf, open_shelf
from redis_operator.backup.take import take
from redis_operator.backup.task import Report
from redis_operator.redis.slots import ALL_SLOTS, SlotSet, key_slot
from redis_testing.servers import EngineBinary
from support.pair_of_servers import speak

pytestmark = pytest.mark.servers


async def checked(engine: EngineBinary, shelf: Shelf, folder: Path) -> Report:
    await asyncio.to_thread(folder.mkdir)
    async with container(engine, folder):
        return await check(shelf, folder, free_host(), ports=(6379, 6380))


async def test_every_key_of_every_database_is_counted(engine: EngineBinary, tmp_path: Path) -> None:
    async with source(engine) as full:
        await fill(full)
        await speak(full, ("SET", "gone", "1", "PX", 1))
        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        manifest = await take(task(full), shelf, lambda: LOGIN)
    found = await checked(engine, shelf, tmp_path / "scratch")
    [part] = manifest.parts
    assert part.keys is not None
    assert found.parts == ({"name": "server-0", "keys": part.keys["0"] + 1},)  # one in database 3
    assert found.keys == part.keys["0"] + 1
    assert part.keys["0"] in (21_700, 21_701)


async def test_an_empty_database_is_verified(engine: EngineBinary, tmp_path: Path) -> None:
    async with source(engine) as full:
        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        manifest = await take(task(full), shelf, lambda: LOGIN)
        assert manifest.parts[0].keys == {}
    assert (await checked(engine, shelf, tmp_path / "scratch")).keys == 0


async def of_two_shards(engine: EngineBinary, folder: Path, halves: list[SlotSet]) -> Shelf:
    """Take a backup of two servers as if they were shards of a cluster."""
    async with source(engine) as low, source(engine) as high:
        first = task(low, name="shard-0")
        second = task(high, name="shard-1")
        for server, half in ((low, ALL_SLOTS.lowest(8192)), (high, ALL_SLOTS.highest(8192))):
            names = [f"key:{n}" for n in range(2000) if key_slot(f"key:{n}") in half]
            await speak(server, *(("SET", name, "x") for name in names))
        shards = [
            msgspec.structs.replace(shard, slots=str(half))
            for shard, half in zip((*first.shards, *second.shards), halves, strict=True)
        ]
        asked = msgspec.structs.replace(first, shards=tuple(shards), mode="Cluster")
        shelf = open_shelf(asked.store, folder=str(folder))
        await take(asked, shelf, lambda: LOGIN)
        return shelf


async def test_parts_of_a_cluster_have_all_slots_and_keys_of_their_own_alone(
    engine: EngineBinary, tmp_path: Path
) -> None:
    halves = [ALL_SLOTS.lowest(8192), ALL_SLOTS.highest(8192)]
    shelf = await of_two_shards(engine, tmp_path / "a", halves)
    found = await checked(engine, shelf, tmp_path / "scratch-a")
    assert found.keys == 2000
    swapped = await of_two_shards(engine, tmp_path / "b", halves[::-1])
    with pytest.raises(Damaged, match=r"shard-0-one-\w+\.rdb\.zst has \d+ keys of slots.*no other"):
        await checked(engine, swapped, tmp_path / "scratch-b")
    hole = [ALL_SLOTS.lowest(8192), ALL_SLOTS.highest(8191)]
    gap = await of_two_shards(engine, tmp_path / "c", hole)
    with pytest.raises(Damaged, match="no part has the slots 8192"):
        await checked(engine, gap, tmp_path / "scratch-c")


async def test_keys_of_slots_that_moved_meanwhile_are_not_damage(
    engine: EngineBinary, tmp_path: Path
) -> None:
    """The first shard was read before it gave 100 slots away, and is recorded without them."""
    halves = [ALL_SLOTS.lowest(8092), ALL_SLOTS.highest(8292)]
    shelf = await of_two_shards(engine, tmp_path / "a", halves)
    assert (await checked(engine, shelf, tmp_path / "scratch")).keys == 2000


async def rewrite(shelf: Shelf, manifest: Manifest) -> None:
    await shelf.delete([MANIFEST])
    await shelf.create(MANIFEST, msgspec.json.encode(manifest))


async def test_a_part_with_other_keys_than_announced_or_that_no_server_loads_is_named(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with source(engine) as full:
        await fill(full)
        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        manifest = await take(task(full), shelf, lambda: LOGIN)
    [part] = manifest.parts
    less = msgspec.structs.replace(part, keys={"0": 5})
    await rewrite(shelf, msgspec.structs.replace(manifest, parts=(less,)))
    with pytest.raises(Damaged, match=r"server-0-one-\w+\.rdb\.zst is damaged.*announced 5"):
        await checked(engine, shelf, tmp_path / "one")

    (tmp_path / "ns/cache/monday" / part.object).write_bytes(b"something else")
    with pytest.raises(Damaged, match=r"server-0-one-\w+\.rdb\.zst is damaged"):
        await checked(engine, shelf, tmp_path / "two")


async def test_a_server_that_ends_while_it_loads_says_nothing_about_the_backup(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with source(engine) as full:
        await speak(full, ("SET", "a", "1"))
        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        await take(task(full), shelf, lambda: LOGIN)
    folder, host = tmp_path / "scratch", free_host()
    await asyncio.to_thread(folder.mkdir)

    async def impolite(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accept the password, and die of the next command."""
        await reader.read(1000)
        writer.write(b"+OK\r\n")
        await reader.read(1000)
        writer.close()

    async with await asyncio.start_server(impolite, host, 6380):
        with pytest.raises(ScratchError, match="the scratch server ended"):
            await check(shelf, folder, host, ports=(6379, 6380))


class Moody(Shelf):
    """A store that gives a part once, and then breaks off in the middle of it."""

    reads = 0

    def read(self, name: str) -> AsyncIterator[bytes]:
        self.reads += 1
        return super().read(name) if self.reads < 2 else self._half(name)

    async def _half(self, name: str) -> AsyncIterator[bytes]:
        async for piece in super().read(name):
            yield piece[: len(piece) // 2]
            break
        raise StoreError(f"{name}: 503 slow down")


async def test_a_store_that_fails_while_a_part_is_loaded_says_nothing_about_the_backup(
    engine: EngineBinary, tmp_path: Path
) -> None:
    """Else a good backup would be damaged for good, and retention would delete it."""
    async with source(engine) as full:
        await fill(full)
        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        await take(task(full), shelf, lambda: LOGIN)
    place = tmp_path / "ns/cache/monday"
    moody = Moody(LocalStore(prefix=place), "volume:/", place)
    with pytest.raises(StoreError, match="slow down"):
        await checked(engine, moody, tmp_path / "scratch")
