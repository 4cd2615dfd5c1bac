"""Metrics of controllers under the names that existing dashboards use.

Hot paths count in plain numbers (`measures`, the queue, the controller's tally); they become
Prometheus samples only when scraped. Every series exists from the start, at zero, so that the
first error is a step from 0 to 1 and not a new series.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from kubecontroller.client.errors import KubeError
from kubecontroller.client.request import Request, Response
from kubecontroller.client.transport import Transport
from kubecontroller.runtime.controller import Controller
from kubecontroller.runtime.informer import Informer

__all__ = ["CONTENT_TYPE", "MeasuredTransport", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LAG_TICK = 0.25
_LAG_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _ControllerCollector(Collector):
    """Reads the controllers and their queues when scraped."""

    def __init__(self, controllers: Callable[[], Iterable[Controller]]) -> None:
        self._controllers = controllers

    def collect(self) -> Iterator[Metric]:
        """Yield every family once, with one series for each controller."""
        controllers = list(self._controllers())
        yield from _reconcile_families(controllers)
        yield from _queue_families(controllers)


def _reconcile_families(controllers: list[Controller]) -> Iterator[Metric]:
    prefix = "controller_runtime"
    total = CounterMetricFamily(
        f"{prefix}_reconcile", "Reconciles by result.", labels=["controller", "result"]
    )
    counts = {
        "errors": CounterMetricFamily(
            f"{prefix}_reconcile_errors", "Reconciles that failed.", labels=["controller"]
        ),
        "terminal": CounterMetricFamily(
            f"{prefix}_terminal_reconcile_errors",
            "Reconciles that failed and are not retried.",
            labels=["controller"],
        ),
        "panics": CounterMetricFamily(
            f"{prefix}_reconcile_panics", "Reconciles that raised.", labels=["controller"]
        ),
        "timeouts": CounterMetricFamily(
            f"{prefix}_reconcile_timeouts",
            "Reconciles that exceeded their deadline.",
            labels=["controller"],
        ),
    }
    seconds = HistogramMetricFamily(
        f"{prefix}_reconcile_time_seconds", "Length of reconciles.", labels=["controller"]
    )
    most = GaugeMetricFamily(
        f"{prefix}_max_concurrent_reconciles", "Workers.", labels=["controller"]
    )
    active = GaugeMetricFamily(f"{prefix}_active_workers", "Busy workers.", labels=["controller"])
    for controller in controllers:
        name, tally = [controller.name], controller.tally
        for result in ("success", "requeue_after", "error"):
            total.add_metric([controller.name, result], tally.results[result])
        total.add_metric([controller.name, "requeue"], 0)
        counts["errors"].add_metric(name, tally.results["error"])
        counts["terminal"].add_metric(name, tally.results["terminal"])
        counts["panics"].add_metric(name, tally.panics)
        counts["timeouts"].add_metric(name, tally.timeouts)
        seconds.add_metric(name, tally.duration.cumulative(), tally.duration.total)
        most.add_metric(name, controller.workers)
        active.add_metric(name, tally.active)
    yield from (total, *counts.values(), seconds, most, active)


def _queue_families(controllers: list[Controller]) -> Iterator[Metric]:
    labels = ["name", "controller"]
    depth = GaugeMetricFamily("workqueue_depth", "Keys ready.", labels=[*labels, "priority"])
    adds = CounterMetricFamily("workqueue_adds", "Keys added.", labels=labels)
    retries = CounterMetricFamily("workqueue_retries", "Keys rate limited.", labels=labels)
    latency = HistogramMetricFamily(
        "workqueue_queue_duration_seconds", "From add to get.", labels=labels
    )
    work = HistogramMetricFamily(
        "workqueue_work_duration_seconds", "From get to done.", labels=labels
    )
    unfinished = GaugeMetricFamily(
        "workqueue_unfinished_work_seconds", "Sum over keys being worked.", labels=labels
    )
    longest = GaugeMetricFamily(
        "workqueue_longest_running_processor_seconds", "Of keys being worked.", labels=labels
    )
    for controller in controllers:
        queue, name = controller.queue, [controller.name, controller.name]
        for priority, count in {0: 0, **queue.depth()}.items():
            depth.add_metric([*name, str(priority)], count)
        adds.add_metric(name, queue.adds)
        retries.add_metric(name, queue.retries)
        latency.add_metric(name, queue.latency.cumulative(), queue.latency.total)
        work.add_metric(name, queue.work_duration.cumulative(), queue.work_duration.total)
        running = queue.working_seconds()
        unfinished.add_metric(name, sum(running))
        longest.add_metric(name, max(running, default=0.0))
    yield from (depth, adds, retries, latency, work, unfinished, longest)


class _InformerCollector(Collector):
    """Reads the caches when scraped."""

    def __init__(self, informers: Callable[[], Iterable[Informer[Any]]]) -> None:
        self._informers = informers

    def collect(self) -> Iterator[Metric]:
        """Yield the size, the sync state and the failures of each cache."""
        labels = ["resource", "namespace", "selector"]
        objects = GaugeMetricFamily("informer_objects", "Objects cached.", labels=labels)
        synced = GaugeMetricFamily(
            "informer_synced", "Whether the first list was read.", labels=labels
        )
        failures = CounterMetricFamily(
            "informer_failures", "Lists and watches that failed.", labels=labels
        )
        for informer in list(self._informers()):
            selector = ",".join(part for part in (informer.labels, informer.fields) if part)
            name = [informer.kind.resource, informer.namespace, selector]
            objects.add_metric(name, len(informer.cache))
            synced.add_metric(name, float(informer.has_synced))
            failures.add_metric(name, informer.failures)
        yield from (objects, synced, failures)


class _Parts(Protocol):
    """The measured parts of a manager."""

    controllers: list[Controller]
    informers: dict[tuple[object, ...], Informer[Any]]


class Metrics:
    """One registry for a manager and the metrics that the operator adds to `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for about_the_process in (ProcessCollector, PlatformCollector, GCCollector):
            about_the_process(registry=self.registry)
        self.requests = Counter(
            "rest_client_requests",
            "Requests to the API server.",
            ["code", "method", "host"],
            registry=self.registry,
        )
        self.leading = Gauge(
            "leader_election_master_status",
            "Whether this process leads.",
            ["name"],
            registry=self.registry,
        )
        self.lag = Histogram(
            "event_loop_lag_seconds",
            "Delay of the event loop.",
            buckets=_LAG_BOUNDS,
            registry=self.registry,
        )

    def watch_manager(self, manager: _Parts) -> None:
        """Read the controllers and caches of a manager whenever scraped."""
        self.registry.register(_ControllerCollector(lambda: manager.controllers))
        self.registry.register(_InformerCollector(manager.informers.values))

    async def exposition(self) -> bytes:
        """Return all samples as text, rendered in a thread: many series take long."""
        return await asyncio.to_thread(generate_latest, self.registry)

    async def measure_lag(self) -> None:
        """Measure the delay of the loop for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_TICK
            await asyncio.sleep(_LAG_TICK)
            self.lag.observe(max(0.0, loop.time() - due))


class MeasuredTransport:
    """A transport that counts its requests by method and response."""

    def __init__(self, transport: Transport, metrics: Metrics, *, host: str = "") -> None:
        self._transport = transport
        self._metrics = metrics
        self._host = host
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            metrics.requests.labels("200", method, host)

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send a request and count its response, or its failure."""
        code = "<error>"
        try:
            response = await self._transport.request(request, timeout=timeout)
            code = str(response.status)
        finally:
            self._metrics.requests.labels(code, request.method, self._host).inc()
        return response

    def stream(
        self, request: Request, *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream and count whether it opened."""
        return _CountedStream(self._transport.stream(request, idle=idle), self._count)

    async def close(self) -> None:
        """Close the transport underneath."""
        await self._transport.close()

    def _count(self, code: str) -> None:
        self._metrics.requests.labels(code, "GET", self._host).inc()


class _CountedStream(AbstractAsyncContextManager[AsyncIterator[bytes]]):
    def __init__(
        self,
        stream: AbstractAsyncContextManager[AsyncIterator[bytes]],
        count: Callable[[str], None],
    ) -> None:
        self._stream = stream
        self._count = count

    async def __aenter__(self) -> AsyncIterator[bytes]:
        try:
            pieces = await self._stream.__aenter__()
        except KubeError as error:
            self._count(str(getattr(error, "status", "<error>")))
            raise
        self._count("200")
        return pieces

    async def __aexit__(self, *exception: object) -> bool | None:
        return await self._stream.__aexit__(*exception)  # type: ignore[arg-type]  # passed through
