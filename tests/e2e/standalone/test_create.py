"""One server: created, found by its Service and its Secret, and told of in the status."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from e2e.harness import REDISES, until
from kubecontroller.client.errors import Invalid, NotFound
from kubecontroller.client.objects import PODS, SECRETS, SERVICES
from kubecontroller.client.patches import MergePatch

pytestmark = pytest.mark.e2e


async def test_four_lines_of_yaml_become_a_server_that_serves(alone: Any) -> None:
    cache = await alone()
    status = await cache.wait_ready()
    assert (status["ready"], status["primary"], status["phase"]) == ("1/1", "cache-0", "Ready")
    assert status["binding"] == {"name": "cache-conn"}
    assert not status.get("slots")
    assert status["shardCount"] == 1
    assert status["endpoints"]["clients"].endswith(":6379")
    assert "primaries" not in status["endpoints"]
    await cache.write(50)
    assert await cache.lost() == []
    assert list(await cache.pods()) == ["cache-0"]
    with pytest.raises(KeyError):
        await cache.secret("cache-conn", "cluster")
    with pytest.raises(NotFound):
        await cache.client.get(SERVICES, (cache.namespace, "cache-primaries"))


async def test_the_server_follows_a_changed_password_without_a_restart(alone: Any) -> None:
    cache = await alone()
    await cache.wait_ready()
    await cache.write(20)
    uids = await cache.uids()
    change = {"data": {"password": b64encode(b"another").decode()}}
    await cache.client.patch(SECRETS, (cache.namespace, "cache-auth"), MergePatch(change))

    async def changed() -> bool:
        return bool(await cache.secret("cache-conn", "password") == "another")

    await until(changed, seconds=120, what="the other password in the binding")
    await cache.wait_condition("AuthApplied", "True", seconds=120)
    assert await cache.lost() == []
    assert await cache.uids() == uids


async def test_what_belongs_to_other_modes_is_refused_with_its_path(alone: Any) -> None:
    cache = await alone()
    for path, spec in (
        ("spec.shards", {"shards": 3}),
        ("spec.replicas", {"replicas": 1}),
        ("spec.mode", {"mode": "Cluster", "shards": 3}),
        ("spec.config", {"config": {"cluster-node-timeout": "2000"}}),
        ("spec.durability.minReplicasToWrite", {"durability": {"minReplicasToWrite": 1}}),
        ("spec.update.parallelShards", {"update": {"parallelShards": 2}}),
    ):
        with pytest.raises(Invalid) as refusal:
            await cache.patch(**spec)
        assert path in str(refusal.value)


async def test_a_deleted_database_leaves_nothing(alone: Any, stored: dict[str, Any]) -> None:
    cache = await alone(**stored)
    await cache.wait_ready(seconds=90)
    assert await cache.claims() == ["data-cache-0"]
    await cache.client.delete(REDISES, cache.key)

    async def gone() -> bool:
        return not await cache.pods() and not await cache.claims()

    await until(gone, seconds=90, what="everything to be gone")


async def test_a_label_that_was_taken_from_the_pod_comes_back(alone: Any) -> None:
    cache = await alone()
    await cache.wait_ready()
    labels = {"metadata": {"labels": {"redisoperator.dev/group": None}}}
    await _patch(cache, labels)

    async def labelled() -> bool:
        pod = (await cache.pods()).get("cache-0")
        return pod is not None and pod.metadata.label("redisoperator.dev/group") == "0"

    await until(labelled, seconds=30, what="the label to be back")


async def _patch(cache: Any, change: dict[str, Any]) -> None:
    await cache.client.patch(PODS, (cache.namespace, "cache-0"), MergePatch(change))
