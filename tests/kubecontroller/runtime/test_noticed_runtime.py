"""Changes of the runtime that no test noticed once; each of these does now."""

from __future__ import annotations

import asyncio

import pytest

from kubecontroller.client.errors import ConnectionFailed, Gone
from kubecontroller.runtime.controller import Controller, Watch
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.measures import DURATION_BOUNDS, Buckets
from kubecontroller.runtime.metrics import Metrics
from kubecontroller.runtime.outcomes import Done
from kubecontroller.runtime.watch_states import Progress, Replaced
from kubecontroller.runtime.workqueue import WorkQueue


async def test_a_queue_that_stops_takes_no_delayed_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.shut_down()
    queue.add_after("late", 1.0)
    assert queue._waiting == {}
    assert queue._timer is None


async def test_a_queue_that_stops_lets_workers_take_what_is_ready_before_it_tells_them() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("held")
    assert await queue.get() == "held"
    queue.add("held")  # comes again when it is done
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.shut_down()
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done("held")
    assert await waiting == "held"


def test_buckets_count_by_the_bounds_that_dashboards_know() -> None:
    assert tuple(10.0**power for power in range(-8, 4)) == DURATION_BOUNDS
    buckets = Buckets((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        buckets.observe(value)
    assert buckets.cumulative() == [("1.0", 2.0), ("2.0", 3.0), ("+Inf", 4.0)]
    assert (buckets.count, buckets.total) == (4, 12.0)


async def test_the_lag_of_a_loop_that_turns_in_time_is_nothing(running) -> None:
    metrics = Metrics()
    async with running(metrics.measure_lag()):
        await asyncio.sleep(10.0)
    (family,) = metrics.lag.collect()
    found = {sample.name.rpartition("_")[2]: sample.value for sample in family.samples}
    assert found["count"] == pytest.approx(39, abs=1)
    assert found["sum"] == pytest.approx(0.0, abs=0.001)


async def test_an_error_after_which_a_watch_goes_on_at_once_is_no_failure(client, kind) -> None:
    informer = Informer(client, kind)
    informer._note(Gone("too old", status=410, reason="Expired"), 0.0)
    assert (informer.failures, informer.last_error) == (0, None)
    informer._note(ConnectionFailed("refused", host="api"), 1.0)
    assert informer.failures == 1
    assert informer.last_error is not None


async def test_a_version_that_does_not_arrive_has_the_watch_opened_again_and_again(
    client, kind, caplog
) -> None:
    informer = Informer(client, kind)
    await informer._take(Replaced(objects=(), version="5"))
    informer.expect("7", within=1.0)
    await asyncio.sleep(1.5)
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.endswith("7 was written and did not arrive from the watch after 1 s")
    await asyncio.sleep(2.0)
    assert len(caplog.records) == 2
    await informer._take(Progress("7"))
    await asyncio.sleep(1000)
    assert len(caplog.records) == 2


async def test_a_reconcile_that_awaits_what_was_cancelled_counts_as_a_panic(
    client, kind, manifest, running
) -> None:
    async def cancelled_elsewhere(_: object) -> Done:
        other = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        other.cancel()
        await other
        return Done()

    informer = Informer(client, kind)
    controller = Controller("web", cancelled_elsewhere, [Watch(informer)])
    await client.create(kind, manifest("a"))
    async with running(informer.run(), controller.run()):
        await asyncio.sleep(0.5)
    assert controller.tally.panics >= 1
