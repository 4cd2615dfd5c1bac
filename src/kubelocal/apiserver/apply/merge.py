"""Server-side apply, and the record of the manager of each field (managedFields).

`apply` merges an intent into the live object for one manager; `track` records what any other write
changed. Both return the new object with its managedFields and do not change their arguments. A
write that changes nothing keeps the old timestamps, so the server can see that nothing changed.
Guarantees: a field is removed only if its last manager applied without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kubelocal.apiserver.apply.fieldset import (
    FieldSet,
    difference,
    from_paths,
    intersection,
    recursive_difference,
    union,
)
from kubelocal.apiserver.apply.managers import (
    Conflict,
    Manager,
    Managers,
    cap,
    conflict_causes,
    conflict_message,
    conflicts_of,
    decode,
    encode,
)
from kubelocal.apiserver.apply.typed import (
    Comparison,
    compare,
    field_set,
    merge,
    misfits,
    named,
    remove,
    without_emptied,
    zero,
)
from kubelocal.apiserver.causes import Cause
from kubelocal.apiserver.kinds.schemas import OBJECT_META, definition

__all__ = ["ApplyConflict", "ApplyError", "apply", "track"]

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL = "kubectl"
_ANNOTATION_LIMIT = 256 * 1024
# Fields that the server itself maintains have no manager.
_UNMANAGED = from_paths(
    [
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.uid",
        "metadata.clusterName",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.resourceVersion",
    ]
)


class ApplyConflict(Exception):  # noqa: N818 (the name the rest of the server knows)
    """An apply without force that would take fields from other managers."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        self.conflicts = conflicts
        self.message = conflict_message(conflicts)
        super().__init__(self.message)

    @property
    def causes(self) -> list[Cause]:
        """The conflicts as they appear in the details of the status."""
        return conflict_causes(self.conflicts)


class ApplyError(Exception):
    """An intent that cannot be applied at all; carries the status and reason of the response."""

    def __init__(self, message: str, *, status: int = 500, reason: str = "InternalError") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason


def _typed_root(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with the real schema of metadata; a CRD does not describe it."""
    properties = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    properties |= schema.get("properties", {})
    return {**schema, "properties": {**properties, "metadata": definition(OBJECT_META)}}


def _bare(document: dict[str, Any]) -> dict[str, Any]:
    """Return the object without managedFields, which are not tracked themselves."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return document
    rest = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**document, "metadata": rest}


def _with_managers(document: dict[str, Any], managers: Managers) -> dict[str, Any]:
    metadata = dict(document.get("metadata") or {})
    entries = encode(managers)
    if entries:
        metadata["managedFields"] = entries
    return {**document, "metadata": metadata}


def apply(
    schema: dict[str, Any],
    live: dict[str, Any] | None,
    intent: dict[str, Any],
    *,
    manager: str,
    force: bool,
    version: str,
    subresource: str,
    now: str,
    reset: Iterable[str],
) -> dict[str, Any]:
    """Apply an intent for a manager.

    Errors: `ApplyConflict` if other managers own a field that would change and force is not given;
    `ApplyError` if the intent does not fit the schema.
    """
    root = _typed_root(schema)
    _check_intent(root, intent, version)
    me = Manager(manager, "Apply", "", subresource)
    before = decode(_entries(live)) if live else {}
    bare_live = _bare(live) if live else {}
    ignored = from_paths(reset)
    start = dict(before)
    if live and not before:
        empty = _empty(schema, root)
        start = _before_first_apply(root, empty, bare_live, version=version, ignored=ignored)
        start = {known: record.at(now) for known, record in start.items()}
    attempt = _Attempt(root, bare_live, intent, me=me, version=version, ignored=ignored)
    try:
        merged, managers, changed = attempt.run(start, force=force)
    except ApplyConflict as conflict:
        if manager != _KUBECTL or not _was_client_applied(root, bare_live, conflict):
            raise
        merged, managers, changed = attempt.run(start, force=True)
    if changed and me in managers:
        managers[me] = managers[me].at(now)
    elif me in managers and me in before:
        managers[me] = managers[me].at(before[me].time)
    elif me in managers:
        managers[me] = managers[me].at(None)
    result = _sync_last_applied(merged, intent) if manager == _KUBECTL else merged
    return _finish(live, result, before, managers)


def _check_intent(root: dict[str, Any], intent: dict[str, Any], version: str) -> None:
    metadata = intent.get("metadata") or {}
    if metadata.get("managedFields"):
        text = "metadata.managedFields must be nil"
        raise ApplyError(text, status=400, reason="BadRequest")
    found = list(misfits(root, intent))
    if found:
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        known = version if "/" in version else f"/{version}"
        place = f"{namespace}/{name}; {known}, Kind={intent.get('kind', '')}"
        text = f"failed to create typed patch object ({place}): {_listed(found)}"
        raise ApplyError(text)


def _listed(errors: list[str]) -> str:
    if len(errors) == 1:
        return errors[0]
    return "errors:\n" + "\n".join(f"  {error}" for error in errors)


def _entries(document: dict[str, Any] | None) -> Any:
    return ((document or {}).get("metadata") or {}).get("managedFields")


def _before_first_apply(
    root: dict[str, Any],
    empty: dict[str, Any],
    live: dict[str, Any],
    *,
    version: str,
    ignored: FieldSet,
) -> Managers:
    """Record the fields of an object without managers under a special manager."""
    changed = recursive_difference(compare(root, empty, live).changed, ignored)
    fields = difference(changed, _UNMANAGED)
    if not fields:
        return {}
    known = Manager("before-first-apply", "Update", version, "")
    return {known: known.owning(fields, version, None)}


def _empty(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return the object that a new one is compared with."""
    return zero(root) if "x-kubernetes-group-version-kind" in schema else {}


class _Attempt:
    """One apply, which may be run a second time with force."""

    def __init__(
        self,
        root: dict[str, Any],
        live: dict[str, Any],
        intent: dict[str, Any],
        *,
        me: Manager,
        version: str,
        ignored: FieldSet,
    ) -> None:
        self._root, self._live, self._intent = root, live, intent
        self._me, self._version, self._ignored = me, version, ignored

    def run(self, start: Managers, *, force: bool) -> tuple[dict[str, Any], Managers, bool]:
        """Merge, prune and update the managers; return also whether the object changed."""
        managers = dict(start)
        last = managers[self._me].fields if self._me in managers else {}
        fields = field_set(self._root, self._intent)
        fields = recursive_difference(fields, self._ignored)
        last = recursive_difference(last, self._ignored)
        managers[self._me] = self._me.owning(fields, self._version, None)
        merged = merge(self._root, self._live, self._intent)
        pruned = _prune(self._root, merged, managers, mine=fields, last=last)
        change = compare(self._root, self._live, pruned)
        if pruned is not merged:
            merged = without_emptied(merged, pruned)
        kept = _without_fields(change, self._ignored)
        _settle(managers, kept, self._me, force=force)
        if self._me in managers:
            rest = difference(managers[self._me].fields, _UNMANAGED)
            managers[self._me] = self._me.owning(rest, self._version, None)
            if not rest:
                del managers[self._me]
        return merged, managers, not change.is_same


def _without_fields(change: Comparison, ignored: FieldSet) -> Comparison:
    if not ignored:
        return change
    return Comparison(
        recursive_difference(change.added, ignored),
        recursive_difference(change.modified, ignored),
        recursive_difference(change.removed, ignored),
    )


def _prune(
    root: dict[str, Any],
    merged: dict[str, Any],
    managers: Managers,
    *,
    mine: FieldSet,
    last: FieldSet,
) -> dict[str, Any]:
    """Remove fields that this manager applied last time, not now, and that no other owns."""
    if last == mine:
        return merged
    owned: FieldSet = {}
    for record in managers.values():
        owned = union(owned, record.fields)
    candidates = difference(named(root, last), named(root, owned))
    if not candidates:
        return merged
    there = named(root, field_set(root, merged))
    pruned = remove(root, merged, named(root, last))
    left = named(root, field_set(root, pruned))
    pruned = remove(root, merged, difference(there, union(left, named(root, owned))))
    left = named(root, field_set(root, pruned))
    doomed = intersection(difference(there, left), named(root, last))
    result: dict[str, Any] = remove(root, merged, doomed)
    return result


def _settle(managers: Managers, change: Comparison, me: Manager, *, force: bool) -> None:
    """Give changed fields to the manager that changed them, and drop removed fields."""
    conflicts = {
        other: found
        for other, record in managers.items()
        if other != me and (found := intersection(record.fields, change.changed))
    }
    if conflicts and not force:
        raise ApplyConflict(conflicts_of(conflicts))
    for other, record in list(managers.items()):
        if other == me:
            continue
        rest = difference(record.fields, conflicts.get(other, {}))
        rest = difference(rest, change.removed)
        if not rest:
            del managers[other]
        elif rest != record.fields:
            managers[other] = record.owning(rest)


def _was_client_applied(
    root: dict[str, Any], live: dict[str, Any], conflict: ApplyConflict
) -> bool:
    """Return whether all conflicts are with earlier writes of `kubectl apply` itself."""
    annotations = (live.get("metadata") or {}).get("annotations") or {}
    try:
        document = json.loads(annotations.get(_LAST_APPLIED, ""))
    except ValueError:
        return False
    if not isinstance(document, dict):
        return False
    allowed = field_set(root, document)
    conflict.conflicts = [found for found in conflict.conflicts if not _holds(allowed, found.path)]
    conflict.message = conflict_message(conflict.conflicts) if conflict.conflicts else ""
    return not conflict.conflicts


def _holds(fields: FieldSet, path: tuple[str, ...]) -> bool:
    node: FieldSet | None = fields
    for element in path:
        node = None if node is None else node.get(element)
    return node is not None and (not node or "." in node)


def _sync_last_applied(merged: dict[str, Any], intent: dict[str, Any]) -> dict[str, Any]:
    """Update the annotation of client-side apply, so that a client can go back to it."""
    metadata = merged.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if _LAST_APPLIED not in annotations:
        return merged
    said = dict(intent.get("metadata") or {})
    said.pop("managedFields", None)
    if _LAST_APPLIED in (said.get("annotations") or {}):
        said["annotations"] = {
            name: text for name, text in said["annotations"].items() if name != _LAST_APPLIED
        }
    text = json.dumps(
        {**intent, "metadata": said}, separators=(",", ":"), sort_keys=True, ensure_ascii=False
    )
    kept = {**annotations, _LAST_APPLIED: f"{text}\n"}
    if sum(len(key) + len(value) for key, value in kept.items()) > _ANNOTATION_LIMIT:
        kept = {**annotations, _LAST_APPLIED: ""}
    return {**merged, "metadata": {**metadata, "annotations": kept}}


def _finish(
    live: dict[str, Any] | None, result: dict[str, Any], before: Managers, managers: Managers
) -> dict[str, Any]:
    """Write the managers; if only times differ, keep the old ones."""
    if live is not None and _untimed(before) == _untimed(managers) and _bare(live) == _bare(result):
        metadata = dict(result.get("metadata") or {})
        if _entries(live) is not None:
            metadata["managedFields"] = _entries(live)
        return {**result, "metadata": metadata}
    return _with_managers(result, managers)


def _untimed(managers: Managers) -> dict[Manager, tuple[str, FieldSet]]:
    return {known: (record.version, record.fields) for known, record in managers.items()}


def track(
    schema: dict[str, Any],
    old: dict[str, Any] | None,
    new: dict[str, Any],
    *,
    manager: str,
    operation: str,
    version: str,
    subresource: str,
    now: str,
    reset: Iterable[str],
) -> dict[str, Any]:
    """Record what a create, update or patch changed as owned by its manager."""
    root = _typed_root(schema)
    bare_new = _bare(new)
    if operation != "Update":
        raise ValueError(f"track records updates, not {operation}: use apply for applies")
    before = _managers_of_request(old, new, subresource)
    if not before and old and (old.get("metadata") or {}).get("uid"):
        return bare_new
    managers = dict(before)
    bare_old = _bare(old) if old else _empty(schema, root)
    change = _without_fields(compare(root, bare_old, bare_new), from_paths(reset))
    me = Manager(manager, "Update", version, subresource)
    none = Manager("", "", "", "")
    _settle(managers, change, none, force=True)
    mine = difference(change.changed, _UNMANAGED)
    if mine:
        known = managers.get(me)
        fields = union(known.fields, mine) if known else mine
        managers[me] = me.owning(fields, version, now)
    cap(managers)
    return _finish(old, bare_new, decode(_entries(old)) if old else {}, managers)


def _managers_of_request(
    old: dict[str, Any] | None, new: dict[str, Any], subresource: str
) -> Managers:
    """Return the managers of the request if it has some, else those of the live object.

    An empty list, or one empty entry, drops all managers.
    """
    live = decode(_entries(old)) if old else {}
    if subresource:
        return live
    given = _entries(new)
    if given in ([], [{}]):
        return {}
    return decode(given) or live
