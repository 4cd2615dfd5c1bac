from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.meta import Projected
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.informer import Informer
from kubecontroller.testing.loop import pytest_asyncio_loop_factories
from kubecontroller.testing.tiny import TinyServer

__all__ = ["pytest_asyncio_loop_factories"]


class ConfigMap(Projected):
    data: dict[str, str] | None = None


CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps", True, ConfigMap)
PLAIN = CONFIG_MAPS.plain()


@pytest.fixture
def server() -> TinyServer:
    return TinyServer()


@pytest.fixture
def client(server: TinyServer) -> Client:
    return Client(server.transport())


@pytest.fixture
def kind() -> Kind[ConfigMap]:
    return CONFIG_MAPS


@pytest.fixture
def manifest():
    def build(name: str, namespace: str = "default", **fields: Any) -> dict[str, Any]:
        data = fields.pop("data", {})
        return {"metadata": {"name": name, "namespace": namespace, **fields}, "data": data}

    return build


@pytest.fixture
def quiet(kind, client) -> Informer[ConfigMap]:
    """An informer that does not run and counts as synced."""
    informer = Informer(client, kind)
    informer._synced.set()
    return informer


@pytest.fixture
def running():
    """Run a coroutine beside the test and cancel it at the end of the block."""

    @asynccontextmanager
    async def run(*coroutines: Coroutine[Any, Any, Any]) -> AsyncIterator[list[asyncio.Task[Any]]]:
        tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    return run
