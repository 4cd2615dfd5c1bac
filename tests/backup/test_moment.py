"""A new database of any shape begins with one moment of an archive; on real servers."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from backup.conftest import container
from backup.stream.conftest import LOGIN, QUICK, RULES, info
from backup.test_carry import OPTIONS, REPLICATION, RIGHTS, owner, shares
from kubelocal.loopback import free_host
from redis_operator.backup.carry import carry
from redis_operator.backup.errors import Damaged, KeyMissing, SourceError
from redis_operator.backup.scratch import ScratchError
from redis_operator.backup.store import Shelf, open_shelf
from redis_operator.backup.stream.archiver import Archiver, Shard
from redis_operator.backup.stream.catalogue import read_catalogue
from redis_operator.backup.stream.plan import NotArchived, text_of
from redis_operator.backup.stream.work import mark
from redis_operator.backup.task import (
    CarryTask,
    Encryption,
    FillTarget,
    PointTask,
    Report,
    ShardTask,
    Source,
    Store,
    Until,
)
from redis_operator.redis.slots import even_shares, key_slot
from redis_testing.servers import EngineBinary, Server, Servers, find_engines
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers
STORE = Store("ns/archive")
FIELD = "spec.bootstrap.fromBackup"
NEWEST = find_engines()[-1]
_PAUSE = ("+client|pause", "+client|unpause")


class Stage:
    """Servers of one engine: primaries that are archived, and those of a new database."""

    def __init__(self, servers: Servers, folder: Path) -> None:
        self.servers, self.folder = servers, folder
        self.archivers: dict[str, Archiver] = {}
        self.store = STORE

    async def shards(self, count: int) -> list[Server]:
        """Start primaries that share all slots and know each other; one alone has no slots."""
        options = {"repl-diskless-sync-delay": "0", "repl-ping-replica-period": "1"}
        if count == 1:
            return await self.servers.start(1, cluster=False, options=options)
        unhurried = {"cluster-node-timeout": "30000"}
        found = await self.servers.start(count, options=options | OPTIONS | unhurried)
        for number, (server, share) in enumerate(zip(found, even_shares(count), strict=True), 1):
            await speak(server, ("CLUSTER", "ADDSLOTS", *share))
            await speak(server, ("CLUSTER", "SET-CONFIG-EPOCH", number))
        for server in found:
            await speak(found[0], ("CLUSTER", "MEET", server.address.host, 6379))

        async def formed() -> bool:
            told = [bytes((await speak(s, ("CLUSTER", "INFO")))[0]) for s in found]  # type: ignore[call-overload]
            return all(
                b"cluster_state:ok" in one and b"cluster_known_nodes:%d" % count in one
                for one in told
            )

        await eventually(formed)
        return found

    def tasks(self, shards: list[Server]) -> tuple[ShardTask, ...]:
        return tuple(
            ShardTask(f"shard-{n}", (Source(f"pod-{n}", server.address.host),))
            for n, server in enumerate(shards)
        )

    @contextlib.asynccontextmanager
    async def archived(self, shards: list[Server], *, cluster: bool = False) -> AsyncIterator[None]:
        """Archive primaries until the end of the context; then all of it is in the store."""
        version = self.servers.binary.version
        pause = _PAUSE if version.major >= 7 else ("+client",)
        stop, running = asyncio.Event(), []
        for task, server in zip(self.tasks(shards), shards, strict=True):
            await speak(server, ("ACL", "SETUSER", "backup", *RULES, "+time", "+cluster", *pause))
            sources = task.sources
            archiver = Archiver(
                Shard(
                    task.name,
                    version.engine,
                    ".".join(map(str, version.number)),
                    allow_primary=True,
                    cluster=cluster or len(shards) > 1,
                ),
                self.shelf(task.name),
                self.folder / "spool" / task.name,
                lambda sources=sources: sources,  # type: ignore[misc]
                lambda: LOGIN,
                limits=QUICK,
            )
            self.archivers[task.name] = archiver
            running.append(asyncio.create_task(archiver.run(stop)))
        await self.sampled()
        try:
            yield
            await self._stored(shards, time.time_ns() // 1000)
        finally:
            stop.set()
            await asyncio.gather(*running)

    async def _stored(self, shards: list[Server], moment: int) -> None:
        """Write on until the store has a later answer of every primary than a moment."""

        async def later() -> bool:
            for server in shards:
                await speak(server, ("FLUSHALL",))
            shelves = [self.shelf(task.name) for task in self.tasks(shards)]
            newest = [await (await read_catalogue(shelf)).newest() for shelf in shelves]
            return all(one and one.samples and one.samples[-1].server > moment for one in newest)

        await eventually(later)

    def shelf(self, shard: str) -> Shelf:
        return self.opened(replace(self.store, path=f"{STORE.path}/{shard}"))

    def opened(self, store: Store) -> Shelf:
        return open_shelf(store, folder=self.volume, encryption=str(self.folder / "keys"))

    @property
    def volume(self) -> str:
        return str(self.folder)

    async def sampled(self, moment: int = 0) -> int:
        """Wait until every primary was asked once more, after a moment, and a base is there.

        Return the last time at which one was asked.
        """
        before = {name: max(one.state().sampled, moment) for name, one in self.archivers.items()}

        async def more() -> bool:
            states = {name: one.state() for name, one in self.archivers.items()}
            return all(s.sampled > before[n] and s.oldest > 0 for n, s in states.items())

        await eventually(more)
        return max(one.state().sampled for one in self.archivers.values())

    async def restore(self, targets: list[Server], until: Until, *options: str) -> Report:
        """Give a moment of the archive to new primaries; `options` of the server beside."""
        found = []
        for number, server in enumerate(targets):
            functions = self.servers.binary.version.major >= 7
            rights = [*RIGHTS.split(), *(["+function|restore"] if functions else [])]
            await speak(server, ("ACL", "SETUSER", "replication", *rights))
            share = str(shares(len(targets))[number])
            history = (await info(server))["master_replid"]
            found.append(FillTarget(f"new-{number}", server.address.host, history, share))
        asked = CarryTask(
            self.store,
            "replication",
            tuple(found),
            cluster=len(targets) > 1,
            field=FIELD,
            until=until,
        )
        beside = Path(tempfile.mkdtemp(dir=self.folder))
        async with container(self.servers.binary, beside, *options):
            return await carry(
                asked,
                self.opened(self.store),
                lambda: REPLICATION,
                folder=beside,
                host=free_host(),
                patience=2,
                opened=self.opened,
            )


async def write(servers: list[Server], value: str, count: int = 300) -> None:
    """Give every key a value."""
    lines: dict[int, list[tuple[bytes | str | int, ...]]] = {}
    for n in range(count):
        at = servers.index(owner(servers, f"key:{n}"))
        lines.setdefault(at, []).append(("SET", f"key:{n}", value))
    for at, found in lines.items():
        assert not [a for a in await speak(servers[at], *found) if isinstance(a, Exception)]


async def held(servers: list[Server], count: int = 300) -> set[object]:
    """Return the values that keys have; None: there is no such key."""
    found: set[object] = set()
    for n in range(count):
        found.update(await speak(owner(servers, f"key:{n}"), ("GET", f"key:{n}")))
    return found


async def marked(stage: Stage, point: PointTask) -> Report:
    """Take a restore point; refused where a busy machine took longer than the pause."""
    done: list[Report] = []

    async def taken() -> bool:
        with contextlib.suppress(SourceError):
            done.append(await mark(point, lambda: LOGIN, folder=stage.volume))
        return bool(done)

    await eventually(taken)
    return done[0]


@pytest.fixture
async def stage(engine: EngineBinary, tmp_path: Path) -> AsyncIterator[Stage]:
    async with Servers(engine) as servers:
        yield Stage(servers, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (3, 5), (3, 1)])
async def test_a_restore_point_is_exactly_what_was_there_in_any_shape(
    stage: Stage, before: int, after: int
) -> None:
    shards = await stage.shards(before)
    async with stage.archived(shards):
        await write(shards, "kept")
        point = PointTask(STORE, "backup", "release", stage.tasks(shards))
        report = await marked(stage, point)
        await write(shards, "later")
    new = await stage.shards(after)
    done = await stage.restore(new, Until(point="release"))
    assert await held(new) == {b"kept"}
    assert [part["offset"] for part in done.parts] == [part["offset"] for part in report.parts]


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(1, 1), (3, 1)])
async def test_a_time_is_gone_back_to_on_the_side_that_was_chosen(
    stage: Stage, before: int, after: int
) -> None:
    shards = await stage.shards(before)
    written: list[tuple[float, float]] = []  # number n was asked for and acknowledged
    async with stage.archived(shards):
        middle = 0.0
        while not middle or time.time() < middle + 0.3:
            asked = time.time()
            for server in shards:
                key = next(k for k in map(str, range(999)) if owner(shards, k) is server)
                assert await speak(server, ("SET", key, len(written))) == [b"OK"]
            written.append((asked, time.time()))
            if not middle and written[-1][1] > written[0][0] + 0.5:
                middle = time.time()
                await stage.sampled(int(middle * 1e6))
    when = text_of(int(middle * 1e6))
    middle = int(middle * 1000) / 1000  # what was asked for
    for bound in ("notAfter", "include"):
        new = await stage.shards(after)
        done = await stage.restore(new, Until(time=when, bound=bound))
        for server in shards:
            key = next(k for k in map(str, range(999)) if owner(shards, k) is server)
            [found] = await speak(owner(new, key), ("GET", key))
            assert isinstance(found, bytes)
            if bound == "notAfter":
                assert written[int(found)][0] <= middle
            else:
                assert written[int(found) + 1][1] > middle
        assert all(str(part["time"]) <= when for part in done.parts)


@pytest.mark.slow
@pytest.mark.parametrize("after", [5, 1])
async def test_keys_of_a_slot_that_was_moving_are_taken_from_both_ends(
    stage: Stage, after: int
) -> None:
    shards = await stage.shards(3)
    source, target, *_ = shards
    keys = [k for k in (f"key:{n}" for n in range(3000)) if owner(shards, k) is source][:40]
    tagged = [f"{{{keys[0]}}}:{n}" for n in range(40)]  # all of one slot
    slot = key_slot(tagged[0])
    ids = [bytes((await speak(s, ("CLUSTER", "MYID")))[0]) for s in (source, target)]  # type: ignore[call-overload]
    host = target.address.host
    async with stage.archived(shards):
        await speak(source, *(("SET", key, "whole") for key in tagged))
        await speak(target, ("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0]))
        await speak(source, ("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1]))
        move = ("MIGRATE", host, 6379, "", 0, 5000, "KEYS", *tagged[:20])
        assert await speak(source, move) == [b"OK"]
        await stage.sampled()
        moment = time.time_ns() // 1000 + 1000
        middle = text_of(moment)
        # The end of the context deletes all keys. The target is cut at its first sample after those
        # of the other shards, so that one has to be taken before.
        await stage.sampled(await stage.sampled(moment))
        point = PointTask(STORE, "backup", "moving", stage.tasks(shards))
        await marked(stage, point)
    for until in (Until(point="moving"), Until(time=middle), Until(time=middle, bound="include")):
        new = await stage.shards(after)
        await stage.restore(new, until)
        found = [await speak(owner(new, key), ("GET", key)) for key in tagged]
        assert found == [[b"whole"]] * len(tagged), until


@pytest.mark.slow
async def test_a_restore_point_knows_what_moved_while_the_worker_of_the_archive_was_away(
    stage: Stage,
) -> None:
    """The archive has every byte, and no report of that time: the point itself has to say it."""
    shards = await stage.shards(3)
    source, target, *_ = shards
    key = next(k for k in (f"key:{n}" for n in range(99)) if owner(shards, k) is source)
    tagged = [f"{{{key}}}:{n}" for n in range(40)]  # all of one slot
    ids = [bytes((await speak(s, ("CLUSTER", "MYID")))[0]) for s in (source, target)]  # type: ignore[call-overload]
    async with stage.archived(shards):
        await speak(source, *(("SET", key, "whole") for key in tagged))
        await stage.sampled()
    await speak(source, *(("SET", key, "whole") for key in tagged))
    await speak(target, ("CLUSTER", "SETSLOT", key_slot(key), "IMPORTING", ids[0]))
    await speak(source, ("CLUSTER", "SETSLOT", key_slot(key), "MIGRATING", ids[1]))
    move = ("MIGRATE", target.address.host, 6379, "", 0, 5000, "KEYS", *tagged[:20])
    assert await speak(source, move) == [b"OK"]
    point = PointTask(STORE, "backup", "moving", stage.tasks(shards), cluster=True)
    await marked(stage, point)
    async with stage.archived(shards):
        await stage.sampled()
    [new] = await stage.shards(1)
    await stage.restore([new], Until(point="moving"))
    found = [await speak(new, ("GET", key)) for key in tagged]
    assert found == [[b"whole"]] * len(tagged)


async def test_a_point_is_refused_while_a_slot_has_no_owner(tmp_path: Path) -> None:
    """Between two answers it may have changed hands: no restore would find its keys."""
    async with Servers(NEWEST) as servers:
        stage = Stage(servers, tmp_path)
        shards = await stage.shards(3)
        async with stage.archived(shards):
            await speak(shards[0], ("CLUSTER", "DELSLOTS", 7))
            point = PointTask(STORE, "backup", "release", stage.tasks(shards), cluster=True)
            with pytest.raises(SourceError, match="no primary has the slots 7:"):
                await mark(point, lambda: LOGIN, folder=stage.volume)
            await speak(shards[0], ("CLUSTER", "ADDSLOTS", 7))
            await marked(stage, point)


async def test_what_cannot_be_given_is_refused_by_name_and_nothing_is_carried(
    tmp_path: Path,
) -> None:
    async with Servers(NEWEST) as servers:
        stage = Stage(servers, tmp_path)
        shards = await stage.shards(1)
        begun = time.time_ns() // 1000
        async with stage.archived(shards):
            await speak(shards[0], *(("INCR", "n") for _ in range(100)))
            await stage.sampled()
            await speak(shards[0], *(("INCR", "n") for _ in range(100)))
            await stage.sampled()
            point = PointTask(STORE, "backup", "monday", stage.tasks(shards))
            await marked(stage, point)
        [new] = await stage.shards(1)

        async def refused(until: Until, kind: type[Exception], words: str, *options: str) -> None:
            with pytest.raises(kind, match=words):
                await stage.restore([new], until, *options)
            assert await speak(new, ("DBSIZE",)) == [0]

        for until, words in (
            (Until(time="2999-01-01T00:00:00Z"), r"fromBackup.at: .* lies in the future"),
            (Until(time=text_of(begun - 10**9)), r"fromBackup.at: .* is before what the archive"),
            (Until(time=text_of(time.time_ns() // 1000)), r"fromBackup.at: .* is later than what"),
        ):
            await refused(until, NotArchived, words)
            if until.time < "2999":
                await refused(until, NotArchived, r"It has times from \S+Z to \S+Z")
        sunday = Until(point="sunday")
        await refused(sunday, Damaged, "no restore point sunday; there are: monday")
        monday = Until(point="monday")
        option = ("--rename-command", "INCR", "")
        await refused(monday, ScratchError, "refused commands of the stream", *option)
        place = tmp_path / "ns/archive/shard-0"
        for pattern in ("000001/base-*.zst", "000001/segment-*.zst"):
            first = min(place.glob(pattern))
            content = first.read_bytes()
            first.write_bytes(content[:-1])
            await refused(monday, Damaged, f"shard-0/000001/{first.name} is damaged")
            first.write_bytes(content)
        assert (await stage.restore([new], monday)).keys == 1
        assert await speak(new, ("GET", "n")) == [b"200"]


async def test_an_encrypted_archive_needs_its_key(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    key = tmp_path / "keys" / "first"
    key.write_bytes(b64encode(b"k" * 32))
    async with Servers(NEWEST) as servers:
        stage = Stage(servers, tmp_path)
        stage.store = replace(STORE, encryption=Encryption("archive-keys"))
        shards = await stage.shards(1)
        async with stage.archived(shards):
            await write(shards, "kept")
            await marked(stage, PointTask(STORE, "backup", "monday", stage.tasks(shards)))
        [new] = await stage.shards(1)
        monday = Until(point="monday")
        for store in (STORE, stage.store):
            stage.store = store
            if store is not STORE:
                key.rename(tmp_path / "keys" / "other")
            with pytest.raises(KeyMissing, match="key first"):
                await stage.restore([new], monday)
            assert await speak(new, ("DBSIZE",)) == [0]
        (tmp_path / "keys" / "other").rename(key)
        await stage.restore([new], monday)
        assert await held([new]) == {b"kept"}


@pytest.mark.slow
async def test_a_shard_without_the_moment_is_left_out_only_where_the_others_had_all_slots(
    tmp_path: Path,
) -> None:
    async with Servers(NEWEST) as servers:
        stage = Stage(servers, tmp_path)
        shards = await stage.shards(3)
        async with stage.archived(shards):
            await write(shards, "kept")
            await marked(stage, PointTask(STORE, "backup", "monday", stage.tasks(shards)))
            await stage.sampled()
            when = text_of(time.time_ns() // 1000)
            await stage.sampled()
        place = tmp_path / "ns/archive"
        [new] = await stage.shards(1)
        [later] = await servers.start(1, options=OPTIONS)  # a node without slots, added afterwards
        other = Stage(servers, tmp_path / "other")
        async with other.archived([later], cluster=True):
            await other.sampled()
        (tmp_path / "other/ns/archive/shard-0").rename(place / "shard-3")
        await stage.restore([new], Until(time=when))
        assert await held([new]) == {b"kept"}
        await speak(new, ("FLUSHALL",))

        (place / "shard-1").rename(tmp_path / "shard-1")
        lost = str(even_shares(3)[1])
        with pytest.raises(
            NotArchived, match=rf"fromBackup.at: no shard owned the slots {lost} at"
        ):
            await stage.restore([new], Until(time=when))
        with pytest.raises(Damaged, match="restore point monday is also of shard-1, which has no"):
            await stage.restore([new], Until(point="monday"))
        assert await speak(new, ("DBSIZE",)) == [0]
