"""Garbage collection: dependents are deleted with their owners, as the propagation policy says.

Background: a dependent whose owners are all gone is deleted. Foreground: a terminating owner waits
until the dependents that block it are gone. Orphan: the dependents lose the reference before their
owner is deleted. Unlike the other controllers this one needs every resource, given by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubelocal.apiserver.lifecycle.deletion import FOREGROUND, ORPHAN
from kubelocal.controllers.engine.pods import is_deleting
from kubelocal.controllers.engine.view import Change, Delete, Obj, Update, edited

__all__ = ["FOREGROUND", "ORPHAN", "plan_dependent", "plan_owner"]


def plan_dependent(
    resource: str, dependent: Obj, *, owner_exists: Mapping[str, bool], dying: set[str]
) -> Change | None:
    """Return what happens to one object that has owners.

    `owner_exists` returns for each owner's uid whether it exists (judged by kind, name, namespace
    and uid, by a live read); `dying` are the uids of owners in foreground deletion.
    """
    if is_deleting(dependent):
        return None
    references = dependent["metadata"].get("ownerReferences") or []
    if not references:
        return None
    living = [r for r in references if owner_exists.get(r["uid"], True)]
    solid = [r for r in living if r["uid"] not in dying]
    metadata = dependent["metadata"]
    if not solid:
        waits = any(r["uid"] in dying for r in living)
        gone = Delete(resource, metadata.get("namespace", ""), metadata["name"], metadata["uid"])
        return gone if not living or waits else None
    if len(living) == len(references):
        return None
    trimmed = edited(dependent)
    trimmed["metadata"]["ownerReferences"] = living
    return Update(resource, trimmed)


def plan_owner(resource: str, owner: Obj, dependents: Iterable[tuple[str, Obj]]) -> list[Change]:
    """Return the changes for a terminating owner: release dependents, then remove its finalizer."""
    finalizers = owner["metadata"].get("finalizers") or []
    if not is_deleting(owner):
        return []
    uid = owner["metadata"]["uid"]
    if ORPHAN in finalizers:
        orphaned = [_without_owner(r, d, uid) for r, d in dependents]
        return [*orphaned] if orphaned else [_freed(resource, owner, ORPHAN)]
    if FOREGROUND not in finalizers:
        return []
    blocking = [(r, d) for r, d in dependents if _blocks(d, uid)]
    if not blocking:
        return [_freed(resource, owner, FOREGROUND)]
    return []


def _blocks(dependent: Obj, uid: str) -> bool:
    return any(
        r["uid"] == uid and r.get("blockOwnerDeletion")
        for r in dependent["metadata"].get("ownerReferences") or ()
    )


def _without_owner(resource: str, dependent: Obj, uid: str) -> Change:
    changed = edited(dependent)
    left = [r for r in changed["metadata"]["ownerReferences"] if r["uid"] != uid]
    changed["metadata"]["ownerReferences"] = left
    if not left:
        del changed["metadata"]["ownerReferences"]
    return Update(resource, changed)


def _freed(resource: str, owner: Obj, finalizer: str) -> Change:
    changed = edited(owner)
    changed["metadata"]["finalizers"].remove(finalizer)
    return Update(resource, changed)
