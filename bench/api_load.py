"""The same work on any API server, by our own client: what a single user waits for."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from bench.pods import pod
from kubecontroller.client import verbs
from kubecontroller.client.api import Client
from kubecontroller.client.errors import KubeError, NotFound
from kubecontroller.client.objects import CONFIG_MAPS, NAMESPACES, PODS

__all__ = ["Load", "namespace"]

_AT_ONCE = 16
_PODS = PODS.plain()


@asynccontextmanager
async def namespace(client: Client) -> AsyncIterator[str]:
    """Give a namespace of our own, and have it deleted with all that is in it."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    kind = NAMESPACES.plain()
    await client.create(kind, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    try:
        yield name
    finally:
        with suppress(KubeError):
            await client.delete_collection(_PODS, namespace=name, grace_seconds=0, timeout=120)
        with suppress(NotFound):
            await client.delete(kind, ("", name))


def _new_pod(place: str, number: int) -> dict[str, Any]:
    """A pod that is never scheduled, as a user writes it."""
    whole = pod(number)
    spec = {key: value for key, value in whole["spec"].items() if key != "nodeName"}
    spec |= {"schedulerName": "nobody", "serviceAccountName": "default"}
    spec.pop("priority")
    spec.pop("preemptionPolicy")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number:05d}",
            "namespace": place,
            "labels": whole["metadata"]["labels"],
            "annotations": whole["metadata"]["annotations"],
        },
        "spec": spec,
    }


class Load:
    """Work on one server, in one namespace."""

    def __init__(self, client: Client, place: str) -> None:
        self.client = client
        self.place = place
        self.pods = 0

    async def create_ms(self, count: int) -> float:
        """Create pods one after another; return the median milliseconds of one."""
        return await self._each(count, lambda n: self.client.create(_PODS, self._pod(n)))

    async def get_ms(self, count: int) -> float:
        """Read pods one after another."""
        return await self._each(count, lambda n: self.client.get(_PODS, self._key(n)))

    async def apply_ms(self, count: int) -> float:
        """Apply a changed pod label by label, server-side, one after another."""

        def intent(number: int) -> dict[str, Any]:
            meta = {
                "name": f"pod-{number:05d}",
                "namespace": self.place,
                "labels": {"round": uuid.uuid4().hex[:8]},
            }
            return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}

        return await self._each(count, lambda n: self.client.apply(_PODS, intent(n)))

    async def fill(self, total: int) -> None:
        """Create pods, several at once, until there are so many."""
        numbers = iter(range(self.pods, total))

        async def work() -> None:
            for number in numbers:
                await self.client.create(_PODS, _new_pod(self.place, number))

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
        self.pods = total

    async def list_seconds(self) -> float:
        """List every pod once, page by page, undecoded."""
        begun = time.perf_counter()
        following, seen = "", 0
        while True:
            page = await self.client.list_page(
                PODS, namespace=self.place, limit=500, continue_=following, timeout=60
            )
            seen += len(page.items)
            following = page.continue_
            if not following:
                break
        assert seen == self.pods, f"{seen} of {self.pods} pods were listed"
        return time.perf_counter() - begun

    @asynccontextmanager
    async def watched(self, watchers: int) -> AsyncIterator[Callable[[int], Awaitable[float]]]:
        """Open watches of one ConfigMap; give a function that changes it repeatedly.

        It returns the milliseconds per change until every watcher has seen all changes.
        """
        meta = {"name": "watched", "namespace": self.place}
        whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        made = await self.client.create(CONFIG_MAPS.plain(), {**whole, "data": {"round": "0"}})
        request = verbs.watch_request(
            CONFIG_MAPS,
            namespace=self.place,
            fields="metadata.name=watched",
            resource_version=made["metadata"]["resourceVersion"],
            bookmarks=False,
        )
        opened, seen = asyncio.Semaphore(0), asyncio.Semaphore(0)

        async def watch() -> None:
            async with self.client.transport.stream(request, idle=60) as pieces:
                opened.release()
                async for piece in pieces:
                    for _ in range(piece.count(b"\n")):
                        seen.release()

        async def change(times: int) -> float:
            begun = time.perf_counter()
            for number in range(times):
                await self.client.apply(CONFIG_MAPS, {**whole, "data": {"round": f"r{number}"}})
            async with asyncio.timeout(120):
                for _ in range(times * watchers):
                    await seen.acquire()
            return (time.perf_counter() - begun) / times * 1000

        tasks = [asyncio.create_task(watch()) for _ in range(watchers)]
        try:
            async with asyncio.timeout(60):
                for _ in tasks:
                    await opened.acquire()
            yield change
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _each(self, count: int, call: Callable[[int], Awaitable[Any]]) -> float:
        spans = []
        for number in range(count):
            begun = time.perf_counter()
            await call(number)
            spans.append(time.perf_counter() - begun)
        self.pods = max(self.pods, count)
        return sorted(spans)[count // 2] * 1000

    def _pod(self, number: int) -> dict[str, Any]:
        return _new_pod(self.place, number)

    def _key(self, number: int) -> tuple[str, str]:
        return (self.place, f"pod-{number:05d}")
