"""Servers elsewhere: following them, and being promoted with all they have, on real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace

from kubecontroller.client.errors import ConnectionFailed
from redis_operator.manifests.facts import Passwords, SourceLogin
from redis_operator.operator.effects import carry_out
from redis_operator.operator.errors import ActionError
from redis_operator.operator.live import LivePod
from redis_operator.operator.servers.actions import Servers as Reached
from redis_operator.operator.servers.failover_dialect import FAILOVER
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.replication import replication_effects
from redis_operator.operator.servers.sources import LiveSource, login_of
from redis_operator.planning.at import At
from redis_operator.planning.failover.actions import Follow, FollowSource, Promote
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import NodeId
from redis_operator.redis import commands
from redis_operator.redis.connection import connect
from redis_operator.redis.errors import RedisError
from redis_testing.servers import EngineBinary, Server, Servers, find_engines
from support.pair_of_servers import speak

pytestmark = pytest.mark.servers

PASSWORDS = Passwords("a", "b", "c", "d", "e", sentinel="watch")
LOGIN = SourceLogin("mover", "word")
NOBODY = "127.0.0.1:2"
WANTED = {"metadata": {"name": "db"}, "status": {"source": {"address": "x"}}}


class Api:
    """What the API says of the database."""

    def __init__(self) -> None:
        self.found: dict[str, Any] | None = None

    async def get(self, *_: object, **__: object) -> dict[str, Any]:
        if self.found is None:
            raise ConnectionFailed("no answer")
        return self.found


class Place:
    """An external server with a user that may copy it, and two servers of a database."""

    def __init__(self, source: Server, servers: list[Server]) -> None:
        self.source, self.servers = source, servers
        self.links = Links(on_lost=lambda _: None)
        self.api = Api()
        self.targets = {f"db-{n}": Target(f"uid-db-{n}", s.address) for n, s in enumerate(servers)}
        self.api.found = self.wanted()
        self.give(LOGIN)

    def wanted(self, **status: Any) -> dict[str, Any]:
        host, port = self.source.address.host, self.source.address.port
        spec = {"bootstrap": {"fromRedis": {"host": host, "port": port}}}
        return {**WANTED, "spec": spec, "status": {"source": {"address": "x"}, **status}}

    def give(self, login: SourceLogin | None) -> None:
        reached = Reached(self.links, self.targets, self, FAILOVER)
        source = LiveSource(self.api, ("ns", "db"), self.links, login)  # type: ignore[arg-type]
        self.effects = replication_effects(reached, PASSWORDS, source)

    async def read(self, pod: str) -> LivePod | None:
        return LivePod(f"uid-{pod}", self.servers[int(pod[-1])].address.host)

    async def do(self, action: Any) -> str:
        try:
            await carry_out(self.effects, action)
        except (ActionError, RedisError) as error:
            return str(error)
        return ""

    @property
    def name(self) -> str:
        return f"{self.source.address.host}:{self.source.address.port}"

    async def at(self, ordinal: int) -> At:
        (info,) = await self.servers[ordinal].ask(commands.info())
        host = self.servers[ordinal].address.host
        return At(f"db-{ordinal}", f"uid-db-{ordinal}", host, NodeId(info.server.run_id))  # type: ignore[attr-defined]

    async def follow(self) -> FollowSource:
        return FollowSource(
            await self.at(0), self.source.address.host, self.source.address.port, NOBODY
        )

    async def replication(self, server: Server) -> Any:
        (found,) = await server.ask(commands.info_replication())
        return found

    async def linked(self, ordinal: int) -> None:
        async with asyncio.timeout(30):
            while True:
                if (await self.replication(self.servers[ordinal])).link_up:
                    return
                await asyncio.sleep(0.02)

    async def promotion(self) -> Promote:
        found = await self.replication(self.servers[0])
        return Promote(
            await self.at(0),
            follows=self.name,
            fence=Fence.NEVER_LED,
            replication_id=found.replication_id,
            source=self.name,
        )


@pytest.fixture(params=find_engines(), ids=lambda engine: engine.name)
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    engine: EngineBinary = request.param
    options = {"repl-diskless-sync-delay": "0"}
    async with Servers(engine) as servers:
        started = await servers.start(3, cluster=False, options=options)
        source, *ours = started
        rules = ["on", ">word", "-@all", "+psync", "+replconf", "+ping", "+info"]
        await source.ask(commands.acl_setuser("mover", rules))
        for server in ours:
            await server.ask(commands.replica_of("127.0.0.1", 2))
        found = Place(source, ours)
        yield found
        found.links.close()


async def write(place: Place, count: int) -> None:
    address = place.source.address
    reader, writer = await asyncio.open_connection(address.host, address.port)
    with closing(writer):
        for number in range(count):
            writer.write(f"SET key-{number} {number}\r\n".encode())
            assert await reader.readline() == b"+OK\r\n"


async def test_a_server_follows_with_the_login_of_the_source_and_is_promoted_with_all_it_has(
    place: Place,
) -> None:
    assert not await place.do(await place.follow())
    await place.linked(0)
    connection = await connect(place.servers[0].address, timeout=5)
    assert await login_of(connection) == LOGIN
    connection.close()
    assert not await place.do(Follow(await place.at(1), await place.at(0), NOBODY, place.name))
    await place.linked(1)
    await write(place, 500)  # whoever wrote there stops, and asks for the promotion at once
    assert not await place.do(await place.promotion())
    (keys,) = await place.servers[0].ask(commands.dbsize())
    assert keys == 500
    assert (await place.replication(place.servers[0])).is_primary


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "db cannot be read"),
        ({**WANTED, "spec": {}}, "is not wanted any more"),
        ("in use", "db may have data of its own now"),
    ],
    ids=["unread", "removed", "in use"],
)
async def test_nothing_follows_unless_the_api_says_that_there_are_copies_only(
    place: Place, found: Any, words: str
) -> None:
    place.api.found = place.wanted(binding={"name": "conn"}) if found == "in use" else found
    assert words in await place.do(await place.follow())
    assert (await place.replication(place.servers[0])).primary_port == 2


async def test_a_server_that_takes_writes_or_follows_another_is_left_alone(place: Place) -> None:
    action = await place.follow()
    await place.servers[0].ask(commands.replica_of("127.0.0.1", 9))
    assert "follows 127.0.0.1:9 now" in await place.do(action)
    await place.servers[0].ask(commands.replica_of_no_one())
    assert "accepts writes now" in await place.do(action)
    assert (await place.replication(place.servers[0])).is_primary


async def test_a_source_whose_login_is_not_known_is_not_followed(place: Place) -> None:
    place.give(None)
    assert "login" in await place.do(await place.follow())


async def test_a_source_that_cannot_be_asked_keeps_its_copy_from_being_promoted(
    place: Place,
) -> None:
    assert not await place.do(await place.follow())
    await place.linked(0)
    action = await place.promotion()
    await place.source.ask(commands.acl_setuser("mover", ["-info"]))
    assert "NOPERM" in await place.do(action)
    await place.source.ask(commands.acl_setuser("mover", ["+info"]))
    await place.source.ask(commands.replica_of("127.0.0.1", 9))
    assert "is a replica now" in await place.do(action)
    await place.source.ask(commands.replica_of_no_one())
    assert "another history now" in await place.do(action)
    assert not (await place.replication(place.servers[0])).is_primary
    await place.linked(0)
    action = await place.promotion()
    await place.source.kill()
    assert "refused" in await place.do(action)
    assert not (await place.replication(place.servers[0])).is_primary


async def test_without_a_source_at_hand_nothing_is_promoted_that_needs_one(place: Place) -> None:
    assert not await place.do(await place.follow())
    await place.linked(0)
    action = await place.promotion()
    reached = Reached(place.links, place.targets, place, FAILOVER)
    place.effects = replication_effects(reached, PASSWORDS)
    assert "cannot be asked" in await place.do(action)
    assert "login" in await place.do(await place.follow())


async def test_a_server_that_refused_a_command_of_a_backup_is_not_promoted(place: Place) -> None:
    assert not await place.do(await place.follow())
    await place.linked(0)
    action = replace(await place.promotion(), whole=True)
    server = place.servers[0]
    await speak(server, ("CONFIG", "SET", "replica-read-only", "no"), ("RPUSH", "key-0", "other"))
    await speak(place.source, ("APPEND", "key-0", "x"))  # of another type than the server has
    assert "db-0 refused 1 commands of what it copied" in await place.do(action)
    assert not (await place.replication(server)).is_primary
    assert not await place.do(replace(action, whole=False))
    assert (await place.replication(server)).is_primary
