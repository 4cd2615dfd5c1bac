"""A database starts as a replica of a server elsewhere, follows it, and is promoted on request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until
from e2e.outside import Outside
from e2e.writing import Peer
from kubecontroller.client.errors import Invalid
from redis_operator.redis import commands

pytestmark = pytest.mark.e2e

ACCEPT = "redisoperator.dev/accept-data-loss"


async def follows(cache: Any, pod: str) -> str:
    async with cache.server(pod) as connection:
        found = (await connection.run(commands.info(), timeout=5)).replication
    return "" if found.is_primary else f"{found.primary_host}:{found.primary_port}"


async def test_it_follows_under_load_and_is_promoted_with_every_write(
    watched: Any, outside: Outside
) -> None:
    await outside.start()
    await outside.write(500)
    cache = await watched(bootstrap={"fromRedis": await outside.secret()})
    async with outside.under_load():
        await cache.wait_condition("Following", "True", reason="InSync")
        status = await cache.status()
        assert status["phase"] == "Following"
        assert status["source"]["address"] == f"{outside.address}:6379"
        assert status["source"]["link"] == "up"
        assert not status.get("primary")
        assert "fromRedis" in status["message"]
        assert (await cache.condition("Available"))["reason"] == "ReadOnly"
        assert (await cache.condition("Degraded"))["status"] == "False"
        head = status["source"]["pod"]
        heads = [
            pod
            for pod in await cache.roles()
            if await follows(cache, pod) == f"{outside.address}:6379"
        ]
        assert heads == [head]
        assert set((await cache.roles()).values()) == {"replica"}
        assert [await cache.named(f"cache-sentinel-{n}") for n in range(3)] == ["", "", ""]
        assert [r["link"] for r in status["shards"][0]["replicas"]].count("up") == 2
    await cache.patch(bootstrap={"fromRedis": None})  # whoever wrote there has just stopped
    status = await cache.wait_ready()
    assert status["primary"] == head
    assert "source" not in status
    peer = await cache.connect()
    assert await outside.missing(peer) == []
    assert await peer.ask("SET", "new", "1") == "OK"
    peer.close()
    assert {await cache.named(f"cache-sentinel-{n}") for n in range(3)} == {
        (await cache.pods())[head].status.pod_ip
    }
    assert await outside.run("GET", "new") is None


async def test_pods_that_restart_while_it_follows_lose_nothing(
    watched: Any, outside: Outside
) -> None:
    await outside.start()
    cache = await watched(bootstrap={"fromRedis": await outside.secret()})
    async with outside.under_load():
        await cache.wait_condition("Following", "True")
        for what in ("crash", "delete", "all"):
            head = (await cache.status())["source"]["pod"]
            if what == "delete":
                await cache.delete_pods(head)
            else:
                pods = list(await cache.roles()) if what == "all" else [head]
                await asyncio.gather(*map(cache.crash, pods))
            await cache.wait_condition("Following", "False", seconds=30)
            assert "primary" not in (await cache.roles()).values()
            await cache.wait_condition("Following", "True", seconds=90)
    await cache.patch(bootstrap={"fromRedis": None})
    await cache.wait_ready()
    peer = await cache.connect()
    assert await outside.missing(peer) == []
    peer.close()


async def test_a_source_that_is_gone_is_told_and_a_person_decides(
    watched: Any, outside: Outside
) -> None:
    await outside.start()
    await outside.write(300)
    cache = await watched(bootstrap={"fromRedis": await outside.secret()})
    await cache.wait_condition("Following", "True")
    await outside.stop()
    told = await cache.wait_condition("Degraded", "True", reason="SourceUnreachable")
    assert outside.address in told["message"]
    await cache.patch(bootstrap={"fromRedis": None})
    line = await cache.wait_plan("accept-data-loss=source")
    assert f"{outside.address}:6379 may have writes that did not arrive" in line
    assert "primary" not in (await cache.roles()).values()
    await cache.annotate(**{ACCEPT: "source"})
    await cache.wait_ready()
    peer = await cache.connect()
    assert await outside.missing(peer) == []
    peer.close()

    async def taken_off() -> bool:
        return ACCEPT not in ((await cache.get())["metadata"].get("annotations") or {})

    await until(taken_off, seconds=30, what="the request to be taken off")


async def test_a_wrong_password_is_told_and_a_right_one_is_used(
    watched: Any, outside: Outside
) -> None:
    await outside.start()
    await outside.write(100)
    wrong = await outside.secret(password="another")
    cache = await watched(bootstrap={"fromRedis": wrong})
    told = await cache.wait_condition("Degraded", "True", reason="SourceLogin")
    assert "spec.bootstrap.fromRedis.passwordSecret" in told["message"]
    await cache.patch(bootstrap={"fromRedis": {"passwordSecret": {"name": "nowhere"}}})
    told = await cache.wait_condition("Degraded", "True", reason="SourceSecret")
    assert "Secret nowhere does not exist" in told["message"]
    await cache.patch(bootstrap={"fromRedis": {"passwordSecret": {"name": "old-login"}}})
    await outside.secret()
    await cache.wait_condition("Following", "True", seconds=60)


async def test_data_of_its_own_are_never_dropped(watched: Any, outside: Outside) -> None:
    await outside.start()
    await outside.write(10)
    cache = await watched()
    await cache.wait_ready()
    assert await cache.run("SET", "own", "1") == "OK"
    with pytest.raises(Invalid, match=r"spec\.bootstrap\.fromRedis.*is in use"):
        await cache.patch(bootstrap={"fromRedis": await outside.secret()})


async def test_a_server_that_was_promoted_by_hand_is_left_alone(
    watched: Any, outside: Outside
) -> None:
    await outside.start()
    await outside.write(50)
    cache = await watched(bootstrap={"fromRedis": await outside.secret()})
    await cache.wait_condition("Following", "True")
    head = (await cache.status())["source"]["pod"]
    async with cache.server(head) as connection:
        await connection.run(commands.replica_of_no_one(), timeout=5)
    told = await cache.wait_condition("Degraded", "True", reason="Blocked")
    assert "remove spec.bootstrap.fromRedis" in told["message"]
    assert await cache.primary() == head
    assert await cache.run("SET", "own", "1") == "OK"
    await cache.crash(head)
    await cache.wait_other_primary(head)
    assert await cache.run("DBSIZE") == 51
    await cache.patch(bootstrap={"fromRedis": None})
    await cache.wait_ready()


async def test_a_source_that_cannot_be_loaded_or_is_a_replica_is_told(
    watched: Any, outside: Outside, cluster: Any
) -> None:
    if not cluster.is_local or cluster.defaults():
        pytest.skip("needs the two engines of local mode")
    await outside.start()
    await outside.write(10)
    cache = await watched(
        engine="redis", version="6.2", bootstrap={"fromRedis": await outside.secret()}
    )
    told = await cache.wait_condition("Degraded", "True", reason="SourceIncompatible")
    assert "cannot load" in told["message"]
    assert f"{outside.address}:6379" in told["message"]


async def test_a_database_of_the_operator_can_be_the_source(watched: Any, database: Any) -> None:
    """Its user for copying may not run INFO: the lag is not known, and a person decides."""
    old = await database(name="old", mode="Standalone", shards=1, replicas=0)
    await old.wait_ready()
    seeds = await old.seeds()
    peer = await Peer.open(seeds.addresses[-1], seeds.username, seeds.password)
    for number in range(100):
        assert await peer.ask("SET", f"key-{number}", "1") == "OK"
    peer.close()
    source = {
        "host": (await old.pods())["old-0"].status.pod_ip,
        "username": "replication",
        "passwordSecret": {"name": "old-users", "key": "replication"},
    }
    cache = await watched(bootstrap={"fromRedis": source})
    found = await cache.wait_condition("Following", "True")
    assert "may not run INFO" in found["message"]
    await cache.patch(bootstrap={"fromRedis": None})
    await cache.wait_plan("accept-data-loss=source")
    await cache.annotate(**{ACCEPT: "source"})
    await cache.wait_ready()
    assert await cache.run("DBSIZE") == 100
