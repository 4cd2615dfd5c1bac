"""Metrics and their pages: controller-runtime's names, at zero from the start."""

from __future__ import annotations

import asyncio
import time

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubecontroller.client.api import Client
from kubecontroller.client.errors import ConnectionFailed, NotFound
from kubecontroller.runtime.controller import Controller, Watch
from kubecontroller.runtime.manager import Manager
from kubecontroller.runtime.metrics import MeasuredTransport, Metrics
from kubecontroller.runtime.outcomes import Again, Done, Retry, Stop
from kubecontroller.runtime.server import HealthServer


async def samples(metrics: Metrics) -> dict[tuple[str, str], float]:
    text = (await metrics.exposition()).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            found[(sample.name, labels)] = sample.value
    return found


@pytest.fixture
def manager(client, kind):
    outcomes = iter([Done(), Again(1000), Retry("x"), Stop("y"), KeyError("z")])

    async def reconcile(_):
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    manager = Manager(client)
    manager.add(Controller("web", reconcile, [Watch(manager.informer(kind))], workers=3))
    return manager


async def test_every_series_exists_at_zero_before_anything_happened(manager):
    found = await samples(manager.metrics)
    for name, labels in [
        ("controller_runtime_reconcile_total", "controller=web,result=success"),
        ("controller_runtime_reconcile_total", "controller=web,result=error"),
        ("controller_runtime_reconcile_total", "controller=web,result=requeue_after"),
        ("controller_runtime_reconcile_total", "controller=web,result=requeue"),
        ("controller_runtime_reconcile_errors_total", "controller=web"),
        ("controller_runtime_terminal_reconcile_errors_total", "controller=web"),
        ("controller_runtime_reconcile_panics_total", "controller=web"),
        ("controller_runtime_reconcile_timeouts_total", "controller=web"),
        ("controller_runtime_reconcile_time_seconds_count", "controller=web"),
        ("controller_runtime_active_workers", "controller=web"),
        ("workqueue_depth", "controller=web,name=web,priority=0"),
        ("workqueue_adds_total", "controller=web,name=web"),
        ("workqueue_retries_total", "controller=web,name=web"),
        ("workqueue_queue_duration_seconds_count", "controller=web,name=web"),
        ("workqueue_work_duration_seconds_count", "controller=web,name=web"),
        ("workqueue_unfinished_work_seconds", "controller=web,name=web"),
        ("workqueue_longest_running_processor_seconds", "controller=web,name=web"),
        ("rest_client_requests_total", "code=200,host=,method=PATCH"),
        ("event_loop_lag_seconds_count", ""),
        ("informer_synced", "namespace=,resource=configmaps,selector="),
    ]:
        assert found[(name, labels)] == 0, name
    assert found[("controller_runtime_max_concurrent_reconciles", "controller=web")] == 3


async def test_outcomes_are_counted_under_their_names(manager, running):
    (controller,) = manager.controllers
    controller.watches[0].informer._synced.set()
    async with running(controller.run()):
        for n in range(5):
            controller.enqueue(("d", f"a-{n}"))
            await asyncio.sleep(0)
            await asyncio.sleep(0.0001)
        found = await samples(manager.metrics)
    total = "controller_runtime_reconcile_total"
    assert found[(total, "controller=web,result=success")] == 1
    assert found[(total, "controller=web,result=requeue_after")] == 1
    assert found[(total, "controller=web,result=error")] == 3
    assert found[("controller_runtime_terminal_reconcile_errors_total", "controller=web")] == 1
    assert found[("controller_runtime_reconcile_panics_total", "controller=web")] == 1
    assert found[("workqueue_adds_total", "controller=web,name=web")] == 5
    assert found[("workqueue_retries_total", "controller=web,name=web")] == 2
    assert found[("controller_runtime_reconcile_time_seconds_count", "controller=web")] == 5


async def test_a_key_being_worked_shows_for_how_long(client, kind, running):
    async def reconcile(_):
        await asyncio.sleep(100)
        return Done()

    manager = Manager(client)
    controller = Controller("slow", reconcile, [Watch(manager.informer(kind))])
    manager.add(controller)
    controller.watches[0].informer._synced.set()
    async with running(controller.run()):
        controller.enqueue(("d", "a"))
        await asyncio.sleep(7)
        found = await samples(manager.metrics)
    labels = "controller=slow,name=slow"
    assert found[("workqueue_unfinished_work_seconds", labels)] == pytest.approx(7)
    assert found[("workqueue_longest_running_processor_seconds", labels)] == pytest.approx(7)
    assert found[("controller_runtime_active_workers", "controller=slow")] == 1


async def test_requests_are_counted_by_method_and_answer(server, kind, manifest):
    metrics = Metrics()
    transport = MeasuredTransport(server.transport(), metrics, host="api")
    client = Client(transport)
    await client.create(kind, manifest("a"))
    with pytest.raises(NotFound):
        await client.get(kind, ("default", "missing"))
    async with client.watch(kind, server_timeout=1) as events:
        async for _ in events:
            pass
    server.forget_history()

    class Dead:
        async def request(self, request, *, timeout):
            raise ConnectionFailed("refused")

        def stream(self, request, *, idle):
            raise AssertionError

    transport._transport = Dead()
    with pytest.raises(ConnectionFailed):
        await client.get(kind, ("default", "a"))
    found = await samples(metrics)
    name = "rest_client_requests_total"
    assert found[(name, "code=201,host=api,method=POST")] == 1
    assert found[(name, "code=404,host=api,method=GET")] == 1
    assert found[(name, "code=200,host=api,method=GET")] == 1
    assert found[(name, "code=<error>,host=api,method=GET")] == 1


@pytest.mark.asyncio(loop_factories=["real"])
async def test_a_loop_that_turns_late_is_measured(running):
    metrics = Metrics()
    async with running(metrics.measure_lag()):
        await asyncio.sleep(0.1)
        time.sleep(0.5)  # noqa: ASYNC251 - the lag to be measured
        await asyncio.sleep(0.05)
        found = await samples(metrics)
    assert found[("event_loop_lag_seconds_sum", "")] > 0.2


# The pages


@pytest.fixture
async def pages():
    metrics = Metrics()
    server = HealthServer(metrics, host="127.0.0.1", port=0)
    await server.start()
    async with aiohttp.ClientSession() as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(f"http://127.0.0.1:{server.port}{path}") as response:
                return response.status, await response.text()

        yield server, get
    await server.stop()


@pytest.mark.asyncio(loop_factories=["real"])
async def test_health_and_readiness_answer_with_their_reasons(pages):
    server, get = pages
    reasons = {"caches": "the cache of pods has not synced"}
    server.add_readiness("caches", lambda: reasons.get("caches"))
    server.add_health("loop", lambda: None)
    assert await get("/healthz") == (200, "[+]loop ok\nok\n")
    status, text = await get("/readyz")
    assert (status, text) == (
        500,
        "[-]caches failed: the cache of pods has not synced\nnot healthy\n",
    )
    reasons.clear()
    assert (await get("/readyz"))[0] == 200


@pytest.mark.asyncio(loop_factories=["real"])
async def test_a_check_that_raises_is_a_failed_check(pages):
    server, get = pages

    def broken() -> str | None:
        raise KeyError("a bug")

    server.add_health("broken", broken)
    status, text = await get("/healthz")
    assert status == 500
    assert "raised KeyError" in text


@pytest.mark.asyncio(loop_factories=["real"])
async def test_metrics_are_served_as_prometheus_text(pages):
    _, get = pages
    status, text = await get("/metrics")
    assert status == 200
    assert "# TYPE rest_client_requests_total counter" in text
    assert (await get("/nothing"))[0] == 404


@pytest.mark.asyncio(loop_factories=["real"])
async def test_a_port_that_is_taken_is_named_with_what_to_do(pages):
    server, _ = pages
    second = HealthServer(Metrics(), host="127.0.0.1", port=server.port)
    with pytest.raises(RuntimeError, match=rf"127.0.0.1:{server.port}.*Choose another port"):
        await second.start()
