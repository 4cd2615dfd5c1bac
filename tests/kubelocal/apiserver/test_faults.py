"""The fault plane: each thing that can go wrong goes wrong exactly so."""

from __future__ import annotations

import json

import pytest
from tests.kubelocal.apiserver.conftest import Cluster

from kubecontroller.client.errors import ConnectionFailed, Expired
from kubecontroller.client.request import Request, Response
from kubelocal.apiserver.faults import (
    Fault,
    FaultyTransport,
    LoseAnswer,
    LoseRequest,
    Pass,
    Stale,
    StreamFaults,
    broken,
    busy,
    compacted,
)
from kubelocal.apiserver.inprocess import InProcessTransport

MAPS = "/api/v1/namespaces/default/configmaps"


class Script:
    """Lets the same thing happen to every request."""

    def __init__(self, fault: Fault, events: StreamFaults | None = None) -> None:
        self.fault = fault
        self.events = events or StreamFaults()

    def request(self, request: Request) -> Fault:
        return self.fault

    def stream(self, request: Request) -> StreamFaults:
        return self.events


def client(cluster: Cluster, fault: Fault, events: StreamFaults | None = None) -> FaultyTransport:
    return FaultyTransport(InProcessTransport(cluster.server), Script(fault, events))


def make(name: str) -> Request:
    body = json.dumps({"metadata": {"name": name}}).encode()
    return Request("POST", MAPS, body=body)


async def send(transport: FaultyTransport, request: Request) -> Response:
    return await transport.request(request, timeout=5)


async def test_write_whose_answer_is_lost_is_made(cluster):
    with pytest.raises(ConnectionFailed):
        await send(client(cluster, LoseAnswer()), make("a"))
    assert cluster.get(f"{MAPS}/a")


async def test_write_that_is_lost_is_not_made(cluster):
    with pytest.raises(ConnectionFailed):
        await send(client(cluster, LoseRequest()), make("a"))
    assert cluster.ask("GET", f"{MAPS}/a").status == 404


async def test_busy_server_says_when_to_come_back(cluster):
    answer = await send(client(cluster, busy(7)), make("a"))
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert cluster.ask("GET", f"{MAPS}/a").status == 404


async def test_broken_server_does_nothing(cluster):
    assert (await send(client(cluster, broken()), make("a"))).status == 500


async def test_stale_read_shows_what_was(cluster):
    cluster.post(MAPS, {"metadata": {"name": "a"}})
    cluster.post(MAPS, {"metadata": {"name": "b"}})
    answer = await send(client(cluster, Stale(1)), Request("GET", MAPS))
    assert [item["metadata"]["name"] for item in json.loads(answer.body)["items"]] == ["a"]


def watching(cluster: Cluster) -> Request:
    query = (("watch", "true"), ("resourceVersion", str(cluster.store.version)))
    return Request("GET", MAPS, query=(*query, ("timeoutSeconds", "1")))


async def seen(transport: FaultyTransport, request: Request) -> list[tuple[str, str]]:
    async with transport.stream(request, idle=5) as chunks:
        lines = [line async for chunk in chunks for line in chunk.splitlines()]
    found = map(json.loads, lines)
    return [(one["type"], one["object"]["metadata"].get("name", "")) for one in found]


async def test_dropped_event_is_never_seen(cluster):
    request = watching(cluster)
    for name in "abc":
        cluster.post(MAPS, {"metadata": {"name": name}})
    faults = StreamFaults(is_dropped=lambda number: number == 1)
    assert await seen(client(cluster, Pass(), faults), request) == [("ADDED", "a"), ("ADDED", "c")]


async def test_watch_is_cut_after_so_many_events(cluster):
    request = watching(cluster)
    for name in "abc":
        cluster.post(MAPS, {"metadata": {"name": name}})
    faults = StreamFaults(cut_after=2)
    assert await seen(client(cluster, Pass(), faults), request) == [("ADDED", "a"), ("ADDED", "b")]


async def test_watch_expires_in_the_middle(cluster):
    request = watching(cluster)
    for name in "ab":
        cluster.post(MAPS, {"metadata": {"name": name}})
    faults = StreamFaults(expire_after=1)
    assert await seen(client(cluster, Pass(), faults), request) == [("ADDED", "a"), ("ERROR", "")]


async def test_compacted_history_refuses_the_watch(cluster):
    with pytest.raises(Expired):
        await seen(client(cluster, compacted()), watching(cluster))
