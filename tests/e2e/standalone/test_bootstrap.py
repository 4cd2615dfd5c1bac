"""One server starts as a replica of a server elsewhere, follows it, and is promoted on request."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.clusters import until
from e2e.outside import Outside
from redis_operator.redis import commands

pytestmark = pytest.mark.e2e


async def is_primary(cache: Any) -> bool:
    async with cache.server(cache.pod) as connection:
        return bool((await connection.run(commands.info(), timeout=5)).replication.is_primary)


async def refusal(cache: Any) -> str:
    """Return what a write over the Service is refused with; the pod is ready a moment later."""

    async def said() -> str:
        try:
            return str(await cache.run("SET", "a", "b"))
        except OSError:
            return ""

    return str(await until(said, seconds=30, what="the Service to lead to the pod"))


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "on a volume"])
async def test_it_follows_over_restarts_and_is_promoted_with_every_write(
    alone: Any, stored: dict[str, Any], outside: Outside, kept: bool
) -> None:
    await outside.start()
    await outside.write(200)
    spec = stored if kept else {}
    cache = await alone(bootstrap={"fromRedis": await outside.secret()}, **spec)
    async with outside.under_load():
        await cache.wait_condition("Following", "True")
        assert (await cache.status())["phase"] == "Following"
        assert "READONLY" in await refusal(cache)
        await cache.crash(cache.pod)
        await cache.wait_condition("Following", "False", seconds=30)
        await cache.wait_condition("Following", "True", seconds=60)
        assert not await is_primary(cache)
        uid = (await cache.uids())[cache.pod]
        await cache.delete_pods(cache.pod)
        await cache.wait_condition("Following", "False", seconds=30)
        await cache.wait_condition("Following", "True", seconds=60)
        assert (await cache.uids())[cache.pod] != uid
    await cache.patch(bootstrap={"fromRedis": None})
    await cache.wait_ready()
    assert await is_primary(cache)
    peer = await cache.connect()
    assert await outside.missing(peer) == []
    assert await peer.ask("SET", "new", "1") == "OK"
    peer.close()


async def test_in_mode_cluster_it_is_refused_with_the_path(database: Any) -> None:
    with pytest.raises(Exception, match=r"spec\.bootstrap\.fromRedis.*mode Failover"):
        await database(bootstrap={"fromRedis": {"host": "10.0.0.1"}})
