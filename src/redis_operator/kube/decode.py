"""Answers of the API server turned into values: objects and pages of lists."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import Struct

from redis_operator.kube.errors import UndecodableObject
from redis_operator.kube.meta import ListMeta, ObjectMeta
from redis_operator.kube.scheme import Kind

__all__ = ["Page", "decode_object", "decode_page"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Page(Struct, Generic[T_co], frozen=True):
    """Some objects of a list, the version they are a picture of, and where the rest begins."""

    items: tuple[T_co, ...]
    resource_version: str = ""
    continue_: str = ""
    remaining: int | None = None


class _List(Struct, Generic[T_co], frozen=True):
    items: tuple[T_co, ...] | None = None
    metadata: ListMeta = ListMeta()


class _Named(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_LIST_DECODERS: Final[dict[object, msgspec.json.Decoder[Any]]] = {}
_RAW_LIST: Final = msgspec.json.Decoder(_List[msgspec.Raw])


def _list_decoder(model: object) -> msgspec.json.Decoder[Any]:
    decoder = _LIST_DECODERS.get(model)
    if decoder is None:
        decoder = msgspec.json.Decoder(_List[model])  # type: ignore[valid-type]  # made at run time
        _LIST_DECODERS[model] = decoder
    return decoder


def decode_object(kind: Kind[T], body: bytes, *, ref: str) -> T:
    """Return one object; an answer that does not fit raises `UndecodableObject` naming it."""
    try:
        return msgspec.json.decode(body, type=kind.model)
    except msgspec.MsgspecError as error:
        raise UndecodableObject(str(error), ref=ref) from error


def decode_page(kind: Kind[T], body: bytes, *, ref: str) -> Page[T]:
    """Return one page of a list.

    Plain values get the `apiVersion` and `kind` that servers leave out of list items.

    Errors: one object that does not fit fails the page and is named. Leaving it out instead would
    read as its deletion to whoever compares lists.
    """
    try:
        decoded = cast("_List[T]", _list_decoder(kind.model).decode(body))
    except msgspec.MsgspecError as error:
        raise _misfit(kind, body, ref=ref, error=error) from error
    items = decoded.items or ()
    for item in items:
        if isinstance(item, dict):
            item.setdefault("apiVersion", kind.api_version)
            item.setdefault("kind", kind.kind)
    meta = decoded.metadata
    return Page(items, meta.resource_version, meta.continue_, meta.remaining_item_count)


def _misfit(kind: Kind[Any], body: bytes, *, ref: str, error: Exception) -> UndecodableObject:
    try:
        raws = _RAW_LIST.decode(body).items or ()
    except msgspec.MsgspecError:
        return UndecodableObject(f"not a list ({error})", ref=ref)
    for raw in raws:
        try:
            msgspec.json.decode(raw, type=kind.model)
        except msgspec.MsgspecError as problem:
            return UndecodableObject(str(problem), ref=str(kind.ref(_key(raw))))
    return UndecodableObject(str(error), ref=ref)


def _key(raw: msgspec.Raw) -> tuple[str, str]:
    try:
        return msgspec.json.decode(raw, type=_Named).metadata.key
    except msgspec.MsgspecError:
        return ("", "")
