"""An exporter beside every server, in every mode: what it may ask, and what it may not hold up.

On local mode the exporter is `redis_exporter` of this machine, else a small one of the tests. On a
real cluster `E2E_EXPORTER_IMAGE` names an image, and `E2E_EXPORTER_ARGS` what to run in it where it
has no command of its own. IN-11, IN-25
"""

from __future__ import annotations

import asyncio
import os
import re
import urllib.request
from typing import Any

import pytest

from e2e.failover.conftest import Watched
from e2e.harness import PATIENCE, Database, until
from e2e.writing import Peer
from kubecontroller.client.errors import NotFound
from kubecontroller.client.objects import SERVICES

pytestmark = pytest.mark.e2e
IMAGE = os.environ.get("E2E_EXPORTER_IMAGE", "")
MODES = {
    "Standalone": {"mode": "Standalone", "shards": 1, "replicas": 0, "storage": {"size": "1Gi"}},
    "Failover": {"mode": "Failover", "shards": 1, "replicas": 1},
    "Cluster": {"mode": "Cluster", "shards": 3, "replicas": 0},
}
_ROLE = re.compile(r'redis_instance_info\{[^}]*role="(master|slave)"')


def _monitoring(cluster: Any) -> dict[str, Any]:
    if not cluster.is_local and not IMAGE:
        pytest.skip("E2E_EXPORTER_IMAGE names no image of an exporter")
    found: dict[str, Any] = {"exporter": True}
    if IMAGE:
        found |= {"exporterImage": IMAGE}
        found |= {"exporterArgs": os.environ.get("E2E_EXPORTER_ARGS", "").split()}
    return found


def _scrape(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}:9121/metrics", timeout=5) as answer:
        return str(answer.read().decode())


async def _first_page(address: str) -> str:
    """Scrape an exporter that may still be starting: *Ready* does not wait for it."""

    async def scraped() -> str:
        try:
            return await asyncio.to_thread(_scrape, address)
        except OSError:
            return ""

    found: str = await until(scraped, seconds=30, what=f"the exporter at {address} to respond")
    return found


async def _endpoints(cache: Database, service: str = "stats") -> set[str]:
    """Return the addresses behind a Service for metrics."""
    told = cache.cluster.kubectl(
        *("-n", cache.namespace, "get", "endpointslices"),
        *("-l", f"kubernetes.io/service-name={cache.name}-{service}"),
        *("-o", "jsonpath={.items[*].endpoints[*].addresses[*]}"),
    )
    return set(told.split())


async def _servers(cache: Database) -> dict[str, str]:
    """Return the address of every pod that runs a server."""
    return {
        name: pod.status.pod_ip
        for name, pod in (await cache.pods()).items()
        if "sentinel" not in name
    }


async def _sentinels(cache: Database) -> dict[str, str]:
    """Return the address of every pod that runs a sentinel."""
    return {
        name: pod.status.pod_ip
        for name, pod in (await cache.pods()).items()
        if "sentinel" in name and not pod.metadata.is_deleting
    }


async def _check_exporters(cache: Database) -> None:
    """Scrape every server's exporter: it speaks for its own server, and was refused nothing."""
    servers = await _servers(cache)

    async def all_there() -> bool:
        return await _endpoints(cache) == set(servers.values())

    await until(all_there, seconds=30, what="the stats Service to lead to every server")
    password = await cache.secret(f"{cache.name}-users", "operator")
    for address in servers.values():
        page = await asyncio.to_thread(_scrape, address)
        assert re.search(r"^redis_up(\{\})? 1$", page, re.MULTILINE), page[:2000]
        role = _ROLE.search(page)
        assert role is not None, page[:2000]
        peer = await Peer.open((address, 6379), "operator", password)
        assert f"role:{role[1]}" in str(await peer.ask("INFO", "replication"))
        denied = [line for line in await peer.ask("ACL", "LOG") if "exporter" in str(line)]
        assert denied == [], "the exporter asked for what its user may not"
        peer.close()


@pytest.mark.parametrize("mode", ["Standalone", "Cluster"])
async def test_every_server_has_an_exporter_that_may_ask_what_it_asks(
    database: Any, cluster: Any, mode: str
) -> None:
    cache = await database(**MODES[mode], monitoring=_monitoring(cluster))
    await cache.wait_ready()
    await _check_exporters(cache)


async def test_an_exporter_comes_and_goes_while_clients_write(database: Any, cluster: Any) -> None:
    wanted = _monitoring(cluster)
    cache = Watched(await database(**MODES["Failover"]))
    await cache.wait_ready()
    async with cache.writing() as writer:
        await cache.patch(monitoring=wanted)
        await cache.wait_ready(seconds=120)
        await _check_exporters(cache.database)
        await cache.patch(monitoring={"exporter": False})
        await cache.wait_ready(seconds=120)
    assert await cache.lost(writer) == []
    for name, pod in (await cache.pods()).items():
        assert [c.name for c in pod.spec.containers or ()] == ["server"], name
    with pytest.raises(NotFound):
        await cache.client.get(SERVICES, (cache.namespace, f"{cache.name}-stats"))


async def test_an_exporter_that_cannot_run_holds_up_neither_servers_nor_the_roll(
    database: Any,
) -> None:
    """Clients write over the Service all the while. IN-25"""
    cache = Watched(await database(**MODES["Failover"]))
    await cache.wait_ready()
    old = await cache.uids()
    async with cache.writing() as writer:
        broken = {"exporter": True, "exporterImage": "there-is-no-such-image:1"}
        await cache.patch(monitoring=broken)

        async def rolled() -> bool:
            now = await cache.uids()
            return not any(old[pod] == now.get(pod) for pod in old if "sentinel" not in pod)

        await until(rolled, seconds=120, what="every server's pod to be replaced", every=0.3)
        found = await cache.wait_condition("Ready", "True", reason="SidecarBroken", seconds=120)
        assert "container exporter" in found["message"]
        await _wait_served(cache.database)
        await cache.patch(monitoring={"exporter": False, "exporterImage": None})
        await cache.wait_condition("Ready", "True", reason="Reconciled", seconds=120)
    assert await cache.lost(writer) == []
    assert writer.longest < 2.0 * PATIENCE


async def test_every_sentinel_has_an_exporter_that_may_ask_what_it_asks(
    database: Any, cluster: Any
) -> None:
    """And one that cannot run takes no sentinel away from clients. IN-25"""
    named = {"exporter": "enabled", "exporterImage": "image", "exporterArgs": "args"}
    exporter = {named[name]: value for name, value in _monitoring(cluster).items()}
    cache = Watched(await database(**MODES["Failover"], sentinel={"exporter": exporter}))
    await cache.wait_ready()
    sentinels = await _sentinels(cache.database)
    assert len(sentinels) == 3

    async def all_there() -> bool:
        return await _endpoints(cache.database, "sentinel-stats") == set(sentinels.values())

    await until(all_there, seconds=30, what="the stats Service to lead to every sentinel")
    password = await cache.secret(f"{cache.name}-users", "operator")
    for address in sentinels.values():
        page = await _first_page(address)
        assert re.search(r"^redis_up(\{\})? 1$", page, re.MULTILINE), page[:2000]
        assert re.search(r"^redis_sentinel_masters(\{\})? 1$", page, re.MULTILINE), page[:2000]
        peer = await Peer.open((address, 26379), "operator", password)
        denied = [line for line in await peer.ask("ACL", "LOG") if "exporter" in str(line)]
        assert denied == [], "the exporter asked for what its user may not"
        peer.close()

    await cache.patch(sentinel={"exporter": {"image": "there-is-no-such-image:1"}})
    found = await cache.wait_condition("Ready", "True", reason="SidecarBroken", seconds=180)
    assert "cache-sentinel-" in found["message"]

    async def all_served() -> bool:
        now = set((await _sentinels(cache.database)).values())
        return await _endpoints(cache.database, "sentinel") == now

    await until(all_served, seconds=60, what="the Service of sentinels to lead to all of them")
    await cache.patch(sentinel={"exporter": {"enabled": False, "image": None}})
    await cache.wait_condition("Ready", "True", reason="Reconciled", seconds=180)
    with pytest.raises(NotFound):
        await cache.client.get(SERVICES, (cache.namespace, f"{cache.name}-sentinel-stats"))


async def _wait_served(cache: Database) -> None:
    """Wait until the Service of the primary leads to a pod, ready or not."""

    async def served() -> bool:
        told = cache.cluster.kubectl(
            *("-n", cache.namespace, "get", "endpointslices"),
            *("-l", f"kubernetes.io/service-name={cache.name}"),
            *("-o", "jsonpath={.items[*].endpoints[*].conditions.ready}"),
        )
        return told.split() == ["true"]

    await until(served, seconds=30, what="the Service to lead to the primary")
