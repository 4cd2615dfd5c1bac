"""Terminating namespaces: which finalizers still keep them.

Filling and emptying namespaces is done by the API server itself, which also runs alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from kubecontroller import with_condition
from kubelocal.controllers.engine.pods import condition
from kubelocal.controllers.engine.view import Obj, UpdateStatus, timestamp

__all__ = ["remaining"]


def remaining(
    namespace: Obj, content: Sequence[tuple[str, Obj]], now: datetime
) -> UpdateStatus | None:
    """Return the status that says which finalizers still keep a terminating namespace."""
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
