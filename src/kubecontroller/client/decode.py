"""Decoding of API server responses: objects and pages of lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import Struct

from kubecontroller.client.errors import UndecodableObject
from kubecontroller.client.meta import Key, ListMeta, meta_of
from kubecontroller.client.scheme import Kind

__all__ = ["Page", "Unreadable", "decode_object", "decode_page", "unreadable_item"]

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


def _list_decoder(model: object) -> msgspec.json.Decoder[Any]:
    decoder = _LIST_DECODERS.get(model)
    if decoder is None:
        decoder = msgspec.json.Decoder(_List[model])  # type: ignore[valid-type]  # made at run time
        _LIST_DECODERS[model] = decoder
    return decoder


def decode_object(kind: Kind[T], body: bytes, *, ref: str) -> T:
    """Return one object; a body that does not fit raises `UndecodableObject` naming the object."""
    try:
        return msgspec.json.decode(body, type=kind.model)
    except msgspec.MsgspecError as error:
        raise UndecodableObject(str(error), ref=ref) from error


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
    except msgspec.MsgspecError:
        return _decode_apart(kind, body, ref=ref)
    meta = decoded.metadata
    return Page(items, meta.resource_version, meta.continue_, meta.remaining_item_count)


def _decode_apart(kind: Kind[T], body: bytes, *, ref: str) -> Page[T]:
    """Decode each item by itself: slower, and only items that do not fit are left out."""
    try:
        decoded = _RAW_LIST.decode(body)
    except msgspec.MsgspecError as error:
        raise UndecodableObject(f"not a list ({error})", ref=ref) from error
    items: list[T] = []
    aside: list[Unreadable] = []
    for raw in decoded.items or ():
        try:
            item = msgspec.json.decode(raw, type=kind.model)
            _complete(kind, item)
        except msgspec.MsgspecError as error:
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
    try:
        meta = msgspec.json.decode(raw, type=dict[str, Any]).get("metadata")
    except msgspec.MsgspecError:
        meta = None
    found = meta if isinstance(meta, Mapping) else {}
    name, namespace, uid, version = (
        value if isinstance(value := found.get(part), str) else ""
        for part in ("name", "namespace", "uid", "resourceVersion")
    )
    if not name:
        raise UndecodableObject(f"an object without a name ({error})", ref=kind.kind) from error
    problem = UndecodableObject(str(error), ref=str(kind.ref((namespace, name))))
    return Unreadable((namespace, name), uid, version, problem)
