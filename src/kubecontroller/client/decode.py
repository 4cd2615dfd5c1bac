"""Decoding of API server responses: objects and pages of lists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import Struct

from kubecontroller.client.errors import UNDECODABLE, UndecodableObject
from kubecontroller.client.meta import Key, ListMeta, meta_of
from kubecontroller.client.scheme import Kind

__all__ = ["Page", "Unreadable", "cut", "decode_object", "decode_page", "unreadable_item"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Unreadable(Struct, frozen=True):
    """An object that exists and does not fit its type: which one it is, and what is wrong."""

    key: Key
    uid: str
    resource_version: str
    error: UndecodableObject


class Page(Struct, Generic[T_co], frozen=True):
    """Some objects of a list, the resourceVersion of the list, and the token of the next page.

    `unreadable` are objects that exist too, and do not fit their type: if they were left out
    silently, a caller that compares lists would consider them deleted.
    """

    items: tuple[T_co, ...]
    resource_version: str = ""
    continue_: str = ""
    remaining: int | None = None
    unreadable: tuple[Unreadable, ...] = ()


class _List(Struct, Generic[T_co], frozen=True):
    items: tuple[T_co, ...] | None = None
    metadata: ListMeta = ListMeta()


_LIST_DECODERS: Final[dict[object, msgspec.json.Decoder[Any]]] = {}
_RAW_LIST: Final = msgspec.json.Decoder(_List[msgspec.Raw])
_DEEPEST: Final = 500  # levels; the decoder gives up below a thousand, skipped fields included
_STRUCTURE: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
# Not UTF-8: decoders skip it where the type has no field, and refuse it elsewhere.
_CUT: Final = b'"\xff nested too deeply"'


def _list_decoder(model: object) -> msgspec.json.Decoder[Any]:
    decoder = _LIST_DECODERS.get(model)
    if decoder is None:
        decoder = msgspec.json.Decoder(_List[model])  # type: ignore[valid-type]  # made at run time
        _LIST_DECODERS[model] = decoder
    return decoder


def decode_object(kind: Kind[T], body: bytes, *, ref: str) -> T:
    """Return one object; a body that does not fit raises `UndecodableObject` naming the object."""
    try:
        try:
            return msgspec.json.decode(body, type=kind.model)
        except RecursionError:
            return msgspec.json.decode(cut(body), type=kind.model)
    except UNDECODABLE as error:
        raise UndecodableObject(str(error), ref=ref) from error


def cut(body: bytes) -> bytes:
    """Return JSON without the values that are nested too deeply to be decoded.

    In their places are strings that are not UTF-8: an object whose type has no field there can be
    decoded, any other cannot. Slow: for a body that was found to be nested too deeply.
    """
    kept: list[bytes] = []
    depth = begin = 0
    for found in _STRUCTURE.finditer(body):
        if found[0] in (b"{", b"["):
            depth += 1
            if depth == _DEEPEST:
                kept += (body[begin : found.start()], _CUT)
        elif found[0] in (b"}", b"]"):
            if depth == _DEEPEST:
                begin = found.end()
            depth -= 1
    return b"".join((*kept, body[begin:])) if depth < _DEEPEST else b""


def decode_page(kind: Kind[T], body: bytes, *, ref: str) -> Page[T]:
    """Return one page of a list.

    Plain values get the `apiVersion` and `kind` that servers leave out of list items.

    An object that does not fit is added to `unreadable`; the others are decoded.

    Errors: `UndecodableObject` when the body is not a list, or an item does not even have a name.
    """
    try:
        decoded = cast("_List[T]", _list_decoder(kind.model).decode(body))
        items = decoded.items or ()
        for item in items:
            _complete(kind, item)
    except UNDECODABLE:
        return _decode_apart(kind, body, ref=ref)
    meta = decoded.metadata
    return Page(items, meta.resource_version, meta.continue_, meta.remaining_item_count)


def _decode_apart(kind: Kind[T], body: bytes, *, ref: str) -> Page[T]:
    """Decode each item by itself: slower, and only items that do not fit are left out."""
    try:
        try:
            decoded = _RAW_LIST.decode(body)
        except RecursionError:
            decoded = _RAW_LIST.decode(cut(body))
    except UNDECODABLE as error:
        raise UndecodableObject(f"not a list ({error})", ref=ref) from error
    items: list[T] = []
    aside: list[Unreadable] = []
    for raw in decoded.items or ():
        try:
            item = msgspec.json.decode(raw, type=kind.model)
            _complete(kind, item)
        except UNDECODABLE as error:
            aside.append(unreadable_item(kind, raw, error))
        else:
            items.append(item)
    meta = decoded.metadata
    return Page(
        tuple(items),
        meta.resource_version,
        meta.continue_,
        meta.remaining_item_count,
        tuple(aside),
    )


def _complete(kind: Kind[Any], item: object) -> None:
    """Add the type to a plain item; raise when its metadata cannot be read."""
    if isinstance(item, dict):
        item.setdefault("apiVersion", kind.api_version)
        item.setdefault("kind", kind.kind)
        meta_of(item)


def unreadable_item(kind: Kind[Any], raw: msgspec.Raw, error: Exception) -> Unreadable:
    """Return which object does not fit and why; `UndecodableObject` when it has no name."""
    text = bytes(raw).decode(errors="replace")
    try:
        meta = msgspec.json.decode(text, type=dict[str, Any]).get("metadata")
    except UNDECODABLE:
        meta = None
    found = meta if isinstance(meta, Mapping) else {}
    name, namespace, uid, version = (
        value if isinstance(value := found.get(part), str) else ""
        for part in ("name", "namespace", "uid", "resourceVersion")
    )
    if not name:
        raise UndecodableObject(f"an object without a name ({error})", ref=kind.kind) from error
    why = f"nested deeper than {_DEEPEST} levels" if _CUT in bytes(raw) else str(error)
    problem = UndecodableObject(why, ref=str(kind.ref((namespace, name))))
    return Unreadable((namespace, name), uid, version, problem)
