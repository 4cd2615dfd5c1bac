"""The control plane of local mode dies under a database. L-01"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.errors import KubeError
from kubecontroller.client.objects import CONFIG_MAPS

pytestmark = pytest.mark.e2e


async def test_a_database_serves_on_while_the_control_plane_is_killed_and_is_adopted_by_the_next(
    database: Any, cluster: Any
) -> None:
    if not cluster.is_local:
        pytest.skip("the control plane is not ours to kill")
    cache = await database()
    await cache.wait_ready()
    uids, restarts = await cache.uids(), await cache.restarts()
    async with cache.under_load() as application:
        for _ in range(3):
            os.kill(cluster.process("control-plane"), signal.SIGKILL)
            await asyncio.sleep(1)
            await until(lambda: _answers(cache), seconds=60, what="the API server")
        await cache.wait_ready()
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 1, report
    assert await cache.uids() == uids
    assert await cache.restarts() == restarts
    victim = await cache.primary_of(0)
    await cache.crash(victim)  # it is watched, kept and healed as before
    await cache.wait_new_primary(0, victim)
    await cache.wait_ready()


async def _answers(cache: Any) -> bool:
    try:
        await cache.pods()
    except (KubeError, OSError):
        return False
    return True


async def test_a_database_serves_on_while_the_disk_of_the_control_plane_is_full(
    database: Any, cluster: Any
) -> None:
    if not cluster.is_local:
        pytest.skip("the control plane is not ours to break")
    cache = await database()
    await cache.wait_ready()
    uids, restarts = await cache.uids(), await cache.restarts()
    plane = cluster.process("control-plane")
    async with cache.under_load() as application:
        limits = resource.prlimit(plane, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        try:
            error = await _refused_write(cache, "while-full")
            assert any(word in error for word in ("disk", "full")), error
            victim = await cache.primary_of(0)
            await cache.crash(victim)  # what writes no object goes on
            await until(lambda: _other_leads(cache, victim), seconds=30, what="a failover")
            await asyncio.sleep(12)  # longer than a node waits between two signs of life
        finally:
            resource.prlimit(plane, resource.RLIMIT_FSIZE, limits)
        await until(lambda: _has_restarted(cache, restarts + 1), seconds=60, what="the restart")
        await cache.wait_ready(seconds=60)
    report = await application.verify()
    assert len(report.lost) <= 5, report  # not yet replicated when its primary was killed
    assert await cache.uids() == uids
    assert await cache.restarts() == restarts + 1, "only the one that was killed"
    await _write(cache, "after-full")
    assert "disk" in _log_of(cluster, "control-plane")


async def test_a_state_file_that_is_damaged_is_put_aside_and_its_copy_is_used(
    database: Any, cluster: Any
) -> None:
    if not cluster.is_local:
        pytest.skip("the state is not ours to damage")
    cache = await database()
    await cache.wait_ready()
    uids, restarts = await cache.uids(), await cache.restarts()
    await _write(cache, "before-damage")
    await asyncio.sleep(3)
    async with cache.under_load() as application:
        for damage in (_damage, Path.unlink):
            plane = cluster.process("control-plane")
            os.kill(_supervisor(cluster), signal.SIGSTOP)  # or it would be faster than we are
            os.kill(plane, signal.SIGKILL)
            damage(cluster.folder / cluster.name / "state.db")
            os.kill(_supervisor(cluster), signal.SIGCONT)
            await until(lambda: _answers(cache), seconds=60, what="the API server")
            await cache.wait_ready(seconds=60)
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 1, report
    assert await cache.uids() == uids
    assert await cache.restarts() == restarts
    await cache.client.get(CONFIG_MAPS, (cache.namespace, "before-damage"))
    told = _log_of(cluster, "control-plane")
    assert "state.db" in told
    assert "copy" in told
    victim = await cache.primary_of(0)
    await cache.crash(victim)
    await cache.wait_new_primary(0, victim)
    await cache.wait_ready()


def _supervisor(cluster: Any) -> int:
    return int((cluster.folder / cluster.name / "supervisor.pid").read_text().split()[0])


def _damage(file: Path) -> None:
    """Overwrite the middle of a file, and the log that belongs to it."""
    with file.open("r+b") as opened:
        opened.seek(0)
        opened.write(b"\xff" * 8192)
    file.with_name(f"{file.name}-wal").unlink(missing_ok=True)


def _log_of(cluster: Any, process: str) -> str:
    return str((cluster.folder / cluster.name / "logs" / f"{process}.log").read_text())


async def _write(cache: Any, name: str) -> None:
    await cache.client.apply(
        CONFIG_MAPS.plain(), {"metadata": {"namespace": cache.namespace, "name": name}, "data": {}}
    )


async def _refused_write(cache: Any, name: str) -> str:
    """Write until that is refused: what is in the log already may still be overwritten."""
    for number in range(50):
        try:
            await _write(cache, f"{name}-{number}")
        except KubeError as error:
            return str(error)
    return ""


async def _has_restarted(cache: Any, times: int) -> bool:
    return bool(await cache.restarts() >= times)


async def _other_leads(cache: Any, old: str) -> bool:
    """Ask the servers: the status cannot be written."""
    shard = old.rsplit("-", 1)[0]
    other = f"{shard}-1" if old.endswith("-0") else f"{shard}-0"
    return bool((await cache.myself(other)).slots)
