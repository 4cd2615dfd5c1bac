"""Tables: the rows of `kubectl get`, computed by the server."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from kubelocal.apiserver.describe.columns import Column, age
from kubelocal.apiserver.describe.printers import printer_of
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.storage.entries import Object, decode, encode
from kubelocal.apiserver.storage.store import Entry

__all__ = ["Tables", "find"]

_NAME_TEXT = (
    "Name must be unique within a namespace. Is required when creating resources, although some"
    " resources may allow a client to request the generation of an appropriate name automatically."
    " Name is primarily intended for creation idempotence and configuration definition. Cannot be"
    " updated. More info:"
    " https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
_CREATED_TEXT = (
    "CreationTimestamp is a timestamp representing the server time when this object was created."
    " It is not guaranteed to be set in happens-before order across separate operations. Clients"
    " may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the"
    " system. Read-only. Null for lists. More info:"
    " https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)


_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class _Printer(Struct, frozen=True):
    columns: tuple[Column, ...]
    cells: Callable[[Object, datetime], list[Any]]


class Tables:
    """Makes tables; needs the clock for ages."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock

    def table(self, resource: Resource, bodies: Sequence[bytes], include: str) -> Object:
        """Return a table of these objects, with column definitions."""
        printer = _printer(resource)
        now = self._clock()
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {},
            "columnDefinitions": [column.definition() for column in printer.columns],
            "rows": [_row(printer, decode(body), include, now) for body in bodies],
        }

    def renderer(self, resource: Resource, include: str) -> Callable[[str, Entry], bytes]:
        """Return how watch events become tables of one row; only the first defines columns."""
        printer = _printer(resource)
        sent = False

        def line(kind: str, entry: Entry) -> bytes:
            nonlocal sent
            value = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": str(entry.version)},
                "columnDefinitions": None
                if sent
                else [column.definition() for column in printer.columns],
                "rows": [_row(printer, decode(entry.body), include, self._clock())],
            }
            sent = True
            return b'{"type":"' + kind.encode() + b'","object":' + encode(value) + b"}\n"

        return line


def _row(printer: _Printer, value: Object, include: str, now: datetime) -> Object:
    row: Object = {"cells": printer.cells(value, now)}
    match include:
        case "None":
            row["object"] = None
        case "Object":
            row["object"] = value
        case _:
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": value["metadata"],
            }
    return row


def _printer(resource: Resource) -> _Printer:
    if resource.custom is not None:
        return _custom(resource)
    known = printer_of(resource.kind)
    if known is None:
        return _Printer(
            (_NAME, Column("Created At", "date", description=_CREATED_TEXT)),
            lambda value, _now: [value["metadata"]["name"], value["metadata"]["creationTimestamp"]],
        )
    columns, cells = known
    if any(column.name == "Name" for column in columns):
        return _Printer(columns, cells)
    return _Printer((_NAME, *columns), lambda value, now: [_shown_name(value), *cells(value, now)])


def _shown_name(value: Object) -> str:
    name: str = value["metadata"]["name"]
    marks = value["metadata"].get("annotations") or {}
    if value["kind"] == "StorageClass" and marks.get(_DEFAULT_CLASS) == "true":
        return f"{name} (default)"
    return name


_NAME = Column("Name", "string", format="name", description=_NAME_TEXT)


def _custom(resource: Resource) -> _Printer:
    assert resource.custom is not None
    given = resource.custom.columns or (
        {
            "name": "Age",
            "type": "date",
            "jsonPath": ".metadata.creationTimestamp",
            "description": _CREATED_TEXT,
        },
    )
    columns = tuple(
        Column(
            one["name"],
            one["type"],
            format=one.get("format", ""),
            priority=one.get("priority", 0),
            description=one.get("description")
            or f"Custom resource definition column (in JSONPath format): {one['jsonPath']}",
        )
        for one in given
    )
    return _Printer(
        (_NAME, *columns),
        lambda value, now: [
            value["metadata"]["name"],
            *(_cell(one, value, now) for one in given),
        ],
    )


def _cell(column: Object, value: Object, now: datetime) -> Any:
    found = find(column["jsonPath"], value)
    if not found:
        return None
    first = found[0]
    match column["type"], first:
        case "integer", int() | float():
            return int(first)
        case "number", int() | float():
            return first
        case "boolean", bool():
            return first
        case "date", str():
            return age(first, now)
        case "string", str():
            return first
        case "string", _:
            return _text(first)
    return None


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return encode_any(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def encode_any(value: Any) -> str:
    """Return a value as compact JSON text."""
    return msgspec.json.encode(value).decode()


_STEP = re.compile(
    r"""\.?\[\?\(@\.(?P<key>[^=!<>\s)]+)\s*(?P<op>==|!=)\s*["'](?P<want>[^"']*)["']\s*\)\]"""
    r"""|\.?\[(?P<index>-?\d+|\*)\]|\.?\['(?P<quoted>[^']+)'\]|\.(?P<name>(?:[^.\[\]\\]|\\.)+)"""
)


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[tuple[str, Any], ...]:
    text = path.strip().removeprefix("{").removesuffix("}")
    if not text.startswith((".", "[")):
        text = "." + text
    found: list[tuple[str, Any]] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return (("none", None),)
        position = match.end()
        if match["key"] is not None:
            found.append(("filter", (match["key"], match["op"], match["want"])))
        elif match["index"] is not None:
            found.append(("all", None) if match["index"] == "*" else ("index", int(match["index"])))
        else:
            name = match["quoted"] or re.sub(r"\\(.)", r"\1", match["name"])
            found.append(("all", None) if name == "*" else ("field", name))
    return tuple(found)


def find(path: str, value: Any) -> list[Any]:
    """Return all values at a path."""
    found = [value]
    for kind, argument in _steps(path):
        found = [below for one in found for below in _walk(kind, argument, one)]
    return found


def _walk(kind: str, argument: Any, value: Any) -> list[Any]:
    match kind, value:
        case "field", dict():
            return [value[argument]] if argument in value else []
        case "index", list():
            return [value[argument]] if -len(value) <= argument < len(value) else []
        case "all", list():
            return list(value)
        case "all", dict():
            return list(value.values())
        case "filter", list():
            key, operator, want = argument
            return [
                item
                for item in value
                if any(_same(got, want) for got in find(f".{key}", item)) == (operator == "==")
            ]
    return []


def _same(got: Any, want: str) -> bool:
    if isinstance(got, bool):
        return want == ("true" if got else "false")
    return str(got) == want
