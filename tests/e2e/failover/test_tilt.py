"""A sentinel that does not trust its clock: suspended, as its clock seems to jump to it. K-26"""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest

from e2e.harness import until
from redis_operator.redis.command import Command

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        bool(os.environ.get("KUBECONFIG")), reason="suspends processes of this machine"
    ),
]


async def _process_of(cache: Any, pod: str) -> int:
    async with cache.sentinel(pod) as connection:
        told = await connection.run(Command(("INFO", "server"), bytes), timeout=5)
    return int(re.search(rb"process_id:(\d+)", told)[1])


async def test_a_sentinel_in_tilt_is_reported_and_a_switchover_waits_for_it(watched: Any) -> None:
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    uids = await cache.uids()
    other = next(pod for pod, role in (await cache.roles()).items() if role == "replica")
    pid = await _process_of(cache, "cache-sentinel-0")
    async with cache.writing() as writer:
        os.kill(pid, signal.SIGSTOP)
        try:
            await writer.more(3_000)  # at least three seconds: two are enough for TILT
        finally:
            os.kill(pid, signal.SIGCONT)

        async def reported() -> bool:
            conditions = (await cache.status())["conditions"]
            return any("TILT" in condition["message"] for condition in conditions)

        await until(reported, seconds=20, what="TILT to be reported", every=0.05)
        await cache.annotate(**{"redisoperator.dev/switch-primary-to": other})
        assert await cache.wait_other_primary(primary, seconds=90) == other
        assert not await reported(), "the switchover waited"
        await cache.wait_ready(seconds=60)
    assert await cache.lost(writer) == []
    assert await cache.uids() == uids


async def _wait_writes(writer: Any, count: int) -> None:
    first = max(writer.acknowledged.values())

    async def written() -> bool:
        return bool(max(writer.acknowledged.values()) >= first + count)

    await until(written, seconds=120, what=f"{count} more writes")
