"""What the application reports is what a user of the database would have noticed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import hiredis
import pytest

from redis_operator.cli.application import Application, Seeds
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Connection
from redis_operator.redis.parsing import as_integer
from redis_operator.redis.slots import ALL_SLOTS, SlotSet, key_slot
from redis_testing.servers import Server, Servers, find_engines


class Stub:
    """A server with all slots, which can be told to refuse or to keep silent for some of them."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.sick = range(0)  # slots that are not served
        self.answers_sick = True  # with an error; else with nothing
        self.first_refused: float | None = None
        self.refused: set[str] = set()  # keys
        self.address = ("127.0.0.1", 0)
        self.clients: list[asyncio.StreamWriter] = []

    def hang_up(self) -> None:
        for client in self.clients:
            client.close()

    def break_down(self, slots: range, *, answer: bool = True) -> None:
        self.sick, self.answers_sick, self.first_refused = slots, answer, None
        self.refused.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = hiredis.Reader()
        self.clients.append(writer)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while piece := await reader.read(65536):
                parser.feed(piece)
                while (words := parser.gets()) is not False:
                    writer.write(self.answer([word.decode() for word in words]))
        writer.close()

    def answer(self, words: list[str]) -> bytes:
        if words[0] == "CLUSTER":
            host, port = self.address
            return b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%d\r\n" % (
                len(host),
                host.encode(),
                port,
            )
        key = words[1]
        if key_slot(key) in self.sick:
            self.refused.add(key)
            if self.first_refused is None:
                self.first_refused = asyncio.get_running_loop().time()
            return b"-CLUSTERDOWN Hash slot not served\r\n" if self.answers_sick else b""
        before = self.values.get(key)
        if words[0] == "SET":
            self.values[key] = words[2]
        return b"$-1\r\n" if before is None else b"$%d\r\n%s\r\n" % (len(before), before.encode())


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    made = Stub()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.address = server.sockets[0].getsockname()[:2]
    yield made
    server.close()


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not met():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@asynccontextmanager
async def writing(stub: Stub) -> AsyncIterator[Application]:
    application = Application(Seeds((stub.address,)), writes_per_second=2000)
    application.start()
    await until(lambda: len(application.acknowledged) > 2000)
    yield application


async def test_nothing_is_lost_and_nothing_waits_where_all_is_well(stub: Stub) -> None:
    async with writing(stub) as application:
        await application.stop()
    report = await application.verify()
    assert (report.lost, report.unfinished, report.retries) == ((), 0, 0)
    assert report.acknowledged == report.sent > 2000


async def test_two_applications_do_not_take_each_others_writes_for_losses(stub: Stub) -> None:
    async with writing(stub) as first:
        await first.stop()
    async with writing(stub) as second:
        await second.stop()
    assert (await first.verify()).lost == (await second.verify()).lost == ()


@pytest.mark.parametrize("answer", [True, False], ids=["refused", "silent"])
async def test_a_third_of_the_slots_away_for_a_second_is_a_wait_of_a_second(
    stub: Stub, answer: bool
) -> None:
    now = asyncio.get_running_loop().time
    async with writing(stub) as application:
        stub.break_down(range(16384 // 3), answer=answer)
        await until(lambda: stub.first_refused is not None)
        await asyncio.sleep(1.0)
        outage = now() - (stub.first_refused or 0.0)
        assert application.longest_wait >= outage >= 1.0  # seen while it lasts
        stub.sick = range(0)
        await application.stop()
    report = await application.verify()
    assert report.longest_wait_seconds >= outage
    assert report.unfinished == 0
    assert report.lost == ()


async def test_an_outage_that_ends_after_stop_was_called_is_measured_whole(stub: Stub) -> None:
    now = asyncio.get_running_loop().time
    async with writing(stub) as application:
        stub.break_down(range(16384 // 3))
        await until(lambda: stub.first_refused is not None)
        begun = stub.first_refused or 0.0
        ended = []

        def recover() -> None:
            stub.sick = range(0)
            ended.append(now())

        asyncio.get_running_loop().call_later(0.7, recover)
        await application.stop()
    report = await application.verify()
    assert report.longest_wait_seconds >= ended[0] - begun
    assert report.unfinished == 0


async def test_an_outage_that_is_not_over_at_the_end_is_seen(stub: Stub) -> None:
    now = asyncio.get_running_loop().time
    async with writing(stub) as application:
        stub.break_down(range(16384 // 3))
        await until(lambda: len(stub.refused) == 4)  # each worker waits with a key of its own
        await application.stop(patience_seconds=0.5)
        outage = 0.5
        assert now() - (stub.first_refused or 0.0) >= outage
    stub.sick = range(0)
    report = await application.verify()
    assert report.longest_wait_seconds >= outage
    assert report.unfinished == 4  # workers whose slots were not served
    assert report.lost == ()


def _rewritten(application: Application) -> tuple[str, list[int]]:
    """Return a key that was written more than once, and the numbers it was given."""
    numbers: dict[str, list[int]] = {}
    for write in application.acknowledged:
        key, _, number = write.rpartition("=")
        numbers.setdefault(key, []).append(int(number))
    return next((key, found) for key, found in numbers.items() if len(found) > 2)


async def test_a_value_that_was_rolled_back_is_a_loss_of_all_that_came_after_it(
    stub: Stub,
) -> None:
    async with writing(stub) as application:
        await application.stop()
    key, numbers = _rewritten(application)
    stub.values[key] = str(numbers[0])
    report = await application.verify()
    assert report.lost == tuple(f"{key}={number}" for number in numbers[1:])


async def test_a_value_that_was_rolled_back_and_written_again_was_lost_all_the_same(
    stub: Stub,
) -> None:
    async with writing(stub) as application:
        key, numbers = _rewritten(application)
        stub.values[key] = str(numbers[0])
        rolled_back = dict(stub.values)[key]
        await until(lambda: stub.values[key] != rolled_back)
        await application.stop()
    report = await application.verify()
    assert f"{key}={numbers[1]}" in report.lost
    assert all(write.startswith(f"{key}=") for write in report.lost)


@asynccontextmanager
async def written() -> AsyncIterator[tuple[Server, Application]]:
    async with Servers(find_engines()[-1]) as servers:
        (server,) = await servers.start(1)
        await server.ask(commands.add_slots_range(ALL_SLOTS))
        place = (server.address.host, server.address.port)
        application = Application(Seeds((place,)), writes_per_second=500)
        application.start()
        await until(lambda: len(application.acknowledged) >= 50)
        await application.stop()
        yield server, application


@pytest.mark.servers
async def test_a_key_that_is_gone_is_lost_and_only_that() -> None:
    async with written() as (server, application):
        victim = application.acknowledged[-1].rpartition("=")[0]
        await server.ask(Command(("UNLINK", victim), as_integer))
        expected = {w for w in application.acknowledged if w.startswith(f"{victim}=")}
        assert set((await application.verify()).lost) == expected


@pytest.mark.servers
async def test_a_server_that_stands_still_for_a_moment_has_lost_nothing() -> None:
    async with written() as (server, application):
        server.send_signal(signal.SIGSTOP)
        asyncio.get_running_loop().call_later(1.5, server.send_signal, signal.SIGCONT)
        report = await application.verify()
        assert report.lost == ()
        assert report.acknowledged >= 50


async def test_an_application_whose_servers_all_moved_finds_them_where_it_began(
    stub: Stub,
) -> None:
    """As clients do that have a Service to begin with."""
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0)
    before: tuple[str, int] = server.sockets[0].getsockname()[:2]
    application = Application(Seeds((stub.address,)), writes_per_second=2000)
    for slot in range(16384):
        application.learn(slot, before)
    application.avoid(stub.address)
    application.start()
    await until(lambda: len(application.acknowledged) > 500)
    server.close()
    stub.hang_up()
    written = len(application.acknowledged)
    await until(lambda: len(application.acknowledged) > written + 500)
    await application.stop()
    assert (await application.verify()).lost == ()


ASKED = SlotSet.span(1, 1365)


async def _hand_over(source: Connection, target: Connection, ids: list[str], state: str) -> None:
    """Open the slots between the two servers, or give them to the target."""
    if state == "open":
        at_target = [commands.set_slot_importing(slot, ids[0]) for slot in ASKED]
        at_source = [commands.set_slot_migrating(slot, ids[1]) for slot in ASKED]
    else:
        at_target = at_source = [commands.set_slot_node(slot, ids[1]) for slot in ASKED]
    for link, asked in ((target, at_target), (source, at_source)):
        assert await link.run_all(asked, timeout=30) == [None] * len(ASKED)


@pytest.mark.servers
async def test_a_target_of_redirections_that_stops_for_a_while_is_not_taken_for_a_loss() -> None:
    """An answer that comes after its time must not become the answer to the next write."""
    async with Servers(find_engines()[0]) as servers:
        members = await servers.start(2, options={"cluster-node-timeout": "60000"})
        async with await members[0].connect() as source, await members[1].connect() as target:
            ids = [await link.run(commands.my_id(), timeout=5) for link in (source, target)]
            await source.run(commands.add_slots(ALL_SLOTS - SlotSet([0])), timeout=5)
            await target.run(commands.add_slots(SlotSet([0])), timeout=5)
            await target.run(commands.set_config_epoch(2), timeout=5)
            await source.run(commands.meet(members[1].address.host, 6379, 16379), timeout=5)
            await _until_ok(source, target)
            await _hand_over(source, target, ids, "open")
            seeds = Seeds(((members[0].address.host, 6379),))
            application = Application(seeds, writes_per_second=1000)
            application.start()
            await until(lambda: len(application.acknowledged) > 2000)
            members[1].send_signal(signal.SIGSTOP)
            await until(lambda: application.retries > 0)
            members[1].send_signal(signal.SIGCONT)
            before = len(application.acknowledged)
            await until(lambda: len(application.acknowledged) > before + 2000)
            await application.stop()
            await _hand_over(source, target, ids, "over")
            report = await application.verify()
    assert report.lost == (), f"{len(report.lost)} writes, first {report.lost[:3]}"
    assert report.unfinished == 0


async def _until_ok(*links: Connection) -> None:
    async with asyncio.timeout(30):
        for link in links:
            while not (await link.run(commands.cluster_info(), timeout=5)).is_ok:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
