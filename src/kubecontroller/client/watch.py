"""Watch events: what a line of a watch stream means.

Sans-I/O: `decode_line` turns a line into a change, a bookmark, or the typed error that the server
put in the stream. A change of an object that does not fit its type is still reported as a change.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct

from kubecontroller.client.decode import Unreadable, cut, unreadable_item
from kubecontroller.client.errors import (
    UNDECODABLE,
    GarbledLine,
    Status,
    UndecodableObject,
    error_from_status,
)
from kubecontroller.client.meta import ObjectMeta, meta_of
from kubecontroller.client.scheme import Kind

__all__ = [
    "INITIAL_EVENTS_END",
    "Bookmark",
    "ChangeType",
    "UnreadableChange",
    "WatchEvent",
    "WatchedChange",
    "decode_line",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class ChangeType(StrEnum):
    """What happened to an object, as far as this watch can see."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class WatchedChange(Struct, Generic[T_co], frozen=True, gc=False):
    """An object was added, modified, or deleted (or no longer matches the selector)."""

    type: ChangeType
    object: T_co


class Bookmark(Struct, frozen=True, gc=False):
    """Everything up to this version was sent; perhaps the end of the initial events."""

    resource_version: str
    initial_events_end: bool = False


class UnreadableChange(Struct, frozen=True, gc=False):
    """An object was added, modified or deleted, and its content does not fit its type."""

    type: ChangeType
    object: Unreadable


WatchEvent: TypeAlias = WatchedChange[T] | UnreadableChange | Bookmark


class _Line(Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _MetaOnly(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_LINE: Final = msgspec.json.Decoder(_Line)
_META: Final = msgspec.json.Decoder(_MetaOnly)
_STATUS: Final = msgspec.json.Decoder(Status)
# How an API server begins a line. Most lines are changes: those are decoded in one pass.
_CHANGES: Final = (b'{"type":"MODIFIED"', b'{"type":"ADDED"', b'{"type":"DELETED"')

_CHANGE_DECODERS: Final[dict[object, msgspec.json.Decoder[Any]]] = {}


def decode_line(kind: Kind[T], line: bytes, *, path: str = "") -> WatchEvent[T]:
    """Return the event in one line of a watch stream.

    Errors: an ERROR event raises the typed error of its Status (`Expired` for a version that is
    too old); a line that is not an event raises `GarbledLine`; an object without a name raises
    `UndecodableObject`.
    """
    if line.startswith(_CHANGES):
        try:
            change = cast("WatchedChange[T]", _change_decoder(kind.model).decode(line))
            if isinstance(change.object, dict):
                meta_of(change.object)
        except UNDECODABLE:
            pass  # the slow path below finds what is wrong, and with which object
        else:
            return change
    try:
        try:
            parts = _LINE.decode(line)
        except RecursionError:
            parts = _LINE.decode(cut(line))
    except UNDECODABLE as error:
        raise GarbledLine(f"not a watch event ({error})", path=path, excerpt=line[:80]) from error
    match parts.type:
        case "ADDED" | "MODIFIED" | "DELETED":
            return _decode_change(kind, ChangeType(parts.type), parts.object)
        case "BOOKMARK":
            meta = _decode_meta(kind, parts.object)
            ended = meta.annotation(INITIAL_EVENTS_END) == "true"
            return Bookmark(meta.resource_version, initial_events_end=ended)
        case "ERROR":
            raise _error(parts.object, path)
        case other:
            raise GarbledLine(f"unknown event type {other!r}", path=path, excerpt=line[:80])


def _change_decoder(model: object) -> msgspec.json.Decoder[Any]:
    decoder = _CHANGE_DECODERS.get(model)
    if decoder is None:
        decoder = msgspec.json.Decoder(WatchedChange[model])  # type: ignore[valid-type]  # made at run time
        _CHANGE_DECODERS[model] = decoder
    return decoder


def _decode_change(
    kind: Kind[T], change: ChangeType, raw: msgspec.Raw
) -> WatchedChange[T] | UnreadableChange:
    try:
        obj = msgspec.json.decode(raw, type=kind.model)
        if isinstance(obj, dict):
            meta_of(obj)
    except UNDECODABLE as error:
        return UnreadableChange(change, unreadable_item(kind, raw, error))
    return WatchedChange(change, obj)


def _decode_meta(kind: Kind[Any], raw: msgspec.Raw) -> ObjectMeta:
    try:
        return _META.decode(raw).metadata
    except UNDECODABLE as error:
        raise UndecodableObject(f"metadata cannot be read ({error})", ref=kind.kind) from error


def _error(raw: msgspec.Raw, path: str) -> Exception:
    try:
        return error_from_status(_STATUS.decode(raw), ref=f"watch of {path}" if path else "watch")
    except UNDECODABLE:
        return GarbledLine("an ERROR event without a Status", path=path, excerpt=bytes(raw)[:80])
