"""A claim that somebody deletes under a running server. T-07"""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.objects import PERSISTENT_VOLUME_CLAIMS

pytestmark = pytest.mark.e2e

STORED = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}


async def _claim_uids(cache: Any) -> dict[str, str]:
    page = await cache.client.list(PERSISTENT_VOLUME_CLAIMS, namespace=cache.namespace)
    return {claim.metadata.name: claim.metadata.uid for claim in page.items}


@pytest.mark.parametrize("role", ["replica", "primary"])
async def test_a_server_whose_claim_was_deleted_is_rebuilt_from_the_other_copy(
    database: Any, role: str
) -> None:
    cache = await database(**STORED)
    await cache.wait_ready(seconds=90)
    before = await cache.fill(300)
    primary = await cache.primary_of(0)
    replica = next(n for n in await cache.uids() if n.startswith("cache-0-") and n != primary)
    victim = primary if role == "primary" else replica
    claims = await _claim_uids(cache)
    async with cache.under_load() as application:
        # The claim stays, Terminating, for as long as its pod runs.
        cache.cluster.kubectl(
            "-n", cache.namespace, "delete", "pvc", f"data-{victim}", "--wait=false"
        )
        await cache.delete_pods(victim)

        async def rebuilt() -> bool:
            now = await _claim_uids(cache)
            return now.get(f"data-{victim}", "") not in ("", claims[f"data-{victim}"])

        await until(rebuilt, seconds=90, what=f"a new claim of {victim}")
        await cache.wait_ready(seconds=90)
    report = await application.verify()
    assert report.lost == (), report
    assert await cache.check(before) == []
