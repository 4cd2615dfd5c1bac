"""Why pods are missing is asked of the events, seldom, and only while they are. K-14"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.objects import EVENTS, PODS
from kubecontroller.client.request import Request, Response
from kubelocal.apiserver.calls import User
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.server import ADMIN, ApiServer
from kubelocal.apiserver.storage.store import Store
from redis_operator.manifests.cluster import CLUSTER
from redis_operator.manifests.names import SHARD_LABEL, common_labels
from redis_operator.operator.objects.absent import Absences
from redis_operator.planning.observed import Workload

WORKLOAD = Workload(shard=0, name="db-0", uid="w", pods=2, revision="1")
QUOTA = 'create Pod db-0-1 in StatefulSet db-0 failed error: pods "db-0-1" is forbidden'


class Counting:
    """A transport that remembers which requests went through it."""

    def __init__(self, transport: InProcessTransport) -> None:
        self._transport = transport
        self.requests: list[Request] = []
        self.stream, self.close = transport.stream, transport.close

    async def request(self, request: Request, *, timeout: float) -> Response:
        self.requests.append(request)
        return await self._transport.request(request, timeout=timeout)


class World:
    """An API server with events, an operator that asks it, and a clock."""

    def __init__(self, user: User = ADMIN) -> None:
        self.now = 1_000_000.0
        server = ApiServer(
            Store(),
            clock=lambda: datetime.fromtimestamp(self.now, UTC),
            bits=Random(1).getrandbits,
        )
        self.client = Client(InProcessTransport(server))
        self.transport = Counting(InProcessTransport(server, user=user))
        self.absences = Absences(Client(self.transport), lambda: self.now)

    async def say(self, message: str, *, ago: float = 0.0, about: str = "w") -> None:
        moment = datetime.fromtimestamp(self.now - ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        subject = {"kind": "StatefulSet", "namespace": "default", "name": "db-0", "uid": about}
        event = {
            "metadata": {"namespace": "default", "generateName": "e-"},
            "involvedObject": subject,
            "reason": "FailedCreate",
            "type": "Warning",
            "message": message,
            "lastTimestamp": moment,
        }
        await self.client.create(EVENTS.plain(), event)

    async def trouble(self, *present: int) -> str:
        names = [f"db-0-{ordinal}" for ordinal in present]
        (found,), self.unlabelled = await self.absences.explain(
            ("default", "db"), CLUSTER, [WORKLOAD], names
        )
        return found.trouble


@pytest.fixture
def world() -> World:
    return World()


async def test_nothing_is_asked_while_all_pods_are_there_or_have_only_just_gone(
    world: World,
) -> None:
    await world.say(QUOTA)
    assert await world.trouble(0, 1) == ""
    assert await world.trouble(0) == ""
    world.now += 1.9
    assert await world.trouble(0) == ""
    assert world.transport.requests == []


async def test_the_newest_event_of_the_workload_says_why_and_is_asked_for_every_five_seconds(
    world: World,
) -> None:
    await world.say("something else", ago=60)
    await world.say("of another workload", about="other")
    await world.say(QUOTA, ago=1)
    await world.trouble(0)
    world.now += 2
    assert await world.trouble(0) == QUOTA
    for _ in range(10):
        world.now += 1
        assert await world.trouble(0) == QUOTA
    asked = [request for request in world.transport.requests if "/events" in request.path]
    assert len(asked) == 3


async def test_what_was_said_long_ago_and_what_is_over_are_not_told(world: World) -> None:
    await world.say(QUOTA, ago=3600)
    await world.trouble(0)
    world.now += 2
    assert await world.trouble(0) == ""
    await world.say(QUOTA)
    world.now += 5
    assert await world.trouble(0) == QUOTA
    assert await world.trouble(0, 1) == ""
    assert await world.trouble(0) == "", "it is missing again: nobody knows why yet"


async def test_events_that_may_not_be_read_leave_pods_only_missing() -> None:
    world = World(user=User("somebody", groups=("system:authenticated",)))
    await world.say(QUOTA)
    await world.trouble(0)
    world.now += 2
    assert await world.trouble(0) == ""
    assert len(world.transport.requests) == 1


async def _pod(world: World, **changes: Any) -> None:
    spec = {"containers": [{"name": "server", "image": "i"}], "subdomain": "db-nodes"}
    metadata = {"namespace": "default", "name": "db-0-1", "labels": {SHARD_LABEL: "0"}}
    await world.client.create(
        PODS.plain(), {"metadata": metadata, "spec": spec | changes.pop("spec", {})} | changes
    )


async def test_a_pod_that_lost_labels_is_found_by_name_and_with_what_it_lacks(
    world: World,
) -> None:
    await _pod(world)
    await world.trouble(0)
    assert world.unlabelled == ()
    world.now += 2
    assert await world.trouble(0) == ""
    (found,) = world.unlabelled
    assert found.pod == "db-0-1"
    assert dict(found.lacks) == {k: v for k, v in common_labels("db").items() if k != SHARD_LABEL}
    await world.trouble(0, 1)
    assert world.unlabelled == (), "it is observed again"


async def test_a_pod_of_somebody_else_with_our_name_is_reported_and_not_labelled(
    world: World,
) -> None:
    await _pod(world, spec={"subdomain": "other"})
    await world.trouble(0)
    world.now += 2
    assert "a pod named db-0-1 exists and does not belong to StatefulSet db-0" in (
        await world.trouble(0)
    )
    assert world.unlabelled == ()


async def test_workloads_are_asked_about_all_at_once(world: World) -> None:
    """A slow API server must not cost a look its time once for each workload."""
    together = asyncio.Barrier(3)
    ask = world.transport.request

    async def slowly(request: Request, *, timeout: float) -> Response:
        if "/events" in request.path:
            async with asyncio.timeout(60):
                await together.wait()
        return await ask(request, timeout=timeout)

    world.transport.request = slowly  # type: ignore[method-assign]
    lacking = [
        Workload(shard=n, name=f"db-{n}", uid=f"w{n}", pods=2, revision="1") for n in range(3)
    ]
    for _ in range(2):
        found, _ = await world.absences.explain(("default", "db"), CLUSTER, lacking, [])
        world.now += 3
    assert len(found) == 3


async def test_a_database_that_is_gone_leaves_nothing_behind(world: World) -> None:
    await world.say(QUOTA, ago=1)
    await world.trouble(0)
    world.now += 2
    assert await world.trouble(0) == QUOTA
    world.absences.forget(("default", "db"))
    assert await world.trouble(0) == ""  # it is only just missing again
