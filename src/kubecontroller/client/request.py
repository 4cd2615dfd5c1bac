"""Requests and responses of the Kubernetes API as plain values, and how their paths are built.

Pure: nothing here opens a socket. A transport carries a `Request` and brings back a `Response`;
the client, the embedded API server and the fault layer all use these two values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

from msgspec import Struct

__all__ = [
    "APPLY_PATCH",
    "JSON",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_PATCH",
    "Request",
    "Response",
    "api_root",
    "collection_path",
    "object_path",
    "query",
]

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


class Request(Struct, frozen=True):
    """One HTTP request to an API server, relative to the server's address.

    `before_send` is called by the transport each time it is about to send the request, retries
    included; what it raises keeps the request from being sent.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    before_send: Callable[[], None] | None = None


class Response(Struct, frozen=True):
    """One whole response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def api_root(group: str, version: str) -> str:
    """Return the path a group and version is served under; the core group is the empty string."""
    if group:
        return f"/apis/{_segment(group)}/{_segment(version)}"
    return f"/api/{_segment(version)}"


def collection_path(group: str, version: str, plural: str, namespace: str = "") -> str:
    """Return the path of all objects of a resource, in one namespace or (empty) in all of them."""
    root = api_root(group, version)
    if namespace:
        return f"{root}/namespaces/{_segment(namespace)}/{_segment(plural)}"
    return f"{root}/{_segment(plural)}"


def object_path(
    group: str, version: str, plural: str, *, namespace: str, name: str, subresource: str = ""
) -> str:
    """Return the path of one object, or of one of its subresources."""
    path = f"{collection_path(group, version, plural, namespace)}/{_segment(name)}"
    return f"{path}/{_segment(subresource)}" if subresource else path


def query(**parameters: str | int | bool | None) -> tuple[tuple[str, str], ...]:
    """Return query parameters without the unset ones: `None`, `False` and the empty string.

    Parameters keep the order they are written in. A trailing underscore is dropped, so that
    Python's keywords (`continue_`) can be named.
    """
    return tuple(
        (name.rstrip("_"), "true" if value is True else str(value))
        for name, value in parameters.items()
        if value is not None and value is not False and value != ""
    )


def _segment(text: str) -> str:
    """Quote one path segment, so that no name can change the rest of the path."""
    if text in {"", ".", ".."}:
        raise ValueError(f"{text!r} cannot be part of an API path: give the object's name")
    return quote(text, safe=":")
