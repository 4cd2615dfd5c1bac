"""History of a workload's template as ControllerRevisions: the current one and the old ones."""

from __future__ import annotations

from collections.abc import Sequence

from kubelocal.controllers.engine.pods import short_hash
from kubelocal.controllers.engine.view import (
    Change,
    Create,
    Delete,
    Obj,
    Update,
    controller_of,
    controller_reference,
    edited,
    labels_match,
)

__all__ = ["adopt_orphans", "keep_history", "template_of", "wanted_revision"]


def _recorded(template: Obj) -> Obj:
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def template_of(revision: Obj) -> Obj:
    """Return the pod template a revision recorded."""
    template = dict(revision["data"]["spec"]["template"])
    template.pop("$patch", None)
    return template


def adopt_orphans(owner: Obj, nearby: Sequence[Obj]) -> list[Change]:
    """Adopt the history that an owner of the same name left behind when it orphaned its pods."""
    changes: list[Change] = []
    for revision in nearby:
        metadata = revision["metadata"]
        fits = labels_match(owner["spec"]["selector"], metadata.get("labels"))
        named = metadata["name"].startswith(f"{owner['metadata']['name']}-")
        if controller_of(revision) is None and fits and named:
            adopted = edited(revision)
            references = adopted["metadata"].setdefault("ownerReferences", [])
            references.append(controller_reference(owner))
            changes.append(Update("controllerrevisions", adopted))
    return changes


def wanted_revision(owner: Obj, history: Sequence[Obj]) -> tuple[Obj, Change | None]:
    """Return the revision of the owner's template, and the change that records it.

    An equal older revision is renumbered (a rollback), else a new one is created.
    """
    data = _recorded(owner["spec"]["template"])
    newest = max((r["revision"] for r in history), default=0)
    for revision in sorted(history, key=lambda r: -int(r["revision"])):
        if revision["data"] != data:
            continue
        if revision["revision"] == newest:
            return revision, None
        forward = edited(revision)
        forward["revision"] = newest + 1
        return forward, Update("controllerrevisions", forward)
    metadata = owner["metadata"]
    digest = short_hash([data, owner.get("status", {}).get("collisionCount") or 0])
    made: Obj = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{metadata['name']}-{digest}",
            "namespace": metadata["namespace"],
            "labels": {
                **(owner["spec"]["template"].get("metadata", {}).get("labels") or {}),
                "controller.kubernetes.io/hash": digest,
            },
            "ownerReferences": [controller_reference(owner)],
        },
        "data": data,
        "revision": newest + 1,
    }
    return made, Create("controllerrevisions", made)


def keep_history(history: Sequence[Obj], *, live: set[str], limit: int) -> list[Change]:
    """Delete the oldest revisions that no pod uses, beyond the limit."""
    idle = sorted(
        (r for r in history if r["metadata"]["name"] not in live), key=lambda r: int(r["revision"])
    )
    return [
        Delete(
            "controllerrevisions",
            r["metadata"]["namespace"],
            r["metadata"]["name"],
            r["metadata"]["uid"],
        )
        for r in idle[: max(0, len(idle) - limit)]
    ]
