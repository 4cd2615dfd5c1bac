"""The primary and the archiver are killed one after the other, in every order: where a gap arises.

A server remembers one history before its own. So an archiver continues after one promotion that it
missed, whatever else was killed, and not after a second one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from backup.stream.conftest import (
    QUICK,
    RULES,
    Replicated,
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
from redis_operator.backup.stream.archiver import Archiver
from redis_operator.backup.stream.catalogue import read_catalogue
from redis_operator.backup.stream.find import find_plan, find_window
from redis_operator.backup.stream.plan import Offset
from redis_testing.servers import EngineBinary, Server
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers


async def write(server: Server, name: str, count: int = 100) -> int:
    await speak(server, *(("SET", f"{name}:{number}", number) for number in range(count)))
    return await offset_of(server)


class Shard:
    """Three servers, of which the primary is killed and comes back empty, and an archiver."""

    def __init__(self, shard: Replicated, folder: Path) -> None:
        self.shard, self.folder = shard, folder
        self.primary, *self.replicas = shard.servers
        self.written = 0
        self.archiver: Archiver | None = None
        self._task: asyncio.Task[None] | None = None

    async def step(self, name: str) -> None:
        match name:
            case "start":
                self.archiver = archiver_of(self.shard, self.folder)
                self._task = asyncio.create_task(self.archiver.run(asyncio.Event()))
                await self._write()
                await self.reached()
            case "kill":
                assert self._task is not None
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
                self._task = None
            case "promote":
                await self._promote()
            case "reach":
                await self.reached()
        await self._write()

    async def _write(self) -> None:
        self.written += 1
        await write(self.primary, f"step{self.written}")

    async def _promote(self) -> None:
        """Kill the primary, promote the replica that has as much as the other, and start it."""
        old, (chosen, other) = self.primary, self.replicas

        async def same() -> bool:
            both = [(await info(one))["slave_repl_offset"] for one in (chosen, other)]
            return both[0] == both[1]

        await speak(old, ("CLIENT", "PAUSE", 60_000, "WRITE"))
        await eventually(same)
        await old.kill()
        await speak(chosen, ("REPLICAOF", "NO", "ONE"))
        await self.shard.follow(other, chosen)
        await old.start()
        await speak(old, ("ACL", "SETUSER", "backup", *RULES))
        await self.shard.follow(old, chosen)
        self.primary, self.replicas = chosen, [other, old]

    async def reached(self) -> None:
        history = (await info(self.primary))["master_replid"]
        await archived(self.folder, await offset_of(self.primary), history=history)

    async def end(self) -> None:
        if self._task is not None:
            await self.step("kill")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "gaps"),
    [
        pytest.param("start promote kill start", 0, id="primary, then archiver"),
        pytest.param("start kill promote start", 0, id="archiver, then primary"),
        pytest.param(
            "start promote reach promote kill start", 0, id="primary twice, then archiver"
        ),
        pytest.param("start promote kill start promote", 0, id="primary, archiver, primary"),
        pytest.param("start kill promote promote start", 1, id="primary twice without an archiver"),
    ],
)
async def test_a_gap_arises_only_from_two_promotions_without_an_archiver(
    engine: EngineBinary, tmp_path: Path, steps: str, gaps: int
) -> None:
    async with replicated(engine, 2, repl_ping_replica_period="3600") as servers:
        shard = Shard(servers, tmp_path)
        try:
            for name in steps.split():
                await shard.step(name)
            await shard.reached()
            assert shard.archiver is not None
            await sampled(shard.archiver)
            await shard.step("write")
            await shard.reached()
            held = await digest(shard.primary)
        finally:
            await shard.end()
        catalogue = await read_catalogue(shelf_in(tmp_path))
        window = await find_window(catalogue)
        assert len(window.gaps) == gaps, window
        assert all("ended, and no server went on from it" in gap.reason for gap in window.gaps)
        history = (await info(shard.primary))["master_replid"]
        newest = await catalogue.newest()
        assert newest is not None
        plan = await find_plan(catalogue, Offset(history, newest.last))
        server, group = await fed(engine, tmp_path, plan)
        async with group:
            assert await digest(server) == held


async def test_a_new_history_is_in_the_store_at_once(engine: EngineBinary, tmp_path: Path) -> None:
    """So that an archiver that is killed soon after a promotion can continue after the next one."""
    slow = replace(QUICK, segment_seconds=600.0)
    async with replicated(engine, 2) as servers:
        first, second, third = servers.servers
        archiver = archiver_of(servers, tmp_path, limits=slow)
        async with running(archiver):
            await write(first, "a")

            async def attached() -> bool:
                return archiver.state().attached == "pod-1"

            await eventually(attached)
            await first.kill()
            await speak(third, ("REPLICAOF", "NO", "ONE"))
            await servers.follow(second, third)
            history = (await info(third))["master_replid"]
            await archived(tmp_path, 0, history=history)
