"""Bad input and the pitfalls of Python: what must not stop, block or bloat a controller."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest

from kubecontroller.runtime.controller import Controller, Watch
from kubecontroller.runtime.fairness import Turn
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.outcomes import Again, Done
from kubecontroller.testing.faults import FaultyTransport, Nth, StreamFault


async def test_a_20_mb_object_goes_through_the_cache_like_any_other(
    client, kind, manifest, running
):
    informer = Informer(client, kind)
    async with running(informer.run()):
        await informer.wait_synced()
        await client.create(kind, manifest("big", data={"blob": "x" * 20_000_000}))
        await client.create(kind, manifest("small"))
        await asyncio.sleep(1)
        assert len(informer.cache.get(("default", "big")).data["blob"]) == 20_000_000
        assert ("default", "small") in informer.cache


@pytest.mark.parametrize("fault", list(StreamFault), ids=lambda fault: fault.name)
async def test_every_way_a_watch_can_go_wrong_is_survived_without_a_hot_loop(
    server, client, kind, manifest, running, fault
):
    """Each of the first twenty streams goes wrong; changes come all the time."""
    transport = FaultyTransport(server.transport(), Nth(streams=dict.fromkeys(range(1, 21), fault)))
    watching = type(client)(transport)
    informer = Informer(watching, kind, random=lambda: 0.5)
    async with running(informer.run()):
        for n in range(300):
            await client.create(kind, manifest(f"a-{n}"))
            if n % 3 == 0:
                await client.delete(kind, ("default", f"a-{n}"))
            await asyncio.sleep(1)
        await asyncio.sleep(20 * 700)  # a stream that hangs costs ten minutes and more
        assert set(informer.cache.keys()) == set(server.objects["api/v1/configmaps"])
    assert transport.streams > 20 or fault is StreamFault.LATE
    reads = sum(request.method == "GET" for request in server.requests)
    assert reads < 200


async def test_a_reconcile_that_never_waits_does_not_starve_the_loop(client, kind, running):
    calls = 0

    async def reconcile(key):
        nonlocal calls
        calls += 1
        return Again(0)

    informer = Informer(client, kind)
    informer._synced.set()
    machine = Controller("busy", reconcile, [Watch(informer)])
    async with running(machine.run()):
        machine.enqueue(("d", "a"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert 0 < calls <= 10 * 256


@pytest.mark.asyncio(loop_factories=["real"])
async def test_a_turn_lasts_about_a_millisecond():
    turn, others = Turn(), 0

    async def neighbour() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(neighbour())
    for _ in range(50):
        time.sleep(0.0005)  # noqa: ASYNC251 - work that does not wait
        await turn.step()
    task.cancel()
    assert others >= 10


@pytest.mark.asyncio(loop_factories=["real"])
async def test_a_burst_of_events_is_reconciled_while_it_comes_in(server, client, kind, running):
    """The key of an early event is reconciled long before the last event has been taken in."""
    order: list[str] = []
    finished = asyncio.Event()

    async def reconcile(key):
        order.append("reconcile")
        if len(order) == 6000:  # an event and a reconcile for each
            finished.set()
        return Done()

    informer = Informer(client, kind)
    informer.subscribe(lambda _: order.append("event"))
    machine = Controller("c", reconcile, [Watch(informer)], workers=2)
    async with running(informer.run(), machine.run()):
        async with asyncio.timeout(10):
            await informer.wait_synced()
        for n in range(3000):
            server.put(
                "api/v1/configmaps",
                {"metadata": {"name": f"a-{n}", "namespace": "d"}, "data": {}},
                bump_generation=True,
            )
        async with asyncio.timeout(60):
            await finished.wait()
    last_event = len(order) - 1 - order[::-1].index("event")
    assert order[:last_event].count("reconcile") > 1500


def test_the_runtime_imports_nothing_heavy():
    program = (
        "import sys, kubecontroller.runtime\n"
        "heavy = ('pydantic', 'typer', 'rich', 'click', 'opentelemetry', 'jsonschema_rs', 'cel',"
        " 'redis', 'hiredis')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
