"""The API client of the node agent: caches of the objects of pods, and its few writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from kubecontroller import Client, Informer, Key, Kind, Manifest, NotFound
from kubecontroller.client import JSON, Request, StrategicPatch, error_from_response, object_path
from kubecontroller.client.objects import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
)
from kubecontroller.runtime import Change
from kubelocal.node.environment.payloads import TokenRequest
from kubelocal.node.errors import VolumeError

__all__ = ["VOLUMES", "Cluster", "Token"]

VOLUMES: Kind[Manifest] = Kind("", "v1", "PersistentVolume", "persistentvolumes", False, dict)
_KINDS = (
    *(k.plain() for k in (PODS, CONFIG_MAPS, SECRETS, SERVICES, PERSISTENT_VOLUME_CLAIMS)),
    VOLUMES,
)


class Token(Struct, frozen=True):
    """A service account token and for how many seconds it is valid."""

    text: str
    seconds: float


class Cluster:
    """Caches of pods and of the objects that they refer to, up to date while `run` runs.

    `shared` are informers by plural that the caller runs: no second cache is kept then.
    """

    def __init__(
        self, client: Client, shared: Mapping[str, Informer[Manifest]] | None = None
    ) -> None:
        self.client = client
        self._own = [] if shared is not None else [Informer(client, kind) for kind in _KINDS]
        self._informers: Mapping[str, Informer[Manifest]] = (
            shared if shared is not None else {own.kind.plural: own for own in self._own}
        )

    @property
    def pods(self) -> Informer[Manifest]:
        """The cache of pods."""
        return self._informers[PODS.plural]

    def on_change(self, plural: str, handler: Callable[[Change[Manifest]], None]) -> None:
        """Call a handler on every change of a kind."""
        self._informers[plural].subscribe(handler)

    async def run(self) -> None:
        """Keep the caches up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._own:
                tasks.create_task(informer.run())

    async def wait_synced(self) -> None:
        """Return once every cache has synced."""
        for kind in _KINDS:
            await self._informers[kind.plural].wait_synced()

    async def find(self, kind: Kind[Any], key: Key) -> Manifest | None:
        """Return an object from the cache, or from the server when the cache has none yet."""
        cached = self._informers[kind.plural].cache.get(key)
        if cached is not None:
            return cached
        try:
            return await self.client.get(kind.plain(), key)
        except NotFound:
            return None

    def services(self, namespace: str) -> list[Manifest]:
        """Return the services of a namespace."""
        return self._informers[SERVICES.plural].cache.find("namespace", namespace)

    async def publish(self, pod: Mapping[str, Any], status: dict[str, Any]) -> Manifest:
        """Write a pod's status; conditions of other controllers are not changed."""
        metadata = pod["metadata"]
        body = dict(status)
        absent = {"reason": None, "message": None}
        body["conditions"] = [{**absent, **condition} for condition in status["conditions"]]
        for name in ("podIPs", "hostIPs"):
            if name in body:
                body[name] = [{"$patch": "replace"}, *body[name]]
        patch = StrategicPatch({"metadata": {"uid": metadata["uid"]}, "status": body})
        key = (metadata["namespace"], metadata["name"])
        return await self.client.patch(PODS.plain(), key, patch, subresource="status")

    async def remove(self, pod: Mapping[str, Any]) -> None:
        """Delete a pod that has ended."""
        metadata = pod["metadata"]
        try:
            await self.client.delete(
                PODS.plain(),
                (metadata["namespace"], metadata["name"]),
                uid=metadata["uid"],
                grace_seconds=0,
            )
        except NotFound:
            return

    async def token(self, pod: Mapping[str, Any], wanted: TokenRequest) -> Token:
        """Request a token of the pod's service account, bound to the pod."""
        metadata = pod["metadata"]
        account = pod["spec"].get("serviceAccountName") or "default"
        bound = {
            "kind": "Pod",
            "apiVersion": "v1",
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [wanted.audience] if wanted.audience else [],
                "expirationSeconds": wanted.seconds,
                "boundObjectRef": bound,
            },
        }
        path = object_path(
            "",
            "v1",
            "serviceaccounts",
            namespace=metadata["namespace"],
            name=account,
            subresource="token",
        )
        request = Request(
            "POST",
            path,
            headers=(("accept", JSON), ("content-type", JSON)),
            body=msgspec.json.encode(body),
        )
        response = await self.client.transport.request(request, timeout=self.client.timeout)
        if response.status not in (200, 201):
            error = error_from_response(response, ref=f"token of serviceaccount {account}")
            raise VolumeError(f"failed to fetch token: {error}")
        answer = msgspec.json.decode(response.body)
        return Token(str(answer["status"]["token"]), float(wanted.seconds))
