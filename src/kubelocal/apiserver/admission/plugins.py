"""Built-in admission: accounts and tokens of pods, and the default storage class.

Runs before webhooks, as in Kubernetes, and may refuse.
"""

from __future__ import annotations

from typing import Any

from kubelocal.apiserver.core import Core
from kubelocal.apiserver.errors import forbidden
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.objects.metadata import generate_name, timestamp
from kubelocal.apiserver.storage.entries import Object, decode

__all__ = ["Plugins"]

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"
_SINCE = "lastPhaseTransitionTime"
_CLASSES = "storageclasses.storage.k8s.io"


class Plugins:
    """The built-in admission plugins of this server."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def admit(self, resource: Resource, new: Object, old: Object | None) -> None:
        """Complete a new object in place, or refuse it."""
        if resource.key == "persistentvolumes":
            self._phase(new, old)
        if old is not None:
            return
        if resource.key == "pods":
            self._account(new)
        elif resource.key == "persistentvolumeclaims":
            self._class(new)

    def _phase(self, volume: Object, old: Object | None) -> None:
        """Record when a volume entered its phase."""
        status = volume.setdefault("status", {})
        before = (old or {}).get("status") or {}
        if status.get("phase") != before.get("phase") and status.get(_SINCE) == before.get(_SINCE):
            status[_SINCE] = timestamp(self._core.clock())

    def _account(self, pod: Object) -> None:
        """Set the service account of a pod, which must exist, and mount its token."""
        spec, metadata = pod["spec"], pod["metadata"]
        name = spec.get("serviceAccountName") or "default"
        account = self._core.read("serviceaccounts", metadata["namespace"], name)
        if account is None:
            why = (
                f"error looking up service account {metadata['namespace']}/{name}:"
                f' serviceaccount "{name}" not found'
            )
            raise forbidden("", "pods", metadata["name"], why)
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]
        wanted = spec.get("automountServiceAccountToken")
        if wanted is None:
            wanted = account.get("automountServiceAccountToken")
        if wanted is not False:
            self._mount(spec)

    def _mount(self, spec: Object) -> None:
        bare = [
            one
            for one in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
            if all(mount.get("mountPath") != _TOKENS for mount in one.get("volumeMounts") or ())
        ]
        if not bare:
            return
        volumes: list[dict[str, Any]] = spec.setdefault("volumes", [])
        ours = next(
            (one["name"] for one in volumes if one["name"].startswith("kube-api-access-")), None
        )
        if ours is None:
            ours = generate_name("kube-api-access-", self._core.bits)
            volumes.append(_projection(ours))
        for container in bare:
            container.setdefault("volumeMounts", []).append(
                {"name": ours, "readOnly": True, "mountPath": _TOKENS}
            )

    def _class(self, claim: Object) -> None:
        """Set the default class of a claim that names none."""
        if "storageClassName" in claim["spec"]:
            return
        found = [
            value
            for entry in self._core.store.collection(_CLASSES).entries.values()
            if ((value := decode(entry.body))["metadata"].get("annotations") or {}).get(
                _DEFAULT_CLASS
            )
            == "true"
        ]
        if found:
            newest = max(found, key=lambda one: str(one["metadata"]["creationTimestamp"]))
            claim["spec"]["storageClassName"] = newest["metadata"]["name"]


def _projection(name: str) -> Object:
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
                {
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "namespace",
                                "fieldRef": {
                                    "apiVersion": "v1",
                                    "fieldPath": "metadata.namespace",
                                },
                            }
                        ]
                    }
                },
            ],
            "defaultMode": 420,
        },
    }
