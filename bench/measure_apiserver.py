"""The embedded API server, with and without fsync, against kube-apiserver and etcd where named.

etcd syncs every write to disk; local mode does not by default (SQLite with synchronous=NORMAL: a
crash of the machine may lose the last writes, a crash of the process none). kubelocal is measured
with synchronous=FULL as well, and that is what is compared. BENCH_KUBECONFIG names a real cluster;
without one our own figures are stated.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import psutil

from bench.api_load import Load, namespace
from bench.bytecode import compiled
from bench.rows import Row, at_most, no_worse, stated
from bench.turns import RUNS, in_turns
from kubecontroller.client.api import Client
from kubecontroller.client.config import load
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.request import Request

SECONDS = 400 / 5 * RUNS
_CALLS = 200
_PODS = int(os.environ.get("BENCH_API_PODS", "10000"))
_WATCHERS = 100
_CHANGES = 20
_FIGURES = (
    *("create a pod", "read a pod", "apply to a pod, server-side"),
    f"a change seen by {_WATCHERS} watchers",
)
_DURABLE, _PLAIN, _REAL = "with fsync", "without fsync", "kube-apiserver"


def run() -> list[Row]:
    """Measure the embedded server, and the real one beside it where there is one."""
    return asyncio.run(_run())


async def _run() -> list[Row]:
    real = os.environ.get("BENCH_KUBECONFIG") or os.environ.get("KUBECONFIG")
    with tempfile.TemporaryDirectory(prefix="bench-api-") as folder:
        configs, processes, starts = await _start_all(Path(folder))
        if real:
            configs[_REAL] = real
        try:
            memory, lists = await _lists(configs, processes[_PLAIN].pid)
            calls = await in_turns(*(_calls_of(config) for config in configs.values()))
            spent = await _spent(configs[_PLAIN], processes[_PLAIN].pid)
        finally:
            for process in processes.values():
                process.terminate()
                process.wait(20)
    by_server = dict(zip(configs, calls, strict=True))
    rows = [at_most("embedded API server: start to first answer", starts, "s", limit=0.5)]
    for name in _FIGURES:
        rows += _rows(name, {k: [run[name] for run in found] for k, found in by_server.items()},
                      "ms")  # fmt: skip
    rows += _rows(f"list of {_PODS:,} pods", lists, "s")
    return [
        *rows,
        *(stated(f"{n}: CPU of the embedded server", ms, None, "ms") for n, ms in spent.items()),
        at_most(f"memory with {_PODS:,} pods", memory, "MiB", limit=100),
    ]


def _rows(name: str, figures: dict[str, list[float]], unit: str) -> list[Row]:
    rows = [stated(f"{name}, without fsync", figures[_PLAIN], None, unit)]
    ours, real = figures[_DURABLE], figures.get(_REAL)
    if real is None:
        return [*rows, stated(f"{name}, with fsync", ours, None, unit)]
    return [*rows, no_worse(f"{name}, both with fsync, kube-apiserver", ours, real, unit)]


async def _start_all(
    folder: Path,
) -> tuple[dict[str, str], dict[str, subprocess.Popen[str]], list[float]]:
    """Start kubelocal with and without fsync; kubeconfigs, processes, and how long starts took."""
    starts = []
    for number in range(RUNS + 1):  # the first one compiles
        process, _, took = await _start(folder, f"start{number}", durable=False)
        process.terminate()
        process.wait(20)
        starts.append(took)
    plain, plain_config, _ = await _start(folder, "plain", durable=False)
    durable, durable_config, _ = await _start(folder, "durable", durable=True)
    configs = {_DURABLE: str(durable_config), _PLAIN: str(plain_config)}
    return configs, {_DURABLE: durable, _PLAIN: plain}, starts[1:]


def _client(config: str) -> Client:
    return Client(HttpTransport(load(file=config)), field_manager="bench")


def _calls_of(config: str) -> Callable[[], Awaitable[dict[str, float]]]:
    async def measure() -> dict[str, float]:
        client = _client(config)
        try:
            async with namespace(client) as place:
                work = Load(client, place)
                await _wait_account(client, place)
                figures = [
                    await work.create_ms(_CALLS),
                    await work.get_ms(_CALLS),
                    await work.apply_ms(_CALLS),
                ]
                async with work.watched(_WATCHERS) as change:
                    figures.append(await change(_CHANGES))
        finally:
            await client.close()
        return dict(zip(_FIGURES, figures, strict=True))

    return measure


async def _spent(config: str, pid: int) -> dict[str, float]:
    """CPU time of our server, in milliseconds for each call."""
    process = psutil.Process(pid)
    client = _client(config)
    spent: dict[str, float] = {}
    try:
        async with namespace(client) as place:
            work = Load(client, place)
            await _wait_account(client, place)
            for name, measure in zip(
                _FIGURES, (work.create_ms, work.get_ms, work.apply_ms), strict=False
            ):
                before = sum(process.cpu_times()[:2])
                await measure(_CALLS)
                spent[name] = (sum(process.cpu_times()[:2]) - before) / _CALLS * 1000
    finally:
        await client.close()
    return spent


async def _lists(configs: dict[str, str], pid: int) -> tuple[float, dict[str, list[float]]]:
    """Fill every server with as many pods, then list them in turns; our memory, and seconds."""
    async with AsyncExitStack() as stack:
        loads: dict[str, Load] = {}
        for name, config in configs.items():
            client = _client(config)
            stack.push_async_callback(client.close)
            place = await stack.enter_async_context(namespace(client))
            await _wait_account(client, place)
            loads[name] = Load(client, place)
            await loads[name].fill(_PODS)
        memory = _rss_mib(pid)
        results = await in_turns(*(work.list_seconds for work in loads.values()))
    return memory, dict(zip(loads, results, strict=True))


async def _wait_account(client: Client, place: str) -> None:
    """Pods need the namespace's account, which a real cluster makes a moment later."""
    path = f"/api/v1/namespaces/{place}/serviceaccounts/default"
    for _ in range(100):
        answer = await client.transport.request(Request(method="GET", path=path), timeout=5)
        if answer.status == 200:
            return
        await asyncio.sleep(0.05)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await client.transport.request(
        Request(
            method="POST",
            path=path.rpartition("/")[0],
            headers=(("Content-Type", "application/json"),),
            body=msgspec.json.encode(account),
        ),
        timeout=5,
    )


def _rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no VmRSS of {pid}")


async def _start(
    folder: Path, name: str, *, durable: bool
) -> tuple[subprocess.Popen[str], Path, float]:
    """Start an embedded server; return it, its kubeconfig, and when it first answered."""
    config = folder / f"{name}.kubeconfig"
    module = "bench.durable_apiserver" if durable else "kubelocal.apiserver"
    command = [sys.executable, "-m", module]
    begun = time.perf_counter()
    process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
        [*command, "--data", str(folder / name), "--kubeconfig", str(config)],
        stdout=subprocess.PIPE,
        text=True,
        env=compiled(),
    )
    assert process.stdout is not None
    await asyncio.to_thread(process.stdout.readline)
    client = _client(str(config))
    answer = await client.transport.request(Request(method="GET", path="/readyz"), timeout=10)
    took = time.perf_counter() - begun
    await client.close()
    assert answer.status == 200
    return process, config, took
