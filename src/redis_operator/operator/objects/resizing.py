"""Whether this cluster can resize running pods: from discovery, when needed."""

from __future__ import annotations

from collections.abc import Iterable

from kubecontroller import Client, KubeError
from kubecontroller.client import Request, parse_plain
from redis_operator.planning.observed import Pod, Workload

__all__ = ["Resizing"]

_TIMEOUT = 5.0


class Resizing:
    """The ability of one API server, asked once: a newer one means a restart or a refused call."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._served: bool | None = None

    async def is_possible(self, pods: Iterable[Pod], workloads: Iterable[Workload]) -> bool:
        """Whether pods can be resized; False without asking when none differs in its size."""
        wanted = {workload.shard: workload for workload in workloads}
        differing = any(
            pod.shape and pod.shape == found.shape and pod.resources != found.resources
            for pod in pods
            if (found := wanted.get(pod.shard)) is not None
        )
        return differing and await self._is_served()

    async def _is_served(self) -> bool:
        if self._served is None:
            request = Request(method="GET", path="/api/v1")
            try:
                answer = await self._client.transport.request(request, timeout=_TIMEOUT)
            except KubeError:
                return False  # then pods are recreated, as everywhere
            if answer.status != 200:
                return False
            listed = parse_plain("", "v1", answer.body)
            self._served = any(r.plural == "pods" and "resize" in r.subresources for r in listed)
        return self._served
