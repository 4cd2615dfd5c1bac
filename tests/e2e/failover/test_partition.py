"""A primary that some cannot reach: sentinels and replicas, all but its clients, or the operator.

Nothing here separates networks. On the primary, the users of those who shall not reach it are
switched off and their connections ended: they connect, and are refused until the users are
switched on again. To sentinels a server that does not answer PING with PONG is down. SE-11
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import hiredis
import pytest

from e2e.harness import until
from e2e.standalone.conftest import STORED
from e2e.writing import Peer

pytestmark = pytest.mark.e2e

ONLY_HERE = "accepted-while-cut-off"


@asynccontextmanager
async def _refusing(cache: Any, pod: str, *users: str) -> AsyncIterator[None]:
    """Have a server refuse these users; the connection that ends it was there before."""
    address = ((await cache.pods())[pod].status.pod_ip, 6379)
    control = await Peer.open(address, "operator", await cache.secret("cache-users", "operator"))
    try:
        for user in users:
            assert await control.ask("ACL", "SETUSER", user, "off") == "OK"
        for user in users:
            await control.ask("CLIENT", "KILL", "USER", user, "SKIPME", "yes")
        try:
            yield
        finally:
            for user in users:
                assert await control.ask("ACL", "SETUSER", user, "on") == "OK"
    finally:
        control.close()


async def _client_of(cache: Any, pod: str) -> Peer:
    """Connect as a client does that uses the address of the pod and not the Service."""
    address = ((await cache.pods())[pod].status.pod_ip, 6379)
    return await Peer.open(address, "default", await cache.secret("cache-conn", "password"))


async def test_a_primary_cut_off_with_its_clients_is_replaced_and_its_writes_are_kept(
    watched: Any,
) -> None:
    cache = await watched(**STORED)
    old = (await cache.wait_ready(seconds=90))["primary"]
    async with _refusing(cache, old, "sentinel", "replication", "operator"):
        beside = await _client_of(cache, old)
        new = await cache.wait_other_primary(old, seconds=60)
        assert (await cache.roles())[old] != "primary", "the Service leads to one primary"
        assert await beside.ask("SET", ONLY_HERE, "yes") == "OK"
        beside.close()
        async with cache.writing() as writer:
            await writer.acknowledged_again()
    status = await cache.wait_ready(seconds=120)
    assert status["primary"] == new
    assert await cache.lost(writer) == []
    assert await cache.run("EXISTS", ONLY_HERE) == 0, "it is beside the data, not among them"
    events = cache.cluster.kubectl(
        "get", "events", "-n", cache.namespace, "-o", "custom-columns=R:.reason,M:.message"
    )
    kept = [line for line in events.splitlines() if line.startswith("SettingDataAside")]
    dropped = [line for line in events.splitlines() if "bytes of writes after offset" in line]
    assert kept or dropped, events


async def test_a_primary_that_needs_a_replica_accepts_nothing_once_it_is_cut_off(
    watched: Any,
) -> None:
    durability = {"minReplicasToWrite": 1, "maxLagSeconds": 2}
    cache = await watched(durability=durability)
    old = (await cache.wait_ready(seconds=90))["primary"]
    async with cache.writing() as writer:
        async with _refusing(cache, old, "sentinel", "replication", "operator"):
            beside = await _client_of(cache, old)

            async def refused() -> bool:
                answer = await beside.ask("SET", ONLY_HERE, "yes")
                return isinstance(answer, hiredis.ReplyError) and "NOREPLICAS" in str(answer)

            await until(refused, seconds=10, what=f"{old} to refuse writes", every=0.05)
            new = await cache.wait_other_primary(old, seconds=60)
            assert await refused()
            beside.close()
            await writer.acknowledged_again()
        assert (await cache.wait_ready(seconds=120))["primary"] == new
    assert await cache.lost(writer) == []


async def test_a_primary_that_the_operator_alone_cannot_reach_keeps_its_role(watched: Any) -> None:
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    uids = await cache.uids()
    async with cache.writing() as writer:
        async with _refusing(cache, primary, "operator"):
            await cache.wait_condition("Ready", "False", seconds=60)
            await writer.more(5_000)
            assert (await cache.roles())[primary] == "primary"
            await writer.acknowledged_again()
        status = await cache.wait_ready(seconds=90)
    assert status["primary"] == primary
    assert await cache.lost(writer) == []
    assert await cache.uids() == uids
    for pod in (f"cache-sentinel-{n}" for n in range(3)):
        assert await cache.named(pod) == (await cache.pods())[primary].status.pod_ip
