"""What a primary of mode Failover does before it is told to stop, on real servers. SE-01"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubelocal.loopback import free_host
from redis_operator.api.redis import Durability, Mode, Persistence, RedisSpec
from redis_operator.manifests.config import config_file, config_file_name
from redis_operator.manifests.failover_scripts import BOOT_SERVER, STOP_SERVER
from redis_operator.manifests.users import (
    FAILOVER_USERS,
    acl_file,
    acl_file_name,
    replication_file,
)
from redis_operator.planning.failover.set_aside import MARK
from redis_operator.redis import commands
from redis_testing.servers import EngineBinary

from .pods import PASSWORDS, Pod, ask, eventually, until, write


class FailoverPod(Pod):
    """A server of mode Failover."""

    def _write_files(self) -> None:
        super()._write_files()
        version = self.binary.version
        config, users = self.directory / "config", self.directory / "users"
        spec = RedisSpec(mode=Mode.FAILOVER, durability=Durability(self.persistence))
        (config / "boot.sh").write_text(BOOT_SERVER)
        (config / "stop.sh").write_text(STOP_SERVER)
        (config / config_file_name(version)).write_text(config_file(spec, version))
        (users / acl_file_name(version)).write_text(acl_file(version, PASSWORDS, FAILOVER_USERS))
        (users / "replication.conf").write_text(replication_file(PASSWORDS))

    def environment(self) -> dict[str, str]:
        more = {"NOTICE_SECONDS": "1", "SENTINEL_PORT": "26379", "PRIMARY_NAME": "default.db"}
        return super().environment() | more


@contextlib.asynccontextmanager
async def servers(
    directory: Path, binary: EngineBinary, persistence: Persistence
) -> AsyncIterator[tuple[FailoverPod, FailoverPod]]:
    """A primary with data that a sentinel names, and a server that follows nobody yet."""
    one, two = (FailoverPod(directory / name, binary, persistence) for name in ("one", "two"))
    host = free_host()
    file = directory / "sentinel.conf"
    file.write_text(
        f"port 26379\nbind {host}\ndir {directory}\nlogfile {directory}/sentinel.log\n"
        f"sentinel monitor default.db {one.host} 6379 1\n"
    )
    sentinel = await asyncio.create_subprocess_exec(binary.path, str(file), "--sentinel")
    try:
        for pod in (one, two):
            pod.start()
            (pod.directory / "config" / "sentinel-host").write_text(host)
        await ask(one, commands.replica_of_no_one())
        await write(one, 1)
        yield one, two
    finally:
        sentinel.kill()
        await sentinel.wait()
        for pod in (one, two):
            pod.end(kill=True)


async def test_a_primary_whose_data_nobody_else_has_waits_for_a_replica(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with servers(tmp_path, binary, Persistence.NONE) as (primary, other):
        stopping = asyncio.create_task(primary.stop_hook())

        async def waits() -> bool:
            return primary.slept() > 0

        await eventually(waits)
        await ask(other, commands.replica_of(primary.host, 6379))
        await until(other, commands.dbsize(), lambda size: size == 1)
        await ask(other, commands.replica_of_no_one())  # the handover
        await ask(primary, commands.replica_of(other.host, 6379))
        await stopping
        assert await ask(other, commands.dbsize()) == [1]
        assert await primary.stop_hook() == 0, "it leads nobody any more"


async def test_a_primary_waits_for_nobody_where_its_data_are_kept_or_no_sentinel_names_it(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """Files on a volume are a copy; a database that is deleted has no sentinels any more."""
    async with servers(tmp_path / "kept", binary, Persistence.AOF) as (primary, _):
        assert await primary.stop_hook() <= 3, (
            "the time to ask who leads, which ends with the answer"
        )
    async with servers(tmp_path / "memory", binary, Persistence.NONE) as (primary, _):
        (primary.directory / "config" / "sentinel-host").write_text(free_host())
        assert await primary.stop_hook() <= 3, "the time to ask, which is given up at once"


@pytest.mark.parametrize("persistence", [Persistence.AOF, Persistence.RDB])
async def test_what_a_second_primary_took_is_kept_aside_by_its_next_start(
    tmp_path: Path, binary: EngineBinary, persistence: Persistence
) -> None:
    """The operator has marked it, and the sentinels name another one: both say so."""
    async with servers(tmp_path, binary, persistence) as (primary, second):
        await ask(second, commands.replica_of_no_one())
        await write(second, 2)
        for pod in (primary, second):
            await ask(pod, commands.config_set({"replica-priority": MARK}))
            await pod.stop_hook()
            pod.end(kill=False)
            pod.start()
        assert await ask(second, commands.dbsize()) == [0]
        kept = [f for f in second.data.iterdir() if f.name.startswith("aside-")]
        assert len(kept) == 1
        if persistence is Persistence.RDB:
            assert kept[0].read_bytes().startswith((b"REDIS", b"VALKEY"))
        assert await ask(primary, commands.dbsize()) == [1], "the sentinels name it"
        assert not [f for f in primary.data.iterdir() if f.name.startswith("aside-")]
        await second.stop_hook()
        second.end(kill=False)
        second.start()
        assert await ask(second, commands.dbsize()) == [0]
        assert len([f for f in second.data.iterdir() if f.name.startswith("aside-")]) == 1


async def test_nothing_is_put_aside_where_no_sentinel_can_be_asked(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """Whether another server leads is not known then: what it holds may be the database."""
    async with servers(tmp_path, binary, Persistence.AOF) as (primary, _):
        await ask(primary, commands.config_set({"replica-priority": MARK}))
        (primary.directory / "config" / "sentinel-host").write_text(free_host())
        await primary.stop_hook()
        primary.end(kill=False)
        primary.start()
        assert await ask(primary, commands.dbsize()) == [1]
        assert not [f for f in primary.data.iterdir() if f.name.startswith("aside-")]
