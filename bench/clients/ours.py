"""This project: an informer of projected pods with shared strings."""

from __future__ import annotations

import asyncio

from bench.clients.effort import Effort, arguments, go
from kubecontroller.client.access import Access
from kubecontroller.client.api import Client
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.interning import Interner
from kubecontroller.client.objects import PODS, Pod
from kubecontroller.runtime.changes import Change, Deleted
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.store import label_index


async def main() -> None:
    url, pods, events = arguments()
    client = Client(HttpTransport(Access(server=url)))
    informer = Informer(
        client, PODS, indexes={"app": label_index("app")}, transform=Interner().shrink
    )
    seen = 0
    ended = asyncio.Event()

    def handle(change: Change[Pod]) -> None:
        nonlocal seen
        seen += 1
        if seen == pods + events and not isinstance(change, Deleted):
            ended.set()

    informer.subscribe(handle)
    effort = Effort()
    running = asyncio.create_task(informer.run())
    await informer.wait_synced()
    assert len(informer.cache) == pods
    effort.listed()
    await asyncio.to_thread(go, url)
    await ended.wait()
    effort.followed(events)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await client.close()


asyncio.run(main())
