"""When a server of mode Failover is ready, on real servers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from redis_operator.api.redis import Persistence
from redis_operator.manifests.failover_scripts import READY_SERVER
from redis_operator.redis import commands
from redis_testing.servers import EngineBinary

from .pods import SLEEP, ask, eventually
from .test_stop_failover import FailoverPod


async def test_a_server_is_ready_by_the_probe_that_runs_when_it_is_named(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """People wait for a new database: not for the next probe, which comes seconds later."""
    pod = FailoverPod(tmp_path, binary, Persistence.NONE)
    try:
        pod.start()
        (tmp_path / "config" / "ready.sh").write_text(READY_SERVER)
        (await pod.answers()).close()
        assert not pod.is_ready(), "it follows nobody"
        assert 0 < pod.slept() <= 2, "a probe has three seconds"
        named = tmp_path / "named"
        sleep = tmp_path / "bin" / "sleep"
        sleep.write_text(
            f"#!/bin/sh\necho 0 >>{tmp_path}/waits\nuntil [ -e {named} ]; do {SLEEP} 0.02; done\n"
        )
        probe = asyncio.create_task(asyncio.to_thread(pod.is_ready))

        async def waits() -> bool:
            return (tmp_path / "waits").exists()

        await eventually(waits)
        await ask(pod, commands.replica_of_no_one())
        named.touch()
        assert await probe
    finally:
        pod.end(kill=True)
