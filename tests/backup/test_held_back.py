"""A snapshot is compared with the manifest while a server loads it; a damaged one has no end."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from backup.conftest import LOGIN, source, task
from kubelocal.loopback import free_host
from redis_operator.backup.errors import Damaged
from redis_operator.backup.manifest import StoredPart
from redis_operator.backup.primary import Primary, rdb_of
from redis_operator.backup.replica import Login
from redis_operator.backup.squeeze import Compressor
from redis_operator.backup.store import Shelf, open_shelf
from redis_operator.backup.take import take
from redis_operator.backup.task import Store
from redis_testing.servers import EngineBinary, Servers
from support.pair_of_servers import eventually, speak

REPLICATION = Login("replication", "word")
KEYS = 30_000
NAME = "part.rdb.zst"


async def kept(folder: Path, content: bytes) -> tuple[Shelf, StoredPart]:
    """Return where some content is stored, and what a manifest says about it."""
    compressor = Compressor(1)
    stored = compressor.compress(content) + compressor.flush()
    shelf = open_shelf(Store("small"), folder=str(folder))
    (folder / "small" / NAME).write_bytes(stored)
    digest = sha256(content).hexdigest()
    return shelf, StoredPart("shard", NAME, "r", 1, "REDIS0009", len(content), len(stored), digest)


async def sizes(shelf: Shelf, part: StoredPart, found: list[int]) -> None:
    """Note the sizes of all pieces that are returned."""
    async for piece in rdb_of(shelf, part):
        found.append(len(piece))  # noqa: PERF401 - those before a failure count too


@given(data=st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_part_with_a_byte_that_changed_has_no_end(data: st.DataObject, tmp_path: Path) -> None:
    content = data.draw(st.binary(min_size=1, max_size=3000))

    async def run() -> None:
        shelf, part = await kept(tmp_path, content)
        path = tmp_path / "small" / NAME
        stored = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(stored) - 1))
        stored[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(stored)
        given: list[int] = []
        try:
            await sizes(shelf, part, given)
        except Damaged:
            assert sum(given) < part.size
        else:  # an unused bit of the frame, say: the content is what was written
            assert sum(given) == part.size

    asyncio.run(run())


@pytest.mark.parametrize("content", [b"x" * 3_000_000, b"short"], ids=["long", "short"])
@pytest.mark.parametrize("wrong", ["longer", "shorter", "other"])
async def test_another_content_in_a_frame_of_its_own_has_no_end(
    tmp_path: Path, content: bytes, wrong: str
) -> None:
    other = {"longer": content + b"y", "shorter": content[:-1], "other": b"y" + content[1:]}[wrong]
    shelf, part = await kept(tmp_path, other)
    part = replace(part, size=len(content), sha256=sha256(content).hexdigest())
    given: list[int] = []
    with pytest.raises(Damaged, match="is damaged"):
        await sizes(shelf, part, given)
    assert sum(given) < part.size


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.parametrize("load", ["disabled", "on-empty-db", "swapdb"])
async def test_a_server_keeps_nothing_of_a_snapshot_that_is_damaged(
    engine: EngineBinary, tmp_path: Path, load: str
) -> None:
    """One byte of a value is another one, and the snapshot has no checksum of its own."""
    async with source(engine) as full:
        await speak(full, ("CONFIG", "SET", "rdbcompression", "no"))
        await speak(full, *(("SET", f"key:{n}", f"value {n:06} " * 20) for n in range(KEYS)))
        taken = open_shelf(task(full).store, folder=str(tmp_path))
        manifest = await take(task(full), taken, lambda: LOGIN)
    right = b"".join([piece async for piece in rdb_of(taken, manifest.parts[0])])
    changed = bytearray(right)
    changed[right.index(b"value 000009")] ^= 1
    changed[-8:] = bytes(8)  # "no checksum"
    options = {"masteruser": "replication", "masterauth": "word", "repl-diskless-load": load}
    async with Servers(engine, options=options) as servers:
        [server] = await servers.start(1, cluster=False)
        shelf, part = await kept(tmp_path, bytes(changed))
        wanted = replace(part, sha256=manifest.parts[0].sha256)
        damaged = Primary(shelf, manifest, wanted, lambda: REPLICATION)
        host = free_host()
        giving = asyncio.ensure_future(damaged.serve_until(asyncio.Event(), host, 6379))
        await asyncio.sleep(0)
        await speak(server, ("REPLICAOF", host, 6379))
        with pytest.raises(Damaged, match="another checksum"):
            await asyncio.wait_for(giving, 60)

        async def dropped() -> bool:
            [told] = await speak(server, ("INFO", "replication"))
            return isinstance(told, bytes) and b"master_sync_in_progress:0" in told

        await eventually(dropped)
        await speak(server, ("REPLICAOF", "NO", "ONE"))
        assert await speak(server, ("DBSIZE",)) == [0]
        # What the server is given next is the right one, and the engine alone saw nothing wrong.
        primary = Primary(shelf, manifest, part, lambda: REPLICATION)
        listening = await primary.serve(host, 6380)
        await speak(server, ("REPLICAOF", host, 6380))
        await asyncio.wait_for(primary.whole.wait(), 60)
        assert await speak(server, ("DBSIZE",)) == [KEYS]
        listening.close()
