"""Get, list and watch.

Bodies are sent as they are stored. Only what cannot be is decoded: other versions of custom
resources, tables, and metadata alone.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence

import msgspec

from kubecontroller.client import Response
from kubelocal.apiserver.calls import Call
from kubelocal.apiserver.causes import Cause, forbidden, not_supported
from kubelocal.apiserver.custom.schema import at_version
from kubelocal.apiserver.describe.table import Tables
from kubelocal.apiserver.errors import (
    StatusError,
    bad_request,
    expired,
    invalid,
    not_found,
    too_new,
)
from kubelocal.apiserver.format.bodies import Wanted, answer, wanted
from kubelocal.apiserver.kinds.selectors import parse_fields, parse_labels
from kubelocal.apiserver.kinds.table import Registry, Resource
from kubelocal.apiserver.storage.entries import (
    FieldIndex,
    Object,
    Selection,
    decode,
    encode,
    selectable,
)
from kubelocal.apiserver.storage.store import Collection, Entry, Lost, Store
from kubelocal.apiserver.storage.watch import Watch

__all__ = ["Reader"]

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. Start a new"
    " list without it, or use the continue token in this response for the rest as it is now."
)
_TIMEOUT = 1800.0


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


class Reader:
    """Handles reads from the store."""

    def __init__(self, store: Store, registry: Registry, index: FieldIndex, tables: Tables) -> None:
        self._store = store
        self._registry = registry
        self._index = index
        self._tables = tables

    def get(self, call: Call) -> Response:
        """Return one object."""
        resource = call.resource
        asked = _version(call)
        if asked > self._store.version:
            raise too_new(asked, self._store.version)
        entry = self._store.collection(resource.key).entries.get(key_of(call))
        if entry is None:
            raise not_found(resource.group, resource.plural, call.name)
        return self.show(call, entry, 200)

    def show(self, call: Call, entry: Entry, status: int) -> Response:
        """Return one entry in the format that the client wants."""
        want = wanted(call.headers.get("accept", ""))
        body = at_version(call.resource, entry.body)
        if want.view == "Table":
            include = call.options.get("includeObject", "Metadata")
            table = self._tables.table(call.resource, [body], include)
            table["metadata"] = {"resourceVersion": str(entry.version)}
            return answer(status, encode(table), call)
        if want.view == "PartialObjectMetadata":
            body = _metadata_only(body)
        return answer(status, body, call)

    def selection(self, call: Call) -> Selection:
        """Return the selection of a collection request."""
        resource = call.resource
        labels = parse_labels(call.options.get("labelSelector", ""))
        fields = parse_fields(
            call.options.get("fieldSelector", ""),
            lambda path: selectable(resource, self._index, path),
            plain=resource.custom is None and not self._index.paths(resource.key),
        )
        return Selection(
            namespace=call.namespace,
            labels=labels,
            fields=fields,
            paths=self._index.paths(resource.key),
        )

    def select(self, call: Call) -> list[Entry]:
        """Return the selected entries of a collection request, in order."""
        selection = self.selection(call)
        home = self._store.collection(call.resource.key)
        return [e for e in map(home.entries.__getitem__, home.keys()) if selection.includes(e)]

    def page(self, call: Call) -> Response:
        """Return a page of a collection, all of one version."""
        _check_list_options(call)
        _number(call, "timeoutSeconds")
        resource, selection = call.resource, self.selection(call)
        home = self._store.collection(resource.key)
        limit = max(0, _number(call, "limit"))
        if call.options.get("resourceVersion") == "0" and not call.options.get("continue"):
            limit = 0  # as the watch cache of Kubernetes does
        start, version, state = self._snapshot(call, home)
        keys = home.keys() if state is home.entries else sorted(state)
        page: list[Entry] = []
        rest, after = 0, ""
        for key in keys:
            if start and key < start:
                continue
            entry = state[key]
            if not selection.includes(entry):
                continue
            if limit and len(page) >= limit:
                rest += 1
                if selection.is_partial:
                    break
            else:
                page.append(entry)
                after = key
        metadata: Object = {"resourceVersion": str(version)}
        if rest:
            metadata["continue"] = _token(version, after + "\0")
            if not selection.is_partial:
                metadata["remainingItemCount"] = rest
        return self._show_list(call, page, metadata)

    def _show_list(self, call: Call, page: list[Entry], metadata: Object) -> Response:
        resource, want = call.resource, wanted(call.headers.get("accept", ""))
        bodies = [at_version(resource, entry.body) for entry in page]
        if want.view == "Table":
            table = self._tables.table(
                resource, bodies, call.options.get("includeObject", "Metadata")
            )
            table["metadata"] = metadata
            return answer(200, encode(table), call)
        kind, api_version, cut = resource.list_name, resource.api_version, 1
        if want.view == "PartialObjectMetadata":
            kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
            bodies = [_metadata_only(body) for body in bodies]
        elif resource.custom is None:  # typed lists do not repeat the kind of the list
            cut = len(encode({"kind": resource.kind, "apiVersion": api_version}))
        head = encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
        return answer(200, _joined(head, bodies, cut), call)

    def _snapshot(self, call: Call, home: Collection) -> tuple[str, int, dict[str, Entry]]:
        """Return where to start, the version of the page, and the state at it."""
        current = self._store.version
        given = call.options.get("continue", "")
        if given:
            token = _read_token(given)
            if token.rv <= 0:
                return token.start, current, home.entries
            try:
                return token.start, token.rv, home.at(token.rv)
            except Lost:
                raise expired(_TOO_OLD, again=_token(-1, token.start)) from None
        asked = _version(call)
        if asked > current:
            raise too_new(asked, current)
        if call.options.get("resourceVersionMatch") == "Exact":
            try:
                return "", asked, home.at(asked)
            except Lost:
                text = "The resourceVersion for the provided list is too old."
                raise expired(text) from None
        return "", current, home.entries

    def watch(self, call: Call) -> Watch:
        """Return a stream of changes."""
        _check_watch_options(call)
        resource, selection = call.resource, self.selection(call)
        home = self._store.collection(resource.key)
        given = call.options.get("resourceVersion", "")
        if given and not given.isdecimal():
            raise StatusError(500, "", _malformed(given))
        version = _version(call)
        sends = call.options.get("sendInitialEvents")
        wants_initial = call.flag("sendInitialEvents") or (sends is None and given in {"", "0"})
        if wants_initial or given in {"", "0"}:
            cursor = home.end
        else:
            try:
                cursor = home.position(version)
            except Lost:
                text = f"too old resource version: {version} ({home.floor})"
                return self._watch(call, home, selection, end=expired(text))
        return self._watch(call, home, selection, cursor=cursor, initial=wants_initial)

    def _watch(
        self,
        call: Call,
        home: Collection,
        selection: Selection,
        *,
        cursor: int = 0,
        initial: bool = False,
        end: StatusError | None = None,
    ) -> Watch:
        entries = [
            entry
            for entry in (map(home.entries.__getitem__, home.keys()) if initial else ())
            if selection.includes(entry)
        ]
        asked = _number(call, "timeoutSeconds")
        want = wanted(call.headers.get("accept", ""))
        return Watch(
            self._store,
            home,
            selection,
            cursor=cursor,
            initial=entries,
            render=self._renderer(call, want),
            bookmark=_bookmarks(call.resource, want) if call.flag("allowWatchBookmarks") else None,
            marks_initial=call.flag("sendInitialEvents"),
            timeout=float(asked) if asked > 0 else _TIMEOUT,
            end=end,
        )

    def _renderer(self, call: Call, want: Wanted) -> Callable[[str, Entry], bytes]:
        resource = call.resource
        if want.view == "Table":
            return self._tables.renderer(resource, call.options.get("includeObject", "Metadata"))

        def line(kind: str, entry: Entry) -> bytes:
            body = at_version(resource, entry.body)
            if want.view:
                body = _metadata_only(body)
            return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"

        return line


def _joined(head: bytes, bodies: Sequence[bytes], cut: int) -> bytes:
    """Return a list of objects without the first bytes of each, copied only once."""
    parts: list[bytes | memoryview] = [head[:-1], b',"items":[']
    separator = b"{"
    for body in bodies:
        parts += (separator, memoryview(body)[cut:])
        separator = b",{"
    parts.append(b"]}\n")
    return b"".join(parts)


def key_of(call: Call) -> str:
    """Return the store's key of the object of a request."""
    return f"{call.namespace}/{call.name}" if call.resource.namespaced else call.name


def _bookmarks(resource: Resource, want: Wanted) -> Callable[[int, bool], bytes]:
    def bookmark(version: int, initial: bool) -> bytes:
        metadata: Object = {"resourceVersion": str(version), "creationTimestamp": None}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        value: Object = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
        }
        if want.view == "PartialObjectMetadata":
            value |= {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        elif want.view == "Table":
            value = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": str(version)},
                "columnDefinitions": None,
                "rows": [{"cells": [], "object": value}] if initial else [],
            }
        return b'{"type":"BOOKMARK","object":' + encode(value) + b"}\n"

    return bookmark


def _metadata_only(body: bytes) -> bytes:
    value = decode(body)
    return encode(
        {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": value["metadata"],
        }
    )


def _number(call: Call, option: str) -> int:
    text = call.options.get(option, "")
    try:
        return int(text or "0")
    except ValueError as error:
        raise bad_request(f'{option}: "{text}" is not a number') from error


def _version(call: Call) -> int:
    text = call.options.get("resourceVersion", "")
    if text and not text.isdecimal():
        raise bad_request(f"invalid resource version: {_malformed(text)}")
    return int(text or "0")


def _malformed(text: str) -> str:
    return f'resourceVersion: Invalid value: "{text}": it is not a number'


def _token(version: int, start: str) -> str:
    raw = msgspec.json.encode(_Token("meta.k8s.io/v1", version, start))
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _read_token(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, msgspec.DecodeError, ValueError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    if token.v != "meta.k8s.io/v1" or not token.start:
        raise bad_request(
            "invalid continue token: continue key is not valid: server does not recognize this"
            " encoded version"
        )
    return token


def _check_list_options(call: Call) -> None:
    match, version, again = (
        call.options.get(name, "")
        for name in ("resourceVersionMatch", "resourceVersion", "continue")
    )
    if call.options.get("sendInitialEvents") is not None:
        raise _bad_option(forbidden("sendInitialEvents", "sendInitialEvents is for watches alone"))
    if again and version not in {"", "0"}:
        raise bad_request("specifying resource version is not allowed when using continue")
    if not match:
        return
    if again or not version or (match == "Exact" and version == "0"):
        text = "it needs a resourceVersion, for Exact another one than 0, and no continue"
        raise _bad_option(forbidden("resourceVersionMatch", text))
    if match not in {"Exact", "NotOlderThan"}:
        choices = ["Exact", "NotOlderThan", ""]
        raise _bad_option(not_supported("resourceVersionMatch", match, choices))


def _check_watch_options(call: Call) -> None:
    match, initial = (
        call.options.get(name) for name in ("resourceVersionMatch", "sendInitialEvents")
    )
    if bool(match) != (initial is not None):
        text = "it goes with sendInitialEvents, which needs it to be NotOlderThan"
        raise _bad_option(forbidden("resourceVersionMatch", text))
    if initial is not None and match != "NotOlderThan":
        raise _bad_option(not_supported("resourceVersionMatch", match, ["NotOlderThan"]))


def _bad_option(cause: Cause) -> StatusError:
    return invalid("meta.k8s.io", "ListOptions", "", [cause])
