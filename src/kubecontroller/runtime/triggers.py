"""From a change of an object to the keys that have to be reconciled.

A trigger is a function from a change to keys; a predicate decides whether a change counts at all.
Neither makes a cache smaller: selectors of the informer do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from kubecontroller.client.meta import Key, ObjectMeta, key_of, meta_of
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.changes import Added, Change, Deleted, Updated

__all__ = [
    "Predicate",
    "Trigger",
    "annotations_changed",
    "any_of",
    "by_label",
    "generation_changed",
    "itself",
    "labels_changed",
    "lifetime_changed",
    "mapped",
    "not_",
    "owner",
    "spec_or_metadata_changed",
    "version_changed",
]

T = TypeVar("T")

Trigger: TypeAlias = Callable[[Change[T]], Iterable[Key]]
Predicate: TypeAlias = Callable[[Change[T]], bool]


def itself(change: Change[Any]) -> Iterable[Key]:
    """Return the key of the object that changed."""
    return (key_of(_newest(change)),)


def owner(kind: Kind[Any], *, any_owner: bool = False) -> Trigger[Any]:
    """Return the key of the owner of that kind: of the old and of the new state.

    Owners are matched by group and kind, whatever their version. Only the owner that controls the
    object counts, unless `any_owner`. The owner is in the object's namespace, unless its kind is
    cluster-scoped.
    """

    def keys(change: Change[Any]) -> Iterable[Key]:
        found: dict[Key, None] = {}
        for state in _states(change):
            meta = meta_of(state)
            for reference in meta.owner_references or ():
                if reference.kind != kind.kind or reference.group != kind.group:
                    continue
                if reference.controller or any_owner:
                    found[(meta.namespace if kind.namespaced else "", reference.name)] = None
        return found

    return keys


def by_label(name: str, *, namespace_label: str = "") -> Trigger[Any]:
    """Return the key that a label names, in the object's namespace or the one a label names."""

    def keys(change: Change[Any]) -> Iterable[Key]:
        found: dict[Key, None] = {}
        for state in _states(change):
            meta = meta_of(state)
            value = meta.label(name)
            namespace = meta.label(namespace_label) if namespace_label else meta.namespace
            if value:
                found[(namespace, value)] = None
        return found

    return keys


def mapped(function: Callable[[Any], Iterable[Key]]) -> Trigger[Any]:
    """Return the keys a function finds for the old and the new state, each once."""

    def keys(change: Change[Any]) -> Iterable[Key]:
        return dict.fromkeys(key for state in _states(change) for key in function(state))

    return keys


def generation_changed(change: Change[Any]) -> bool:
    """Count only changes of the spec: not resyncs, status or metadata."""
    return _differ(change, lambda meta: meta.generation)


def labels_changed(change: Change[Any]) -> bool:
    """Count only changes of labels."""
    return _differ(change, lambda meta: _plain(meta.labels))


def annotations_changed(change: Change[Any]) -> bool:
    """Count only changes of annotations."""
    return _differ(change, lambda meta: _plain(meta.annotations))


def lifetime_changed(change: Change[Any]) -> bool:
    """Count only the beginning of a deletion, and added or removed finalizers."""
    return _differ(change, lambda meta: (meta.deletion_timestamp, meta.finalizers or ()))


def version_changed(change: Change[Any]) -> bool:
    """Count real changes only, not resyncs."""
    return _differ(change, lambda meta: meta.resource_version)


def any_of(*predicates: Predicate[T]) -> Predicate[T]:
    """Count a change that some predicate counts."""
    return lambda change: any(predicate(change) for predicate in predicates)


def not_(predicate: Predicate[T]) -> Predicate[T]:
    """Count a change that the predicate does not."""
    return lambda change: not predicate(change)


spec_or_metadata_changed: Predicate[Any] = any_of(
    generation_changed, labels_changed, annotations_changed, lifetime_changed, not_(version_changed)
)
"""All but changes of the status: a controller that writes it would trigger itself."""


def _newest(change: Change[Any]) -> Any:
    match change:
        case Updated(_, new):
            return new
        case Added(obj) | Deleted(obj):
            return obj


def _states(change: Change[Any]) -> tuple[Any, ...]:
    if isinstance(change, Updated):
        return (change.new,) if change.old is change.new else (change.old, change.new)
    return (change.obj,)


def _differ(change: Change[Any], part: Callable[[ObjectMeta], object]) -> bool:
    if not isinstance(change, Updated):
        return True
    if change.old is change.new:
        return False
    return part(meta_of(change.old)) != part(meta_of(change.new))


def _plain(values: Mapping[str, str] | None) -> Mapping[str, str]:
    return values or {}
