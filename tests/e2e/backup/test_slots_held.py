"""A backup of a cluster is read while another shard is asked for: slots move afterwards."""

from __future__ import annotations

import os
from typing import Any

import pytest

from e2e.writing import Peer
from redis_operator.redis.slots import SlotSet, key_slot

pytestmark = pytest.mark.e2e


async def fill(cache: Any) -> None:
    """Write a megabyte to each shard, so that a slow backup takes its time."""
    seeds, pods = await cache.seeds(), await cache.pods()
    for shard in (await cache.status())["shards"]:
        slots = SlotSet.parse(shard["slots"])
        address = (pods[shard["primary"]].status.pod_ip, 6379)
        peer = await Peer.open(address, seeds.username, seeds.password)
        names = [f"big:{n}" for n in range(100) if key_slot(f"big:{n}") in slots][:25]
        for name in names:
            assert await peer.ask("SET", name, os.urandom(20_000).hex()) == "OK"
        peer.close()


async def test_slots_move_when_the_backup_is_read(database: Any, store: Any) -> None:
    cache = await database(shards=3, replicas=0)
    await cache.wait_ready(seconds=90)
    await fill(cache)
    store.take("monday", bandwidth="64Ki", verify=True)
    await store.wait("monday", "Running")
    await cache.patch(shards=4)
    await cache.wait_plan("RedisBackup monday is being read", seconds=60)
    assert store.status("monday")["phase"] == "Running"
    status = await store.wait("monday", "Completed", seconds=120)
    assert not status.get("holdsSlots")
    assert (status["attempt"], len(status["parts"])) == (1, 3)
    await cache.wait_ready(seconds=120, shards=4)
