"""Clusters without an operator: each test installs one as a person does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from e2e.clusters import PATIENCE, Cluster, Clusters, LocalCluster, RealCluster
from e2e.installed import is_asked_for

_LOCAL = ("--binding-addresses", "--secret-refresh=5")  # no DNS; Secrets are written at once


class _Bare(LocalCluster):
    def start(self) -> None:
        words = ("--nodes", "3", "--zones", "3", "--detach", "--without-operator")
        self._run("up", "--name", self.name, *words)
        self._wait_for_nodes(3)

    @property
    def operator_log(self) -> Path:
        return self.folder / self.name / "logs" / "node-agent.log"


class _BareReal(RealCluster):
    def start(self) -> None:
        self.operator_log.touch()

    def stop(self) -> None:
        """Leave the cluster as it is."""

    def recover(self) -> bool:
        return True


class Person:
    """Somebody with the program and a kubeconfig."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.images = (
            os.environ.get("E2E_OPERATOR_IMAGE", "redis-operator:1"),
            os.environ.get("E2E_OPERATOR_IMAGE_NEXT", "redis-operator:2"),
        )

    def scope(self, namespace: str) -> tuple[str, ...]:
        """Return what to look after: on a cluster that others use too, nothing of theirs."""
        return () if self.cluster.is_local else ("--watch-namespaces", namespace)

    async def run(self, *words: str, check: bool = True, seconds: float = 60.0) -> str:
        """Run `redis-operator` with these words; return what it said."""
        if words[0] in {"install", "upgrade"} and self.cluster.is_local:
            words = (*words, *(f"--argument={word}" for word in _LOCAL))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "redis_operator.cli.main", *words),
            *("--kubeconfig", str(self.cluster.kubeconfig), "--timeout", str(seconds * PATIENCE)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert not check or process.returncode == 0, said.decode()
        return said.decode()


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    given = os.environ.get("KUBECONFIG", "")

    def make() -> Cluster:
        folder = tmp_path_factory.mktemp("e2e")
        return _BareReal(Path(given), folder) if given else _Bare(folder)

    made = Clusters(make)
    yield made
    made.stop()


@pytest.fixture
async def person(cluster: Cluster) -> AsyncIterator[Person]:
    if not cluster.is_local and "E2E_OPERATOR_IMAGE" not in os.environ:
        pytest.skip("E2E_OPERATOR_IMAGE and E2E_OPERATOR_IMAGE_NEXT name no images of the operator")
    if not cluster.is_local and is_asked_for():
        pytest.skip("these tests install the operator themselves: run them without E2E_OPERATOR")
    made = Person(cluster)
    yield made
    await made.run("uninstall", check=False)
