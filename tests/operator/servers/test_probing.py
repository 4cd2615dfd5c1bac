"""Real servers that cannot be counted, or are asked by several at once."""

from __future__ import annotations

import asyncio
import re

import pytest

from redis_operator.api.redis import Mode
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.probe import Question, probe
from redis_operator.planning.clusters import NotCounted, NotWeighed
from redis_operator.planning.observed import Pod, Seen
from redis_operator.redis import commands
from redis_operator.redis.slots import ALL_SLOTS, SlotSet, key_slot
from redis_operator.redis.versions import Ability, can
from redis_testing.servers import EngineBinary, Server, Servers, find_engines

pytestmark = pytest.mark.servers
NEWEST = find_engines()[-1:]


async def _say(server: Server, line: str) -> None:
    """Send one line that the operator itself never would."""
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    writer.write(f"{line}\r\n".encode())
    answer = await reader.readline()
    writer.close()
    assert answer.startswith(b"+OK"), answer


@pytest.mark.parametrize("engine", NEWEST, ids=lambda engine: engine.name)
async def test_a_server_whose_keys_cannot_be_counted_is_seen_all_the_same(
    engine: EngineBinary,
) -> None:
    async with Servers(engine) as servers:
        (server,) = await servers.start(1, options={"cluster-require-full-coverage": "no"})
        slot = key_slot("k")
        foreign = SlotSet([(slot + 1) % len(ALL_SLOTS)])
        async with await server.connect() as link:
            await link.run(commands.add_slots(ALL_SLOTS - foreign), timeout=5)
            async with asyncio.timeout(60):
                while not (await link.run(commands.cluster_info(), timeout=5)).is_ok:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        await _say(server, "SET k v")
        denied = "-@scripting -cluster|countkeysinslot -cluster|slot-stats"
        await _say(server, f"ACL SETUSER default {denied}")
        links = Links(on_lost=lambda _: None)
        pod = Pod("db-0-0", "uid", 0, 0, server.address.host)
        question = Question(pod, Target("uid", server.address), (), count_strays=True)
        found = await probe(links, question, timeout=5.0)
        links.close()
        assert isinstance(found, Seen), found
        assert found.slots == ALL_SLOTS - foreign
        assert isinstance(found.stranded, NotCounted)
        assert isinstance(found.weighed, NotWeighed)


@pytest.mark.parametrize("engine", NEWEST, ids=lambda engine: engine.name)
async def test_who_asks_at_once_gets_the_same_connection(engine: EngineBinary) -> None:
    async with Servers(engine) as servers:
        (server,) = await servers.start(1)
        links = Links(on_lost=lambda _: None)
        target = Target("uid", server.address)
        opened = await asyncio.gather(*(links.open(target, timeout=5.0) for _ in range(5)))
        assert len({id(connection) for connection in opened}) == 1
        links.close()


@pytest.mark.parametrize("engine", NEWEST, ids=lambda engine: engine.name)
async def test_what_a_server_does_for_its_clients_is_told_as_it_counts_it(
    engine: EngineBinary,
) -> None:
    async with Servers(engine) as servers:
        (server,) = await servers.start(1, options={"cluster-enabled": "no"})
        await _say(server, "SET k v")
        reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
        writer.write(b"GET k\r\nGET k\r\nGET missing\r\n")
        assert await reader.readexactly(19) == b"$1\r\nv\r\n$1\r\nv\r\n$-1\r\n"
        links = Links(on_lost=lambda _: None)
        pod = Pod("db-0", "uid", 0, 0, server.address.host)
        question = Question(pod, Target("uid", server.address), mode=Mode.STANDALONE)
        found = await probe(links, question, timeout=5.0)
        writer.close()
        links.close()
        assert isinstance(found, Seen), found
        assert (found.traffic.keyspace_hits, found.traffic.keyspace_misses) == (2, 1)
        assert found.traffic.connected_clients >= 2
        assert found.traffic.commands_processed >= 4


@pytest.mark.parametrize("engine", find_engines(), ids=lambda engine: engine.name)
async def test_directives_are_the_same_when_the_version_of_a_server_is_known(
    engine: EngineBinary,
) -> None:
    """Versions that understand it are asked for all at once from then on: no error is counted."""
    async with Servers(engine) as servers:
        (server,) = await servers.start(1, options={"cluster-enabled": "no"})
        links = Links(on_lost=lambda _: None)
        names = ("maxmemory-policy", "no-such-directive", "appendonly", "hz")
        target = Target("uid", server.address)
        pod = Pod("db-0", "uid", 0, 0, server.address.host)
        question = Question(pod, target, names, mode=Mode.STANDALONE)
        first = await probe(links, question, timeout=5.0)
        before = await _questions(server)
        second = await probe(links, question, timeout=5.0)
        asked = await _questions(server) - before
        version = (await links.open(target, timeout=5.0)).version
        links.close()
        assert isinstance(first, Seen)
        assert isinstance(second, Seen)
        assert [name for name, _ in second.config] == ["appendonly", "hz", "maxmemory-policy"]
        assert first.config == second.config
        assert version == engine.version
        assert asked == (1 if can(engine.version, Ability.MULTI_CONFIG) else len(names))


async def _questions(server: Server) -> int:
    """How many CONFIG commands a server has carried out; it has refused nothing."""
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    writer.write(b"INFO commandstats\r\nINFO errorstats\r\nQUIT\r\n")
    told = (await reader.read()).decode()
    writer.close()
    assert "errorstat_" not in told
    return sum(int(calls) for calls in re.findall(r"cmdstat_config\S*?:calls=(\d+)", told))
