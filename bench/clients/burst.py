"""kubecontroller with a controller: how long a change waits for its reconcile during a burst.

Prints the percentiles of the span from the moment a change is in the cache, and its handlers are
reported, to the beginning of its reconcile.
"""

from __future__ import annotations

import asyncio
import json
import time

from bench.clients.effort import arguments, go
from kubecontroller.client.access import Access
from kubecontroller.client.api import Client
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.interning import Interner
from kubecontroller.client.meta import Key, key_of
from kubecontroller.client.objects import PODS, Pod
from kubecontroller.runtime.changes import Added, Change
from kubecontroller.runtime.controller import Controller, Watch
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.outcomes import Done, Outcome


async def main() -> None:
    url, pods, events = arguments()
    client = Client(HttpTransport(Access(server=url)))
    informer = Informer(client, PODS, transform=Interner().shrink)
    told: dict[Key, float] = {}
    waits: list[float] = []
    first_round = asyncio.Event()
    ended = asyncio.Event()
    reconciled = 0
    seen = 0

    def note(change: Change[Pod]) -> None:
        nonlocal seen
        if isinstance(change, Added):
            return
        seen += 1
        told.setdefault(key_of(change.new), time.perf_counter())  # type: ignore[union-attr]

    async def reconcile(key: Key) -> Outcome:
        nonlocal reconciled
        begun = told.pop(key, None)
        if begun is not None:
            waits.append(time.perf_counter() - begun)
        reconciled += 1
        if reconciled == pods:
            first_round.set()
        if seen == events and not told:
            ended.set()
        return Done()

    informer.subscribe(note)
    controller = Controller("pods", reconcile, [Watch(informer)], workers=4)
    running = [asyncio.create_task(informer.run()), asyncio.create_task(controller.run())]
    await first_round.wait()
    await asyncio.to_thread(go, url)
    await ended.wait()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await client.close()
    waits.sort()
    print(
        json.dumps(
            {
                "p50": waits[len(waits) // 2],
                "p99": waits[len(waits) * 99 // 100],
                "most": waits[-1],
                "count": len(waits),
            }
        )
    )


asyncio.run(main())
