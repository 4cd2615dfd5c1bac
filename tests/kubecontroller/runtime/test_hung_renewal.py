"""A lease and a connection that is not polite: requests that hang, threads that die. §6.5.0"""

from __future__ import annotations

import asyncio

import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.errors import NoAnswer
from kubecontroller.runtime.election import ElectionThread, FencedTransport, NotLeader
from kubecontroller.runtime.lease import LEASES, Elector, Fence, LeaseSettings

KEY = ("system", "operator")


def settings(**more) -> LeaseSettings:
    return LeaseSettings(namespace=KEY[0], name=KEY[1], identity="a", **more)


class Hanging:
    """A connection on which the next `hang` requests are never answered."""

    def __init__(self, transport) -> None:
        self._transport = transport
        self.hang = 0
        self.timeouts: list[float] = []

    async def request(self, request, *, timeout):
        if self.hang:
            self.hang -= 1
            self.timeouts.append(timeout)
            await asyncio.sleep(timeout)
            raise NoAnswer("hung", host="api")
        return await self._transport.request(request, timeout=timeout)

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    "more",
    [{}, {"duration": 60.0, "renew_deadline": 40.0, "retry_period": 10.0}],
    ids=["defaults", "slow"],
)
async def test_one_hung_request_does_not_cost_the_lease(server, running, more):
    loop = asyncio.get_running_loop()
    hanging, fence = Hanging(server.transport()), Fence(loop.time)
    elector = Elector(Client(hanging), settings(**more), fence, random=lambda: 0.0)
    await elector.acquire()
    async with running(elector.hold()) as (holding,):
        await asyncio.sleep(30)
        hanging.hang = 1
        await asyncio.sleep(120)
        assert not holding.done(), "one hung renewal ended the leadership"
        assert fence.is_leader()
    assert hanging.timeouts
    assert max(hanging.timeouts) <= elector_deadline(more) / 2


def elector_deadline(more) -> float:
    return settings(**more).renew_deadline


async def test_a_server_that_answers_nothing_any_more_costs_the_lease_in_time(server, running):
    loop = asyncio.get_running_loop()
    hanging, fence = Hanging(server.transport()), Fence(loop.time)
    elector = Elector(Client(hanging), settings(), fence, random=lambda: 0.0)
    await elector.acquire()
    async with running(elector.hold()) as (holding,):
        await asyncio.sleep(30)
        begun, hanging.hang = loop.time(), 1000
        await holding
        assert loop.time() - begun <= 10.0
        assert not fence.is_leader()


async def test_the_lease_says_at_least_as_long_as_the_fence_stands(server):
    loop = asyncio.get_running_loop()
    short = settings(duration=2.5, renew_deadline=2.2, retry_period=0.5)
    elector = Elector(Client(server.transport()), short, Fence(loop.time), random=lambda: 0.0)
    await elector.acquire()
    lease = await Client(server.transport()).get(LEASES, KEY)
    assert lease["spec"]["leaseDurationSeconds"] == 3


class Broken:
    """A connection whose use ends in an error nobody expects."""

    def __init__(self, transport) -> None:
        self._transport = transport
        self.broken = False

    async def request(self, request, *, timeout):
        if self.broken:
            raise OSError(28, "No space left on device")
        return await self._transport.request(request, timeout=timeout)

    async def close(self) -> None:
        if self.broken:
            raise RuntimeError("cannot be closed either")


@pytest.mark.asyncio(loop_factories=["real"])
async def test_an_unexpected_error_while_renewing_ends_in_a_lost_lease_that_is_reported(server):
    connection = Broken(server.transport())
    fast = settings(duration=2.0, renew_deadline=1.0, retry_period=0.05)
    election = ElectionThread(fast, lambda: connection)
    election.start()
    async with asyncio.timeout(20):
        await election.leading.wait()
        connection.broken = True
        await election.lost.wait()
    assert not election.is_leader()
    await election.stop()


@pytest.mark.asyncio(loop_factories=["real"])
async def test_a_thread_that_dies_before_it_ever_led_is_reported_too():
    def connect():
        raise OSError(24, "Too many open files")

    election = ElectionThread(settings(), connect)
    election.start()
    async with asyncio.timeout(20):
        await election.lost.wait()
    assert not election.leading.is_set()
    await election.stop()


class Slow:
    """A transport that asks before it sends, as the real one does, and sends only later."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.sent: list[str] = []
        self.timeouts: list[float] = []

    async def request(self, request, *, timeout):
        self.timeouts.append(timeout)
        await asyncio.sleep(self.delay)  # a full pool, a slow plugin, Retry-After
        if request.before_send is not None:
            request.before_send()
        self.sent.append(request.method)

    async def close(self) -> None: ...


async def test_a_write_that_waited_is_not_sent_after_the_lease_was_lost():
    loop = asyncio.get_running_loop()
    fence, slow = Fence(loop.time), Slow(delay=3.0)
    client = Client(FencedTransport(slow, fence))
    fence.extend(loop.time() + 2.0)
    with pytest.raises(NotLeader):
        await client.delete(LEASES, KEY, timeout=30.0)
    assert slow.sent == []
    assert slow.timeouts == [2.0], "a write is given up when the fence falls"
