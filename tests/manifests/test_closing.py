"""Real servers shut clients out by the file that they start with, so that a restart does it too."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from manifests.pods import PASSWORDS, Pod, form_shard, pods, until
from manifests.test_rotation import Client
from redis_operator.api.redis import Mode, Persistence, Redis, RedisSpec
from redis_operator.manifests.facts import Facts, FillingFacts
from redis_operator.manifests.users import acl_file, acl_file_name
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.logins import Logins
from redis_operator.operator.servers.probe import Question, probe
from redis_operator.planning.observed import Observed, Seen
from redis_operator.planning.observed import Pod as SeenPod
from redis_operator.redis import commands
from redis_operator.redis.connection import Address, Credentials, connect
from redis_operator.redis.slots import ALL_SLOTS
from redis_testing.servers import EngineBinary

CLOSING = FillingFacts("monday", restore="back", uid="u", closing=True)


class Closer:
    """As much of the operator as shutting clients out needs; each one has forgotten all before."""

    def __init__(self, servers: list[Pod]) -> None:
        self.servers = servers
        self.links = Links(on_lost=lambda _: None)
        self.logins = Logins(self.links)

    async def apply(self, filling: FillingFacts | None) -> list[str]:
        """Return the pods that have a problem."""
        login = Credentials("operator", PASSWORDS.operator)
        targets, seen = {}, []
        for number, server in enumerate(self.servers):
            name = f"db-0-{number}"
            targets[name] = Target(name, Address(server.host), login)
            pod = SeenPod(name, name, 0, number, server.host)
            node = await probe(self.links, Question(pod, targets[name]), timeout=5)
            assert isinstance(node, Seen), node
            seen.append(node)
        redis, observed = Redis(spec=RedisSpec(mode=Mode.CLUSTER)), Observed(nodes=tuple(seen))
        version = self.servers[0].binary.version
        facts = Facts(version, "image", PASSWORDS, filling=filling)
        problems = await self.logins.apply(redis, observed, targets, facts)
        assert all("does not have the file of users yet" in text for text in problems), problems
        self.links.close()
        return [text.split()[0] for text in problems]


def refresh(pod: Pod, *, filling: bool) -> None:
    """Write the file of users as a kubelet does."""
    version = pod.binary.version
    file = pod.directory / "users" / acl_file_name(version)
    file.write_text(acl_file(version, PASSWORDS, filling=filling))


async def test_a_server_is_shut_when_its_pod_has_the_file_and_stays_so_when_it_starts_again(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 2, Persistence.AOF) as [primary, replica]:
        await form_shard(primary, replica, ALL_SLOTS)
        await until(replica, commands.info_replication(), lambda found: found.link_up)
        client = Client([primary, replica])

        async def lets_in(server: Pod) -> bool:
            return not await client.login(server, "default", PASSWORDS.default)

        servers, password = [primary, replica], Credentials("default", PASSWORDS.default)
        held = await connect(Address(primary.host), timeout=5, credentials=password)
        served = replace(CLOSING, served=True)
        refresh(primary, filling=True)
        assert await Closer(servers).apply(served) == []
        assert [await lets_in(server) for server in servers] == [True, True]

        # The file of the replica is the old one: it is not shut, and that is known.
        assert await Closer(servers).apply(CLOSING) == ["db-0-1"]
        assert [await lets_in(server) for server in servers] == [False, True]
        assert not held.is_open

        refresh(replica, filling=True)
        assert await Closer(servers).apply(CLOSING) == []
        assert await Closer(servers).apply(CLOSING) == []  # another operator sees it too
        await until(replica, commands.info_replication(), lambda found: found.link_up)
        for server in servers:
            server.end(kill=True)
            server.start()
            (await server.answers()).close()
            assert not await lets_in(server)

        assert await Closer(servers).apply(None) == []
        assert [await lets_in(server) for server in servers] == [True, True]


async def test_a_server_is_not_had_to_read_its_file_again_and_again(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """Before Redis 7.2 that cuts its replicas off."""
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [primary]:
        (await primary.answers()).close()
        closer = Closer([primary])
        assert await closer.apply(CLOSING) == ["db-0-0"]
        refresh(primary, filling=True)
        assert await closer.apply(CLOSING) == ["db-0-0"]
        assert await Closer([primary]).apply(CLOSING) == []
