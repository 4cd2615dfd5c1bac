"""The embedded API server against kube-apiserver and etcd, where BENCH_KUBECONFIG names one.

Without a real cluster our own figures are stated and the peer's column is empty.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

import msgspec
import psutil

from bench.api_load import LISTS, Load, namespace
from bench.bytecode import compiled
from bench.rows import Row, at_most, better_if_less, stated
from redis_operator.kube.client import Client
from redis_operator.kube.config import load
from redis_operator.kube.http import HttpTransport
from redis_operator.kube.request import Request

_CALLS = 200
_PODS = int(os.environ.get("BENCH_API_PODS", "10000"))
_COMPARED_PODS = min(1_000, _PODS)
_WATCHERS = 100
_CHANGES = 20


def run() -> list[Row]:
    """Measure the embedded server, and the real one beside it where there is one."""
    return asyncio.run(_run())


async def _run() -> list[Row]:
    real = os.environ.get("BENCH_KUBECONFIG") or os.environ.get("KUBECONFIG")
    peer = await _figures(real) if real else None
    with tempfile.TemporaryDirectory(prefix="bench-api-") as folder:
        first, _, _ = await _start(Path(folder), "first")  # whoever starts first compiles
        first.terminate()
        first.wait(20)
        process, config, started = await _start(Path(folder), "second")
        try:
            many = await _many(str(config), process.pid)
            meter = _Meter(process.pid)
            ours = await _figures(str(config), meter)
        finally:
            process.terminate()
            process.wait(20)
    rows = [_row(name, unit, ours[name], peer) for name, unit in _FIGURES]
    return [
        at_most("embedded API server: start to first answer", started, "s", limit=0.5),
        *rows,
        *(
            stated(f"{name}: CPU of the embedded server", spent, None, "ms")
            for name, spent in zip(ours, meter.spent, strict=True)
        ),
        stated(f"list of {_PODS:,} pods", many["list"], None, "s"),
        at_most(f"memory with {_PODS:,} pods", many["rss"], "MiB", limit=100),
    ]


_FIGURES = (
    ("create a pod", "ms"),
    ("read a pod", "ms"),
    ("apply to a pod, server-side", "ms"),
    (f"list of {_COMPARED_PODS:,} pods", "s"),
    (f"a change seen by {_WATCHERS} watchers", "ms"),
)


class _Meter:
    """The CPU time of one process, in milliseconds for each time something is done."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.spent: list[float] = []

    async def read(self, work: Awaitable[float], times: int) -> float:
        """Do the work and remember what one of its so many parts took."""
        before = sum(self._process.cpu_times()[:2])
        figure = await work
        self.spent.append((sum(self._process.cpu_times()[:2]) - before) / times * 1000)
        return figure


async def _unmetered(work: Awaitable[float], _times: int) -> float:
    return await work


def _row(name: str, unit: str, ours: float, peer: dict[str, float] | None) -> Row:
    if peer is None:
        return stated(name, ours, None, unit)
    return better_if_less(f"{name}, kube-apiserver", ours, peer[name], unit, aim=1)


def _client(config: str) -> Client:
    return Client(HttpTransport(load(file=config)), field_manager="bench")


async def _figures(config: str, meter: _Meter | None = None) -> dict[str, float]:
    client = _client(config)
    read = meter.read if meter is not None else _unmetered
    try:
        async with namespace(client) as place:
            work = Load(client, place)
            await _wait_account(client, place)
            figures = [
                await read(work.create_ms(_CALLS), _CALLS),
                await read(work.get_ms(_CALLS), _CALLS),
                await read(work.apply_ms(_CALLS), _CALLS),
            ]
            await work.fill(_COMPARED_PODS)
            figures.append(await read(work.list_seconds(), LISTS))
            async with work.watched(_WATCHERS) as change:
                figures.append(await read(change(_CHANGES), _CHANGES))
    finally:
        await client.close()
    return dict(zip((name for name, _ in _FIGURES), figures, strict=True))


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


async def _many(config: str, pid: int) -> dict[str, float]:
    client = _client(config)
    try:
        async with namespace(client) as place:
            await _wait_account(client, place)
            work = Load(client, place)
            await work.fill(_PODS)
            held = _rss_mib(pid)
            return {"rss": held, "list": await work.list_seconds()}
    finally:
        await client.close()


def _rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no VmRSS of {pid}")


async def _start(folder: Path, name: str) -> tuple[subprocess.Popen[str], Path, float]:
    """Start an embedded server; return it, its kubeconfig, and when it first answered."""
    config = folder / f"{name}.kubeconfig"
    command = [sys.executable, "-m", "redis_operator.local.apiserver"]
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
