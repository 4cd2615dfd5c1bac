"""The stream of real servers is archived, and gives back what they held."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from backup.stream.conftest import (
    QUICK,
    archived,
    archiver_of,
    digest,
    fed,
    info,
    mixed,
    offset_of,
    replicated,
    running,
    shelf_in,
)
from redis_operator.backup.stream.catalogue import read_catalogue
from redis_operator.backup.stream.find import find_plan
from redis_operator.backup.stream.plan import Offset, plan
from redis_testing.servers import EngineBinary
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers


@pytest.mark.parametrize("replicas", [1, 0], ids=["behind-a-replica", "of-a-lone-primary"])
async def test_base_and_stream_give_what_the_primary_held(
    engine: EngineBinary, tmp_path: Path, replicas: int
) -> None:
    rng = random.Random(7)
    valkey = engine.version.engine == "valkey"
    async with replicated(engine, replicas) as shard:
        await speak(shard.primary, *mixed(rng, 2000, valkey=valkey))
        archiver = archiver_of(shard, tmp_path, allow_primary=replicas == 0)
        async with running(archiver):
            await archived(tmp_path, 0)
            for _ in range(5):
                await speak(shard.primary, *mixed(rng, 1500, valkey=valkey))
                await asyncio.sleep(0.1)
            told = await info(shard.primary)
            end = int(told["master_repl_offset"])
            held = await digest(shard.primary)
            await archived(tmp_path, end)
            if replicas:
                assert int(told["connected_slaves"]) == replicas  # the worker is not among them
        catalogue = await read_catalogue(shelf_in(tmp_path))
        assert len(catalogue.lines) == 1
        assert len(catalogue.lines[0].segments) > 3
        found = await find_plan(catalogue, Offset(told["master_replid"], end))
        server, servers = await fed(engine, tmp_path, found)
        async with servers:
            assert await digest(server) == held
        assert await offset_of(shard.primary) >= end


@pytest.mark.slow
async def test_the_first_base_and_the_stream_give_the_same_as_a_later_base(
    engine: EngineBinary, tmp_path: Path
) -> None:
    """Both bases are taken while an application writes, from a replica."""
    rng = random.Random(11)
    valkey = engine.version.engine == "valkey"
    async with replicated(engine, 1) as shard:
        limits = replace(QUICK, base_seconds=1.5)
        async with running(archiver_of(shard, tmp_path, limits=limits)):
            last = -1

            async def later() -> bool:
                nonlocal last
                await speak(shard.primary, *mixed(rng, 300, valkey=valkey))
                catalogue = await read_catalogue(shelf_in(tmp_path))
                found = await catalogue.bases(1) if catalogue.lines else []
                if len(found) > 2:
                    last = found[2].part.offset
                return last >= 0

            await eventually(later)
            await archived(tmp_path, last)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        segments = await catalogue.segments(1, catalogue.lines[0].segments)
        first, _, third = (await catalogue.bases(1))[:3]
        wanted = Offset(third.part.replication_id, third.part.offset)
        digests = []
        for base in (first, third):
            made = plan(wanted, [base], segments)
            assert made.base == base
            server, servers = await fed(engine, tmp_path, made)
            async with servers:
                digests.append(await digest(server))
        assert digests[0] == digests[1]
        assert segments[0].first <= first.part.offset + 1 < third.part.offset
