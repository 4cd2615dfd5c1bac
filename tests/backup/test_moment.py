"""A new database of any shape begins with one moment of an archive; on real servers."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from backup.conftest import container
from backup.stream.conftest import LOGIN, QUICK, RULES, info
from backup.test_carry import OPTIONS, REPLICATION, RIGHTS, owner, shares
from kubelocal.loopback import free_host
from pair_of_servers import eventually, speak
from redis_operator.backup.carry import carry
from redis_operator.backup.errors import Damaged
from redis_operator.backup.store import open_shelf
from redis_operator.backup.stream.archiver import Archiver, Shard
from redis_operator.backup.stream.plan import NotArchived, text_of
from redis_operator.backup.stream.work import mark
from redis_operator.backup.task import (
    CarryTask,
    PointTask,
    Report,
    ShardTask,
    Source,
    Store,
    Target,
    Until,
)
from redis_operator.redis.slots import even_shares
from redis_testing.servers import EngineBinary, Server, Servers, find_engines

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
    async def archived(self, shards: list[Server]) -> AsyncIterator[None]:
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
                    cluster=len(shards) > 1,
                ),
                open_shelf(replace(STORE, path=f"{STORE.path}/{task.name}"), folder=self.volume),
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
        finally:
            stop.set()
            await asyncio.gather(*running)

    @property
    def volume(self) -> str:
        return str(self.folder)

    async def sampled(self) -> None:
        """Wait until every primary was asked once more, and a base is there."""
        before = {name: one.state().sampled for name, one in self.archivers.items()}

        async def more() -> bool:
            states = {name: one.state() for name, one in self.archivers.items()}
            return all(s.sampled > before[n] and s.oldest > 0 for n, s in states.items())

        await eventually(more)

    async def restore(self, targets: list[Server], until: Until, **task: object) -> Report:
        """Give a moment of the archive to new primaries."""
        found = []
        for number, server in enumerate(targets):
            functions = self.servers.binary.version.major >= 7
            rights = [*RIGHTS.split(), *(["+function|restore"] if functions else [])]
            await speak(server, ("ACL", "SETUSER", "replication", *rights))
            share = str(shares(len(targets))[number])
            history = (await info(server))["master_replid"]
            found.append(Target(f"new-{number}", server.address.host, history, share))
        asked = CarryTask(
            STORE, "replication", tuple(found), cluster=len(targets) > 1, field=FIELD, until=until
        )
        beside = Path(tempfile.mkdtemp(dir=self.folder))
        async with container(self.servers.binary, beside):
            return await carry(
                asked,
                open_shelf(STORE, folder=self.volume),
                lambda: REPLICATION,
                folder=beside,
                host=free_host(),
                patience=2,
                volume=self.volume,
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


@pytest.fixture
async def stage(engine: EngineBinary, tmp_path: Path) -> AsyncIterator[Stage]:
    async with Servers(engine) as servers:
        yield Stage(servers, tmp_path)


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (3, 5), (3, 1)])
async def test_a_restore_point_is_exactly_what_was_there_in_any_shape(
    stage: Stage, before: int, after: int
) -> None:
    shards = await stage.shards(before)
    async with stage.archived(shards):
        await write(shards, "kept")
        point = PointTask(STORE, "backup", "release", stage.tasks(shards))
        report = await mark(point, lambda: LOGIN, folder=stage.volume)
        await write(shards, "later")
        await stage.sampled()
    new = await stage.shards(after)
    done = await stage.restore(new, Until(point="release"))
    assert await held(new) == {b"kept"}
    assert [part["offset"] for part in done.parts] == [part["offset"] for part in report.parts]
