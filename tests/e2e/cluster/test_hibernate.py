"""Asleep and awake again."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.errors import Invalid
from kubecontroller.client.objects import SECRETS, SERVICES

pytestmark = pytest.mark.e2e

STORED = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}


async def test_a_database_that_slept_wakes_with_its_data_and_its_identity(database: Any) -> None:
    cache = await database(**STORED)
    await cache.wait_ready(seconds=90)
    application = await cache.fill(500)
    password = await cache.secret("cache-conn", "password")
    await cache.patch(hibernate=True)

    async def sleeps() -> bool:
        return not await cache.pods() and (await cache.status()).get("phase") == "Hibernated"

    await until(sleeps, seconds=90, what="the database to sleep")
    assert (await cache.condition("Ready"))["reason"] == "Hibernated"
    assert len(await cache.claims()) == 6
    await cache.client.get(SERVICES, (cache.namespace, "cache"))
    await cache.client.get(SECRETS, (cache.namespace, "cache-conn"))
    await cache.patch(hibernate=False)
    status = await cache.wait_ready(seconds=120)
    assert status["ready"] == "6/6"
    assert await cache.secret("cache-conn", "password") == password
    assert await cache.check(application) == []


async def test_a_database_without_storage_may_not_sleep(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    with pytest.raises(Invalid) as refusal:
        await cache.patch(hibernate=True)
    assert "spec.hibernate" in str(refusal.value)


async def test_a_database_that_shrank_in_its_sleep_wakes_with_all_its_data(database: Any) -> None:
    cache = await database(**STORED, shards=4)
    await cache.wait_ready(seconds=120)
    application = await cache.fill(500)
    await cache.patch(hibernate=True)

    async def sleeps() -> bool:
        return not await cache.pods()

    await until(sleeps, seconds=90, what="the database to sleep")
    await cache.patch(hibernate=False, shards=3)
    await cache.wait_ready(seconds=120, shards=3)
    assert await cache.check(application) == []
