"""From objects to store entries and back: encoding, and the fields a selector may name."""

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
    """Return an object as JSON, with what every object has at the front."""
    if next(iter(value), "") != "kind":
        value = {key: value[key] for key in _FIRST if key in value} | value
    return _encoder.encode(value)


def decode(body: bytes) -> Object:
    """Return the object a stored body holds; a fresh one each time."""
    return _decoder.decode(body)


def copied(value: Any) -> Any:
    """Return a copy of what was or will be JSON, free to be changed."""
    return msgspec.json.decode(_encoder.encode(value))


def value_at(value: Any, path: str) -> Any:
    """Return what a dotted path leads to, or nothing."""
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
    """Knows, for each collection, which fields its entries can be selected by."""

    def __init__(self) -> None:
        self._paths: dict[str, tuple[str, ...]] = dict(_FIELDS)

    def paths(self, collection: str) -> tuple[str, ...]:
        """Return the fields beyond name and namespace, in the order entries keep them."""
        return self._paths.get(collection, ())

    def learn(self, store: Store, collection: str, paths: tuple[str, ...]) -> None:
        """Let a collection be selected by these fields; entries there are read again."""
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
        """Return the entry for an object as it was kept."""
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
    """What a list or watch is about: a namespace, labels and fields; empty means all."""

    namespace: str = ""
    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def is_partial(self) -> bool:
        """Tell whether selectors leave anything out."""
        return bool(self.labels or self.fields)

    def includes(self, entry: Entry) -> bool:
        """Tell whether an entry belongs to it."""
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
    """Tell whether objects of a resource can be selected by a field."""
    known = ("metadata.name", "metadata.namespace")
    return path in known or path in index.paths(resource.key)
