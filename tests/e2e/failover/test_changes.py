"""A Failover database is changed while it is in use."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.errors import Invalid
from kubecontroller.client.objects import SECRETS
from kubecontroller.client.patches import MergePatch
from redis_operator.redis import commands, sentinel

pytestmark = pytest.mark.e2e

STORED = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}


async def test_settings_reach_every_server_without_a_restart(watched: Any) -> None:
    cache = await watched()
    await cache.wait_ready()
    uids = await cache.uids()
    await cache.patch(config={"maxmemory-policy": "allkeys-lru"})
    await cache.wait_ready()
    for pod in await cache.roles():
        async with cache.server(pod) as server:
            found = await server.run(commands.config_get("maxmemory-policy"), timeout=5)
        assert found == {"maxmemory-policy": "allkeys-lru"}
    assert await cache.uids() == uids


async def test_replicas_and_sentinels_come_and_go(watched: Any) -> None:
    cache = await watched(replicas=1)
    old = (await cache.wait_ready())["primary"]
    async with cache.writing() as writer:
        await cache.patch(replicas=3, sentinel={"replicas": 5, "quorum": 3})
        status = await cache.wait_ready(seconds=120)
        assert status["ready"] == "4/4"
        async with cache.sentinel("cache-sentinel-4") as one:
            found = await one.run(sentinel.primary(cache.primary_name), timeout=5)
        assert (found.quorum, found.other_sentinels) == (3, 4)
        if old != "cache-3":
            await cache.annotate(**{"redisoperator.dev/switch-primary-to": "cache-3"})
            await cache.wait_other_primary(old)
        await cache.patch(replicas=1, sentinel={"replicas": 3, "quorum": 2})
        status = await cache.wait_ready(seconds=180)
        assert status["ready"] == "2/2"
        assert status["primary"] in ("cache-0", "cache-1")

        async def forgotten() -> bool:
            async with cache.sentinel("cache-sentinel-0") as one:
                found = await one.run(sentinel.primary(cache.primary_name), timeout=5)
            return bool((found.quorum, found.other_sentinels, found.replicas) == (2, 2, 1))

        await until(forgotten, seconds=60, what="sentinels to forget those that are gone")
    assert await cache.lost(writer) == []


async def test_it_sleeps_and_wakes_with_its_data(watched: Any) -> None:
    cache = await watched(**STORED)
    await cache.wait_ready(seconds=90)
    async with cache.writing() as writer:
        pass
    await cache.patch(hibernate=True)

    async def asleep() -> bool:
        return not await cache.pods()

    await until(asleep, seconds=90, what="all pods to end")
    await cache.wait_condition("Hibernated", "True")
    await cache.patch(hibernate=False)
    status = await cache.wait_ready(seconds=120)
    assert status["ready"] == "3/3"
    assert await cache.lost(writer) == []
    assert "lastDataLoss" not in status


async def test_a_password_changes_without_a_restart(watched: Any) -> None:
    cache = await watched()
    await cache.wait_ready()
    async with cache.writing() as writer:
        pass
    uids = await cache.uids()
    change = {"data": {"password": b64encode(b"another").decode()}}
    await cache.client.patch(SECRETS, (cache.namespace, "cache-auth"), MergePatch(change))
    await cache.annotate(**{"redisoperator.dev/rotate-passwords": "once"})
    old = await cache.secret("cache-users", "sentinel")

    async def changed() -> bool:
        default = await cache.secret("cache-conn", "password")
        return bool(default == "another" and await cache.secret("cache-users", "sentinel") != old)

    await until(changed, seconds=180, what="the other passwords")
    await cache.wait_condition("AuthApplied", "True", seconds=180)
    assert await cache.lost(writer) == []
    assert await cache.uids() == uids
    status = await cache.wait_ready()
    await cache.crash(status["primary"])  # sentinels and replicas use the new passwords
    await cache.wait_other_primary(status["primary"])
    await cache.wait_ready()
    for n in range(3):
        async with cache.sentinel(f"cache-sentinel-{n}") as one:
            found = await one.run(sentinel.primary(cache.primary_name), timeout=5)
        assert found.is_up


async def test_what_cannot_be_is_refused_with_its_path(watched: Any) -> None:
    cache = await watched()
    for path, spec in (
        ("spec.shards", {"shards": 3}),
        ("spec.replicas", {"replicas": 0}),
        ("spec.mode", {"mode": "Cluster", "shards": 3}),
        ("spec.sentinel.quorum", {"sentinel": {"quorum": 4}}),
        ("spec.sentinel.quorum", {"sentinel": {"replicas": 4, "quorum": 2}}),
        ("spec.sentinel.replicas", {"sentinel": {"replicas": 1}}),
        ("spec.config", {"config": {"cluster-node-timeout": "2000"}}),
        ("spec.config", {"config": {"replica-priority": "10"}}),
        ("spec.durability.minReplicasToWrite", {"durability": {"minReplicasToWrite": 3}}),
    ):
        with pytest.raises(Invalid) as refusal:
            await cache.patch(**spec)
        assert path in str(refusal.value)


async def test_a_setting_that_needs_a_restart_rolls_every_server_and_loses_nothing(
    watched: Any,
) -> None:
    cache = await watched()
    await cache.wait_ready()
    before = {p: u for p, u in (await cache.uids()).items() if "sentinel" not in p}
    async with cache.writing() as writer:
        await cache.patch(config={"databases": 4})

        async def rolled() -> bool:
            found = {p: u for p, u in (await cache.uids()).items() if "sentinel" not in p}
            return len(found) == 3 and not set(found.values()) & set(before.values())

        await until(rolled, seconds=120, what="every server to be recreated")
        await cache.wait_ready(seconds=90)
    assert await cache.lost(writer) == []


async def test_while_paused_the_sentinels_act_and_the_operator_only_tells(watched: Any) -> None:
    cache = await watched()
    old = (await cache.wait_ready())["primary"]
    await cache.patch(paused=True)
    await cache.wait_condition("Paused", "True")
    await cache.crash(old)

    async def elsewhere() -> bool:
        found = await cache.named("cache-sentinel-0")
        return bool(found) and found != (await cache.pods())[old].status.pod_ip

    labelled = {pod for pod, role in (await cache.roles()).items() if role == "primary"}
    await until(elsewhere, seconds=60, what="the sentinels to fail over")
    assert labelled == {old}
    assert {p for p, role in (await cache.roles()).items() if role == "primary"} == labelled
    await cache.patch(paused=False)
    await cache.wait_other_primary(old)
    await cache.wait_ready(seconds=90)
