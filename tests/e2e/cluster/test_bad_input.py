from __future__ import annotations

from typing import Any

import pytest

from kubecontroller.client.errors import Invalid

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"shards": 2}, "spec.shards"),
        ({"shards": -1}, "spec.shards"),
        ({"shards": 10000}, "spec.shards"),
        ({"engine": "memcached"}, "spec.engine"),
        ({"config": {"save": "a\nrequirepass x"}}, "spec.config"),
        ({"auth": {"secretName": "other/secret"}}, "spec.auth.secretName"),
        ({"storage": {"size": "much"}}, "spec.storage.size"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_bad_field_is_refused_with_its_path(
    database: Any, spec: dict[str, Any], path: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        await database(**spec)
    assert path in str(refusal.value)


async def test_a_directive_of_ours_is_told_by_its_path_and_nothing_is_started(
    database: Any,
) -> None:
    with pytest.raises(Invalid) as refusal:
        await database(config={"port": "1"})
    assert "spec.config[port]: " in str(refusal.value)
    cache = await database(config={"maxmemory": "banana"})  # what only the operator knows
    found = await cache.wait_condition("Ready", "False", reason="InvalidSpec", seconds=30)
    assert "spec.config.maxmemory" in found["message"]
    assert await cache.pods() == {}


async def test_a_missing_auth_secret_is_told_and_what_runs_keeps_running(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    application = await cache.fill(50)
    await cache.patch(auth={"secretName": "nowhere"})
    found = await cache.wait_condition("Ready", "False", reason="AuthSecret", seconds=30)
    assert "nowhere" in found["message"]
    assert await cache.uids() == uids
    assert await cache.check(application) == []
    await cache.patch(auth=None)
    await cache.wait_ready()
    assert await cache.uids() == uids


async def test_a_running_database_whose_spec_becomes_wrong_is_healed_by_the_last_good_one(
    database: Any,
) -> None:
    cache = await database()
    before = await cache.wait_ready()
    uids = await cache.uids()
    application = await cache.fill(100)
    await cache.patch(config={"maxmemory": "banana"})
    found = await cache.wait_condition("Ready", "False", reason="InvalidSpec", seconds=30)
    assert "spec.config.maxmemory" in found["message"]
    status = await cache.status()
    assert status["binding"] == before["binding"]
    assert status["slots"] == "16384/16384"
    primary = await cache.primary_of(0)
    await cache.crash(primary)
    await cache.wait_new_primary(0, primary, seconds=10)
    assert (await cache.condition("Available"))["status"] == "True"
    await cache.patch(config={"maxmemory": None})
    await cache.wait_ready()
    assert await cache.uids() == uids
    assert await cache.check(application) == []
