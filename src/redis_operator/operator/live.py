"""Pods as the API has them at this moment, read by name: without a cache or a label selector."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from kubecontroller import Client, KubeError, NotFound
from kubecontroller.client.objects import PODS
from redis_operator.operator.errors import Refused

__all__ = ["ApiPods", "LivePod", "LivePods"]

_TIMEOUT = 5.0


class LivePod(Struct, frozen=True):
    """A pod as it is now."""

    uid: str
    ip: str = ""


class LivePods(Protocol):
    """The pods of one database as they are now, whatever their labels."""

    async def read(self, pod: str) -> LivePod | None:
        """Return the pod of that name, or None when there is none. Raises `Refused`."""


class ApiPods:
    """The pods of one namespace, read from the API."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def read(self, pod: str) -> LivePod | None:
        """Return the pod of that name, or None when the API says that there is none."""
        try:
            found = await self._client.get(PODS, (self._namespace, pod), timeout=_TIMEOUT)
        except NotFound:
            return None
        except KubeError as error:
            raise Refused(f"pod {pod} cannot be read, so it may be alive: {error}") from error
        return LivePod(found.metadata.uid, found.status.pod_ip)
