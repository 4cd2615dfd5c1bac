"""Settings, size, version and sleep of the one server."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.objects import PERSISTENT_VOLUME_CLAIMS

pytestmark = pytest.mark.e2e


async def test_a_live_setting_reaches_the_server_and_another_restarts_it(
    alone: Any, stored: dict[str, Any]
) -> None:
    cache = await alone(**stored)
    await cache.wait_ready(seconds=90)
    await cache.write(100)
    uids = await cache.uids()
    await cache.patch(config={"maxmemory-policy": "allkeys-lru"})
    await cache.wait_ready()
    assert await _setting(cache, "maxmemory-policy") == "allkeys-lru"
    assert await cache.uids() == uids
    await cache.patch(config={"databases": "4"})
    await cache.wait_new_pod(uids["cache-0"], seconds=90)
    assert await _setting(cache, "databases") == "4"
    assert await _setting(cache, "maxmemory-policy") == "allkeys-lru"
    assert await cache.lost() == []


async def test_a_server_that_slept_wakes_with_its_data(alone: Any, stored: dict[str, Any]) -> None:
    cache = await alone(**stored)
    await cache.wait_ready(seconds=90)
    await cache.write(100)
    await cache.patch(hibernate=True)

    async def sleeps() -> bool:
        return not await cache.pods() and (await cache.status()).get("phase") == "Hibernated"

    await until(sleeps, seconds=90, what="the database to sleep")
    await cache.patch(hibernate=False)
    await cache.wait_ready(seconds=90)
    assert await cache.lost() == []
    assert "lastDataLoss" not in await cache.status()


async def test_the_volume_grows(alone: Any, stored: dict[str, Any]) -> None:
    cache = await alone(**stored)
    await cache.wait_ready(seconds=90)
    await cache.write(20)
    await cache.patch(storage={"size": "2Gi"})

    async def grown() -> bool:
        key = (cache.namespace, "data-cache-0")
        claim = await cache.client.get(PERSISTENT_VOLUME_CLAIMS.plain(), key)
        return bool(claim["spec"]["resources"]["requests"]["storage"] in ("2Gi", "2147483648"))

    plan = ""
    try:
        await until(grown, seconds=60, what="the claim to ask for more")
    except AssertionError:
        plan = " ".join((await cache.status()).get("plan") or ())
        if "ExpansionUnsupported" not in plan:
            raise
        pytest.skip("the default storage class of this cluster does not allow expansion")
    await cache.wait_ready(seconds=120)
    assert await cache.lost() == []


async def _setting(cache: Any, name: str) -> str:
    return str((await cache.run("CONFIG", "GET", name))[1])
