"""The files of users that pods mount: as the Secret has them, or older where a node lags behind."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import msgspec

from kubelocal.apiserver.storage.store import Store

__all__ = ["Mounts"]


class Mounts:
    """What every pod of one simulated Kubernetes finds in its mounted Secret."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._frozen: dict[str, Mapping[str, str]] = {}

    def freeze(self, pod: str) -> None:
        """Leave the files of a pod as they are now, whatever becomes of the Secret."""
        self._frozen[pod] = self._current(pod)

    def thaw(self, pod: str) -> None:
        """Refresh the files of a pod, now and from now on."""
        self._frozen.pop(pod, None)

    def of(self, pod: str, current: Mapping[str, str]) -> Mapping[str, str]:
        """Return the files that a pod has where the Secret has these."""
        return self._frozen.get(pod, current)

    def users_of(self, pod: str) -> str:
        """Return the file of users that a server in a pod reads."""
        server = next(c for c in self._pod(pod)["spec"]["containers"] if c["name"] == "server")
        [name] = [e["value"] for e in server["env"] if e["name"] == "ACL_FILE"]
        return self.of(pod, self._current(pod))[name]

    def _current(self, pod: str) -> Mapping[str, str]:
        volumes = {v["name"]: v for v in self._pod(pod)["spec"]["volumes"]}
        data = self._read("secrets", volumes["users"]["secret"]["secretName"])["data"]
        return {name: b64decode(value).decode() for name, value in data.items()}

    def _pod(self, name: str) -> dict[str, Any]:
        return self._read("pods", name)

    def _read(self, kind: str, name: str) -> dict[str, Any]:
        entries = self._store.collection(kind).entries.values()
        body = next(entry.body for entry in entries if entry.name == name)
        return msgspec.json.decode(body, type=dict[str, Any])
