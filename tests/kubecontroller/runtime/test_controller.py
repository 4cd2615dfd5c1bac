from __future__ import annotations

import asyncio
import io
import json
import logging

import pytest
from tests.kubecontroller.runtime.controllers import controller, key

from kubecontroller.client.errors import ConnectionFailed
from kubecontroller.runtime import logs
from kubecontroller.runtime.controller import CachesNotSynced, Controller, Watch
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.outcomes import Again, Done, Retry, Stop
from kubecontroller.runtime.triggers import generation_changed, itself
from kubecontroller.runtime.workqueue import LOW_PRIORITY


async def test_a_change_becomes_a_reconcile_of_its_key(client, kind, manifest, running):
    reconciled = []

    async def reconcile(key):
        reconciled.append(key)
        return Done()

    informer = Informer(client, kind)
    machine = controller(informer, reconcile)
    await client.create(kind, manifest("a"))
    async with running(informer.run(), machine.run()):
        await asyncio.sleep(1)
        await client.create(kind, manifest("b"))
        await asyncio.sleep(1)
    assert reconciled == [key("a"), key("b")]
    assert machine.tally.results["success"] == 2


# §6.4.1


async def test_one_key_is_never_reconciled_twice_at_a_time_while_others_are(quiet, running):
    active: dict = {}
    most_of_one, most_of_all = 0, 0

    async def reconcile(key):
        nonlocal most_of_one, most_of_all
        active[key] = active.get(key, 0) + 1
        most_of_one = max(most_of_one, active[key])
        most_of_all = max(most_of_all, sum(active.values()))
        await asyncio.sleep(1)
        active[key] -= 1
        return Done()

    machine = controller(quiet, reconcile, workers=4)
    async with running(machine.run()):
        for _ in range(20):
            for name in "abc":
                machine.enqueue(key(name))
            await asyncio.sleep(0.3)
    assert (most_of_one, most_of_all) == (1, 3)


def test_a_controller_needs_a_worker(quiet):
    with pytest.raises(ValueError, match="at least one worker"):
        controller(quiet, None, workers=0)


# §6.4.2


async def test_retry_waits_longer_each_time_and_success_forgets(quiet, running):
    loop, at = asyncio.get_running_loop(), []

    async def reconcile(_):
        at.append(loop.time())
        return Done() if len(at) == 4 else Retry("not yet")

    machine = controller(quiet, reconcile)
    async with running(machine.run()):
        machine.enqueue(key("a"))
        await asyncio.sleep(60)
        assert machine.queue.failures(key("a")) == 0
    assert at == pytest.approx([0, 1, 3, 7])
    assert machine.tally.results["error"] == 3


async def test_again_forgets_failures_and_comes_back_after_its_time(quiet, running):
    loop, at = asyncio.get_running_loop(), []
    outcomes = iter([Retry("x"), Again(after=10), Done()])

    async def reconcile(_):
        at.append(loop.time())
        return next(outcomes)

    machine = controller(quiet, reconcile)
    async with running(machine.run()):
        machine.enqueue(key("a"))
        await asyncio.sleep(5)
        assert machine.queue.failures(key("a")) == 0
        await asyncio.sleep(20)
    assert at == pytest.approx([0, 1, 11])


async def test_stop_is_counted_and_not_tried_again_before_something_changes(quiet, running, caplog):
    calls = []

    async def reconcile(key):
        calls.append(key)
        return Stop("the spec is wrong")

    machine = controller(quiet, reconcile)
    async with running(machine.run()):
        machine.enqueue(key("a"))
        await asyncio.sleep(10_000)
        assert len(calls) == 1
        machine.enqueue(key("a"))
        await asyncio.sleep(1)
    assert len(calls) == 2
    assert machine.tally.results["terminal"] == 2
    assert "waiting for a change" in caplog.text


async def test_a_requeue_keeps_its_priority_unless_another_is_given(quiet, running):
    seen = []
    outcomes = iter([Again(1), Again(1, priority=7), Retry("x"), Done()])

    async def reconcile(key):
        seen.append(machine.queue.priority_of(key))
        return next(outcomes)

    machine = controller(quiet, reconcile)
    async with running(machine.run()):
        machine.enqueue(key("a"), priority=LOW_PRIORITY)
        await asyncio.sleep(60)
    assert seen == [LOW_PRIORITY, LOW_PRIORITY, 7, 7]


# §6.4.3


async def test_a_reconcile_that_raises_is_retried_and_the_worker_lives(quiet, running, caplog):
    calls = []

    async def reconcile(key):
        calls.append(key[1])
        if key[1] == "poison":
            raise KeyError("a bug")
        return Done()

    machine = controller(quiet, reconcile)
    async with running(machine.run()) as (task,):
        machine.enqueue(key("poison"))
        machine.enqueue(key("fine"))
        await asyncio.sleep(4)
        assert not task.done()
    assert calls == ["poison", "fine", "poison", "poison"]
    assert machine.tally.panics == 3
    assert "a bug" in caplog.text


async def test_trouble_with_the_api_in_a_reconcile_is_retried_in_one_line(quiet, running, caplog):
    async def reconcile(key):
        raise ConnectionFailed("connection refused", host="https://api:6443")

    machine = controller(quiet, reconcile)
    async with running(machine.run()):
        machine.enqueue(key("a"))
        await asyncio.sleep(0.5)
    assert (machine.tally.panics, machine.tally.results["error"]) == (0, 1)
    assert "Traceback" not in caplog.text
    assert machine.queue.failures(key("a")) == 1


async def test_a_reconcile_that_exceeds_its_deadline_is_cancelled_and_retried(quiet, running):
    cancelled = []

    async def reconcile(key):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(key)
            raise

    machine = controller(quiet, reconcile, deadline=5)
    async with running(machine.run()):
        machine.enqueue(key("a"))
        await asyncio.sleep(5.5)
        assert cancelled == [key("a")]
        assert machine.tally.timeouts == 1
        assert machine.queue.failures(key("a")) == 1


async def test_a_timeout_inside_a_reconcile_is_not_its_deadline(quiet, running):
    async def reconcile(_):
        async with asyncio.timeout(1):
            await asyncio.Event().wait()

    machine = controller(quiet, reconcile, deadline=60)
    async with running(machine.run()):
        machine.enqueue(key("a"))
        await asyncio.sleep(1.5)
    assert machine.tally.timeouts == 0
    assert machine.tally.results["error"] == 1


async def test_cancelling_the_controller_cancels_its_reconciles(quiet, running):
    ended = []

    async def reconcile(_):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    machine = controller(quiet, reconcile)
    async with running(machine.run()):
        machine.enqueue(key("a"))
        await asyncio.sleep(1)
    assert ended == ["cancelled"]


async def test_a_poisoned_key_does_not_slow_the_others(quiet, running):
    """One key hangs and one fails at once, for ever; a hundred others come every second."""
    loop, waited = asyncio.get_running_loop(), []
    asked: dict = {}

    async def reconcile(key):
        if key[1] == "hangs":
            await asyncio.Event().wait()
        if key[1] == "fails":
            return Retry("always")
        waited.append(loop.time() - asked[key])
        await asyncio.sleep(0.001)
        return Done()

    machine = controller(quiet, reconcile, workers=2, deadline=10)
    async with running(machine.run()):
        machine.enqueue(key("hangs"))
        machine.enqueue(key("fails"))
        for second in range(30):
            for n in range(100):
                name = key(f"{second}-{n}")
                asked[name] = loop.time()
                machine.enqueue(name)
            await asyncio.sleep(1)
    assert len(waited) == 3000
    assert max(waited) < 0.2


# §6.4.4


async def test_nothing_is_reconciled_before_every_cache_has_synced(client, kind, manifest, running):
    await client.create(kind, manifest("a"))
    seen = []
    late = Informer(client, kind, namespace="elsewhere")

    async def reconcile(key):
        seen.append(late.has_synced)
        return Done()

    informer = Informer(client, kind)
    machine = Controller("test", reconcile, [Watch(informer), Watch(late)])
    async with running(informer.run(), machine.run()):
        await asyncio.sleep(10)
        assert seen == []
        async with running(late.run()):
            await asyncio.sleep(1)
    assert seen == [True]


async def test_caches_that_do_not_sync_in_two_minutes_fail_the_start_with_the_reason(
    client, kind, running
):
    class Broken:
        async def request(self, request, *, timeout):
            raise ConnectionFailed("connection refused", host="https://api:6443")

        def stream(self, request, *, idle):
            raise ConnectionFailed("connection refused", host="https://api:6443")

    client.transport = Broken()
    informer = Informer(client, kind)
    machine = controller(informer, None)
    async with running(informer.run()):
        with pytest.raises(
            CachesNotSynced, match=r"within 120 s of: configmaps \(https://api:6443: connection"
        ):
            await machine.run()
    assert asyncio.get_running_loop().time() == pytest.approx(120)


async def test_warm_up_collects_keys_before_workers_start(client, kind, manifest, running):
    await client.create(kind, manifest("a"))
    calls = []

    async def reconcile(key):
        calls.append(key)
        return Done()

    informer = Informer(client, kind)
    machine = controller(informer, reconcile)
    machine.listen()
    async with running(informer.run()):
        await machine.wait_synced()
        assert len(machine.queue) == 1
        assert calls == []
        async with running(machine.run()):
            await asyncio.sleep(1)
    assert calls == [key("a")]


async def test_keys_of_the_first_list_wait_behind_keys_of_real_events(
    client, kind, manifest, running
):
    for n in range(5):
        await client.create(kind, manifest(f"old-{n}"))
    calls = []

    async def reconcile(key):
        calls.append(key[1])
        return Done()

    informer = Informer(client, kind)
    machine = controller(informer, reconcile)
    machine.listen()
    async with running(informer.run()):
        await machine.wait_synced()
        await client.create(kind, manifest("new"))
        await asyncio.sleep(1)
        async with running(machine.run()):
            await asyncio.sleep(1)
    assert calls[0] == "new"
    assert len(calls) == 6


async def test_keys_of_a_resync_wait_behind_too(client, kind, manifest, running):
    await client.create(kind, manifest("a"))
    informer = Informer(client, kind, resync=10, random=lambda: 0.5)
    priorities = []

    async def reconcile(key):
        priorities.append(machine.queue.priority_of(key))
        return Done()

    machine = controller(informer, reconcile)
    async with running(informer.run(), machine.run()):
        await asyncio.sleep(11)
        await client.apply(kind, manifest("a", data={"x": "1"}))
        await asyncio.sleep(1)
    assert priorities == [LOW_PRIORITY, LOW_PRIORITY, 0]


async def test_changes_that_do_not_count_are_not_enqueued(client, kind, manifest, running):
    calls = []

    async def reconcile(key):
        calls.append(key)
        return Done()

    informer = Informer(client, kind)
    machine = Controller("t", reconcile, [Watch(informer, itself, when=generation_changed)])
    async with running(informer.run(), machine.run()):
        await client.create(kind, manifest("a"))
        await asyncio.sleep(1)
        await client.apply(kind, manifest("a", labels={"only": "metadata"}))
        await asyncio.sleep(1)
    assert len(calls) == 1


async def test_a_closed_gate_sends_the_key_back_until_it_opens(quiet, running):
    loop, at, opened = asyncio.get_running_loop(), [], 5.0

    async def reconcile(_):
        at.append(loop.time())
        return Done()

    def gate(_):
        return None if loop.time() >= opened else "the cache is behind our own writes"

    machine = controller(quiet, reconcile, gate=gate)
    async with running(machine.run()):
        machine.enqueue(key("a"))
        await asyncio.sleep(60)
    assert at == pytest.approx([5], abs=0.11)  # the wait does not grow with the time it is closed
    assert machine.tally.results["success"] == 1


# §6.4.7


async def test_every_line_logged_in_a_reconcile_carries_its_id_and_key(quiet, running):
    log = logging.getLogger("somewhere.else")

    async def reconcile(key):
        log.info("working")
        await asyncio.sleep(0.1)
        log.info("still working")
        return Done()

    stream = io.StringIO()
    undo = logs.set_up(style=logs.Format.JSON, stream=stream)
    try:
        machine = controller(quiet, reconcile, workers=2)
        async with running(machine.run()):
            machine.enqueue(key("a"))
            machine.enqueue(key("b"))
            await asyncio.sleep(1)
        log.info("outside")
    finally:
        undo()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    working = [line for line in lines if "working" in line["msg"]]
    assert len(working) == 4
    by_id: dict = {}
    for line in working:
        by_id.setdefault(line["reconcileID"], set()).add(line["name"])
        assert line["controller"] == "test"
    assert sorted(map(sorted, by_id.values())) == [["a"], ["b"]]
    assert "reconcileID" not in lines[-1]


async def test_stopping_lets_running_reconciles_end_and_drops_the_rest(quiet, running):
    ended = []

    async def reconcile(key):
        await asyncio.sleep(5)
        ended.append(key[1])
        return Done()

    machine = controller(quiet, reconcile)
    async with running(machine.run()) as (task,):
        machine.enqueue(key("running"))
        await asyncio.sleep(1)
        machine.enqueue(key("waiting"))
        await machine.stop(grace=30)
        assert ended == ["running"]
        await asyncio.sleep(0)
        assert task.done()


async def test_a_reconcile_that_outlives_the_grace_is_cancelled(quiet, running):
    async def reconcile(key):
        await asyncio.Event().wait()

    machine = controller(quiet, reconcile)
    loop = asyncio.get_running_loop()
    async with running(machine.run()):
        machine.enqueue(key("a"))
        await asyncio.sleep(1)
        await machine.stop(grace=3)
        assert loop.time() == pytest.approx(4)
