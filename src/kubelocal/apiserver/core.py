"""The state that all parts of the server share: store, resources, clock, source of randomness.

All changes to objects go through `put` and `remove`, so that versions, encoding, and the parts
that react to changes (served CRDs, terminating namespaces) are in one place.
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
"""Called after each change: the resource, the object, and whether it is deleted."""


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
        """Return the current entry."""
        key = f"{namespace}/{name}" if namespace else name
        return self.store.collection(collection).entries.get(key)

    def read(self, collection: str, namespace: str, name: str) -> Object | None:
        """Return the current object as a copy that may be changed."""
        entry = self.entry(collection, namespace, name)
        return None if entry is None else decode(entry.body)

    def live(self, call: Call) -> Object:
        """Return the current object of a call as a copy that may be changed; raise if not found."""
        resource = call.resource
        entry = self.entry(resource.key, call.namespace if resource.namespaced else "", call.name)
        if entry is None:
            raise not_found(resource.group, resource.plural, call.name)
        return self.load(resource, entry)

    def load(self, resource: Resource, entry: Entry) -> Object:
        """Return an entry's object at the version of a resource, as a copy that may be changed."""
        return convert(resource, decode(entry.body))

    def put(self, resource: Resource, value: Object) -> Entry:
        """Store an object under the next version, and call the parts that react to changes."""
        entry = self._entry(resource, value)
        self.store.commit(resource.key, entry)
        self._react(resource, value, gone=False)
        return entry

    def remove(self, resource: Resource, value: Object) -> Entry:
        """Delete an object; the returned entry is the one that watchers receive."""
        entry = self._entry(resource, value)
        self.store.commit(resource.key, entry, deleted=True)
        self._react(resource, value, gone=True)
        return entry

    def preview(self, resource: Resource, value: Object) -> Entry:
        """Return the entry that a dry run would have stored; nothing is stored."""
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
