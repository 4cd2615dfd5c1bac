"""The caches of one kind in all namespaces, or in some of them, read as one.

An operator that may see only some namespaces lists and watches each of them separately: nothing
else is allowed. `Manager.caches` makes them; a reader need not know how many there are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from kubecontroller.client.meta import Key, key_of
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.informer import Informer

__all__ = ["Caches"]

T = TypeVar("T")


class Caches(Generic[T]):
    """The informers of one kind. Never change an object that they return."""

    def __init__(self, informers: Iterable[Informer[T]]) -> None:
        self.informers = tuple(informers)
        self.kind: Kind[T] = self.informers[0].kind

    @property
    def has_synced(self) -> bool:
        """Whether the first list of each has been read."""
        return all(informer.has_synced for informer in self.informers)

    def __iter__(self) -> Iterator[T]:
        for informer in self.informers:
            yield from informer.cache

    def __len__(self) -> int:
        return sum(len(informer.cache) for informer in self.informers)

    def get(self, key: Key) -> T | None:
        """Return the object of that namespace and name, if a cache has it."""
        for informer in self.informers:
            found = informer.cache.get(key)
            if found is not None:
                return found
        return None

    def find(self, index: str, value: Hashable) -> list[T]:
        """Return the objects that an index has under a value, by namespace and name.

        Every cache has the indexes `namespace` and `owner` (by the owner's uid), and those that it
        was made with.
        """
        if len(self.informers) == 1:
            return self.informers[0].cache.find(index, value)
        found: list[Any] = [
            obj for informer in self.informers for obj in informer.cache.find(index, value)
        ]
        return sorted(found, key=key_of)
