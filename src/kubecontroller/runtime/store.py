"""The objects of one kind in memory, found by key and by indexes.

Only the informer holds the `Store` and writes; readers hold its `Reader`. Objects are shared and
must be treated as immutable. Returned lists are copies, so a caller may await between two elements;
its list is then a snapshot of the past. An index that raises leaves the object out; it is logged
once for each index.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from kubecontroller.client.meta import Key, meta_of

__all__ = ["Index", "Reader", "Store", "by_namespace", "by_owner", "label_index"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

Index: TypeAlias = Callable[[Any], Iterable[Hashable]]
"""The values under which an index has an object; none to leave it out."""


def by_namespace(obj: Any) -> tuple[str]:
    """Find objects by their namespace."""
    return (meta_of(obj).namespace,)


def by_owner(obj: Any) -> list[str]:
    """Find objects by the uid of any owner."""
    return [owner.uid for owner in meta_of(obj).owner_references or ()]


def label_index(name: str) -> Index:
    """Find objects by (namespace, value) of one label."""

    def values(obj: Any) -> tuple[tuple[str, str], ...]:
        meta = meta_of(obj)
        if not meta.labels or name not in meta.labels:
            return ()
        return ((meta.namespace, meta.labels[name]),)

    return values


class Store(Generic[T]):
    """The writable side of the cache, for its one writer."""

    def __init__(self, indexes: Mapping[str, Index] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._indexes: dict[str, Index] = dict(indexes or {})
        self._broken: set[str] = set()
        self._found: dict[str, dict[Hashable, set[Key]]] = {name: {} for name in self._indexes}
        self.reader: Reader[T] = Reader(self._objects, self._found)

    def add_index(self, name: str, index: Index) -> None:
        """Add an index at any time; the same name must mean the same index."""
        known = self._indexes.get(name)
        if known is not None:
            if known is not index:
                raise ValueError(f"index {name!r} exists and is another one: choose another name")
            return
        self._indexes[name] = index
        found = self._found.setdefault(name, {})
        for key, obj in self._objects.items():
            for value in self._values(name, obj) or ():
                found.setdefault(value, set()).add(key)

    def put(self, key: Key, obj: T) -> T | None:
        """Store an object and return the one that it replaces."""
        old = self._objects.get(key)
        self._objects[key] = obj
        for name in self._indexes:
            values = self._values(name, obj)
            if old is not None:
                before = self._values(name, old)
                if before == values and before is not None:
                    continue
                self._forget(name, before, key)
            found = self._found[name]
            for value in values or ():
                found.setdefault(value, set()).add(key)
        return old

    def remove(self, key: Key) -> T | None:
        """Remove an object and return it."""
        old = self._objects.pop(key, None)
        if old is not None:
            for name in self._indexes:
                self._forget(name, self._values(name, old), key)
        return old

    def _values(self, name: str, obj: T) -> tuple[Hashable, ...] | None:
        """Return the values of an index; nothing when it raises: the object stays in the cache."""
        try:
            values = tuple(self._indexes[name](obj))
            hash(values)
        except (Exception, CancelledError):
            if name not in self._broken:
                self._broken.add(name)
                _log.exception("the index %r failed; such objects are not found by it", name)
            return None
        return values

    def _forget(self, name: str, values: tuple[Hashable, ...] | None, key: Key) -> None:
        """Remove a key from an index, from all of it where its values are not known any more."""
        found = self._found[name]
        for value in tuple(found) if values is None else values:
            keys = found.get(value)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del found[value]  # or a cache of short-lived objects would grow for ever


class Reader(Generic[T]):
    """The read-only side of the cache. Never change what it returns."""

    def __init__(
        self, objects: Mapping[Key, T], found: Mapping[str, Mapping[Hashable, set[Key]]]
    ) -> None:
        self._objects = objects
        self._found = found

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def get(self, key: Key) -> T | None:
        """Return the object of that namespace and name, if the cache has it."""
        return self._objects.get(key)

    def keys(self) -> list[Key]:
        """Return all keys."""
        return list(self._objects)

    def find(self, index: str, value: Hashable) -> list[T]:
        """Return the objects an index has under a value, in the order of their keys."""
        return [self._objects[key] for key in self.find_keys(index, value)]

    def find_keys(self, index: str, value: Hashable) -> list[Key]:
        """Return the keys an index has under a value, in order."""
        found = self._found.get(index)
        if found is None:
            raise KeyError(f"no index {index!r}: this cache has {sorted(self._found)}")
        return sorted(found.get(value, ()))
