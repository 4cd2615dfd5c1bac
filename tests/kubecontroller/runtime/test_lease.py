"""§6.5: who leads, in virtual time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.errors import ConnectionFailed, error_from_response
from kubecontroller.client.request import Response
from kubecontroller.runtime.lease import (
    LEASES,
    Elector,
    Fence,
    LeaseSettings,
    default_identity,
)

KEY = ("system", "operator")


def settings(identity: str, **more) -> LeaseSettings:
    return LeaseSettings(namespace=KEY[0], name=KEY[1], identity=identity, **more)


class Switch:
    """A connection that can be cut."""

    def __init__(self, transport) -> None:
        self._transport = transport
        self.cut = False
        self.unwatchable: Exception | None = None

    async def request(self, request, *, timeout):
        if self.cut:
            await asyncio.sleep(min(timeout, 1))
            raise ConnectionFailed("cut", host="api")
        return await self._transport.request(request, timeout=timeout)

    @asynccontextmanager
    async def stream(self, request, *, idle):
        if self.cut or self.unwatchable:
            raise self.unwatchable or ConnectionFailed("cut", host="api")
        async with self._transport.stream(request, idle=idle) as pieces:
            yield pieces

    async def close(self) -> None: ...


class Candidate:
    """One elector with its own connection, fence and clock of the wall."""

    def __init__(self, server, name: str, *, skew: float = 0.0, **more) -> None:
        loop = asyncio.get_running_loop()
        self.switch = Switch(server.transport())
        self.fence = Fence(loop.time)
        self.leaders: list[str] = []
        self.elector = Elector(
            Client(self.switch),
            settings(name, **more),
            self.fence,
            random=lambda: 0.0,
            on_new_leader=self.leaders.append,
            wall_clock=lambda: datetime.fromtimestamp(1e9 + skew + loop.time(), UTC),
        )
        self.lost_at: float | None = None
        self.led_at: float | None = None

    async def run(self) -> None:
        await self.elector.acquire()
        self.led_at = asyncio.get_running_loop().time()
        await self.elector.hold()
        self.lost_at = asyncio.get_running_loop().time()


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"duration": 10.0, "renew_deadline": 10.0}, "longer than the renew deadline"),
        ({"renew_deadline": 2.0, "retry_period": 2.0}, "retry periods"),
        ({"duration": 0.5, "renew_deadline": 0.4, "retry_period": 0.1}, "at least one second"),
        ({"identity": ""}, "default_identity"),
    ],
    ids=["duration", "deadline", "too short", "identity"],
)
def test_settings_that_could_make_two_leaders_are_refused_with_the_reason(more, problem):
    with pytest.raises(ValueError, match=problem):
        settings(**{"identity": "a", **more})


def test_the_defaults_are_15_10_and_2_seconds():
    s = settings("a")
    assert (s.duration, s.renew_deadline, s.retry_period) == (15, 10, 2)


def test_an_identity_is_the_host_and_something_unique():
    one, other = default_identity(), default_identity()
    assert one != other
    assert one.rpartition("_")[0] == other.rpartition("_")[0] != ""


async def test_the_first_candidate_leads_and_writes_who_and_since_when(server, running):
    a = Candidate(server, "a")
    async with running(a.run()):
        await asyncio.sleep(0.1)
        assert a.fence.is_leader()
        spec = (await Client(server.transport()).get(LEASES, KEY))["spec"]
        assert spec["holderIdentity"] == "a"
        assert spec["leaseDurationSeconds"] == 15
        assert spec["leaseTransitions"] == 0
        assert spec["renewTime"] == spec["acquireTime"] == "2001-09-09T01:46:40.000000Z"


async def test_renewing_keeps_the_acquire_time_and_moves_the_renew_time(server, running):
    a = Candidate(server, "a")
    async with running(a.run()):
        await asyncio.sleep(60)
        spec = (await Client(server.transport()).get(LEASES, KEY))["spec"]
    assert spec["acquireTime"] == "2001-09-09T01:46:40.000000Z"
    assert spec["renewTime"] > "2001-09-09T01:47:37"
    assert a.lost_at is None


async def test_a_leader_renews_with_one_request_and_no_read(server, running):
    a = Candidate(server, "a")
    async with running(a.run()):
        await asyncio.sleep(5)
        server.requests.clear()
        await asyncio.sleep(60)
    assert {request.method for request in server.requests} == {"PUT"}
    assert 25 <= len(server.requests) <= 31


async def test_a_standby_takes_over_when_the_lease_was_silent_for_its_duration(server, running):
    a, b = Candidate(server, "a"), Candidate(server, "b")
    await a.elector.acquire()
    async with running(b.run()):
        async with running(a.elector.hold()):
            await asyncio.sleep(30)
        died = asyncio.get_running_loop().time()
        await asyncio.sleep(60)
    assert b.led_at is not None
    assert 13 <= b.led_at - died <= 15 + 2 * 2.2 + 0.1
    assert b.leaders == ["a", "b"]
    spec = (await Client(server.transport()).get(LEASES, KEY))["spec"]
    assert spec["leaseTransitions"] == 1


@pytest.mark.parametrize("skew", [-3600, 3600], ids=["an hour behind", "an hour ahead"])
async def test_clocks_that_disagree_about_the_time_of_day_do_not_matter(server, running, skew):
    a, b = Candidate(server, "a"), Candidate(server, "b", skew=skew)
    async with running(a.run()):
        await asyncio.sleep(1)
        async with running(b.run()):
            await asyncio.sleep(120)
            assert a.fence.is_leader()
            assert not b.fence.is_leader()


async def test_a_leader_cut_off_stops_before_another_takes_over(server, running):
    a, b = Candidate(server, "a"), Candidate(server, "b")
    loop = asyncio.get_running_loop()
    both = []

    async def observe() -> None:
        while True:
            if a.fence.is_leader() and b.fence.is_leader():
                both.append(loop.time())
            await asyncio.sleep(0.05)

    async with running(a.run(), observe()):
        await asyncio.sleep(1)
        async with running(b.run()):
            await asyncio.sleep(20)
            a.switch.cut = True
            cut = loop.time()
            await asyncio.sleep(60)
    assert both == []
    assert a.lost_at is not None
    assert a.lost_at - cut <= 10.01
    assert b.led_at is not None
    assert b.led_at > a.lost_at


async def test_one_failed_renewal_does_not_lose_the_lease(server, running):
    a = Candidate(server, "a")
    async with running(a.run()):
        await asyncio.sleep(5)
        a.switch.cut = True
        await asyncio.sleep(5)
        a.switch.cut = False
        await asyncio.sleep(30)
        assert a.fence.is_leader()
        assert a.lost_at is None


async def test_a_lease_taken_by_somebody_else_is_lost_at_once(server, running):
    a = Candidate(server, "a")
    client = Client(server.transport())
    async with running(a.run()):
        await asyncio.sleep(5)
        lease = await client.get(LEASES, KEY)
        await client.replace(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "x"}})
        await asyncio.sleep(2.5)
        assert a.lost_at is not None


async def test_a_released_lease_is_taken_at_once(server, running):
    a, b = Candidate(server, "a"), Candidate(server, "b")
    async with running(a.run()):
        await asyncio.sleep(1)
        async with running(b.run()):
            await asyncio.sleep(20)
            await a.elector.release()
            released = asyncio.get_running_loop().time()
            assert not a.fence.is_leader()
            spec = (await Client(server.transport()).get(LEASES, KEY))["spec"]
            assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
            await asyncio.sleep(3)
            assert b.led_at is not None
            assert b.led_at - released <= 0.1, "it hears of it, and does not ask every 2 s"


async def test_of_several_standbys_one_takes_a_released_lease_and_the_others_go_on(server, running):
    a, b, c = (Candidate(server, name) for name in "abc")
    async with running(a.run()):
        await asyncio.sleep(1)
        async with running(b.run(), c.run()):
            await asyncio.sleep(20)
            await a.elector.release()
            released = asyncio.get_running_loop().time()
            await asyncio.sleep(0.1)
            assert [b.fence.is_leader(), c.fence.is_leader()].count(True) == 1
            leads, waits = (b, c) if b.fence.is_leader() else (c, b)
            assert leads.led_at is not None
            assert leads.led_at - released <= 0.1
            await asyncio.sleep(30)
            assert not waits.fence.is_leader()
            await leads.elector.release()
            released = asyncio.get_running_loop().time()
            await asyncio.sleep(0.1)
            assert waits.led_at is not None
            assert waits.led_at - released <= 0.1


@pytest.mark.parametrize("alive", [True, False])
async def test_a_lease_that_is_deleted_under_its_holder_makes_no_second_leader(
    server, running, alive
):
    a, b = Candidate(server, "a"), Candidate(server, "b")
    loop, both = asyncio.get_running_loop(), []

    async def observe() -> None:
        while True:
            if a.fence.is_leader() and b.fence.is_leader():
                both.append(loop.time())
            await asyncio.sleep(0.05)

    async with running(a.run(), observe()):
        await asyncio.sleep(1)
        async with running(b.run()):
            await asyncio.sleep(5)
            a.switch.cut = not alive
            await Client(server.transport()).delete(LEASES, KEY)
            deleted = loop.time()
            await asyncio.sleep(30)
    assert both == []
    if alive:
        assert a.lost_at is None, "it makes the lease again"
    else:
        assert b.led_at is not None
        assert b.led_at - deleted <= 15 + 2.5


FORBIDDEN = error_from_response(
    Response(403, {}, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no watch"}'),
    ref="leases",
)


@pytest.mark.parametrize(
    "refusal",
    [FORBIDDEN, ConnectionFailed("away", host="api"), OSError(24, "Too many open files")],
    ids=["forbidden", "unreachable", "a bug"],
)
async def test_who_cannot_watch_the_lease_asks_for_it_as_often_as_before(server, running, refusal):
    a, b = Candidate(server, "a"), Candidate(server, "b")
    b.switch.unwatchable = refusal
    async with running(a.run()):
        await asyncio.sleep(1)
        async with running(b.run()):
            await asyncio.sleep(20)
            await a.elector.release()
            released = asyncio.get_running_loop().time()
            await asyncio.sleep(3)
            assert b.led_at is not None
            assert b.led_at - released <= 2.1


async def test_a_watch_of_the_lease_that_broke_or_is_too_old_is_opened_again(server, running):
    a, b = Candidate(server, "a"), Candidate(server, "b")
    async with running(a.run()):
        await asyncio.sleep(1)
        async with running(b.run()):
            await asyncio.sleep(20)
            server.forget_history()  # 410 in the stream
            await asyncio.sleep(20)
            await a.elector.release()
            released = asyncio.get_running_loop().time()
            await asyncio.sleep(1)
            assert b.led_at is not None
            assert b.led_at - released <= 0.1


async def test_a_standby_asks_no_more_than_before_and_a_leader_watches_nothing(server, running):
    a, b = Candidate(server, "a"), Candidate(server, "b")
    async with running(a.run()):
        await asyncio.sleep(1)
        assert not any(dict(request.query).get("watch") for request in server.requests)
        async with running(b.run()):
            await asyncio.sleep(1)
            server.requests.clear()
            await asyncio.sleep(60)
            reads = [request for request in server.requests if request.method == "GET"]
            assert len(reads) <= 31


async def test_a_release_that_conflicts_is_tried_again(server):
    a = Candidate(server, "a")
    await a.elector.acquire()
    client = Client(server.transport())
    lease = await client.get(LEASES, KEY)
    lease["metadata"]["labels"] = {"somebody": "touched-it"}
    await client.replace(LEASES, lease)
    await a.elector.release()
    assert (await client.get(LEASES, KEY))["spec"]["holderIdentity"] == ""


async def test_a_lease_that_is_not_ours_is_not_released(server):
    a, b = Candidate(server, "a"), Candidate(server, "b")
    await a.elector.acquire()
    await b.elector.release()
    await b.elector._attempt()
    await b.elector.release()
    assert (await Client(server.transport()).get(LEASES, KEY))["spec"]["holderIdentity"] == "a"


async def test_the_fence_falls_by_itself_when_nobody_renews(server):
    a = Candidate(server, "a")
    await a.elector.acquire()
    await asyncio.sleep(9.9)
    assert a.fence.is_leader()
    await asyncio.sleep(0.2)
    assert not a.fence.is_leader()


async def test_a_lease_somebody_filled_with_nonsense_is_survived(server, running):
    client = Client(server.transport())
    await client.create(
        LEASES,
        {
            "metadata": {"namespace": KEY[0], "name": KEY[1]},
            "spec": {"holderIdentity": "x", "leaseDurationSeconds": "soon"},
        },
    )
    a = Candidate(server, "a")
    async with running(a.run()) as (task,):
        await asyncio.sleep(60)
        assert not task.done()
        assert not a.fence.is_leader()


async def test_a_server_that_is_down_is_asked_again_every_retry_period(server, running):
    a = Candidate(server, "a")
    a.switch.cut = True
    async with running(a.run()):
        await asyncio.sleep(30)
        assert not a.fence.is_leader()
        a.switch.cut = False
        await asyncio.sleep(4)
        assert a.fence.is_leader()
