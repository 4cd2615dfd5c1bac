"""The operator's admission alone, over an API server in the same process, for a measurement.

A program: `python -m bench.admission_server` prints the port that it serves at, and continues.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from kubecontroller.client.api import Client
from kubecontroller.client.objects import CUSTOM_RESOURCE_DEFINITIONS
from kubecontroller.runtime.manager import Manager
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.server import ApiServer
from kubelocal.apiserver.storage.store import Store
from redis_operator.api.crd import crds
from redis_operator.operator.admission.webhooks import add_admission
from redis_operator.operator.settings import Settings
from redis_operator.operator.world import World


async def _serve() -> None:
    server = ApiServer(Store(), clock=lambda: datetime.now(UTC))
    client = Client(InProcessTransport(server), field_manager="bench")
    for definition in crds().values():
        await client.apply(CUSTOM_RESOURCE_DEFINITIONS.plain(), definition)
    manager = Manager(client)
    settings = Settings(namespace="default", webhook_host="127.0.0.1")
    _, webhooks = add_admission(manager, settings, World(manager, ()))
    task = asyncio.create_task(manager.run())
    while manager.limitation() is not None:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.05)
    print(webhooks.port, flush=True)
    await task


if __name__ == "__main__":
    asyncio.run(_serve())
