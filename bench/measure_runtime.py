"""The controller runtime: 10,000 pods into an indexed cache, 20,000 changes after it, the queue."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import time
from typing import Any

from bench.missing import Missing
from bench.programs import python, report
from bench.rows import Row, at_least, at_most, better_if_less, stated
from redis_operator.runtime.workqueue import WorkQueue

_PODS = 10_000
_BURST = 10_000
_PEER_PODS = int(os.environ.get("BENCH_PEER_PODS", "2000"))
# kopf takes more than linear time to fill its index: at 10,000 pods it does not end within minutes
# on two busy cores. Both sides get the same smaller number then, which is kind to kopf.
_KOPF_PODS = int(os.environ.get("BENCH_KOPF_PODS", "500"))
_PEERS = {"kubernetes": "official", "lightkube": "light"}
_WITHIN = 100.0


def run() -> list[Row]:
    """Measure our informer against each peer; kopf is the one with aims."""
    if importlib.util.find_spec("kopf") is None:
        raise Missing("the peers are not installed: run it by `make bench`")
    rows = _against_kopf()
    ours = _client("ours", _PEER_PODS)
    for name, module in _PEERS.items():
        rows += _stated(name, ours, _client(module, _PEER_PODS))
    return [*rows, *_alone(), _queue(), *_burst()]


def _client(module: str, pods: int) -> dict[str, Any]:
    """Let one client list so many pods and follow twice as many changes."""
    with python("pod_server", pods, 2 * pods) as port:
        url = f"http://127.0.0.1:{port}"
        return report(f"clients.{module}", url, pods, 2 * pods, within=_WITHIN)


def _against_kopf() -> list[Row]:
    ours, kopf = _client("ours", _KOPF_PODS), _client("kopf_index", _KOPF_PODS)
    size = f"{_KOPF_PODS:,} pods"
    return [
        better_if_less(
            f"{size} into an indexed cache, kopf: CPU",
            ours["list_cpu"],
            kopf["list_cpu"],
            "s",
            aim=15,
        ),
        stated(
            f"{size} into an indexed cache, kopf: wall",
            ours["list_seconds"],
            kopf["list_seconds"],
            "s",
        ),
        better_if_less(
            f"memory per pod of {size}, kopf",
            _per_pod(ours, _KOPF_PODS),
            _per_pod(kopf, _KOPF_PODS),
            "KiB",
            aim=3.3,
        ),
        better_if_less(
            "CPU per watch event, kopf", _per_event(ours), _per_event(kopf), "us", aim=10
        ),
    ]


def _alone() -> list[Row]:
    ours = _client("ours", _PODS)
    return [
        stated(f"{_PODS:,} pods into an indexed cache: CPU", ours["list_cpu"], None, "s"),
        stated(f"{_PODS:,} pods into an indexed cache: wall", ours["list_seconds"], None, "s"),
        stated(f"peak memory with {_PODS:,} pods", ours["peak_mib"], None, "MiB"),
        stated(f"CPU per watch event with {_PODS:,} pods", _per_event(ours), None, "us"),
    ]


def _stated(name: str, ours: dict[str, Any], peer: dict[str, Any]) -> list[Row]:
    size = f"{_PEER_PODS:,} pods"
    return [
        stated(
            f"{size} into an indexed cache, {name}: CPU", ours["list_cpu"], peer["list_cpu"], "s"
        ),
        stated(f"peak memory with {size}, {name}", ours["peak_mib"], peer["peak_mib"], "MiB"),
        stated(f"CPU per watch event, {name}", _per_event(ours), _per_event(peer), "us"),
    ]


def _per_event(client: dict[str, Any]) -> float:
    return float(client["watch_cpu"]) / int(client["events"]) * 1e6


def _per_pod(client: dict[str, Any], pods: int) -> float:
    return float(client["peak_mib"] - client["base_mib"]) / pods * 1024


def _queue() -> Row:
    async def work() -> float:
        queue: WorkQueue[tuple[str, str]] = WorkQueue()
        keys = [("default", f"name-{number}") for number in range(1000)]
        rounds = 100
        begun = time.process_time()
        for _ in range(rounds):
            for key in keys:
                queue.add(key)
            for _ in keys:
                queue.done(await queue.get())
        return rounds * len(keys) / (time.process_time() - begun)

    best = max(asyncio.run(work()) for _ in range(3))
    return at_least("work queue: add, get, done", best, "per CPU s", floor=200_000)


def _burst() -> list[Row]:
    with python("pod_server", _PODS, _BURST) as port:
        url = f"http://127.0.0.1:{port}"
        waits = report("clients.burst", url, _PODS, _BURST, within=_WITHIN)
    return [
        stated("event to reconcile in a burst, median", waits["p50"] * 1e3, None, "ms"),
        at_most("event to reconcile in a burst, p99", waits["p99"] * 1e3, "ms", limit=5),
    ]
