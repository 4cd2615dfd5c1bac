"""A change of passwords on real servers, with a client that connects all the time. T-01, IN-28"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from manifests.pods import PASSWORDS, Pod, form_shard, pods, until
from redis_operator.api.redis import Mode, Persistence, Redis, RedisSpec
from redis_operator.manifests.facts import Facts, Passwords
from redis_operator.operator.passwords import advanced, wished
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.logins import Logins
from redis_operator.operator.servers.probe import Question, probe
from redis_operator.planning.observed import Observed, Seen
from redis_operator.planning.observed import Pod as SeenPod
from redis_operator.redis import commands
from redis_operator.redis.connection import Address, Credentials, connect
from redis_operator.redis.errors import RedisError
from redis_operator.redis.slots import ALL_SLOTS
from redis_operator.redis.versions import Version
from redis_testing.servers import EngineBinary


class Operator:
    """As much of the operator as passwords need."""

    def __init__(self, servers: list[Pod]) -> None:
        self.servers = servers
        self.links = Links(on_lost=lambda _: None)
        self.logins = Logins(self.links)

    async def apply(self, passwords: Passwords) -> None:
        login = Credentials("operator", passwords.operator)
        targets, seen = {}, []
        for number, server in enumerate(self.servers):
            name = f"db-0-{number}"
            targets[name] = Target(name, Address(server.host), login)
            pod = SeenPod(name, name, 0, number, server.host)
            node = await probe(self.links, Question(pod, targets[name]), timeout=5)
            assert isinstance(node, Seen), node
            seen.append(node)
        redis = Redis(spec=RedisSpec(mode=Mode.CLUSTER))
        observed = Observed(nodes=tuple(seen))
        facts = Facts(Version("valkey", 9, 1, 0), "image", passwords)
        assert await self.logins.apply(redis, observed, targets, facts) == ()


class Client:
    """Connects to every server over and over, and counts who was refused."""

    def __init__(self, servers: list[Pod]) -> None:
        self.servers = servers
        self.password = PASSWORDS.default
        self.refused: list[str] = []
        self.logins = 0

    async def login(self, server: Pod, user: str, password: str) -> str:
        try:
            async with await connect(
                Address(server.host), timeout=5, credentials=Credentials(user, password)
            ) as link:
                await link.run(commands.ping(), timeout=5)
        except RedisError as error:
            return str(error)
        return ""

    async def more(self, count: int) -> None:
        """Wait until it has logged in so many times more."""
        wanted = self.logins + count
        async with asyncio.timeout(30):
            while self.logins < wanted:  # noqa: ASYNC110 - it counts, and tells nobody
                await asyncio.sleep(0.01)

    async def run(self) -> None:
        while True:
            for server in self.servers:
                problem = await self.login(server, "default", self.password)
                self.logins += 1
                if problem:
                    self.refused.append(problem)
            await asyncio.sleep(0)


@pytest.mark.parametrize("everything", [False, True], ids=["default", "all users"])
async def test_passwords_change_on_running_servers_without_a_refused_connection(
    tmp_path: Path, binary: EngineBinary, everything: bool
) -> None:
    async with pods(tmp_path, binary, 2, Persistence.AOF) as [primary, replica]:
        await form_shard(primary, replica, ALL_SLOTS)
        await until(replica, commands.info_replication(), lambda found: found.link_up)
        operator, client = Operator([primary, replica]), Client([primary, replica])
        held = await connect(
            Address(primary.host), timeout=5, credentials=Credentials("default", client.password)
        )
        await held.run(commands.ping(), timeout=5)
        connecting = asyncio.create_task(client.run())
        await operator.apply(PASSWORDS)
        begun = wished(PASSWORDS, "new", "now" if everything else "")
        await operator.apply(begun)
        used = advanced(begun, now=1)
        await operator.apply(used)
        client.password = "new"
        await client.more(20)
        done = advanced(used, now=2)
        await operator.apply(done)
        await client.more(20)
        connecting.cancel()
        assert client.refused == []
        await held.run(commands.ping(), timeout=5)
        for server in (primary, replica):
            assert "WRONGPASS" in await client.login(server, "default", PASSWORDS.default)
            assert await client.login(server, "admin", done.admin) == ""
            if everything:
                assert "WRONGPASS" in await client.login(server, "operator", PASSWORDS.operator)
        held.close()
        operator.links.close()


async def test_a_replica_whose_link_breaks_after_a_change_gets_in_sync_again(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 2, Persistence.AOF) as [primary, replica]:
        await form_shard(primary, replica, ALL_SLOTS)
        await until(replica, commands.info_replication(), lambda found: found.link_up)
        operator = Operator([primary, replica])
        begun = wished(PASSWORDS, PASSWORDS.default, "now")
        for stage in (
            PASSWORDS,
            begun,
            advanced(begun, now=1),
            advanced(advanced(begun, now=1), now=2),
        ):
            await operator.apply(stage)
        done = advanced(advanced(begun, now=1), now=2)
        admin = await connect(
            Address(primary.host), timeout=5, credentials=Credentials("admin", done.admin)
        )
        ended = commands.Command(("CLIENT", "KILL", "TYPE", "replica"), int)
        assert await admin.run(ended, timeout=5) == 1
        async with asyncio.timeout(20):
            while True:
                found = await admin.run(commands.info_replication(), timeout=5)
                if found.connected_replicas == 1:
                    break
                await asyncio.sleep(0.05)
        admin.close()
        operator.links.close()
