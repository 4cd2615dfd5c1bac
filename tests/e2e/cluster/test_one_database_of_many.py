"""What becomes of one database does not hold up another. K-32, K-33"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import PATIENCE

pytestmark = pytest.mark.e2e

RUDE = Path(__file__).parents[1] / "rude_reconcile.py"


@pytest.mark.parametrize("how", ["raises", "returns nothing", "is cancelled"])
async def test_a_reconcile_that_misbehaves_costs_its_own_database_a_retry(
    database: Any, cluster: Any, tmp_path: Path, how: str
) -> None:
    cache = await database()
    rude = await database("rude")
    await cache.wait_ready()
    await rude.wait_ready()
    log = tmp_path / "operator.log"
    with cluster.replaced_operator(log, cluster.kubeconfig, program=(str(RUDE), how)):
        await rude.patch(config={"maxmemory-policy": "allkeys-lru"})
        victim = await cache.primary_of(0)
        await cache.crash(victim)
        await cache.wait_new_primary(0, victim)
        await cache.wait_ready()
        await asyncio.sleep(3)
        told = log.read_text()
        assert "name=rude" in told
        assert "retry" in told
    await rude.wait_ready()  # by one that behaves


async def test_quiet_namespaces_hold_back_no_failover_after_a_write(
    database: Any, cluster: Any, namespace: str, tmp_path: Path
) -> None:
    """The cache of a quiet namespace moves on once a minute: nothing waits for it."""
    cache = await database()
    await cache.wait_ready()
    client = cluster.client()
    quiet = f"e2e-{uuid.uuid4().hex[:8]}"
    await cluster.create_namespace(client, quiet)
    words = ("--namespaces", f"{namespace},{quiet}")
    try:
        with cluster.replaced_operator(tmp_path / "operator.log", cluster.kubeconfig, *words):
            async with cache.under_load() as application:
                for policy in ("allkeys-lru", "noeviction"):
                    await cache.patch(config={"maxmemory-policy": policy})
                    await cache.wait_ready()
                    victim = await cache.primary_of(0)
                    await cache.crash(victim)  # right after the operator has written
                    await cache.wait_new_primary(0, victim)
                    await cache.wait_ready()
            report = await application.verify()
    finally:
        await cluster.delete_namespace(client, quiet)
        await client.close()
    assert report.longest_wait_seconds < 3 * PATIENCE, report
