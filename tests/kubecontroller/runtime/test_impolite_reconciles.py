"""Controllers and caches beside neighbours that raise, cancel, return nothing or never end."""

from __future__ import annotations

import asyncio

import pytest
from tests.kubecontroller.runtime.controllers import controller, key

from kubecontroller.client.api import Client
from kubecontroller.runtime.changes import Deleted, Updated
from kubecontroller.runtime.controller import Controller, Watch
from kubecontroller.runtime.events import Recorder, Regarding
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.manager import Manager
from kubecontroller.runtime.outcomes import Again, Done, Retry


async def cancelled(_key):
    """Await what somebody else has cancelled."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def nothing(_key):
    return None


async def raising(_key):
    raise RuntimeError("a bug")


@pytest.mark.parametrize("rude", [cancelled, nothing, raising], ids=lambda f: f.__name__)
async def test_a_rude_reconcile_costs_its_own_key_a_retry_and_nothing_else(quiet, running, rude):
    done = []

    async def reconcile(key):
        if key[1] == "rude" and machine.queue.failures(key) < 2:
            return await rude(key)
        done.append(key[1])
        return Done()

    machine = controller(quiet, reconcile, workers=2)
    async with running(machine.run()) as (task,):
        machine.enqueue(key("rude"))
        machine.enqueue(key("fine"))
        await asyncio.sleep(60)
        machine.enqueue(key("later"))
        await asyncio.sleep(1)
        assert not task.done()
    assert sorted(done) == ["fine", "later", "rude"]
    assert machine.tally.results["error"] == 2


async def test_a_gate_that_raises_is_a_retry(quiet, running):
    reconciled, times = [], []

    async def reconcile(key):
        reconciled.append(key[1])
        return Done()

    def gate(_):
        times.append(1)
        if len(times) < 3:
            raise KeyError("no cache of that")

    machine = controller(quiet, reconcile, gate=gate)
    async with running(machine.run()) as (task,):
        machine.enqueue(key("a"))
        await asyncio.sleep(30)
        assert not task.done()
    assert reconciled == ["a"]


async def test_what_a_reconcile_returned_instead_of_an_outcome_is_named(quiet, running, caplog):
    machine = controller(quiet, nothing)
    async with running(machine.run()):
        machine.enqueue(key("a"))
        await asyncio.sleep(0.5)
    assert any("returned None" in str(r.__dict__.get("fields")) for r in caplog.records)


async def test_stopping_still_cancels_a_reconcile(quiet, running):
    begun, ended = asyncio.Event(), []

    async def reconcile(_):
        begun.set()
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(True)

    machine = controller(quiet, reconcile)
    async with running(machine.run()) as (task,):
        machine.enqueue(key("a"))
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
    assert ended == [True]


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "outcome",
    [
        *(Again(after) for after in (None, "5", NAN, INF, -INF, 10**400)),
        Again(5, priority="high"),
        Again(5, priority=NAN),
        Retry("no", priority="high"),
    ],
    ids=lambda outcome: repr(outcome)[:40],
)
async def test_an_outcome_with_a_field_that_is_wrong_is_an_error_with_a_retry(
    quiet, running, caplog, outcome
):
    done, times = [], []

    async def reconcile(key):
        if key[1] == "rude":
            times.append(1)
            if len(times) < 3:
                return outcome
        done.append(key[1])
        return Done()

    machine = controller(quiet, reconcile)
    async with running(machine.run()) as (task,):
        machine.enqueue(key("rude"))
        machine.enqueue(key("fine"))
        await asyncio.sleep(120)
        machine.enqueue(key("later"))
        await asyncio.sleep(1)
        assert not task.done()
        assert machine.queue.waiting() == 0
    assert done == ["fine", "rude", "later"]
    assert machine.tally.panics == 2
    assert "reconcile" in caplog.text


class Broken:
    """A limiter with a bug in one of its methods."""

    def __init__(self, method, value=None):
        self._method = method
        self._value = value

    def _answer(self, method, good):
        if method != self._method:
            return good
        if self._value is None:
            raise KeyError("a bug")
        return self._value

    def when(self, item):
        return self._answer("when", 1.0)

    def forget(self, item):
        self._answer("forget", None)

    def failures(self, item):
        return self._answer("failures", 0)


@pytest.mark.parametrize(
    "limiter",
    [
        *(Broken("when", value) for value in (None, "5", NAN, INF)),
        Broken("forget"),
        Broken("failures"),
    ],
    ids=lambda broken: f"{broken._method} {broken._value}",
)
async def test_a_limiter_with_a_bug_costs_no_worker_and_loses_no_key(quiet, running, limiter):
    times = {}

    async def reconcile(key):
        times[key[1]] = times.get(key[1], 0) + 1
        return Retry("not yet") if times[key[1]] == 1 else Done()

    machine = controller(quiet, reconcile, limiter=limiter)
    async with running(machine.run()) as (task,):
        machine.enqueue(key("a"))
        machine.enqueue(key("b"))
        await asyncio.sleep(120)
        assert not task.done()
    assert min(times["a"], times["b"]) >= 2
    assert max(times["a"], times["b"]) <= 10, "not a hot loop"


async def test_a_gate_that_asks_for_something_cancelled_is_a_retry(quiet, running):
    reconciled, times = [], []

    async def reconcile(key):
        reconciled.append(key[1])
        return Done()

    def gate(_):
        times.append(1)
        if len(times) < 3:
            raise asyncio.CancelledError

    machine = controller(quiet, reconcile, gate=gate)
    async with running(machine.run()) as (task,):
        machine.enqueue(key("a"))
        await asyncio.sleep(30)
        assert not task.done()
    assert reconciled == ["a"]


# Handlers


async def test_a_handler_that_cancels_itself_takes_no_event_from_the_next(
    client, kind, manifest, running
):
    heard: list[str] = []
    informer = Informer(client, kind)

    def once(change):
        heard.append("first")
        subscription.cancel()

    async with running(informer.run()):
        await informer.wait_synced()
        subscription = informer.subscribe(once)
        informer.subscribe(lambda change: heard.append("second"))
        await client.create(kind, manifest("a"))
        await asyncio.sleep(1)
    assert heard == ["first", "second"]


async def test_a_cancelled_handler_hears_nothing_more_even_of_a_list(
    client, kind, manifest, running
):
    heard: list[str] = []
    informer = Informer(client, kind)
    for name in "abc":
        await client.create(kind, manifest(name))

    def once(change):
        heard.append(change.obj.metadata.name)
        subscription.cancel()

    subscription = informer.subscribe(once)
    async with running(informer.run()):
        await informer.wait_synced()
        await asyncio.sleep(1)
    assert len(heard) == 1


async def test_a_resync_never_shows_an_object_after_its_deletion(client, kind, manifest, running):
    names = [f"n{number}" for number in range(600)]
    for name in names:
        await client.create(kind, manifest(name))
    order: list[tuple[str, str]] = []
    informer = Informer(client, kind, resync=10)

    begun = asyncio.Event()

    def note(change):
        match change:
            case Deleted(obj):
                order.append(("deleted", obj.metadata.name))
            case Updated(old, new) if old is new:
                order.append(("replayed", new.metadata.name))
                begun.set()

    async with running(informer.run()):
        await informer.wait_synced()
        informer.subscribe(note)
        await begun.wait()
        for name in names[-10:]:
            await client.delete(kind, ("default", name))
        await asyncio.sleep(2)
    for name in names[-10:]:
        about = [what for what, which in order if which == name]
        assert about[-1] == "deleted", about


async def test_a_trigger_that_raises_is_asked_again_by_a_replay(client, kind, manifest, running):
    """An event must not be lost because the code that maps it to a key stumbled once."""
    reconciled, times = [], []

    async def reconcile(key):
        reconciled.append(key[1])
        return Done()

    def trigger(change):
        times.append(1)
        if len(times) == 1:
            raise KeyError("stumbled")
        return [key(change.obj.metadata.name)]

    informer = Informer(client, kind)
    machine = Controller("test", reconcile, [Watch(informer, trigger)])
    async with running(informer.run(), machine.run()):
        await asyncio.sleep(1)
        await client.create(kind, manifest("a"))
        await asyncio.sleep(60)
    assert reconciled == ["a"]


async def test_a_trigger_that_raises_in_the_first_list_is_called_again_by_a_manager(
    client, kind, manifest
):
    """A manager fills its caches first, and its controllers subscribe to full ones."""
    await client.create(kind, manifest("a"))
    reconciled, times = [], []

    async def reconcile(key):
        reconciled.append(key[1])
        return Done()

    def trigger(change):
        times.append(1)
        if len(times) < 3:
            raise KeyError("stumbled")
        return [key(change.obj.metadata.name)]

    manager = Manager(client)
    manager.add(Controller("test", reconcile, [Watch(manager.informer(kind), trigger)]))
    task = asyncio.create_task(manager.run())
    await asyncio.sleep(60)
    manager.request_stop()
    await task
    assert reconciled == ["a"]


# Events


async def test_an_event_that_cannot_be_encoded_is_dropped_and_the_next_is_sent(server, running):
    recorder = Recorder(Client(server.transport()), component="test")
    about = Regarding("v1", "ConfigMap", "default", "a", "uid", "1")
    async with running(recorder.run()) as (task,):
        recorder.normal(about, "Odd", "a file called \udcff")
        recorder.normal(about, "Fine", "all is well")
        await asyncio.sleep(1)
        assert not task.done()
    assert recorder.sent == 1
    assert recorder.dropped == 1


# The manager


async def test_a_part_that_ends_by_itself_ends_the_manager_with_its_name(server, kind):
    manager = Manager(Client(server.transport()))

    async def gives_up():
        await asyncio.sleep(2)
        raise asyncio.CancelledError

    manager.add_task("gives up", gives_up)
    with pytest.raises(RuntimeError, match="gives up"):
        async with asyncio.timeout(60):
            await manager.run()


async def test_a_start_that_somebody_else_cancels_ends_the_manager_with_an_error(server):
    class Rude:
        async def start(self) -> None:
            await cancelled("")

        async def stop(self) -> None: ...

    manager = Manager(Client(server.transport()), webhooks=[Rude()])
    with pytest.raises(RuntimeError, match="start was cancelled"):
        async with asyncio.timeout(60):
            await manager.run()


async def test_an_informer_asked_for_late_is_run(server, client, kind, manifest, running):
    manager = Manager(Client(server.transport()))
    async with running(manager.run()):
        await asyncio.sleep(1)
        late = manager.informer(kind)
        await client.create(kind, manifest("a"))
        async with asyncio.timeout(10):
            await late.wait_synced()
        await asyncio.sleep(1)
        assert len(late.cache) == 1
        manager.request_stop()
        await asyncio.sleep(1)


async def test_a_stage_of_the_stop_that_fails_does_not_skip_the_next(server):
    class Rude:
        async def start(self) -> None: ...

        async def stop(self) -> None:
            raise RuntimeError("cannot stop")

    journal: list[str] = []

    class Polite:
        async def start(self) -> None: ...

        async def stop(self) -> None:
            journal.append("stopped")

    manager = Manager(Client(server.transport()), webhooks=[Rude(), Polite()])
    task = asyncio.create_task(manager.run())
    await asyncio.sleep(1)
    manager.request_stop()
    await task
    assert journal == ["stopped"]


async def test_the_whole_stop_keeps_to_one_deadline(server):
    class Slow:
        async def start(self) -> None: ...

        async def stop(self) -> None:
            await asyncio.sleep(100)

    async def stubborn():
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(100)

    manager = Manager(Client(server.transport()), webhooks=[Slow(), Slow(), Slow()], stop_grace=10)
    for number in range(3):
        manager.add_task(f"stubborn {number}", stubborn)
    task = asyncio.create_task(manager.run())
    await asyncio.sleep(1)
    begun = asyncio.get_running_loop().time()
    manager.request_stop()
    await task
    assert asyncio.get_running_loop().time() - begun <= 11
