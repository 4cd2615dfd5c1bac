"""Promotions, switchovers and what sentinels are told, on real servers and real sentinels."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from typing import Any

import pytest
from msgspec import structs
from tests.operator.replicated import NAME, Database, replicated

from redis_operator.planning.failover.actions import (
    Elect,
    Follow,
    Introduce,
    Promote,
    ResetSentinel,
    Watch,
)
from redis_operator.planning.fence import Fence
from redis_operator.redis import commands, sentinel
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Address
from redis_operator.redis.errors import BusyError, ReplyError
from redis_testing.servers import Server, find_engines

pytestmark = pytest.mark.servers


@pytest.fixture(params=find_engines(), ids=lambda engine: engine.name)
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    async with replicated(request.param) as made:
        yield made


async def _write(server: Server, acknowledged: list[int], begun: asyncio.Event) -> None:
    """Write until the server takes no more; a write counts once its answer came."""
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    with closing(writer):
        for number in range(1_000_000):
            writer.write(f"SET key {number}\r\n".encode())
            if await reader.readline() != b"+OK\r\n":
                break
            acknowledged.append(number)
            if number == 100:
                begun.set()


async def _get(server: Server) -> int:
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    writer.write(b"GET key\r\n")
    await reader.readline()
    found = int(await reader.readline())
    writer.close()
    return found


async def test_a_switchover_loses_no_acknowledged_write_and_the_sentinels_know(
    database: Database,
) -> None:
    acknowledged: list[int] = []
    begun = asyncio.Event()
    writing = asyncio.create_task(_write(database.servers[0], acknowledged, begun))
    await asyncio.wait_for(begun.wait(), 10)
    action = await database.switch(1)
    assert not await database.do(action)
    await asyncio.wait_for(writing, 10)  # the old primary refuses: it is a replica now
    assert (await database.is_primary(1), await database.is_primary(0)) == (True, False)
    assert await _get(database.servers[1]) >= acknowledged[-1]
    for n in range(3):
        told = Watch(await database.watcher(n), NAME, action.node, 2, named=database.of(0))
        assert not await database.do(told)
    assert await database.named() == [(database.servers[1].address.host, 6379)] * 3
    assert not await database.do(action)  # once more, it changes nothing
    assert (await database.is_primary(1), await database.is_primary(0)) == (True, False)


class Stall:
    """What lies between the operator and a server: holds back the command that promotes it."""

    def __init__(self, server: Server, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._server, self._meanwhile = server, meanwhile
        self._tasks: list[asyncio.Task[None]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = self._server.address
        answers, questions = await asyncio.open_connection(address.host, address.port)
        with closing(writer), closing(questions):
            self._tasks.append(asyncio.create_task(self._carry(answers, writer)))
            while data := await reader.read(65536):
                if b"NO\r\n$3\r\nONE" in data:
                    await self._meanwhile()
                questions.write(data)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)


async def test_a_switchover_that_takes_longer_than_the_pause_of_writes_is_taken_back(
    database: Database,
) -> None:
    acknowledged: list[int] = []
    begun = asyncio.Event()
    writing = asyncio.create_task(_write(database.servers[0], acknowledged, begun))
    await asyncio.wait_for(begun.wait(), 10)

    async def pause_ends() -> None:
        await database.servers[0].ask(commands.client_unpause())
        enough = len(acknowledged) + 100
        async with asyncio.timeout(60):
            while True:
                if len(acknowledged) >= enough:
                    return
                await asyncio.sleep(0.001)

    stall = Stall(database.servers[1], pause_ends)
    host = database.servers[1].address.host
    async with await asyncio.start_server(stall.serve, host, 0) as front:
        _, port = front.sockets[0].getsockname()
        database.reach("db-1", Address(host, port))
        assert "accepted writes" in await database.do(await database.switch(1))
    assert (await database.is_primary(0), await database.is_primary(1)) == (True, False)
    assert not writing.done()
    last = acknowledged[-1]
    assert await _get(database.servers[0]) >= last
    writing.cancel()
    await asyncio.wait([writing])


async def test_a_primary_whose_writes_cannot_be_paused_keeps_its_place(database: Database) -> None:
    action = await database.switch(1)
    await database.servers[0].ask(commands.acl_setuser("default", ["-client"]))
    assert "writes cannot be paused" in await database.do(action)
    assert (await database.is_primary(0), await database.is_primary(1)) == (True, False)


async def test_a_primary_that_would_not_let_itself_be_demoted_keeps_its_place(
    database: Database,
) -> None:
    """Else two would lead: the replica was promoted, and the old one accepts writes."""
    action = await database.switch(1)
    await database.servers[0].ask(commands.acl_setuser("default", ["-replicaof", "-slaveof"]))
    assert "could not be demoted" in await database.do(action)
    assert (await database.is_primary(0), await database.is_primary(1)) == (True, False)


async def test_asking_whether_a_server_could_be_demoted_changes_no_server(
    database: Database,
) -> None:
    for ordinal in (0, 1):
        asked = [commands.role(), commands.replica_of_no_port(), commands.role()]
        before, refused, after = await database.servers[ordinal].ask(*asked)
        assert isinstance(refused, ReplyError)
        assert refused.code == "ERR"
        assert type(after) is type(before)
    assert (await database.is_primary(0), await database.is_primary(1)) == (True, False)


@pytest.mark.parametrize("ordinal", [0, 1], ids=["primary", "replica"])
async def test_a_script_that_does_not_end_keeps_a_switchover_from_beginning(
    database: Database, ordinal: int
) -> None:
    """It is given up before writes are paused; the script goes on until who runs it ends it."""
    action = await database.switch(1)
    busy = database.servers[ordinal]
    await busy.ask(commands.config_set({"lua-time-limit": "50"}))
    reader, writer = await asyncio.open_connection(busy.address.host, busy.address.port)
    writer.write(b'EVAL "while true do end" 0\r\n')
    await asyncio.sleep(0.2)
    with pytest.raises(BusyError):
        await database.do(action)
    other, killer = await asyncio.open_connection(busy.address.host, busy.address.port)
    killer.write(b"SCRIPT KILL\r\n")
    assert await other.readline() == b"+OK\r\n", "the script was running still"
    assert b"killed" in (await reader.readline()).lower()
    writer.close()
    killer.close()
    assert (await database.is_primary(0), await database.is_primary(1)) == (True, False)


async def test_a_replica_that_follows_another_does_not_take_over(database: Database) -> None:
    action = await database.switch(1)
    await database.servers[1].ask(commands.replica_of("127.0.0.1", 1))
    assert "follows 127.0.0.1:1 now" in await database.do(action)
    assert await database.is_primary(0)


async def test_a_replica_is_promoted_only_when_the_old_primary_is_known_to_be_dead(
    database: Database,
) -> None:
    action = Promote(
        node=await database.at(1),
        follows=database.of(0),
        fence=Fence.PROCESS_GONE,
        primary_pod="db-0",
        primary_uid="uid-db-0",
        sentinels=tuple([await database.watcher(n) for n in range(3)]),
        name=NAME,
    )
    assert "responds again" in await database.do(action)
    await database.servers[0].kill()
    assert not await database.do(action)
    assert await database.is_primary(1)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"follows": "10.0.0.9:6379"}, " now"),
        ({"min_offset": 10**9}, "is at offset"),
        ({"replication_id": "another"}, "has another history now"),
        ({"fence": Fence.IS_REPLICA}, "db-0 is a primary now"),
    ],
    ids=["follows", "offset", "history", "leads again"],
)
async def test_a_replica_that_is_not_what_it_was_is_not_promoted(
    database: Database, fields: dict[str, Any], words: str
) -> None:
    given = {"follows": database.of(0), "fence": Fence.NEVER_LED, **fields}
    action = Promote(await database.at(1), primary_pod="db-0", primary_uid="uid-db-0", **given)
    assert words in await database.do(action)
    assert not await database.is_primary(1)


async def test_nobody_follows_or_watches_a_server_that_is_not_a_primary(database: Database) -> None:
    replica, other = await database.at(1), await database.at(2)
    words = "db-1 is no longer a primary"
    assert words in await database.do(Follow(other, replica, database.of(0)))
    told = Watch(await database.watcher(0), NAME, replica, 2, named=database.of(0))
    assert words in await database.do(told)
    assert await database.named() == [(database.servers[0].address.host, 6379)] * 3


async def test_a_server_that_was_restarted_meanwhile_is_another_one(database: Database) -> None:
    action = Follow(await database.at(2), await database.at(0), database.of(0))
    await database.servers[2].kill()
    await database.servers[2].start()
    assert "now, not" in await database.do(action)


async def test_a_sentinel_that_is_reset_goes_on_watching_the_primary(database: Database) -> None:
    watcher, primary = await database.watcher(0), await database.at(0)
    other = ResetSentinel(watcher, NAME, await database.at(1))
    assert "names another primary" in await database.do(other)
    async with asyncio.timeout(60):
        while True:
            if not await database.do(ResetSentinel(watcher, NAME, primary)):
                break
            await asyncio.sleep(0.05)  # it has yet to connect to the primary
    assert await database.named() == [(database.servers[0].address.host, 6379)] * 3


# A silent primary that the sentinels cannot replace


async def _has_copied(replica: Server) -> None:
    """Wait until a replica has the history of its primary, once it has loaded what it copied."""
    while True:
        (found,) = await replica.ask(commands.info_replication())
        if found.link_up:  # type: ignore[attr-defined]
            return
        await asyncio.sleep(0.02)


async def _forget(database: Database) -> None:
    """Have the sentinels monitor a primary that hangs, so that they hear of no replica."""
    async with asyncio.timeout(60):
        for replica in database.servers[1:]:
            await _has_copied(replica)
    database.servers[0].send_signal(signal.SIGSTOP)
    host = database.servers[0].address.host
    options = {"down-after-milliseconds": "300", "failover-timeout": "2000"}
    for watcher in database.sentinels:
        await watcher.ask(
            sentinel.remove(NAME),
            sentinel.monitor(NAME, host, 6379, 2),
            sentinel.set_options(NAME, options),
        )


async def _elect(database: Database, **fields: Any) -> Elect:
    (found,) = await database.servers[1].ask(commands.info_replication())
    watchers = tuple([await database.watcher(n) for n in range(3)])
    given = {"needed": 2, "replication_id": found.replication_id, **fields}  # type: ignore[attr-defined]
    return Elect(await database.at(1), database.of(0), NAME, watchers, **given)


async def _tried(database: Database, action: Any, early: str) -> str:
    """Carry an action out that is refused at first, with this word; return why it is not then."""
    async with asyncio.timeout(60):
        while True:
            why = await database.do(action)
            if early not in why:
                return why
            await asyncio.sleep(0.05)


async def test_sentinels_that_know_no_replica_vote_and_name_the_one_that_is_to_lead(
    database: Database,
) -> None:
    await _forget(database)
    action = await _elect(database)
    promote = Promote(
        *(action.node, action.follows, Fence.DEPOSED),
        sentinels=action.sentinels,
        name=NAME,
        needed=2,
    )
    assert "0 sentinels consider" in await database.do(action)
    assert "0 sentinels name db-1, 2 are needed" in await database.do(promote)
    assert not await _tried(database, action, "consider")
    assert await database.named() == [(action.node.ip, 6379)] * 3
    views = [(await s.ask(sentinel.primary(NAME)))[0] for s in database.sentinels]
    (epoch,) = {view.config_epoch for view in views}  # type: ignore[attr-defined]
    assert epoch > 0
    assert not await database.is_primary(1), "that is the next step"
    assert not await database.do(action)
    again = [(await s.ask(sentinel.primary(NAME)))[0] for s in database.sentinels]
    assert {view.config_epoch for view in again} == {epoch}  # type: ignore[attr-defined]
    assert not await database.do(promote)
    assert await database.is_primary(1)
    database.servers[0].send_signal(signal.SIGCONT)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"follows": "10.0.0.9:6379"}, " now"),
        ({"min_offset": 10**9}, "has other data now"),
        ({"replication_id": "another"}, "has other data now"),
        ({"needed": 4}, "sentinels consider"),
    ],
    ids=["follows", "offset", "history", "too few"],
)
async def test_nobody_is_voted_for_who_is_not_what_it_was(
    database: Database, fields: dict[str, Any], words: str
) -> None:
    await _forget(database)
    action = await _elect(database)
    assert words in await database.do(structs.replace(action, **fields))
    assert await database.named() == [(database.servers[0].address.host, 6379)] * 3


async def test_sentinels_that_do_not_vote_are_told_nothing(database: Database) -> None:
    """They have seen a far higher epoch than the one that is asked for."""
    await _forget(database)
    host = database.servers[0].address.host
    told = f"127.0.0.1,1,{'a' * 40},1000000000,{NAME},{host},6379,0"
    for watcher in database.sentinels:
        await watcher.ask(Command(("PUBLISH", "__sentinel__:hello", told), lambda _: None))
    why = await _tried(database, await _elect(database), "consider")
    assert "did not vote for a failover to db-1" in why
    assert await database.named() == [(host, 6379)] * 3


async def test_a_sentinel_that_begins_again_knows_the_others_and_asks_for_replicas_at_once(
    database: Database,
) -> None:
    watchers = [await database.watcher(n) for n in range(3)]
    first, *others = watchers
    again = Watch(first, NAME, await database.at(0), 2, others=tuple(others), afresh=True)
    assert not await _tried(database, again, "no connection")
    (known,) = await database.sentinels[0].ask(sentinel.sentinels(NAME))
    assert {other.run_id for other in known} == {str(other.id) for other in others}  # type: ignore[attr-defined]
    async with asyncio.timeout(3):
        while True:
            (found,) = await database.sentinels[0].ask(sentinel.primary(NAME))
            if found.replicas:  # type: ignore[attr-defined]
                return
            await asyncio.sleep(0.02)


async def test_a_sentinel_knows_whom_it_is_told_of_and_keeps_what_it_knew(
    database: Database,
) -> None:
    first, *others = [await database.watcher(n) for n in range(3)]
    action = Introduce(first, NAME, await database.at(0), tuple(others))
    assert not await database.do(action)
    (known,) = await database.sentinels[0].ask(sentinel.sentinels(NAME))
    assert {other.run_id for other in known} == {str(other.id) for other in others}  # type: ignore[attr-defined]
    assert "names another" in await database.do(
        structs.replace(action, primary=await database.at(1))
    )
    assert await database.named() == [(database.servers[0].address.host, 6379)] * 3
