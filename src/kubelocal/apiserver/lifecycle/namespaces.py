"""Namespaces: objects are only created in active ones; terminating ones are emptied, then deleted.

In Kubernetes a controller does the emptying; here it happens with the write that causes it, so
that simulation and tests see no intermediate state that could not also occur there.
"""

from __future__ import annotations

from collections import Counter

from kubelocal.apiserver.core import Core
from kubelocal.apiserver.errors import StatusError, forbidden, not_found
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.lifecycle.deletion import Keep, Mark, Options, decide
from kubelocal.apiserver.objects.metadata import new_uid, timestamp
from kubelocal.apiserver.storage.entries import Object, decode

__all__ = ["Namespaces", "check_namespace"]

_ALWAYS = ("default", "kube-system", "kube-public", "kube-node-lease")
_OWN = {"serviceaccounts": "default", "configmaps": "kube-root-ca.crt"}
_CA_NOTE = "Contains a CA bundle that can be used to verify the kube-apiserver."


def check_namespace(core: Core, resource: Resource, namespace: str, name: str) -> None:
    """Refuse to create an object in a namespace that does not exist or is terminating."""
    if not resource.namespaced:
        return
    entry = core.entry("namespaces", "", namespace)
    if entry is None:
        raise not_found("", "namespaces", namespace)
    if entry.fields[0] != "Terminating":
        return
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = forbidden(resource.group, resource.plural, name, why)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    raise StatusError(
        403, error.reason, error.message, details={**(error.details or {}), "causes": [cause]}
    )


class Namespaces:
    """Fills new namespaces and empties terminating ones."""

    def __init__(self, core: Core, *, root_ca: str = "") -> None:
        self._core = core
        self._root_ca = root_ca
        self._population: Counter[str] = Counter()
        for collection in core.store.collections():
            for entry in collection.entries.values():
                self._population[entry.namespace] += 1
        core.reactions.append(self.react)

    def ensure(self) -> None:
        """Create the namespaces that every cluster has, if they are missing."""
        resource = self._core.resource("namespaces")
        for name in _ALWAYS:
            if self._core.entry("namespaces", "", name) is None:
                self._core.put(resource, self._namespace(name))

    def _namespace(self, name: str) -> Object:
        return {
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "uid": new_uid(self._core.bits),
                "creationTimestamp": timestamp(self._core.clock()),
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }

    def react(self, resource: Resource, value: Object, gone: bool) -> None:
        """React to one change of any object."""
        metadata = value["metadata"]
        if resource.key == "namespaces":
            if metadata.get("deletionTimestamp") and not gone:
                self._empty(metadata["name"])
            elif not gone:
                self._fill(metadata["name"])
            return
        namespace = metadata.get("namespace", "")
        if not namespace:
            return
        if gone:
            self._population[namespace] -= 1
            if _OWN.get(resource.key) == metadata["name"] and self._is_active(namespace):
                self._fill(namespace)
            elif self._population[namespace] <= 0:
                self._finish(namespace)
        elif self._is_new(resource):
            self._population[namespace] += 1

    def _is_new(self, resource: Resource) -> bool:
        return self._core.store.collection(resource.key).last().previous is None

    def _is_active(self, name: str) -> bool:
        entry = self._core.entry("namespaces", "", name)
        return entry is not None and entry.fields[0] != "Terminating"

    def _fill(self, name: str) -> None:
        """Create the default objects of an active namespace; deleted ones are created again."""
        for collection, kind, value in (
            ("serviceaccounts", "ServiceAccount", {}),
            ("configmaps", "ConfigMap", {"data": {"ca.crt": self._root_ca}}),
        ):
            own = _OWN[collection]
            if kind == "ConfigMap" and not self._root_ca:
                continue
            if self._core.entry(collection, name, own) is not None:
                continue
            metadata: Object = {
                "name": own,
                "namespace": name,
                "uid": new_uid(self._core.bits),
                "creationTimestamp": timestamp(self._core.clock()),
            }
            if kind == "ConfigMap":
                metadata["annotations"] = {"kubernetes.io/description": _CA_NOTE}
            self._core.put(
                self._core.resource(collection),
                {"kind": kind, "apiVersion": "v1", "metadata": metadata, **value},
            )

    def _empty(self, name: str) -> None:
        for collection in self._core.store.collections():
            resource = self._core.registry.in_collection(collection.name)
            if resource is None or not resource.namespaced:
                continue
            for entry in [e for e in collection.entries.values() if e.namespace == name]:
                if collection.entries.get(entry.key) is entry:
                    discard(self._core, resource, decode(entry.body))
        if self._population[name] <= 0:
            self._finish(name)

    def _finish(self, name: str) -> None:
        value = self._core.read("namespaces", "", name)
        if value is None or not value["metadata"].get("deletionTimestamp"):
            return
        if value["metadata"].get("finalizers"):
            return
        value["spec"] = {key: part for key, part in value["spec"].items() if key != "finalizers"}
        self._core.remove(self._core.resource("namespaces"), value)


def discard(core: Core, resource: Resource, value: Object) -> None:
    """Delete an object on behalf of its namespace or definition."""
    decision = decide(resource, value, Options(propagation="Background"), core.clock())
    if isinstance(decision, Mark):
        core.put(resource, decision.value)
    elif not isinstance(decision, Keep):
        core.remove(resource, decision.value)
