"""Whole databases, on local mode or on the cluster KUBECONFIG names.

Without KUBECONFIG each test process starts a local cluster of three nodes for its tests, and
another one after a test that failed. With it, the same tests run there, in one process; the
operator runs beside them as a process of this machine, so pods must be reachable from here.
`E2E_ENGINE`, `E2E_VERSION` and `E2E_IMAGE` choose what the databases run.
`E2E_PATIENCE` stretches every deadline on a slow one. `E2E_PART=0/3` runs the first of three
parts of the tests; the name of a test decides in which part it is.
`E2E_NODES` says how many nodes there are when they are fewer than three: then none is drained.
`E2E_NAMESPACE` names the one namespace of a run on a real cluster, so that several can share it.
`E2E_OPERATOR=installed` tests the operator as a pod of `E2E_OPERATOR_IMAGE`, which
`redis-operator install` installs, instead of a process of this machine.
`E2E_POWER_OFF` and `E2E_POWER_ON` are shell commands that switch the node named by `NODE`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.clusters import PATIENCE, Cluster, Clusters, LocalCluster, RealCluster
from e2e.disks import disk
from e2e.harness import Database
from e2e.installed import InstalledLocal, InstalledReal, is_asked_for
from e2e.outside import Outside
from support.groups import keep_part

__all__ = ["Cluster", "Database", "disk"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give databases the time they need on a busy machine; keep the part that is asked for."""
    for item in items:
        if item.get_closest_marker("e2e") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300 * PATIENCE))
    keep_part(config, items, os.environ.get("E2E_PART") or "0/1")


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
    """Remember that a test failed: the next one must not suffer from what it left behind.

    What the cluster can tell of it is told before it is thrown away.
    """
    report = yield
    if report.failed:
        item.config.stash[_FAILED] = True
        found = getattr(item, "funcargs", {})
        if call.when == "call" and "cluster" in found:
            report.sections += found["cluster"].evidence(found.get("namespace", ""))
    return report


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Return what has the cluster of this test process."""
    given = os.environ.get("KUBECONFIG", "")

    def make() -> Cluster:
        folder = tmp_path_factory.mktemp("e2e")
        if is_asked_for():
            return InstalledReal(Path(given), folder) if given else InstalledLocal(folder)
        return RealCluster(Path(given), folder) if given else LocalCluster(folder)

    made = Clusters(make)
    yield made
    made.stop()


@pytest.fixture
def cluster(clusters: Clusters, pytestconfig: pytest.Config) -> Cluster:
    """Return the cluster that the tests of this process share; a clean one after a failure."""
    if pytestconfig.stash.get(_FAILED, False):
        pytestconfig.stash[_FAILED] = False
        clusters.renew()
    return clusters.current()


@pytest.fixture
async def namespace(cluster: Cluster) -> AsyncIterator[str]:
    """Return a namespace of the test's own."""
    name = cluster.only_namespace or f"e2e-{uuid.uuid4().hex[:8]}"
    client = cluster.client()
    await cluster.create_namespace(client, name)
    yield name
    try:
        await cluster.end_databases(client, name)
        await cluster.delete_namespace(client, name)
    finally:
        await client.close()


@pytest.fixture
async def database(cluster: Cluster, namespace: str) -> AsyncIterator[Any]:
    """Return a maker of databases: `await database(shards=3, replicas=1, ...)`."""
    client = cluster.client()
    made: list[Database] = []

    async def make(name: str = "cache", **spec: Any) -> Database:
        one = Database(cluster, client, namespace, name)
        made.append(one)
        await one.apply(**spec)
        return one

    yield make
    for one in made:
        await one.close()
    await client.close()


@pytest.fixture
async def outside(cluster: Cluster, namespace: str) -> AsyncIterator[Outside]:
    """Return a server that no operator looks after, not yet started."""
    client = cluster.client()
    yield Outside(cluster, client, namespace)
    await client.close()
