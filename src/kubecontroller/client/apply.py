"""Server-side apply: what is sent, its hash, and whether it needs to be sent at all.

Pure. An object is stamped with the hash of the intent. While the stamp on the object is the hash of
the intent, and the object has not changed since this process applied it, nothing is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct

from kubecontroller.client.meta import Manifest, ObjectMeta
from kubecontroller.client.scheme import Kind

__all__ = ["Applied", "applied", "apply_reason", "intent_body", "intent_hash", "stamped"]

# Written by the server, or a lock that the caller has to request by name.
_NEVER_SENT: Final = (
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
_DIGITS: Final = 16


class Applied(Struct, frozen=True):
    """An object as it was when it was last known to match the intent."""

    stamp: str
    uid: str
    resource_version: str
    generation: int


def intent_body(
    kind: Kind[Any],
    intent: Mapping[str, Any],
    *,
    subresource: str = "",
    resource_version: str = "",
) -> Manifest:
    """Return the body to apply: the intent with its type and name, without fields of the server.

    A status is sent to the `status` subresource alone, and nothing else is sent there.
    """
    metadata: Manifest = {
        name: value
        for name, value in (intent.get("metadata") or {}).items()
        if name not in _NEVER_SENT
    }
    rest: Manifest = {name: value for name, value in intent.items() if name != "status"}
    if subresource == "status":
        metadata = {name: metadata[name] for name in ("namespace", "name") if name in metadata}
        rest = {"status": intent.get("status", {})}
    if resource_version:
        metadata["resourceVersion"] = resource_version
    return {**rest, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def intent_hash(intent: Mapping[str, Any]) -> str:
    """Return a short hash of an intent, the same for the same values in any order of keys."""
    text = msgspec.json.encode(intent, order="deterministic")
    return sha256(text).hexdigest()[:_DIGITS]


def stamped(intent: Mapping[str, Any], annotation: str, *, stamp: str = "") -> Manifest:
    """Return the intent with its own hash as an annotation; stamping twice changes nothing.

    The argument is not changed; all but its metadata is shared with the returned value. `stamp` is
    the hash where it is known.
    """
    metadata: Manifest = dict(intent.get("metadata") or {})
    given = metadata.pop("annotations", None) or {}
    others = {name: value for name, value in given.items() if name != annotation}
    if others:
        metadata["annotations"] = others
    stamp = stamp or intent_hash({**intent, "metadata": metadata})
    return {**intent, "metadata": {**metadata, "annotations": {**others, annotation: stamp}}}


def applied(meta: ObjectMeta, annotation: str) -> Applied:
    """Return what to remember of an object that was just applied."""
    return Applied(
        stamp=meta.annotation(annotation),
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
    )


def apply_reason(
    intent: Mapping[str, Any], observed: ObjectMeta | None, annotation: str, last: Applied | None
) -> str | None:
    """Return why a stamped intent has to be sent, or nothing when it need not be.

    `last` is what this process remembers of its own apply. An object that it has not applied yet
    is applied even when its stamp matches: the stamp does not show edits that were made while no
    operator ran. Later a change of its generation (of its version, for kinds without a generation),
    or missing metadata of the intent, means that another client wrote to it.
    """
    wanted = intent["metadata"]["annotations"][annotation]
    if observed is None:
        return "it does not exist"
    if observed.annotation(annotation) != wanted:
        return "what is wanted has changed"
    if last is None or last.uid != observed.uid or last.stamp != wanted:
        return "this process has not applied it yet"
    if observed.generation != last.generation:
        return "another client changed it"
    if not observed.generation and observed.resource_version != last.resource_version:
        return "another client changed it"
    return _metadata_reason(intent["metadata"], observed)


def _metadata_reason(wanted: Mapping[str, Any], observed: ObjectMeta) -> str | None:
    """Return which metadata of the intent an object lacks: the generation does not count it."""
    for name in ("labels", "annotations"):
        found = getattr(observed, name) or {}
        if any(found.get(key) != value for key, value in (wanted.get(name) or {}).items()):
            return f"another client changed its {name}"
    owners = {(owner.uid, bool(owner.controller)) for owner in observed.owner_references or ()}
    for owner in wanted.get("ownerReferences") or ():
        if (owner["uid"], bool(owner.get("controller"))) not in owners:
            return "another client changed its owners"
    return None
