"""The connection against real servers, and against peers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from kubelocal.loopback import free_host
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Address, Credentials, connect
from redis_operator.redis.errors import (
    ClusterDownError,
    DeadlineError,
    LinkError,
    LostError,
    MalformedReplyError,
    MovedError,
    NoAuthError,
    NoPermError,
    NotAllowedError,
    RefusedError,
    ReplyError,
    UnknownCommandError,
    WrongPassError,
    reply_error,
)
from redis_operator.redis.slots import SlotSet
from redis_testing.servers import EngineBinary, Servers

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def peer(handler: Handler) -> AsyncIterator[Address]:
    """Something that listens but is no Redis."""
    host = free_host()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, host, 6379)
    try:
        yield Address(host)
    finally:
        server.close()


@pytest.mark.servers
class TestRealServers:
    async def test_commands_in_one_write_are_answered_in_order(self, binary: EngineBinary) -> None:
        async with Servers(binary) as servers:
            [server] = await servers.start()
            async with await server.connect() as connection:
                answers = await connection.run_all(
                    [commands.ping(), *[commands.count_keys_in_slot(n) for n in range(500)]],
                    timeout=5,
                )
        assert answers == ["PONG"] + [0] * 500

    async def test_a_refused_command_is_a_value_among_the_others(
        self, binary: EngineBinary
    ) -> None:
        async with Servers(binary) as servers:
            [server] = await servers.start()
            async with await server.connect() as connection:
                first, second, third = await connection.run_all(
                    [
                        commands.add_slots(SlotSet([1])),
                        commands.add_slots(SlotSet([1])),
                        commands.count_keys_in_slot(1),
                    ],
                    timeout=5,
                )
                with pytest.raises(ReplyError, match="already busy"):
                    await connection.run(commands.add_slots(SlotSet([1])), timeout=5)
        assert first is None
        assert isinstance(second, ReplyError)
        assert third == 0

    async def test_the_password_travels_with_the_first_commands(self, binary: EngineBinary) -> None:
        async with Servers(binary, options={"user": "op on >s3cret +@all ~*"}) as servers:
            [server] = await servers.start()
            good = Credentials("op", "s3cret")
            async with await connect(server.address, timeout=5, credentials=good) as connection:
                assert await connection.run(commands.acl_whoami(), timeout=5) == "op"
                assert await connection.run(commands.acl_whoami(), timeout=5) == "op"

    async def test_a_wrong_password_is_told_and_not_shown(self, binary: EngineBinary) -> None:
        async with Servers(binary, options={"user": "op on >s3cret +@all ~*"}) as servers:
            [server] = await servers.start()
            bad = Credentials("op", "hunter2")
            async with await connect(server.address, timeout=5, credentials=bad) as connection:
                with pytest.raises(WrongPassError) as caught:
                    await connection.run(commands.ping(), timeout=5)
        assert "user op" in str(caught.value)
        assert "hunter2" not in str(caught.value) + repr(caught.value) + repr(bad)

    async def test_refusals_have_types(self, binary: EngineBinary) -> None:
        users = {"requirepass": "x", "user": "low on >low +ping +cluster ~*"}
        async with Servers(binary, options=users) as servers:
            [server] = await servers.start()
            async with await connect(server.address, timeout=5) as connection:
                with pytest.raises(NoAuthError):
                    await connection.run(commands.dbsize(), timeout=5)
            low = Credentials("low", "low")
            async with await connect(server.address, timeout=5, credentials=low) as connection:
                with pytest.raises(NoPermError):
                    await connection.run(commands.dbsize(), timeout=5)

    async def test_another_owner_of_a_slot_is_named(self, binary: EngineBinary) -> None:
        async with Servers(binary) as servers:
            [server] = await servers.start()
            async with await server.connect() as connection:
                with pytest.raises(ClusterDownError):
                    await connection.run(commands.memory_usage(b"a"), timeout=5)

    async def test_an_idle_connection_tells_of_a_dead_process(self, binary: EngineBinary) -> None:
        async with Servers(binary) as servers:
            [server] = await servers.start()
            lost: asyncio.Future[LinkError] = asyncio.get_running_loop().create_future()
            connection = await server.connect(on_lost=lost.set_result)
            await connection.run(commands.ping(), timeout=5)
            await server.kill()
            assert isinstance(await asyncio.wait_for(lost, 1), LostError)
            assert not connection.is_open
            with pytest.raises(LostError):
                await connection.run(commands.ping(), timeout=5)
            with pytest.raises(RefusedError):
                await connect(server.address, timeout=5)

    async def test_a_transaction_gives_the_values_of_its_commands(
        self, binary: EngineBinary
    ) -> None:
        async with Servers(binary) as servers:
            [server] = await servers.start()
            async with await server.connect() as connection:
                answers = await connection.run_all(
                    commands.transaction(
                        [commands.client_pause_writes(50), commands.info_replication()]
                    ),
                    timeout=5,
                )
                await connection.run(commands.client_unpause(), timeout=5)
        paused, replication = answers[-1]
        assert paused is None
        assert replication.is_primary


async def test_silence_ends_at_the_deadline_and_is_no_refusal() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with peer(silent) as address, await connect(address, timeout=5) as connection:
        with pytest.raises(DeadlineError, match=r"PING got no answer within 0.05 s"):
            await connection.run(commands.ping(), timeout=0.05)


async def test_a_late_answer_does_not_reach_the_next_caller() -> None:
    may_answer = asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"DBSIZE\r\n")
        await may_answer.wait()
        writer.write(b":41\r\n:42\r\n")
        await reader.read()

    async with peer(late) as address, await connect(address, timeout=5) as connection:
        with pytest.raises(DeadlineError):
            await connection.run(commands.dbsize(), timeout=0.02)
        second = asyncio.create_task(connection.run(commands.dbsize(), timeout=5))
        await asyncio.sleep(0)
        may_answer.set()
        assert await second == 42


async def test_bytes_that_are_no_reply_end_the_connection() -> None:
    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"PING\r\n")
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()

    async with peer(http) as address, await connect(address, timeout=5) as connection:
        with pytest.raises(LostError, match="not a Redis reply"):
            await connection.run(commands.ping(), timeout=5)


async def test_an_answer_of_the_wrong_shape_is_malformed_and_names_the_server() -> None:
    async def odd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"DBSIZE\r\n")
        writer.write(b"+many\r\n")
        await reader.read()

    async with peer(odd) as address, await connect(address, timeout=5) as connection:
        with pytest.raises(MalformedReplyError, match=str(address)):
            await connection.run(commands.dbsize(), timeout=5)


async def test_cancelling_one_caller_leaves_the_connection_to_the_others() -> None:
    seen = asyncio.Event()
    go = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"DBSIZE\r\n")
        seen.set()
        await reader.readuntil(b"PING\r\n")
        await go.wait()
        writer.write(b":1\r\n+PONG\r\n")
        await reader.read()

    async with peer(slow) as address, await connect(address, timeout=5) as connection:
        first = asyncio.create_task(connection.run(commands.dbsize(), timeout=5))
        await seen.wait()
        first.cancel()
        second = asyncio.create_task(connection.run(commands.ping(), timeout=5))
        await asyncio.sleep(0)
        go.set()
        assert await second == "PONG"
        assert first.cancelled()


async def test_closing_fails_what_is_in_flight_and_tells_nobody() -> None:
    told: list[LinkError] = []

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with peer(silent) as address:
        connection = await connect(address, timeout=5, on_lost=told.append)
        waiting = asyncio.create_task(connection.run(commands.ping(), timeout=5))
        await asyncio.sleep(0)
        connection.close()
        with pytest.raises(LostError):
            await waiting
    assert told == []


async def test_a_plain_peer_is_no_tls_server() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"-ERR not TLS\r\n")

    async with peer(plain) as address:
        with pytest.raises(LinkError):
            await connect(address, timeout=5, tls=ssl.create_default_context())


@pytest.mark.parametrize(
    "words",
    [
        ("FLUSHALL",),
        ("flushdb",),
        ("cluster", "flushslots"),
        ("CLUSTER", "SAVECONFIG"),
        ("CONFIG", "REWRITE"),
        ("DEBUG", "SLEEP", 1),
        ("SENTINEL", "SIMULATE-FAILURE", "crash-after-election"),
        ("SLAVEOF", "NO", "ONE"),
        ("KEYS", "*"),
        ("FCALL", "return1", 0),
        ("SET", "a", "b"),
        ("DEL", "a"),
        (),
    ],
    ids=lambda words: " ".join(map(str, words)) or "empty",
)
async def test_what_is_not_on_the_allow_list_is_never_sent(words: tuple[str, ...]) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""

    async with peer(silent) as address, await connect(address, timeout=5) as connection:
        with pytest.raises(NotAllowedError):
            await connection.run(Command(words, lambda reply: reply), timeout=5)


def test_a_redirect_names_slot_and_node() -> None:
    moved = reply_error("MOVED 3999 127.0.0.1:6381")
    assert isinstance(moved, MovedError)
    assert (moved.slot, moved.host, moved.port) == (3999, "127.0.0.1", 6381)
    nowhere = reply_error("MOVED 1 :6379")
    assert isinstance(nowhere, MovedError)
    assert (nowhere.host, nowhere.port) == ("", 6379)
    assert isinstance(reply_error("ERR unknown command 'X'"), UnknownCommandError)
    assert reply_error("").code == ""
