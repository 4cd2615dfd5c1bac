"""What a volume tells of the server that led when it was stopped, on real servers. K-22

Servers that read append-only files begin histories of their own: these do not tell who led last.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kubelocal.loopback import free_host
from redis_operator.api.redis import Persistence
from redis_operator.manifests.failover_scripts import READY_SERVER
from redis_operator.redis import commands
from redis_testing.servers import EngineBinary

from .pods import ask, write
from .test_stop_failover import FailoverPod, servers

WITH_FILES, WITHOUT_FILES, LED = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"


async def again(pod: FailoverPod, *, kill: bool = False) -> str:
    """Stop a server, in peace or not, and start it; return whom it follows."""
    if not kill:
        await pod.stop_hook()
    pod.end(kill=kill)
    pod.start()
    (found,) = await ask(pod, commands.info_replication())
    return f"{found.primary_host}:{found.primary_port}"  # type: ignore[attr-defined]


@pytest.mark.parametrize("persistence", [Persistence.AOF, Persistence.RDB])
async def test_a_server_that_led_when_it_was_stopped_says_so_at_its_next_start(
    tmp_path: Path, binary: EngineBinary, persistence: Persistence
) -> None:
    async with servers(tmp_path, binary, persistence) as (primary, replica):
        await ask(replica, commands.replica_of(primary.host, 6379))
        assert await again(replica) == WITH_FILES
        assert await again(primary) == LED
        assert await again(primary, kill=True) == LED, "no role since: it still is what it was"


async def test_who_has_a_role_again_is_not_taken_for_the_last_primary(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with servers(tmp_path, binary, Persistence.AOF) as (primary, other):
        (primary.directory / "config" / "ready.sh").write_text(READY_SERVER)
        assert await again(primary) == LED
        assert not primary.is_ready()
        await ask(other, commands.replica_of_no_one())
        await ask(primary, commands.replica_of(other.host, 6379))
        assert primary.is_ready()
        assert await again(primary, kill=True) == WITH_FILES


async def test_a_second_primary_does_not_say_that_it_led(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """The sentinels name another server: this one is the wrong one, whatever it says of itself."""
    async with servers(tmp_path, binary, Persistence.AOF) as (_, second):
        await ask(second, commands.replica_of_no_one())
        await write(second, 1)
        assert await again(second) == WITH_FILES


async def test_a_volume_of_another_server_does_not_say_that_this_one_led(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with servers(tmp_path, binary, Persistence.AOF) as (primary, _):
        await primary.stop_hook()
        primary.end(kill=False)
        primary.identity = "another database"
        assert await again(primary, kill=True) == WITH_FILES


async def test_a_primary_that_outlives_its_sentinels_says_that_it_led(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """A database that is deleted: its sentinels and servers end in any order."""
    async with servers(tmp_path, binary, Persistence.AOF) as (primary, _):
        (primary.directory / "config" / "sentinel-host").write_text(free_host())
        assert await again(primary) == LED
