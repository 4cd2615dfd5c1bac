"""What every part of the server shares: the store, the table of resources, the clock, chance.

All changes to objects go through `put` and `remove`, so that versions, encoding, and the parts
that react to changes (CRDs being served, namespaces being emptied) are in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from kubelocal.apiserver.calls import Call
from kubelocal.apiserver.custom.schema import convert
from kubelocal.apiserver.errors import not_found
from kubelocal.apiserver.kinds.table import Registry, Resource
from kubelocal.apiserver.objects.metadata import Bits
from kubelocal.apiserver.storage.entries import FieldIndex, Object, decode, encode
from kubelocal.apiserver.storage.store import Entry, Store

__all__ = ["Core", "Reaction"]

Reaction = Callable[[Resource, Object, bool], None]
"""Told after each change: the resource, the object, and whether it is gone."""


class Core:
    """The state of one server and the only way to change it."""

    def __init__(self, store: Store, *, clock: Callable[[], datetime], bits: Bits) -> None:
        self.store = store
        self.clock = clock
        self.bits = bits
        self.registry = Registry()
        self.index = FieldIndex()
        self.reactions: list[Reaction] = []

    def resource(self, collection: str) -> Resource:
        """Return the resource of a built-in collection."""
        found = self.registry.in_collection(collection)
        if found is None:
            raise LookupError(f"no resource is kept in {collection!r}")
        return found

    def entry(self, collection: str, namespace: str, name: str) -> Entry | None:
        """Return an entry as it is now."""
        key = f"{namespace}/{name}" if namespace else name
        return self.store.collection(collection).entries.get(key)

    def read(self, collection: str, namespace: str, name: str) -> Object | None:
        """Return an object as it is kept now, free to be changed."""
        entry = self.entry(collection, namespace, name)
        return None if entry is None else decode(entry.body)

    def live(self, call: Call) -> Object:
        """Return the object that a call names, as it is now, free to be changed, or refuse."""
        resource = call.resource
        entry = self.entry(resource.key, call.namespace if resource.namespaced else "", call.name)
        if entry is None:
            raise not_found(resource.group, resource.plural, call.name)
        return self.load(resource, entry)

    def load(self, resource: Resource, entry: Entry) -> Object:
        """Return an entry's object at the version of a resource, free to be changed."""
        return convert(resource, decode(entry.body))

    def put(self, resource: Resource, value: Object) -> Entry:
        """Keep an object under the next version, and let the parts that care react."""
        entry = self._entry(resource, value)
        self.store.commit(resource.key, entry)
        self._react(resource, value, gone=False)
        return entry

    def remove(self, resource: Resource, value: Object) -> Entry:
        """Take an object away; the entry returned is how watchers see it go."""
        entry = self._entry(resource, value)
        self.store.commit(resource.key, entry, deleted=True)
        self._react(resource, value, gone=True)
        return entry

    def preview(self, resource: Resource, value: Object) -> Entry:
        """Return the entry a dry run would have made; nothing is kept."""
        return self.index.entry(resource.key, value, encode(value))

    def _entry(self, resource: Resource, value: Object) -> Entry:
        value["metadata"]["resourceVersion"] = str(self.store.version + 1)
        stored: dict[str, Any] = value
        if value.get("apiVersion") != resource.stored_version:
            stored = value | {"apiVersion": resource.stored_version}
        return self.index.entry(resource.key, stored, encode(stored))

    def _react(self, resource: Resource, value: Object, *, gone: bool) -> None:
        for reaction in self.reactions:
            reaction(resource, value, gone)
