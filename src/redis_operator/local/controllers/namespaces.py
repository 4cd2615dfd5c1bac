"""Namespace: every one has a default account and the cluster's CA; a dying one is emptied first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from redis_operator.local.controllers.pods import condition, is_deleting, with_condition
from redis_operator.local.controllers.view import (
    Change,
    Changes,
    Create,
    Delete,
    Obj,
    UpdateStatus,
    View,
    timestamp,
)

__all__ = ["ROOT_CA", "plan_content", "plan_removal", "remaining"]

ROOT_CA = "kube-root-ca.crt"


def plan_content(view: View, name: str, authority: str, now: datetime) -> Changes:  # noqa: ARG001 - one shape for all controllers
    """Return what a living namespace lacks: its default ServiceAccount and the CA's ConfigMap."""
    namespace = view.get("namespaces", "", name)
    if namespace is None or is_deleting(namespace):
        return Changes()
    steps: list[Change] = []
    if view.get("serviceaccounts", name, "default") is None:
        account: Obj = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": name},
        }
        steps.append(Create("serviceaccounts", account))
    if view.get("configmaps", name, ROOT_CA) is None:
        note = "Contains a CA bundle that can be used to verify the kube-apiserver."
        bundle: Obj = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": ROOT_CA,
                "namespace": name,
                "annotations": {"kubernetes.io/description": note},
            },
            "data": {"ca.crt": authority},
        }
        steps.append(Create("configmaps", bundle))
    return Changes(tuple(steps))


def plan_removal(namespace: Obj, content: Sequence[tuple[str, Obj]]) -> list[Change] | None:
    """Return what empties a dying namespace; None when it is empty and may be finalized."""
    if not content:
        return None
    return [
        Delete(resource, o["metadata"]["namespace"], o["metadata"]["name"], o["metadata"]["uid"])
        for resource, o in content
        if not is_deleting(o) and o["metadata"]["namespace"] == namespace["metadata"]["name"]
    ]


def remaining(
    namespace: Obj, content: Sequence[tuple[str, Obj]], now: datetime
) -> UpdateStatus | None:
    """Return the status that says which finalizers still hold a dying namespace."""
    holders = Counter(f for _, o in content for f in o["metadata"].get("finalizers") or ())
    if not holders:
        return None
    held = ", ".join(f"{name} in {count} resource instances" for name, count in holders.items())
    made = {
        "type": "NamespaceFinalizersRemaining",
        "status": "True",
        "reason": "SomeFinalizersRemain",
        "message": f"Some content in the namespace has finalizers remaining: {held}",
    }
    old = condition(namespace, made["type"])
    if old is not None and old["message"] == made["message"]:
        return None
    status = namespace.get("status") or {}
    conditions = with_condition(status.get("conditions") or [], made, timestamp(now))
    return UpdateStatus("namespaces", {**namespace, "status": {**status, "conditions": conditions}})
