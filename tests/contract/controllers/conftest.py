"""A whole cluster for the checks of controllers and nodes: that of KUBECONFIG, or local mode."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.controllers.workloads import World
from contract.driver import Api


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The cluster named by KUBECONFIG, or a local one of this session's own."""
    given = os.environ.get("KUBECONFIG")
    if given:
        yield given
        return
    program = str(Path(sys.executable).parent / "redis-operator")
    name = f"contract-{uuid.uuid4().hex[:6]}"
    home = tmp_path_factory.mktemp("local-mode")
    environment = {**os.environ, "REDIS_OPERATOR_HOME": str(home)}
    command = [program, "up", "--name", name, "--detach", "--without-operator"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    try:
        [line] = [each for each in done.stdout.splitlines() if each.startswith("export KUBECONFIG")]
        yield line.split("=", 1)[1].strip()
    finally:
        subprocess.run(
            [program, "down", "--name", name, "--purge"],
            env=environment,
            capture_output=True,
            timeout=60,
            check=True,
        )


@pytest.fixture(scope="session")
def cluster_api(cluster: str) -> Iterator[Api]:
    """The cluster, spoken to as its administrator."""
    administrator = Api.from_kubeconfig(cluster)
    yield administrator
    administrator.close()


@pytest.fixture(scope="session")
def image() -> str:
    """A server image that the cluster has; it brings a shell and the usual tools."""
    return os.environ.get("CONTRACT_IMAGE") or (
        "redis:7.0" if os.environ.get("KUBECONFIG") else "valkey:9.1"
    )


@pytest.fixture
def world(cluster_api: Api, cluster: str, unique: str, image: str) -> Iterator[World]:
    """A new namespace in a cluster where controllers and a node are at work."""
    place = World(cluster_api, f"contract-{unique}", kubeconfig=cluster, image=image)
    place.create("namespaces", {"metadata": {"name": place.name}})
    place.until("the account is there", lambda: place.get("serviceaccounts/default").status == 200)
    yield place
    place.delete("pods", gracePeriodSeconds=0)
    place.delete(f"namespaces/{place.name}")
