"""Fixtures: worlds with a node agent and real processes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.kubelocal.node.pod_world import World

from kubecontroller.client.errors import KubeError
from kubecontroller.client.objects import NAMESPACES
from kubelocal.apiserver.server import ApiServer
from kubelocal.apiserver.storage.store import Store
from kubelocal.loopback import free_subnet


@pytest.fixture
async def bare_world(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose agent is not started yet."""
    server = ApiServer(Store(), clock=lambda: datetime.now(UTC))
    world = World(server, tmp_path / "node", free_subnet())
    for name in ("default", "kube-node-lease"):
        with contextlib.suppress(KubeError):
            await world.client.create(NAMESPACES.plain(), {"metadata": {"name": name}})
    yield world
    await world.close()


@pytest.fixture
async def world(bare_world: World) -> World:
    await bare_world.start_agent()
    return bare_world
