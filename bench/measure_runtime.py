"""The controller runtime: thousands of pods into an indexed cache, changes after it, the queue.

Each client is a fresh process; what a run with a single pod takes is subtracted, so that imports
and start-up do not count. kopf keeps as much of a pod. `BENCH_PEER_PODS` says how many
the peers get (2,000); kubecontroller is measured with 10,000 as well.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import time
from typing import Any

from bench.missing import Missing
from bench.programs import python, report
from bench.rows import Row, at_least, at_most, better_if_less, stated
from bench.turns import RUNS, in_turns
from kubecontroller.runtime.workqueue import WorkQueue

SECONDS = 700 / 5 * RUNS
_PODS = 10_000
_BURST = 10_000
_PEER_PODS = int(os.environ.get("BENCH_PEER_PODS", "2000"))
_PEERS = {"kubernetes": "official", "lightkube": "light"}
_WITHIN = 200.0

_Report = dict[str, Any]


def run() -> list[Row]:
    """Measure our informer against each peer; kopf is the one with aims."""
    if importlib.util.find_spec("kopf") is None:
        raise Missing("kopf, kubernetes and lightkube are not installed: run `make bench`")
    return [*asyncio.run(_run()), *_alone(), _queue(), *_burst()]


async def _run() -> list[Row]:
    names = {"kopf": "kopf_index", **_PEERS}
    ours, *peers = await in_turns(
        lambda: _net("ours"),
        *(lambda module=module: _net(module) for module in names.values()),
    )
    rows = _against_kopf(ours, peers[0])
    for name, results in zip(_PEERS, peers[1:], strict=True):
        rows += _stated(name, ours, results)
    return rows


async def _net(module: str) -> _Report:
    """What one client takes for its pods beyond what it takes for a single one."""
    single, whole = _client(module, 1), _client(module, _PEER_PODS)
    return {
        "list_cpu": max(1e-4, whole["list_cpu"] - single["list_cpu"]),
        "per_pod": (whole["peak_mib"] - single["peak_mib"]) / (_PEER_PODS - 1) * 1024,
        "per_event": _per_event(whole),
        "peak_mib": whole["peak_mib"],
    }


def _of(reports: list[_Report], name: str) -> list[float]:
    return [float(found[name]) for found in reports]


def _client(module: str, pods: int) -> dict[str, Any]:
    """Let one client list so many pods and follow twice as many changes."""
    with python("pod_server", pods, 2 * pods) as port:
        url = f"http://127.0.0.1:{port}"
        return report(f"clients.{module}", url, pods, 2 * pods, within=_WITHIN)


def _against_kopf(ours: list[_Report], kopf: list[_Report]) -> list[Row]:
    size = f"{_PEER_PODS:,} pods"
    wanted = {
        f"{size} into an indexed cache, kopf: CPU": ("list_cpu", "s", 15.0),
        f"memory per pod of {size}, kopf": ("per_pod", "KiB", 3.3),
        "CPU per watch event, kopf": ("per_event", "us", 10.0),
    }
    return [
        better_if_less(title, _of(ours, name), _of(kopf, name), unit, aim=aim)
        for title, (name, unit, aim) in wanted.items()
    ]


def _alone() -> list[Row]:
    ours = _client("ours", _PODS)
    return [
        stated(f"{_PODS:,} pods into an indexed cache: CPU", ours["list_cpu"], None, "s"),
        stated(f"{_PODS:,} pods into an indexed cache: wall", ours["list_seconds"], None, "s"),
        stated(f"peak memory with {_PODS:,} pods", ours["peak_mib"], None, "MiB"),
        stated(f"CPU per watch event with {_PODS:,} pods", _per_event(ours), None, "us"),
    ]


def _stated(name: str, ours: list[_Report], peer: list[_Report]) -> list[Row]:
    size = f"{_PEER_PODS:,} pods"
    wanted = {
        f"{size} into an indexed cache, {name}: CPU": ("list_cpu", "s"),
        f"peak memory with {size}, {name}": ("peak_mib", "MiB"),
        f"CPU per watch event, {name}": ("per_event", "us"),
    }
    return [
        stated(title, _of(ours, field), _of(peer, field), unit)
        for title, (field, unit) in wanted.items()
    ]


def _per_event(client: dict[str, Any]) -> float:
    return float(client["watch_cpu"]) / int(client["events"]) * 1e6


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

    rates = [asyncio.run(work()) for _ in range(RUNS)]
    return at_least("work queue: add, get, done", rates, "per CPU s", floor=200_000)


def _burst() -> list[Row]:
    waits: list[_Report] = []
    for _ in range(RUNS):
        with python("pod_server", _PODS, _BURST) as port:
            url = f"http://127.0.0.1:{port}"
            waits.append(report("clients.burst", url, _PODS, _BURST, within=_WITHIN))
    medians, slowest = ([found[name] * 1e3 for found in waits] for name in ("p50", "p99"))
    return [
        stated("event to reconcile in a burst, median", medians, None, "ms"),
        at_most("event to reconcile in a burst, p99", slowest, "ms", limit=5),
    ]
