"""Fixtures: worlds with a node agent and real processes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from local.node.pod_world import World
from redis_operator.kube.errors import KubeError
from redis_operator.kube.objects import NAMESPACES
from redis_operator.local.apiserver.server import ApiServer
from redis_operator.local.apiserver.store import Store
from redis_operator.testing.loopback import free_subnet


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
