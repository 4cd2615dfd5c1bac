"""From objects to store entries and back: encoding, and the fields of field selectors."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from kubelocal.apiserver.kinds.selectors import Requirement, matches
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.storage.store import Entry, Store, pack, unpack

__all__ = ["FieldIndex", "Selection", "copied", "decode", "encode"]

Object = dict[str, Any]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(dict[str, Any])

_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "secrets": ("type",),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "services": ("spec.clusterIP", "spec.type"),
    "replicasets.apps": ("status.replicas",),
    "jobs.batch": ("status.successful",),
}
_BOOLEANS = {"spec.unschedulable", "spec.hostNetwork"}
_NUMBERS = {"status.replicas", "status.successful"}
_FIRST = ("kind", "apiVersion", "metadata")


def encode(value: Object) -> bytes:
    """Return an object as JSON, with the common fields at the front."""
    if next(iter(value), "") != "kind":
        value = {key: value[key] for key in _FIRST if key in value} | value
    return _encoder.encode(value)


def decode(body: bytes) -> Object:
    """Return the object of a stored body; a new one each time."""
    return _decoder.decode(body)


def copied(value: Any) -> Any:
    """Return a copy of a JSON value that may be changed."""
    return msgspec.json.decode(_encoder.encode(value))


def value_at(value: Any, path: str) -> Any:
    """Return the value at a dotted path, or nothing."""
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def _text(found: Any, path: str) -> str:
    if isinstance(found, bool):
        return "true" if found else "false"
    if found is None:
        return "false" if path in _BOOLEANS else "0" if path in _NUMBERS else ""
    if path == "source":
        found = found.get("component", "")
    return str(found)


class FieldIndex:
    """The fields by which the entries of each collection can be selected."""

    def __init__(self) -> None:
        self._paths: dict[str, tuple[str, ...]] = dict(_FIELDS)

    def paths(self, collection: str) -> tuple[str, ...]:
        """Return the fields beyond name and namespace, in the order in which entries keep them."""
        return self._paths.get(collection, ())

    def learn(self, store: Store, collection: str, paths: tuple[str, ...]) -> None:
        """Make these fields selectable in a collection; its entries are read again."""
        if self.paths(collection) == paths:
            return
        self._paths[collection] = paths
        home = store.collection(collection)
        for key, entry in home.entries.items():
            home.entries[key] = self.read(collection, entry.kept)

    def entry(self, collection: str, value: Object, body: bytes) -> Entry:
        """Return the store's entry for an object and its encoding."""
        return self._entry(collection, value, pack(body))

    def read(self, collection: str, kept: bytes) -> Entry:
        """Return the entry for a stored object."""
        return self._entry(collection, decode(unpack(kept)), kept)

    def _entry(self, collection: str, value: Object, kept: bytes) -> Entry:
        metadata = value["metadata"]
        labels = metadata.get("labels")
        return Entry(
            namespace=sys.intern(metadata.get("namespace", "")),
            name=metadata["name"],
            uid=metadata.get("uid", ""),
            version=int(metadata.get("resourceVersion") or 0),
            kept=kept,
            labels={sys.intern(k): sys.intern(v) for k, v in labels.items()} if labels else {},
            fields=tuple(
                sys.intern(_text(value_at(value, path), path)) for path in self.paths(collection)
            ),
        )


class Selection(msgspec.Struct, frozen=True):
    """The selection of a list or watch: a namespace, labels and fields; empty means all."""

    namespace: str = ""
    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def is_partial(self) -> bool:
        """Return whether selectors exclude anything."""
        return bool(self.labels or self.fields)

    def includes(self, entry: Entry) -> bool:
        """Return whether an entry belongs to it."""
        if self.namespace and entry.namespace != self.namespace:
            return False
        if self.labels and not matches(self.labels, entry.labels):
            return False
        return not self.fields or matches(self.fields, self._values(entry))

    def _values(self, entry: Entry) -> Mapping[str, str]:
        values = dict(zip(self.paths, entry.fields, strict=False))
        values["metadata.name"] = entry.name
        values["metadata.namespace"] = entry.namespace
        return values


def selectable(resource: Resource, index: FieldIndex, path: str) -> bool:
    """Return whether objects of a resource can be selected by a field."""
    known = ("metadata.name", "metadata.namespace")
    return path in known or path in index.paths(resource.key)
