"""Whose an object is that has the name of one of ours. Pure.

Names are taken by whoever was first. An object is a database's own when this very database controls
it, or when nothing controls it and it carries the database's label: that is how a person hands an
object over, and how objects are found again that were orphaned by a deletion. Everything else is
refused by name and left alone. K-28
"""

from __future__ import annotations

from kubecontroller.client.meta import ObjectMeta
from redis_operator.api.redis import Redis
from redis_operator.manifests.names import DATABASE_LABEL

__all__ = ["limitation"]


def limitation(redis: Redis, found: ObjectMeta | None) -> str | None:
    """Return why an object is not this database's to change, or None when it is, or is absent."""
    if found is None:
        return None
    controller = next((owner for owner in found.owner_references or () if owner.controller), None)
    if controller is not None:
        if controller.uid == redis.metadata.uid:
            return None
        if found.is_deleting:
            holders = ", ".join(found.finalizers or ()) or "its controller"
            return (
                f"of the deleted {controller.kind} {controller.name} is still being deleted, held "
                f"by {holders}; this database waits until it is gone"
            )
        return (
            f"already exists and is owned by {controller.kind} {controller.name}; "
            "rename this database, or delete that object"
        )
    if found.label(DATABASE_LABEL) == redis.metadata.name:
        return None
    return (
        "already exists and does not belong to this database; rename this database, delete that "
        f"object, or label it {DATABASE_LABEL}={redis.metadata.name} to hand it over"
    )
