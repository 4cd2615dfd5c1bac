"""What each kind does on a write: fields that clients may not set, and when generation changes.

Pure. `prepare_create` and `prepare_update` change the new object in place, before admission.
"""

from __future__ import annotations

from typing import Any

from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.storage.entries import Object

__all__ = ["prepare_create", "prepare_status", "prepare_update"]

_COUNTS_GENERATION = {
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("batch", "Job"),
    ("policy", "PodDisruptionBudget"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("", "Pod"),
}
_KEEPS_STATUS = {("", "Node")}
"""Kinds whose creator may give a status."""

_FIRST_STATUS: dict[tuple[str, str], Object] = {
    ("apps", "Deployment"): {},
    ("apps", "ReplicaSet"): {"replicas": 0},
    ("apps", "StatefulSet"): {"replicas": 0, "availableReplicas": 0},
    ("batch", "Job"): {},
    ("", "ResourceQuota"): {},
    ("policy", "PodDisruptionBudget"): {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    },
}

_STATUS_KEEPS_LABELS = {
    ("apps", "Deployment"),
}


def counts_generation(resource: Resource) -> bool:
    """Return whether objects of a resource carry a generation."""
    return resource.custom is not None or (resource.group, resource.kind) in _COUNTS_GENERATION


def prepare_create(resource: Resource, new: Object) -> None:
    """Drop what a creator may not set, and set the first status and generation."""
    kind = resource.group, resource.kind
    if resource.status and kind not in _KEEPS_STATUS:
        new.pop("status", None)
        first = _FIRST_STATUS.get(kind)
        if first is not None:
            new["status"] = dict(first)
    metadata = new["metadata"]
    if resource.key == "namespaces":
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]
    if counts_generation(resource):
        metadata["generation"] = 1
    else:
        metadata.pop("generation", None)


def prepare_update(resource: Resource, new: Object, old: Object) -> None:
    """Keep what this path may not change, and increase the generation when the spec changed."""
    if resource.status:
        _keep(new, old, "status")
    if resource.key == "services":
        _drop_of_old_type(new.get("spec") or {}, old.get("spec") or {})
    generation = old["metadata"].get("generation")
    if not counts_generation(resource):
        if generation is None:
            new["metadata"].pop("generation", None)
        else:
            new["metadata"]["generation"] = generation
        return
    changed = _intent(resource, new) != _intent(resource, old)
    new["metadata"]["generation"] = (generation or 0) + changed


_NODE_PORTS = ("NodePort", "LoadBalancer")


def _drop_of_old_type(spec: Object, before: Object) -> None:
    """Drop fields that a service only has because of its previous type."""
    kind, was = spec.get("type"), before.get("type")
    if kind == was:
        return
    if was in _NODE_PORTS and kind not in _NODE_PORTS:
        _drop_same(spec, before, "externalTrafficPolicy")
    if was == "LoadBalancer":
        _drop_same(spec, before, "allocateLoadBalancerNodePorts")
    if was == "ExternalName":
        _drop_same(spec, before, "externalName")
    if kind == "ExternalName":
        for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            _drop_same(spec, before, key)


def _drop_same(spec: Object, before: Object, key: str) -> None:
    if spec.get(key) == before.get(key):
        spec.pop(key, None)


def _intent(resource: Resource, value: Object) -> Object:
    left = {key: part for key, part in value.items() if key not in {"metadata", "apiVersion"}}
    if resource.status or resource.custom is None:
        left.pop("status", None)
    return left


def prepare_status(resource: Resource, new: Object, old: Object) -> None:
    """Let a write to the status subresource change the status, and little else."""
    if resource.custom is not None:
        _prepare_custom_status(new, old)
        return
    for key in set(new) | set(old):
        if key not in {"metadata", "status", "kind", "apiVersion"}:
            _keep(new, old, key)
    if resource.key == "pods":
        _pair_addresses(new.get("status") or {}, old.get("status") or {})
    metadata, before = new["metadata"], old["metadata"]
    for key in ("generation", "deletionTimestamp", "deletionGracePeriodSeconds"):
        _keep(metadata, before, key)
    if resource.key == "pods":
        _keep(metadata, before, "ownerReferences")
    if (resource.group, resource.kind) in _STATUS_KEEPS_LABELS:
        _keep(metadata, before, "labels")


def _prepare_custom_status(new: Object, old: Object) -> None:
    status, managed = new.get("status"), new["metadata"].get("managedFields")
    kept = {key: new[key] for key in ("kind", "apiVersion")}
    new.clear()
    new.update(old | kept)
    new["metadata"] = dict(old["metadata"])
    if managed is not None:
        new["metadata"]["managedFields"] = managed
    if status is None:
        new.pop("status", None)
    else:
        new["status"] = status


def _pair_addresses(status: Object, before: Object) -> None:
    """Keep a pod's address and its list of addresses consistent, whichever was written."""
    one, several = status.get("podIP"), status.get("podIPs")
    if one and (not several or several == before.get("podIPs")):
        status["podIPs"] = [{"ip": one}]
    elif several and not one:
        status["podIP"] = several[0]["ip"]


def _keep(new: dict[str, Any], old: dict[str, Any], key: str) -> None:
    if key in old:
        new[key] = old[key]
    else:
        new.pop(key, None)
