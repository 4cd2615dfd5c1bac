"""Archivers that are killed, stores that do not answer, and archives that are damaged."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from backup.stream.conftest import (
    LOGIN,
    QUICK,
    archived,
    archiver_of,
    digest,
    fed,
    info,
    offset_of,
    replicated,
    running,
    sampled,
    shelf_in,
)
from redis_operator.backup.errors import Damaged, StoreError
from redis_operator.backup.replica import attach
from redis_operator.backup.store import Shelf
from redis_operator.backup.stream.bases import store_base
from redis_operator.backup.stream.catalogue import read_catalogue
from redis_operator.backup.stream.feed import FeedError, feed
from redis_operator.backup.stream.find import find_plan, find_window
from redis_operator.backup.stream.outline import read_outline
from redis_operator.backup.stream.plan import AtTime, NotArchived, Offset, ReplayPlan
from redis_operator.backup.stream.records import segment_names
from redis_operator.backup.stream.spool import Superseded
from redis_testing.servers import EngineBinary, Server, Servers, find_engines
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers

NEWEST = find_engines()[-1]


class Stubborn(Shelf):
    """A store that can be made to refuse segments."""

    def __init__(self, inner: Shelf) -> None:
        super().__init__(inner._store, "volume:/stubborn", inner._folder)
        self.refuses = False
        self.asked = 0

    async def create(self, name: str, content: bytes) -> bool:
        if self.refuses:
            self.asked += 1
            raise StoreError(f"volume:/stubborn/{name}: 503 Slow Down")
        return await super().create(name, content)


async def write(server: Server, count: int = 200, size: int = 10) -> int:
    lines: list[tuple[Any, ...]] = []
    for number in range(count):
        lines += [("INCR", "n"), ("SET", f"k:{number}", "v" * size)]
    await speak(server, *lines)
    return await offset_of(server)


async def whole_plan(folder: Path, primary: Server) -> ReplayPlan:
    told = await info(primary)
    catalogue = await read_catalogue(shelf_in(folder))
    newest = await catalogue.newest()
    assert newest is not None
    return await find_plan(catalogue, Offset(told["master_replid"], newest.last))


async def test_an_archiver_that_was_killed_goes_on_without_a_gap(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with replicated(engine, 1) as shard:
        stop = asyncio.Event()
        killed = asyncio.create_task(archiver_of(shard, tmp_path).run(stop))
        await archived(tmp_path, await write(shard.primary))
        await write(shard.primary)  # not sealed
        killed.cancel()  # nothing is sealed or uploaded on the way out
        await asyncio.gather(killed, return_exceptions=True)
        await write(shard.primary)
        async with running(archiver_of(shard, tmp_path)):
            await archived(tmp_path, await write(shard.primary))
            held = await digest(shard.primary)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        assert [listed.line for listed in catalogue.lines] == [1]
        assert (await find_window(catalogue)).gaps == ()
        server, servers = await fed(engine, tmp_path, await whole_plan(tmp_path, shard.primary))
        async with servers:
            assert await digest(server) == held


async def test_what_was_spooled_by_an_archiver_that_ended_is_uploaded_by_the_next(
    tmp_path: Path,
) -> None:
    async with replicated(NEWEST, 1, repl_backlog_size="16384") as shard:
        store = Stubborn(shelf_in(tmp_path))
        limits = replace(QUICK, patience_seconds=0.2)
        archiver = archiver_of(shard, tmp_path, shelf=store, limits=limits)
        async with running(archiver):
            await archived(tmp_path, await write(shard.primary))
            store.refuses = True
            for _ in range(10):  # more than the server keeps
                end = await write(shard.primary, 20, 400)

                async def received(end: int = end) -> bool:
                    return archiver.state().received >= end

                await eventually(received)
        assert "503 Slow Down" in archiver.state().trouble
        assert archiver.state().spooled > 0
        held = await digest(shard.primary)
        async with running(archiver_of(shard, tmp_path)):
            await archived(tmp_path, end)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        assert [listed.line for listed in catalogue.lines] == [1]
        server, servers = await fed(NEWEST, tmp_path, await whole_plan(tmp_path, shard.primary))
        async with servers:
            assert await digest(server) == held


async def test_bases_that_the_store_refuses_do_not_cost_a_fork_each_time(tmp_path: Path) -> None:
    class WithoutBases(Shelf):
        async def write(self, name: str, chunks: Any) -> int:
            if "base" in name:
                raise StoreError(f"volume:/{name}: 507 Insufficient Storage")
            return await super().write(name, chunks)

    async with replicated(NEWEST, 1) as shard:
        inner = shelf_in(tmp_path)
        store = WithoutBases(inner._store, "volume:/x", inner._folder)
        archiver = archiver_of(shard, tmp_path, shelf=store)
        before = await full_syncs(shard.servers[1])
        async with running(archiver):

            async def sealed() -> bool:  # six segments take 2.4 s at least
                await write(shard.primary, 5)
                catalogue = await read_catalogue(inner)
                return bool(catalogue.lines) and len(catalogue.lines[0].segments) > 5

            await eventually(sealed)
            assert "507 Insufficient Storage" in archiver.state().trouble
            catalogue = await read_catalogue(inner)
            tries = await full_syncs(shard.servers[1]) - before
        segments = len(catalogue.lines[0].segments)
        assert 1 <= tries < segments  # 1, 2, 4 ... seconds between them
        with pytest.raises(NotArchived, match="no base with a stream yet"):
            await find_plan(catalogue, Offset("x", 1))


async def full_syncs(server: Server) -> int:
    [reply] = await speak(server, ("INFO", "stats"))
    assert isinstance(reply, bytes)
    return int(reply.decode().partition("sync_full:")[2].split()[0])


async def test_a_full_spool_detaches_and_comes_back(tmp_path: Path) -> None:
    async with replicated(NEWEST, 1) as shard:
        store = Stubborn(shelf_in(tmp_path))
        limits = replace(QUICK, spool_bytes=1000)
        archiver = archiver_of(shard, tmp_path, shelf=store, limits=limits)
        async with running(archiver):
            await archived(tmp_path, await write(shard.primary))
            store.refuses = True

            async def detached() -> bool:
                await write(shard.primary, 20)
                return archiver.state().attached == ""

            await eventually(detached)
            assert int((await info(shard.servers[1]))["connected_slaves"]) == 0
            store.refuses = False
            end = await write(shard.primary)
            await archived(tmp_path, end)
        assert [x.line for x in (await read_catalogue(shelf_in(tmp_path))).lines] == [1]


async def test_a_disk_that_takes_nothing_is_named_and_waited_for(tmp_path: Path) -> None:
    """As a node whose disk is full: nothing of the stream may be lost for it."""
    async with replicated(NEWEST, 1) as shard:
        archiver, disk, aside = archiver_of(shard, tmp_path), tmp_path / "spool", tmp_path / "aside"
        async with running(archiver) as task:
            await archived(tmp_path, await write(shard.primary))
            disk.rename(aside)
            disk.write_text("")

            async def named() -> bool:
                assert not task.done(), task.result()
                await write(shard.primary, 50)
                return "the disk of the worker" in archiver.state().trouble

            await eventually(named)
            disk.unlink()
            aside.rename(disk)
            await archived(tmp_path, await write(shard.primary))
            held = await digest(shard.primary)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        assert [listed.line for listed in catalogue.lines] == [1]
        assert (await find_window(catalogue)).gaps == ()
        server, servers = await fed(NEWEST, tmp_path, await whole_plan(tmp_path, shard.primary))
        async with servers:
            assert await digest(server) == held


async def test_a_stream_that_no_server_keeps_any_more_is_a_gap_and_refused_by_name(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with replicated(engine, 1, repl_backlog_size="16384") as shard:
        early = archiver_of(shard, tmp_path)
        async with running(early):
            await sampled(early)
            lost = await write(shard.primary)
            await archived(tmp_path, lost)
        first = await write(shard.primary, 300, 400)
        await write(shard.primary, 300, 400)
        late = archiver_of(shard, tmp_path)
        async with running(late):

            async def again() -> bool:
                catalogue = await read_catalogue(shelf_in(tmp_path))
                return len(catalogue.lines) == 2 and bool(catalogue.lines[1].bases)

            await eventually(again)
            await sampled(late)
            end = await write(shard.primary)
            await archived(tmp_path, end)
            held = await digest(shard.primary)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        [gap] = (await find_window(catalogue)).gaps
        assert "repl-backlog-size is too small" in gap.reason
        outline = await read_outline(catalogue)  # the same, from fewer manifests
        [told] = outline.gaps
        assert (told.after, told.before, told.reason) == (gap.after, gap.before, gap.reason)
        assert outline.oldest == (await find_window(catalogue)).oldest
        history = (await info(shard.primary))["master_replid"]
        with pytest.raises(NotArchived, match=f"offset {first} of history {history} is not"):
            await find_plan(catalogue, Offset(history, first))
        server, servers = await fed(engine, tmp_path, await whole_plan(tmp_path, shard.primary))
        async with servers:
            assert await digest(server) == held


async def test_two_archivers_of_one_shard_do_not_mix(tmp_path: Path) -> None:
    async with replicated(NEWEST, 1) as shard:
        stop = asyncio.Event()
        (tmp_path / "other").mkdir()
        one = asyncio.create_task(archiver_of(shard, tmp_path).run(stop))
        await archived(tmp_path, await write(shard.primary))
        other = archiver_of(shard, tmp_path / "other", shelf=shelf_in(tmp_path))
        two = asyncio.create_task(other.run(stop))
        try:

            async def ended() -> bool:
                await write(shard.primary, 20)
                return one.done() or two.done()

            await eventually(ended)
        finally:
            stop.set()
            results = await asyncio.gather(one, two, return_exceptions=True)
        assert any(isinstance(result, Superseded) for result in results)
        assert (await find_window(await read_catalogue(shelf_in(tmp_path)))).gaps == ()


async def test_a_base_of_another_archiver_is_not_taken_for_ours(tmp_path: Path) -> None:
    """Two begin a line: whoever finds a base there that it did not write ends."""
    async with replicated(NEWEST, 1) as shard:
        shelf = shelf_in(tmp_path)
        version = ".".join(map(str, NEWEST.version.number))

        async def stored() -> None:
            source = shard.sources()[1]
            async with attach(source, LOGIN, version) as snapshot:
                await store_base(
                    shelf,
                    snapshot,
                    line=1,
                    number=1,
                    pod=source.pod,
                    engine="valkey",
                    version=version,
                )

        await stored()
        await write(shard.primary)
        with pytest.raises(Superseded, match="base-00000001"):
            await stored()


async def test_a_damaged_base_is_followed_by_another_one(tmp_path: Path) -> None:
    async with replicated(NEWEST, 1) as shard:
        async with running(archiver_of(shard, tmp_path)):
            await archived(tmp_path, await write(shard.primary))
        damaged = tmp_path / "archive/server-0/000001/base-00000001.json"
        damaged.write_bytes(b"")
        catalogue = await read_catalogue(shelf_in(tmp_path))
        with pytest.raises(NotArchived, match=r"base-00000001\.json is damaged"):
            await find_plan(catalogue, AtTime(time.time_ns() // 1000))
        async with running(archiver_of(shard, tmp_path)):

            async def again() -> bool:
                await write(shard.primary, 5)
                catalogue = await read_catalogue(shelf_in(tmp_path))
                return len(catalogue.lines[0].bases) > 1

            await eventually(again)
            await archived(tmp_path, await write(shard.primary))
            held = await digest(shard.primary)
        assert [x.line for x in (await read_catalogue(shelf_in(tmp_path))).lines] == [1]
        server, servers = await fed(NEWEST, tmp_path, await whole_plan(tmp_path, shard.primary))
        async with servers:
            assert await digest(server) == held


async def test_a_last_segment_whose_manifest_is_damaged_begins_a_new_line(tmp_path: Path) -> None:
    """As after a loss of power: the file is there, and empty."""
    async with replicated(NEWEST, 1) as shard:
        async with running(archiver_of(shard, tmp_path)):
            await archived(tmp_path, await write(shard.primary))
        damaged = max((tmp_path / "archive/server-0").glob("000001/segment-*.json"))
        damaged.write_bytes(b"")
        async with running(archiver_of(shard, tmp_path)):

            async def again() -> bool:
                catalogue = await read_catalogue(shelf_in(tmp_path))
                [*_, last] = catalogue.lines
                return last.line == 2 and bool(last.bases) and bool(last.segments)

            await eventually(again)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        [base] = await catalogue.bases(2)
        assert f"000001/{damaged.name} is damaged" in base.reason


async def test_a_damaged_or_missing_segment_is_named_and_nothing_is_given(tmp_path: Path) -> None:
    async with replicated(NEWEST, 1) as shard:
        async with running(archiver_of(shard, tmp_path)):
            for _ in range(4):
                await archived(tmp_path, await write(shard.primary))
        plan = await whole_plan(tmp_path, shard.primary)
        _, damaged, swapped = [span.segment for span in plan.spans if span.segment.size][:3]
        place = tmp_path / "archive/server-0"
        content = (place / damaged.object).read_bytes()
        other = (place / swapped.object).read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        async with Servers(NEWEST) as servers:
            [server] = await servers.start(1, cluster=False)
            await speak(server, ("SET", "untouched", "yes"))
            for bad in (content[:-1], flipped, other, b""):
                (place / damaged.object).write_bytes(bad)
                with pytest.raises(Damaged, match=f"{damaged.object} is damaged"):
                    await feed(shelf_in(tmp_path), plan, server.address)
            (place / damaged.object).unlink()
            with pytest.raises(Damaged, match=f"{damaged.object} is missing"):
                await feed(shelf_in(tmp_path), plan, server.address)
            assert await speak(server, ("GET", "untouched")) == [b"yes"]
        (place / segment_names(damaged.line, damaged.number).manifest).unlink()
        with pytest.raises(NotArchived, match=f"segment {damaged.number} of line 1 is missing"):
            await whole_plan(tmp_path, shard.primary)
        [gap] = (await find_window(await read_catalogue(shelf_in(tmp_path)))).gaps
        assert f"segment {damaged.number} of line 1 is missing" in gap.reason


async def test_a_server_that_refuses_commands_of_the_stream_is_not_promoted(tmp_path: Path) -> None:
    async with replicated(NEWEST, 1) as shard:
        async with running(archiver_of(shard, tmp_path)):
            await archived(tmp_path, 0)
            await archived(tmp_path, await write(shard.primary))
        plan = await whole_plan(tmp_path, shard.primary)
        async with Servers(NEWEST, options={"rename-command": 'INCR ""'}) as servers:
            [server] = await servers.start(1, cluster=False)
            with pytest.raises(FeedError, match="refused commands of the stream"):
                await feed(shelf_in(tmp_path), plan, server.address)
            assert (await info(server))["role"] == "slave"
