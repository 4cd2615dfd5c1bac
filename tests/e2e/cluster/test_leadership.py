"""Operators that elect a leader, in the middle of a slot move. K-30"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from e2e.clusters import start_operator
from e2e.harness import until
from e2e.proxy import Proxy, proxied
from kubecontroller.client.errors import NotFound
from kubecontroller.client.meta import Manifest
from kubecontroller.client.scheme import Kind
from redis_operator.redis.errors import RedisError

pytestmark = pytest.mark.e2e

LEASES: Kind[Manifest] = Kind("coordination.k8s.io", "v1", "Lease", "leases", True, dict)
LOGGED = {"slowlog-log-slower-than": "0", "slowlog-max-len": "20000"}
LOOKS = (
    "INFO",
    "PING",
    "ROLE",
    "DBSIZE",
    "TIME",
    "MEMORY",
    "LATENCY",
    "WAIT",
    "EVALSHA_RO",
    "COMMAND",
)
LOOKS_IN = ("NODES", "MYID", "INFO", "SLOTS", "GETSLOTMIGRATIONS", "GET", "LIST", "COUNTKEYSINSLOT")


@contextmanager
def electing(cluster: Any, namespace: str, kubeconfig: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run an operator that takes part in the election."""
    log = Path(tempfile.mkdtemp(dir=cluster.folder)) / "operator.log"
    process = start_operator(log, kubeconfig, "--namespace", namespace, election=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=60)
        print(log.read_text()[-3000:])


async def lease(cache: Any) -> Manifest:
    try:
        found = await cache.client.get(LEASES, (cache.namespace, "redis-operator"))
    except NotFound:
        return {}
    return dict(found["spec"])


async def wait_leader(cache: Any, other_than: str = "") -> str:
    async def led() -> str:
        holder = str((await lease(cache)).get("holderIdentity") or "")
        return holder if holder != other_than else ""

    found: str = await until(led, seconds=60, what="a leader")
    return found


@contextmanager
def without_the_clusters_own(cluster: Any) -> Iterator[None]:
    cluster.require_process()
    cluster.stop_operator()
    try:
        yield
    finally:
        cluster.start_operator()


async def slots_move(cache: Any) -> bool:
    """Tell whether a new shard has or gets slots."""
    for name in ("cache-3-0", "cache-3-1"):
        pod = (await cache.pods()).get(name)
        if pod is not None and pod.status.pod_ip:
            try:
                found = await cache.myself(name)
            except (OSError, RedisError):
                continue
            if found.slots or found.importing:
                return True
    return False


async def test_one_renewal_that_hangs_costs_nothing(
    database: Any, cluster: Any, namespace: str, tmp_path: Path
) -> None:
    cache = await database()
    await cache.wait_ready()
    with ExitStack() as stack:
        stack.enter_context(without_the_clusters_own(cluster))
        async with proxied(cluster.kubeconfig, tmp_path) as proxy:
            process = stack.enter_context(electing(cluster, namespace, proxy.kubeconfig))
            leader = await wait_leader(cache)
            await cache.patch(shards=4)
            await until(lambda: slots_move(cache), seconds=60, what="slots to move", every=0.02)
            proxy.hangs = lambda method, path: (
                method == "PUT" and "/leases/" in path and not proxy.hung
            )
            await until(lambda: _hung(proxy), seconds=30, what="a renewal that hangs")
            await cache.wait_ready(shards=4, seconds=120)
            await asyncio.sleep(15)  # longer than a lease lasts
            found = await lease(cache)
            assert process.poll() is None
            assert found["holderIdentity"] == leader
            assert found.get("leaseTransitions", 0) == 0
            process.terminate()
            await asyncio.to_thread(process.wait, 60)


async def _hung(proxy: Proxy) -> bool:
    return bool(proxy.hung)


@pytest.mark.parametrize("how", ["no renewal arrives", "suspended for a while"])
async def test_an_operator_that_lost_its_lease_neither_writes_nor_commands(
    database: Any, cluster: Any, namespace: str, tmp_path: Path, how: str
) -> None:
    cache = await database(config=LOGGED)
    await cache.wait_ready()
    before = await cache.fill(1000)
    with ExitStack() as stack:
        stack.enter_context(without_the_clusters_own(cluster))
        async with proxied(cluster.kubeconfig, tmp_path) as proxy:
            first = stack.enter_context(electing(cluster, namespace, proxy.kubeconfig))
            leader = await wait_leader(cache)
            await cache.patch(shards=4)
            await until(lambda: slots_move(cache), seconds=60, what="slots to move", every=0.02)
            if how.startswith("suspended"):
                os.kill(first.pid, signal.SIGSTOP)
            else:
                proxy.hangs = lambda _method, path: "/leases" in path
            connections = await _connections(cache)
            assert connections
            stack.enter_context(electing(cluster, namespace, cluster.kubeconfig))
            await wait_leader(cache, other_than=leader)
            lost_at, last = time.monotonic(), await _last_commands(cache)
            await cache.wait_ready(shards=4, seconds=120)
            await asyncio.sleep(5)
            if how.startswith("suspended"):
                os.kill(first.pid, signal.SIGCONT)
            code = await asyncio.to_thread(first.wait, 30)
            assert code == 2, "it must say that it lost its lease"
            await asyncio.sleep(1)
            assert [write for write in proxy.writes if write[0] > lost_at] == []
            assert await _commanded(cache, connections, last) == []
            status = await cache.wait_ready(shards=4)
            assert status["slots"] == "16384/16384"
            assert await cache.check(before) == []


@asynccontextmanager
async def _asked(cache: Any, pod: str) -> AsyncIterator[Redis]:
    """Ask a server as an application may."""
    address = (await cache.pods())[pod].status.pod_ip
    password = await cache.secret(f"{cache.name}-conn", "password")
    server = Redis(host=address, username="default", password=password, decode_responses=True)
    try:
        yield server
    finally:
        await server.aclose()


async def _connections(cache: Any) -> set[str]:
    """Return where the operators that run now are connected from."""
    found: set[str] = set()
    for pod in await cache.pods():
        async with _asked(cache, pod) as server:
            clients = await server.client_list()
        found |= {client["addr"] for client in clients if client["user"] == "operator"}
    return found


async def _last_commands(cache: Any) -> dict[str, int]:
    """Return the number of the last command of each server."""
    found = {}
    for pod in await cache.pods():
        async with _asked(cache, pod) as server:
            found[pod] = max((entry["id"] for entry in await server.slowlog_get(1)), default=-1)
    return found


async def _commanded(cache: Any, connections: set[str], last: dict[str, int]) -> list[str]:
    """Return what was changed over these connections since."""
    found = []
    for pod in await cache.pods():
        async with _asked(cache, pod) as server:
            entries = await server.slowlog_get(20000)
        for entry in entries:
            if entry["id"] <= last.get(pod, -1) or entry["client_address"] not in connections:
                continue
            words = entry["command"].upper().split()
            if words[0] in LOOKS or words[1] in LOOKS_IN:
                continue
            found.append(f"{pod}: {entry['command']}")
    return found
