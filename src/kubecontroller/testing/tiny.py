"""An API server of a few hundred lines that only knows objects, versions and watches.

For tests of the layers above it: no schemas, no admission, no field ownership (an apply is a
merge). What it has behaves as in the real one: versions grow by one for all kinds, lists and
watches are consistent, old versions expire, conflicts and failed preconditions are refused. The
embedded API server of local mode is the faithful one; contract tests run on that.
"""

from __future__ import annotations

import asyncio
import copy
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec
from msgspec import Struct

from kubecontroller.client.errors import StreamStalled, error_from_response
from kubecontroller.client.meta import Key, Manifest
from kubecontroller.client.request import Request, Response

__all__ = ["TinyServer", "TinyTransport"]

_JSON: Final = {"content-type": "application/json"}
_BOOKMARK_SECONDS = 60.0
_SERVERS_OWN: Final = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"}
)
Collection = str


class _Change(Struct, frozen=True):
    version: int
    type: str
    collection: Collection
    obj: Manifest


class _Refused(Exception):  # noqa: N818 - a response
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.response = _status(status, reason, message)


class TinyServer:
    """The state: objects by collection, and their changes since `oldest`."""

    def __init__(self) -> None:
        self.version = 1
        self.oldest = 0
        self.objects: dict[Collection, dict[Key, Manifest]] = {}
        self.history: list[_Change] = []
        self.requests: list[Request] = []
        self._waiting: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}
        self._lock = threading.Lock()

    def transport(self) -> TinyTransport:
        """Return a new connection to it."""
        return TinyTransport(self)

    def forget_history(self) -> None:
        """Expire every version before the present one."""
        self.oldest = self.version
        self.history.clear()

    def writes(self) -> list[Request]:
        """Return the requests that wanted a change."""
        return [request for request in self.requests if request.method != "GET"]

    # Storing

    def put(self, collection: Collection, obj: Manifest, *, bump_generation: bool) -> Manifest:
        """Store an object under a new version and notify the watches."""
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        old = self.objects.setdefault(collection, {}).get(key)
        if old is None:
            meta["uid"] = str(uuid.uuid4())
            meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
            meta["generation"] = 1
        elif bump_generation and _spec(old) != _spec(obj):
            meta["generation"] = old["metadata"].get("generation", 1) + 1
        if old is not None and _without_version(old) == _without_version(obj):
            return old
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            return self.remove(collection, key, last=obj)
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        self.objects[collection][key] = obj
        self._notify("MODIFIED" if old else "ADDED", collection, obj)
        return obj

    def remove(self, collection: Collection, key: Key, *, last: Manifest | None = None) -> Manifest:
        """Remove an object and notify the watches."""
        obj = copy.deepcopy(last or self.objects[collection][key])
        del self.objects[collection][key]
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self._notify("DELETED", collection, obj)
        return obj

    def _notify(self, kind: str, collection: Collection, obj: Manifest) -> None:
        self.history.append(_Change(self.version, kind, collection, copy.deepcopy(obj)))
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for loop, event in waiting.items():
            if loop is asyncio.get_running_loop():
                event.set()
            else:
                with suppress(RuntimeError):  # that loop has ended, and its watches with it
                    loop.call_soon_threadsafe(event.set)

    def changed(self) -> asyncio.Event:
        """Return an event that is set at the next change, from whichever thread."""
        with self._lock:
            return self._waiting.setdefault(asyncio.get_running_loop(), asyncio.Event())

    # Requests

    def answer(self, request: Request) -> Response:
        """Execute one request that is not a watch."""
        self.requests.append(request)
        collection, namespace, name, subresource = _parse(request.path)
        try:
            match request.method, name:
                case "GET", "":
                    return self._list(collection, namespace, dict(request.query))
                case "GET", _:
                    return _ok(self._find(collection, (namespace, name)))
                case "POST", _:
                    return self._create(collection, namespace, msgspec.json.decode(request.body))
                case "PUT", _:
                    return self._replace(collection, (namespace, name), request, subresource)
                case "PATCH", _:
                    return self._patch(collection, (namespace, name), request, subresource)
                case "DELETE", _:
                    return self._delete(collection, (namespace, name), request)
                case _:
                    return _status(405, "MethodNotAllowed", request.method)
        except _Refused as refused:
            return refused.response

    def select(
        self, collection: Collection, namespace: str, query: dict[str, str]
    ) -> list[Manifest]:
        """Return the objects that match a list or watch."""
        found = self.objects.get(collection, {})
        return [obj for _, obj in sorted(found.items()) if _matches(obj, namespace, query)]

    def _list(self, collection: Collection, namespace: str, query: dict[str, str]) -> Response:
        asked = query.get("resourceVersion", "")
        if asked.isdecimal() and int(asked) > self.version:
            raise _Refused(504, "Timeout", "Too large resource version")
        items = self.select(collection, namespace, query)
        meta: Manifest = {"resourceVersion": str(self.version)}
        limit = int(query.get("limit", "0"))
        if limit:
            start = 0
            if "continue" in query:
                start, version = map(int, query["continue"].split("@"))
                if version < self.oldest:
                    raise _Refused(410, "Expired", "the continue token is too old")
            if start + limit < len(items):
                meta["continue"] = f"{start + limit}@{self.version}"
            items = items[start : start + limit]
        return _ok({"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items})

    def _find(self, collection: Collection, key: Key) -> Manifest:
        obj = self.objects.get(collection, {}).get(key)
        if obj is None:
            raise _Refused(404, "NotFound", f"{collection} {key[1]!r} not found")
        return obj

    def _create(self, collection: Collection, namespace: str, obj: Manifest) -> Response:
        meta = obj.setdefault("metadata", {})
        if namespace:
            meta["namespace"] = namespace
        if not meta.get("name"):
            meta["name"] = meta.get("generateName", "") + uuid.uuid4().hex[:5]
        if (namespace, meta["name"]) in self.objects.get(collection, {}):
            raise _Refused(409, "AlreadyExists", f"{collection} {meta['name']!r} already exists")
        meta.pop("resourceVersion", None)
        return _ok(self.put(collection, obj, bump_generation=True), status=201)

    def _replace(
        self, collection: Collection, key: Key, request: Request, subresource: str
    ) -> Response:
        return self._change(collection, key, msgspec.json.decode(request.body), subresource)

    def _patch(
        self, collection: Collection, key: Key, request: Request, subresource: str
    ) -> Response:
        media = dict(request.headers).get("content-type", "")
        body = msgspec.json.decode(request.body)
        if "apply" in media and key not in self.objects.get(collection, {}):
            return self._create(collection, key[0], body)
        old = self._find(collection, key)
        if "json-patch" in media:
            return self._change(collection, key, _json_patched(old, body), subresource)
        asked = (body.get("metadata") or {}).get("resourceVersion")
        new = _merged(old, body)
        new["metadata"]["resourceVersion"] = asked or old["metadata"]["resourceVersion"]
        return self._change(collection, key, new, subresource)

    def _change(
        self, collection: Collection, key: Key, new: Manifest, subresource: str
    ) -> Response:
        old = self._find(collection, key)
        asked = new["metadata"].get("resourceVersion")
        if asked and asked != old["metadata"]["resourceVersion"]:
            raise _Refused(409, "Conflict", f"{collection} {key[1]!r} has been modified")
        if subresource:
            new = {**copy.deepcopy(old), subresource: new.get(subresource)}
        merged = dict(new["metadata"])
        for kept in _SERVERS_OWN & set(old["metadata"]):
            merged[kept] = old["metadata"][kept]
        changed = {**copy.deepcopy(new), "metadata": merged}
        return _ok(self.put(collection, changed, bump_generation=not subresource))

    def _delete(self, collection: Collection, key: Key, request: Request) -> Response:
        obj = self._find(collection, key)
        options = msgspec.json.decode(request.body) if request.body else {}
        for name, wanted in (options.get("preconditions") or {}).items():
            if obj["metadata"].get(name) != wanted:
                raise _Refused(409, "Conflict", f"the {name} is not {wanted}")
        if obj["metadata"].get("finalizers"):
            held = copy.deepcopy(obj)
            held["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            return _ok(self.put(collection, held, bump_generation=False))
        self.remove(collection, key)
        return _status(200, "", "deleted", status="Success")

    def events(
        self, collection: Collection, namespace: str, query: dict[str, str], after: int
    ) -> Iterator[tuple[int, bytes]]:
        """Return the events that a watch has to receive after a version."""
        for change in self.history:
            if change.version <= after or change.collection != collection:
                continue
            if _matches(change.obj, namespace, query):
                yield change.version, _line(change.type, change.obj)


class TinyTransport:
    """A connection to a `TinyServer`."""

    def __init__(self, server: TinyServer) -> None:
        self._server = server

    async def request(self, request: Request, *, timeout: float) -> Response:  # noqa: ARG002
        """Respond at once, after letting other tasks run."""
        await asyncio.sleep(0)
        return self._server.answer(request)

    @asynccontextmanager
    async def stream(self, request: Request, *, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch."""
        server = self._server
        server.requests.append(request)
        collection, namespace, _, _ = _parse(request.path)
        query = dict(request.query)
        asked = query.get("resourceVersion", "")
        if asked not in {"", "0"} and int(asked) < server.oldest:
            refused = _status(410, "Expired", f"too old resource version: {asked}")
            raise error_from_response(refused, ref=request.path)
        yield self._lines(collection, namespace, query, idle)

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    async def _lines(
        self, collection: Collection, namespace: str, query: dict[str, str], idle: float
    ) -> AsyncIterator[bytes]:
        server, loop = self._server, asyncio.get_running_loop()
        ends = loop.time() + float(query.get("timeoutSeconds", "1e9"))
        asked = query.get("resourceVersion", "")
        sent = int(asked) if asked not in {"", "0"} else server.version
        if asked in {"", "0"} or query.get("sendInitialEvents") == "true":
            sent = server.version
            for obj in server.select(collection, namespace, query):
                yield _line("ADDED", obj)
            if query.get("sendInitialEvents") == "true":
                yield _bookmark(sent, initial_events_end=True)
        while loop.time() < ends:
            changed = server.changed()
            if sent < server.oldest:
                yield _line("ERROR", msgspec.json.decode(_status(410, "Expired", "old").body))
                return
            for version, line in server.events(collection, namespace, query, sent):
                sent = version
                yield line
            if changed.is_set():
                continue
            wait = min(_BOOKMARK_SECONDS, ends - loop.time(), idle)
            try:
                async with asyncio.timeout(wait):  # wait_for may swallow a cancellation
                    await changed.wait()
            except TimeoutError:
                if wait == idle:
                    raise StreamStalled(f"silent for {idle:g} s") from None
                sent = server.version
                yield _bookmark(sent)


def _parse(path: str) -> tuple[Collection, str, str, str]:
    """Return group, version and plural; namespace; name; subresource."""
    parts = path.strip("/").split("/")
    root, rest = (parts[:2], parts[2:]) if parts[0] == "api" else (parts[:3], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    return "/".join((*root, rest[0])), namespace, name, rest[2] if len(rest) > 2 else ""


def _matches(obj: Manifest, namespace: str, query: dict[str, str]) -> bool:
    meta = obj["metadata"]
    if namespace and meta.get("namespace") != namespace:
        return False
    labels = meta.get("labels") or {}
    wanted = [pair.partition("=") for pair in query.get("labelSelector", "").split(",") if pair]
    if not all(labels.get(name) == value for name, _, value in wanted):
        return False
    field, _, value = query.get("fieldSelector", "").partition("=")
    return not field or (field == "metadata.name" and meta["name"] == value)


def _merged(old: Any, change: Any) -> Any:
    if not isinstance(change, dict) or not isinstance(old, dict):
        return copy.deepcopy(change)
    result = copy.deepcopy(old)
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name, {}), value)
    return result


def _json_patched(old: Manifest, operations: list[Manifest]) -> Manifest:
    result = copy.deepcopy(old)
    for operation in operations:
        *path, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
        ]
        place: Any = result
        for part in path:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        _operate(place, last, operation)
    return result


def _operate(place: Any, last: str, operation: Manifest) -> None:
    index: Any = int(last) if isinstance(place, list) and last != "-" else last
    match operation["op"]:
        case "test":
            found = place.get(last) if isinstance(place, dict) else place[index]
            if found != operation["value"]:
                raise _Refused(422, "Invalid", f"test of {operation['path']} failed")
        case "remove":
            del place[index]
        case "add" if isinstance(place, list):
            place.insert(len(place) if last == "-" else index, operation["value"])
        case _:
            place[index] = operation["value"]


def _spec(obj: Manifest) -> Manifest:
    return {name: value for name, value in obj.items() if name not in {"metadata", "status"}}


def _without_version(obj: Manifest) -> Manifest:
    meta = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": meta}


def _line(kind: str, obj: Manifest) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def _bookmark(version: int, *, initial_events_end: bool = False) -> bytes:
    meta: Manifest = {"resourceVersion": str(version)}
    if initial_events_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return _line("BOOKMARK", {"metadata": meta})


def _ok(obj: Manifest, *, status: int = 200) -> Response:
    return Response(status, _JSON, msgspec.json.encode(obj))


def _status(code: int, reason: str, message: str, *, status: str = "Failure") -> Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": status,
        "code": code,
        "reason": reason,
        "message": message,
    }
    return Response(code, _JSON, msgspec.json.encode(body))
