"""Field managers after a write (`metadata.managedFields`), for every kind of write."""

from __future__ import annotations

from kubelocal.apiserver.apply.merge import track
from kubelocal.apiserver.calls import Call
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.objects.questions import schema_for
from kubelocal.apiserver.storage.entries import Object

__all__ = ["ignored_by", "owned_after"]


def ignored_by(resource: Resource, subresource: str) -> tuple[str, ...]:
    """Return the fields that a write through a path cannot change: it makes no manager own them."""
    if not resource.status:
        return ()
    if subresource == "status":
        return ("spec", "metadata") if resource.custom is not None else ("spec",)
    return ("status",)


def owned_after(call: Call, live: Object | None, new: Object, *, now: str, applied: bool) -> Object:
    """Return a new state with its managers; an apply has set them already."""
    if applied:
        return new
    return track(
        schema_for(call.resource),
        live,
        new,
        manager=call.manager,
        operation="Update",
        version=call.resource.api_version,
        subresource=call.subresource,
        now=now,
        reset=ignored_by(call.resource, call.subresource),
    )
