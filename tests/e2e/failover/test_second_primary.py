"""What a second primary took for itself is kept on its volume before it follows the first. SE-11"""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import PATIENCE, until
from e2e.standalone.conftest import STORED
from e2e.writing import Peer
from redis_operator.redis import commands

pytestmark = pytest.mark.e2e

ONLY_HERE = "taken-by-the-second-primary"


async def _write_beside(cache: Any, pod: str) -> None:
    """Make a replica a primary while the operator is paused, and write to it as a client does.

    Sentinels demote it eight seconds later: too soon for an operator that has to start.
    """
    await cache.patch(paused=True)
    await cache.wait_condition("Paused", "True")
    async with cache.server(pod) as server:
        await server.run(commands.replica_of_no_one(), timeout=5)
    address = ((await cache.pods())[pod].status.pod_ip, 6379)
    peer = await Peer.open(address, "default", await cache.secret("cache-conn", "password"))
    try:
        for number in range(100):
            assert await peer.ask("SET", f"{ONLY_HERE}-{number}", "yes") == "OK"
    finally:
        peer.close()
        await cache.patch(paused=False)


async def _follows(cache: Any, pod: str, primary: str) -> bool:
    if not (await cache.pods())[pod].status.pod_ip:
        return False
    async with cache.server(pod) as server:
        found = await server.run(commands.info_replication(), timeout=5)
    ip = (await cache.pods())[primary].status.pod_ip
    return bool(found.primary_host == ip and found.link_up)


async def test_what_a_second_primary_took_is_kept_aside_and_it_follows(watched: Any) -> None:
    cache = await watched(**STORED)
    primary = (await cache.wait_ready(seconds=90))["primary"]
    second = next(pod for pod, role in (await cache.roles()).items() if role == "replica")
    uids = await cache.uids()
    async with cache.writing() as writer:
        await _write_beside(cache, second)

        async def restarted() -> bool:
            return (await cache.uids()).get(second, uids[second]) != uids[second]

        await until(restarted, seconds=60, what=f"{second} to be recreated")
        status = await cache.wait_ready(seconds=90)
        assert await _follows(cache, second, primary)
    assert status["primary"] == primary
    assert await cache.lost(writer) == []
    assert writer.longest < 1.0 * PATIENCE
    uids.pop(second)
    assert uids.items() <= (await cache.uids()).items(), "no other pod was recreated"
    assert await cache.run("EXISTS", f"{ONLY_HERE}-0") == 0, "it is beside the data, not among them"

    where = ("-n", cache.namespace)
    look = f"cd /data && grep -rlaF {ONLY_HERE}-99 aside-*"
    kept = cache.cluster.kubectl("exec", second, "-c", "server", *where, "--", "sh", "-c", look)
    assert "aside-" in kept
    events = cache.cluster.kubectl(
        "get", "events", *where, "-o", "custom-columns=R:.reason,M:.message"
    )
    told = [line for line in events.splitlines() if line.startswith("SettingDataAside")]
    assert told, events
    assert f"{second} accepted" in told[0]
    assert "bytes of writes after offset" in told[0]

    # What was put aside is in nobody's way: the server takes over with the database's data.
    await cache.annotate(**{"redisoperator.dev/switch-primary-to": second})
    assert await cache.wait_other_primary(primary) == second
    assert await cache.lost(writer) == []


async def test_without_a_volume_the_event_tells_what_is_dropped(watched: Any) -> None:
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    second = next(pod for pod, role in (await cache.roles()).items() if role == "replica")
    uids = await cache.uids()
    async with cache.writing() as writer:
        await _write_beside(cache, second)

        async def follows() -> bool:
            return await _follows(cache, second, primary)

        await until(follows, seconds=60, what=f"{second} to follow {primary}")
        await cache.wait_ready()
    assert await cache.primary() == primary
    assert await cache.lost(writer) == []
    assert await cache.uids() == uids
    events = cache.cluster.kubectl(
        "get", "events", "-n", cache.namespace, "-o", "custom-columns=R:.reason,M:.message"
    )
    told = [line for line in events.splitlines() if line.startswith("AttachingReplicas")]
    assert any("bytes of writes after offset" in line and second in line for line in told), events
