"""§6.10: events are merged, limited, and never in the way."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.errors import ConnectionFailed, Forbidden
from kubecontroller.client.meta import ObjectMeta, Projected
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.events import Recorder, Regarding

REDIS = Kind("redisoperator.dev", "v1", "Redis", "redises", True, Projected)
CACHE = Regarding("redisoperator.dev/v1", "Redis", "default", "cache", "u-1", "7")


@pytest.fixture
def recorder(server):
    count = iter(range(1, 100_000))
    return Recorder(
        Client(server.transport()),
        component="redis-operator",
        host="node-1",
        wall_clock=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        name_suffix=lambda: next(count),
        random=lambda: 0.5,
    )


def stored(server) -> list[dict]:
    return list(server.objects.get("api/v1/events", {}).values())


async def test_an_event_is_written_about_its_object(server, recorder, running):
    async with running(recorder.run()):
        recorder.normal(CACHE, "Created", "3 shards created")
        await recorder.drain()
    (event,) = stored(server)
    assert event["metadata"]["namespace"] == "default"
    assert event["metadata"]["name"] == "cache.1"
    assert event["involvedObject"] == {
        "apiVersion": "redisoperator.dev/v1", "kind": "Redis", "namespace": "default",
        "name": "cache", "uid": "u-1", "resourceVersion": "7",
    }  # fmt: skip
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "Created", 1)
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-02T03:04:05Z"
    assert event["source"] == {"component": "redis-operator", "host": "node-1"}


async def test_an_event_about_a_part_of_an_object_names_it_and_where_it_happened(
    server, recorder, running
):
    part = Regarding("v1", "Pod", "d", "p", field_path="spec.containers{main}", host="node-2")
    async with running(recorder.run()):
        recorder.warning(part, "BackOff", "it fails")
        recorder.warning(Regarding("v1", "Pod", "d", "p"), "BackOff", "it fails")
        await recorder.drain()
    first, second = stored(server)
    assert first["involvedObject"]["fieldPath"] == "spec.containers{main}"
    assert first["source"]["host"] == first["reportingInstance"] == "node-2"
    assert "fieldPath" not in second["involvedObject"]
    assert (second["source"]["host"], second["count"]) == ("node-1", 1)


async def test_an_event_about_a_cluster_scoped_object_goes_to_the_default_namespace(
    server, recorder, running
):
    async with running(recorder.run()):
        recorder.warning(Regarding("v1", "Node", "", "n1"), "Down", "it is down")
        await recorder.drain()
    assert stored(server)[0]["metadata"]["namespace"] == "default"
    assert stored(server)[0]["type"] == "Warning"


async def test_the_same_event_again_grows_its_count_even_at_another_version(
    server, recorder, running
):
    async with running(recorder.run()):
        for version in ("7", "8", "9"):
            about = Regarding("redisoperator.dev/v1", "Redis", "default", "cache", "u-1", version)
            recorder.warning(about, "Degraded", "one replica is missing")
        await recorder.drain()
    (event,) = stored(server)
    assert event["count"] == 3
    assert [request.method for request in server.writes()] == ["POST", "PATCH", "PATCH"]


async def test_an_event_that_expired_meanwhile_is_written_again(server, recorder, running):
    async with running(recorder.run()):
        recorder.warning(CACHE, "Degraded", "x")
        await recorder.drain()
        server.objects["api/v1/events"].clear()
        recorder.warning(CACHE, "Degraded", "x")
        await recorder.drain()
    assert stored(server)[0]["count"] == 2, "it happened twice, though the first is forgotten"


async def test_from_the_tenth_similar_message_on_they_are_combined(server, recorder, running):
    async with running(recorder.run()):
        for n in range(15):
            recorder.warning(CACHE, "Failed", f"attempt {n} failed")
        await recorder.drain()
    events = stored(server)
    assert len(events) == 10
    combined = [e for e in events if e["message"].startswith("(combined from similar events)")]
    assert len(combined) == 1
    assert combined[0]["count"] == 6
    assert combined[0]["message"].endswith("attempt 14 failed")


async def test_similar_messages_more_than_ten_minutes_apart_are_not_combined(
    server, recorder, running
):
    async with running(recorder.run()):
        for n in range(15):
            recorder.warning(CACHE, "Failed", f"attempt {n} failed")
            await asyncio.sleep(601)
        await recorder.drain()
    assert not any("combined" in event["message"] for event in stored(server))


async def test_an_object_gets_25_events_and_then_one_every_five_minutes(server, recorder, running):
    async with running(recorder.run()):
        for n in range(40):
            recorder.normal(CACHE, f"Reason{n}", "x")
        await recorder.drain()
        assert len(stored(server)) == 25
        assert recorder.dropped == 15
        other = Regarding("redisoperator.dev/v1", "Redis", "default", "other", "u-2")
        recorder.normal(other, "Created", "x")
        await recorder.drain()
        assert len(stored(server)) == 26, "others are not punished"
        await asyncio.sleep(301)
        recorder.normal(CACHE, "Later", "x")
        recorder.normal(CACHE, "TooSoon", "x")
        await recorder.drain()
        assert len(stored(server)) == 27


async def test_recording_never_waits_and_drops_when_a_thousand_are_queued(recorder):
    before = asyncio.get_running_loop().time()
    for n in range(1500):
        recorder.normal(CACHE, "Reason", str(n))
    assert asyncio.get_running_loop().time() == before
    assert recorder.dropped == 500


class Failing:
    def __init__(self, transport, error, times: int) -> None:
        self._transport, self._error, self.left = transport, error, times
        self.tries = 0

    async def request(self, request, *, timeout):
        self.tries += 1
        if self.left > 0:
            self.left -= 1
            raise self._error
        return await self._transport.request(request, timeout=timeout)


async def test_sending_is_retried_12_times_with_10_s_between_the_first_at_random(server, running):
    transport = Failing(server.transport(), ConnectionFailed("refused"), 99)
    recorder = Recorder(Client(transport), component="x", random=lambda: 0.5)
    loop = asyncio.get_running_loop()
    async with running(recorder.run()):
        recorder.normal(CACHE, "Created", "x")
        await recorder.drain(timeout=1000)
    assert transport.tries == 12
    assert recorder.dropped == 1
    assert loop.time() == pytest.approx(5 + 11 * 10)


async def test_an_event_gets_through_after_trouble(server, running):
    transport = Failing(server.transport(), ConnectionFailed("refused"), 3)
    recorder = Recorder(Client(transport), component="x", random=lambda: 0.5)
    async with running(recorder.run()):
        recorder.normal(CACHE, "Created", "x")
        await recorder.drain(timeout=1000)
    assert len(stored(server)) == 1


async def test_an_event_that_is_refused_is_dropped_and_the_next_one_sent(server, running, caplog):
    transport = Failing(server.transport(), Forbidden("no", status=403), 1)
    recorder = Recorder(Client(transport), component="x")
    async with running(recorder.run()):
        recorder.normal(CACHE, "Refused", "x")
        recorder.normal(CACHE, "Created", "x")
        await recorder.drain()
    assert [event["reason"] for event in stored(server)] == ["Created"]
    assert "event refused" in caplog.text


async def test_memory_of_events_is_bounded(recorder):
    correlator = recorder._correlator
    from_events = [Regarding("v1", "Pod", "d", f"pod-{n}", f"u-{n}") for n in range(5000)]
    for about in from_events:
        recorder._queue = asyncio.Queue(10)
        recorder.normal(about, "R", "m")
        correlator.take(recorder._queue.get_nowait(), 0.0)
    assert len(correlator._buckets) == len(correlator._similar) == 4096


async def test_draining_gives_up_in_time(server, running, caplog):
    transport = Failing(server.transport(), ConnectionFailed("refused"), 99)
    recorder = Recorder(Client(transport), component="x")
    async with running(recorder.run()):
        recorder.normal(CACHE, "Created", "x")
        await recorder.drain(timeout=2)
    assert asyncio.get_running_loop().time() == pytest.approx(2)
    assert "unsent" in caplog.text


def test_a_reference_is_taken_from_an_object_and_its_kind():
    obj = Projected(metadata=ObjectMeta(name="a", namespace="d", uid="u", resource_version="3"))
    assert Regarding.of(REDIS, obj) == Regarding(
        "redisoperator.dev/v1", "Redis", "d", "a", "u", "3"
    )
