"""A snapshot is read from a real server, kept, checked, and given to another one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from backup.conftest import LOGIN, fill, source, task
from kubelocal.loopback import free_host
from redis_operator.backup.errors import Damaged, SourceError, StoreError, WorkerError
from redis_operator.backup.manifest import MANIFEST, Manifest
from redis_operator.backup.primary import Primary, find_part, verify
from redis_operator.backup.replica import Login
from redis_operator.backup.store import Shelf, open_shelf
from redis_operator.backup.take import report_of, take
from redis_operator.backup.task import Identity, Store, read_report
from redis_operator.redis import commands
from redis_testing.servers import EngineBinary, Servers
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers


async def test_what_a_server_holds_comes_back_in_another_one(
    engine: EngineBinary, tmp_path: Path
) -> None:
    debug = {"enable-debug-command": "yes"} if engine.version.major >= 7 else {}
    async with source(engine) as full, Servers(engine, options=debug) as others:
        await fill(full)
        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        manifest = await take(task(full), shelf, lambda: LOGIN)
        [part] = manifest.parts
        assert part.rdb.startswith(("REDIS00", "VALKEY"))
        assert 0 < part.stored < part.size
        assert (part.source, part.name) == ("pod-0", "server-0")
        report = read_report(report_of(manifest).text().decode())
        assert report is not None
        assert (report.size, report.error) == (part.size, "")

        found, kept = await find_part(shelf)
        assert found == manifest
        await verify(shelf, kept)
        host = free_host()
        server = await Primary(shelf, found, kept, lambda: Login("replication", "word")).serve(
            host, 6379
        )
        [empty] = await others.start(1, cluster=False, options={"appendonly": "yes"})
        await speak(empty, ("REPLICAOF", host, 6379))
        await asyncio.sleep(0.3)
        [size] = await speak(empty, ("DBSIZE",))
        assert size == 0  # nobody is let in without the password
        await speak(
            empty,
            ("CONFIG", "SET", "masteruser", "replication"),
            ("CONFIG", "SET", "masterauth", "word"),
        )

        async def linked() -> bool:
            async with await empty.connect() as link:
                info = await link.run(commands.info_replication(), timeout=5)
                return info.link_up and not info.sync_in_progress

        await eventually(linked)
        await speak(empty, ("REPLICAOF", "NO", "ONE"))
        server.close()
        counts = ("DBSIZE",), ("GET", "key:299"), ("LRANGE", "list:7", 0, -1), ("SELECT", 3)
        asked = (*counts, ("GET", "elsewhere"), ("DBSIZE",))
        assert await speak(empty, *asked) == await speak(full, *asked)
        [ttl] = await speak(empty, ("TTL", "mortal:5"))
        assert 4000 < int(str(ttl)) <= 5000


async def test_a_server_under_writes_gives_a_snapshot_of_one_moment(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with source(engine) as full:
        await fill(full)
        stop = asyncio.Event()

        async def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                await speak(full, *(("SET", f"later:{number}:{n}", "x" * 100) for n in range(100)))

        writing = asyncio.ensure_future(write())
        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        manifest = await take(task(full), shelf, lambda: LOGIN)
        stop.set()
        await writing
        await verify(shelf, manifest.parts[0])


async def test_a_backup_that_is_there_is_told_again_and_not_taken_twice(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with source(engine) as full:
        await speak(full, ("SET", "a", "1"))
        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        first = await take(task(full), shelf, lambda: LOGIN)
        await speak(full, ("SET", "a", "2"))
        assert await take(task(full, attempt="two"), shelf, lambda: LOGIN) == first
        assert sorted(await shelf.names()) == sorted([MANIFEST, first.parts[0].object])


async def test_what_an_attempt_left_is_removed_by_the_one_that_succeeds(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with source(engine) as full:
        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        await shelf.create("server-0-zero.rdb.zst", b"half")
        manifest = await take(task(full), shelf, lambda: LOGIN)
        assert sorted(await shelf.names()) == sorted([MANIFEST, manifest.parts[0].object])


async def test_what_is_left_is_removed_also_where_a_worker_ended_right_after_the_manifest(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with source(engine) as full:
        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        manifest = await take(task(full), shelf, lambda: LOGIN)
        await shelf.create("server-0-zero.rdb.zst", b"half")
        assert await take(task(full, attempt="two"), shelf, lambda: LOGIN) == manifest
        assert sorted(await shelf.names()) == sorted([MANIFEST, manifest.parts[0].object])


async def test_a_worker_whose_job_was_deleted_and_that_still_writes_damages_no_backup(
    engine: EngineBinary, tmp_path: Path
) -> None:
    """The next worker has the same number. Neither knows of the other, and one is first."""

    class Early(Shelf):
        """A store that has no manifest yet when it is asked the first time."""

        asked = 0

        async def get(self, name: str) -> bytes | None:
            self.asked += 1
            return None if self.asked == 1 else await super().get(name)

    async with source(engine) as full:
        await speak(full, ("SET", "a", "1"))
        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        first = await take(task(full), shelf, lambda: LOGIN)
        await speak(full, ("SET", "b", "2"))
        late = Early(shelf._store, "volume:/late", shelf._folder)
        assert await take(task(full), late, lambda: LOGIN) == first
        await verify(shelf, first.parts[0])
        assert sorted(await shelf.names()) == sorted([MANIFEST, first.parts[0].object])


async def test_a_source_that_is_gone_leaves_it_to_the_next_one(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with source(engine) as gone, source(engine) as full:
        asked = task(gone, full)
        await gone.kill()
        shelf = open_shelf(asked.store, folder=str(tmp_path))
        manifest = await take(asked, shelf, lambda: LOGIN)
        assert manifest.parts[0].source == "pod-1"


async def test_a_source_killed_in_the_middle_leaves_no_backup(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with source(engine) as full:
        await speak(
            full,
            *(("SET", f"big:{n}", f"{n}" * 2000) for n in range(5000)),
            ("CONFIG", "SET", "rdb-key-save-delay", "2000"),  # 10 s: it is killed before
        )

        async def sends() -> bool:
            [found] = await speak(full, ("INFO", "persistence"))
            assert isinstance(found, bytes)
            return b"rdb_bgsave_in_progress:1" in found

        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        taking = asyncio.ensure_future(take(task(full), shelf, lambda: LOGIN, patience=1))
        await eventually(sends)
        await full.kill()
        with pytest.raises(BaseExceptionGroup) as failure:
            await taking
        assert failure.group_contains(SourceError, match=r"server-0.*pod-0")
        assert await shelf.names() == []


async def test_a_wrong_password_is_told_by_name_and_without_it(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with source(engine) as full:
        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        with pytest.raises(BaseExceptionGroup) as failure:
            await take(task(full), shelf, lambda: Login("backup", "hidden-word"), patience=0.1)
        assert failure.group_contains(SourceError, match="WRONGPASS")
        assert "hidden-word" not in repr(failure.value.exceptions)
        assert await shelf.get(MANIFEST) is None


async def one_backup(engine: EngineBinary, tmp_path: Path) -> Manifest:
    async with source(engine) as full:
        await fill(full)
        shelf = open_shelf(task(full).store, folder=str(tmp_path))
        return await take(task(full), shelf, lambda: LOGIN)


async def test_a_damaged_part_is_found_before_anybody_is_given_it(
    engine: EngineBinary, tmp_path: Path
) -> None:
    manifest = await one_backup(engine, tmp_path)
    store = Store("ns/cache/monday")
    path = tmp_path / store.path / manifest.parts[0].object
    whole = path.read_bytes()
    half = len(whole) // 2
    for damaged in (
        whole[:half],
        whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :],
        whole[:-1],
        b"",
        b"something else",
    ):
        path.write_bytes(damaged)
        with pytest.raises(Damaged, match=r"server-0-one-\w+\.rdb\.zst is damaged"):
            await verify(open_shelf(store, folder=str(tmp_path)), manifest.parts[0])
    path.unlink()
    with pytest.raises(StoreError, match=r"server-0-one-\w+\.rdb\.zst"):
        await verify(open_shelf(store, folder=str(tmp_path)), manifest.parts[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no manifest.json"),
        ("", "cannot be read"),
        ("{}", "cannot be read"),
        ('{"format": 2, "parts": []}', "cannot be read"),
    ],
)
async def test_without_a_readable_manifest_there_is_no_backup(
    tmp_path: Path, text: str | None, words: str
) -> None:
    shelf = open_shelf(Store("x"), folder=str(tmp_path))
    if text is not None:
        await shelf.create(MANIFEST, text.encode())
    with pytest.raises(Damaged, match=words):
        await find_part(shelf)


async def test_a_store_that_cannot_be_written_is_named(
    engine: EngineBinary, tmp_path: Path
) -> None:
    (tmp_path / "ns").write_text("a file where a folder should be")
    with pytest.raises(WorkerError, match="volume:/ns/cache/monday"):
        open_shelf(Store("ns/cache/monday"), folder=str(tmp_path))


async def test_a_backup_that_is_named_is_that_one_and_no_other(
    engine: EngineBinary, tmp_path: Path
) -> None:
    """Whoever can write to the store could put another backup in its place, also an encrypted."""
    async with source(engine) as full:
        await speak(full, ("SET", "a", "1"))
        for name in ("monday-1", "tuesday-2"):
            found = task(full, store=Store(f"ns/cache/{name}"))
            await take(found, open_shelf(found.store, folder=str(tmp_path)), lambda: LOGIN)
    place, ours = tmp_path / "ns/cache", Identity("ns", "cache", "monday-1")
    shelf = open_shelf(Store("ns/cache/monday-1", identity=ours), folder=str(tmp_path))
    assert (await find_part(shelf))[0].backup == "monday-1"
    (place / "monday-1").rename(place / "other")
    (place / "tuesday-2").rename(place / "monday-1")
    with pytest.raises(Damaged, match=r"backup tuesday-2 of Redis ns/cache.*storage and path"):
        await find_part(shelf)
    by_place = open_shelf(Store("ns/cache/monday-1"), folder=str(tmp_path))
    assert (await find_part(by_place))[0].backup == "tuesday-2"
    for wrong in (Identity("ns", "else", "tuesday-2"), Identity("sn", "cache", "tuesday-2")):
        shelf = open_shelf(Store("ns/cache/monday-1", identity=wrong), folder=str(tmp_path))
        with pytest.raises(Damaged, match="another one was put in its place"):
            await find_part(shelf)
