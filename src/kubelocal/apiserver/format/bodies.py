"""Bodies of requests and responses: which formats are read and written, and how strictly.

Bodies come as JSON, as the protobuf that typed clients send, or as YAML for server-side apply. A
body that cannot be read is refused before anything else: too big, too deep, not an object.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any

import msgspec

from kubecontroller.client import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Response
from kubelocal.apiserver.calls import Call
from kubelocal.apiserver.errors import (
    StatusError,
    bad_request,
    not_acceptable,
    too_large,
    unsupported_media_type,
)
from kubelocal.apiserver.format.field_types import syntax_error, type_name
from kubelocal.apiserver.format.protobuf import PROTOBUF, decode_protobuf
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.storage.entries import Object, encode

__all__ = ["LIMIT", "Wanted", "answer", "read_body", "read_patch", "wanted"]

PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
LIMIT = 3 * 1024 * 1024
_JSON = "application/json"
_BROKEN: Any = object()


class Wanted(msgspec.Struct, frozen=True):
    """The format of the response that the client wants."""

    view: str = ""  # "", Table or PartialObjectMetadata
    version: str = "v1"


@lru_cache(maxsize=128)
def wanted(accept: str) -> Wanted:
    """Choose the format of a response from an Accept header: the first that is supported."""
    if not accept:
        return Wanted()
    for part in accept.split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        options = dict(piece.partition("=")[::2] for piece in rest)
        if media in {_JSON, "*/*", "application/*"}:
            view = options.get("as", "")
            if view and options.get("g") != "meta.k8s.io":
                continue
            view = {"PartialObjectMetadataList": "PartialObjectMetadata"}.get(view, view)
            if view not in {"", "Table", "PartialObjectMetadata"}:
                continue
            return Wanted(view=view, version=options.get("v", "v1"))
    raise not_acceptable()


def answer(status: int, body: bytes, call: Call | None = None) -> Response:
    """Return a whole response in JSON, with warnings."""
    headers = {"content-type": _JSON, "cache-control": "no-cache, private"}
    if call is not None and call.warnings:
        headers["warning"] = ", ".join(f"299 - {_quoted(text)}" for text in call.warnings)
    return Response(status=status, headers=headers, body=body)


def answer_object(status: int, value: Object, call: Call | None = None) -> Response:
    """Return a response that is one object."""
    return answer(status, encode(value), call)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _media(call: Call) -> str:
    return call.headers.get("content-type", _JSON).split(";")[0].strip().lower() or _JSON


def check_size(body: bytes) -> None:
    """Refuse a body that is larger than an object may be."""
    if len(body) > LIMIT:
        raise too_large(LIMIT)


def read_body(call: Call, resource: Resource | None = None) -> tuple[Object, list[str]]:
    """Return the object in a body, and the paths of its duplicate fields."""
    body = call.request.body
    check_size(body)
    media = _media(call)
    if media == PROTOBUF:
        return decode_protobuf(body), []
    twice: list[tuple[int, str]] = []
    if media != _JSON:
        raise unsupported_media_type((_JSON, PROTOBUF))
    value = _read_json(body, twice)
    if not isinstance(value, dict):
        kind = resource.kind if resource else call.options_kind
        raise _unrecognized(kind, body, value)
    return value, list(_duplicates(value, "", twice)) if twice else []


def _unrecognized(kind: str, body: bytes, value: Any) -> StatusError:
    problem = f"it is a {type_name(value)}, not an object"
    if value is _BROKEN:
        problem = syntax_error(body)
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): json parse error: {problem}"
    )


def _read_json(body: bytes, twice: list[tuple[int, str]]) -> Any:
    """Decode a JSON text; record the duplicate keys of its objects."""
    try:
        value = msgspec.json.decode(body)
        if msgspec.json.encode(value) == body:
            return value  # as programs write it: it has no duplicate, or it would be shorter now
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        pass  # reported below in Kubernetes' wording

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            counts = Counter(key for key, _ in items)
            twice.extend((id(found), key) for key, count in counts.items() if count > 1)
        return found

    try:
        text = body.decode("utf-8", "replace")
        return json.loads(text, object_pairs_hook=pairs, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _BROKEN


def _duplicates(value: Any, path: str, twice: list[tuple[int, str]]) -> Iterator[str]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _duplicates(item, f"{path}[{number}]", twice)
    elif isinstance(value, dict):
        for key, item in value.items():
            below = f"{path}.{key}" if path else key
            if (id(value), key) in twice:
                yield below
            yield from _duplicates(item, below, twice)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def read_yaml(body: bytes) -> Any:
    """Decode a YAML (or JSON) text."""
    if body.lstrip()[:1] == b"{":
        try:
            return msgspec.json.decode(body)
        except RecursionError as error:
            raise bad_request("error decoding YAML: exceeded max depth") from error
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # flow-style YAML begins like JSON
    # imported here: most clients send JSON for apply too
    return import_module("kubelocal.apiserver.format.yaml_text").load(body)


def read_patch(call: Call, accepted: tuple[str, ...]) -> tuple[str, Any]:
    """Return the type and content of a patch."""
    check_size(call.request.body)
    media = _media(call)
    if media not in PATCH_TYPES:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    if media not in accepted:
        raise unsupported_media_type(accepted)
    if media.endswith("yaml"):
        return media, read_yaml(call.request.body)
    try:
        return media, msgspec.json.decode(call.request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = syntax_error(call.request.body)
        raise bad_request(f"error decoding patch: {problem}") from error


def refusal(error: StatusError) -> Response:
    """Return an error as a response."""
    headers = {"content-type": _JSON, "cache-control": "no-cache, private"}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    return Response(status=error.code, headers=headers, body=encode(error.body()))
