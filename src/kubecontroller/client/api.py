"""The client: every verb of the Kubernetes API, typed by kind, over any transport.

Reading returns the kind's own type: a projected Struct or a plain value. Writing takes plain
values only: a projection lacks fields, and sending it back would erase them. `replace` also
requires a kind that is *read* as plain values.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from kubecontroller.client import verbs
from kubecontroller.client.decode import Page, decode_object, decode_page
from kubecontroller.client.errors import (
    UNDECODABLE,
    Expired,
    UndecodableObject,
    error_from_response,
)
from kubecontroller.client.lines import LineJoiner
from kubecontroller.client.meta import Key, Manifest, ObjectMeta, key_of
from kubecontroller.client.patches import Patch
from kubecontroller.client.request import JSON, Request, Response
from kubecontroller.client.scheme import Kind
from kubecontroller.client.transport import Transport
from kubecontroller.client.verbs import Propagation, VersionMatch
from kubecontroller.client.watch import WatchEvent, decode_line

__all__ = ["Client", "Propagation", "Scale", "ScaleSpec", "ScaleStatus", "VersionMatch"]

T = TypeVar("T")

_YIELD_EVERY: Final = 32


class ScaleSpec(Struct, frozen=True):
    """How many replicas are wanted."""

    replicas: int = 0


class ScaleStatus(Struct, frozen=True):
    """How many replicas there are, and the selector that finds them."""

    replicas: int = 0
    selector: str = ""


class Scale(Struct, frozen=True):
    """The scale subresource of an object."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


_SCALE: Final = Kind("autoscaling", "v1", "Scale", "scales", True, Scale)


class Client:
    """All verbs of the API over one transport.

    Guarantees: every call ends within its deadline (`timeout`, seconds, the client's own unless
    given); errors are those of `client.errors` and name the object; nothing is kept between calls.
    """

    def __init__(
        self, transport: Transport, *, field_manager: str = "kubecontroller", timeout: float = 30.0
    ) -> None:
        self.transport = transport
        self.field_manager = field_manager
        self.timeout = timeout

    async def close(self) -> None:
        """Close the transport."""
        await self.transport.close()

    # Reading

    async def get(
        self,
        kind: Kind[T],
        key: Key,
        *,
        subresource: str = "",
        resource_version: str = "",
        timeout: float | None = None,
    ) -> T:
        """Read one object; without a resourceVersion the newest, by quorum.

        Give `"0"` to accept what the server has in its cache.
        """
        request = verbs.get_request(
            kind, key, subresource=subresource, resource_version=resource_version
        )
        return await self._object(kind, key, request, timeout)

    async def list_page(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        match: VersionMatch | None = None,
        limit: int = 0,
        continue_: str = "",
        timeout: float | None = None,
    ) -> Page[T]:
        """Read one page of a list; a limit of 0 asks for all of it.

        Objects that do not fit their type are named in `unreadable`, beside the others.

        Errors: `Expired` when the `continue_` token, or an exact version, is too old.
        """
        request = verbs.list_request(
            kind,
            namespace=namespace,
            labels=labels,
            fields=fields,
            resource_version=resource_version,
            match=match,
            limit=limit,
            continue_=continue_,
        )
        ref = _collection_ref(kind, namespace)
        response = await self._send(request, ref=ref, timeout=timeout)
        return decode_page(kind, response.body, ref=ref)

    async def list(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        match: VersionMatch | None = None,
        page_size: int = 500,
        timeout: float | None = None,
    ) -> Page[T]:
        """Read a whole list, page by page, as one consistent snapshot.

        When the token of a page expires between pages, the list is read again without pages, since
        pages of two snapshots do not fit together. `timeout` is for each page.

        Errors: `UndecodableObject` when one object does not fit: the list would lack it.
        """
        items: list[T] = []
        continue_, limit = "", page_size
        while True:
            try:
                page = await self.list_page(
                    kind,
                    namespace=namespace,
                    labels=labels,
                    fields=fields,
                    resource_version=resource_version,
                    match=match,
                    limit=limit,
                    continue_=continue_,
                    timeout=timeout,
                )
            except Expired:
                if not continue_:
                    raise
                items, continue_, limit = [], "", 0
                continue
            for misfit in page.unreadable:
                raise misfit.error
            items.extend(page.items)
            continue_ = page.continue_
            if not continue_:
                return Page(tuple(items), page.resource_version)

    def watch(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: bool = True,
        initial_events: bool = False,
        server_timeout: int = 300,
        idle: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Open a watch; the iterator ends when the server ends the stream.

        `initial_events` asks the server to send the present objects first and then a bookmark
        with `initial_events_end`. `server_timeout` asks it to end the stream after that many
        seconds; `idle` is how long the stream may be silent (default: 30 s more than that).

        Errors: `Expired` (on entry or from the iterator) when the version is too old, any other
        `ApiError` the server sends, `GarbledLine`, `StreamStalled`, `ConnectionFailed`.
        """
        request = verbs.watch_request(
            kind,
            namespace=namespace,
            labels=labels,
            fields=fields,
            resource_version=resource_version,
            bookmarks=bookmarks,
            initial_events=initial_events,
            server_timeout=server_timeout,
        )
        silence = server_timeout + 30.0 if idle is None else idle
        return self._events(kind, request, silence)

    # Writing

    async def create(
        self,
        kind: Kind[T],
        manifest: Mapping[str, Any],
        *,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> T:
        """Create an object in the namespace its metadata names.

        Errors: `AlreadyExists`, `Invalid` with one cause for each wrong field.
        """
        request = verbs.create_request(kind, manifest, manager=self.field_manager, dry_run=dry_run)
        return await self._object(kind, key_of(manifest), request, timeout)

    async def replace(
        self,
        kind: Kind[Manifest],
        manifest: Manifest,
        *,
        subresource: str = "",
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Manifest:
        """Replace a whole object with a changed copy of what was read.

        Only for kinds read as plain values (`kind.plain()`): nothing that was projected can be
        sent back. The resourceVersion in it guards against overwriting others (`Conflict`).
        """
        request = verbs.replace_request(
            kind, manifest, manager=self.field_manager, subresource=subresource, dry_run=dry_run
        )
        return await self._object(kind, key_of(manifest), request, timeout)

    async def patch(
        self,
        kind: Kind[T],
        key: Key,
        patch: Patch,
        *,
        subresource: str = "",
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> T:
        """Change part of an object by a merge, strategic or JSON patch."""
        request = verbs.patch_request(
            kind, key, patch, manager=self.field_manager, subresource=subresource, dry_run=dry_run
        )
        return await self._object(kind, key, request, timeout)

    async def apply(
        self,
        kind: Kind[T],
        intent: Mapping[str, Any],
        *,
        force: bool = True,
        manager: str = "",
        subresource: str = "",
        resource_version: str = "",
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> T:
        """Apply the whole intent server-side, under one field manager.

        Fields that this manager applied before and that are left out now are removed, unless other
        managers own them too. Fields that must not be sent (managedFields, a status on the main
        resource, versions) are removed from the body; give `resource_version` to apply only over
        that version.

        Errors: without `force`, `Conflict` with one cause for each field another manager owns.
        """
        request = verbs.apply_request(
            kind,
            intent,
            manager=manager or self.field_manager,
            force=force,
            subresource=subresource,
            resource_version=resource_version,
            dry_run=dry_run,
        )
        return await self._object(kind, key_of(intent), request, timeout)

    async def get_scale(self, kind: Kind[Any], key: Key, *, timeout: float | None = None) -> Scale:
        """Read how many replicas are wanted and how many there are."""
        request = verbs.get_request(kind, key, subresource="scale")
        return await self._object(_SCALE, key, request, timeout)

    async def scale(
        self,
        kind: Kind[Any],
        key: Key,
        replicas: int,
        *,
        resource_version: str = "",
        timeout: float | None = None,
    ) -> Scale:
        """Set how many replicas are wanted, and nothing else."""
        change = verbs.scale_patch(replicas, resource_version=resource_version)
        request = verbs.patch_request(
            kind, key, change, manager=self.field_manager, subresource="scale"
        )
        return await self._object(_SCALE, key, request, timeout)

    async def delete(
        self,
        kind: Kind[T],
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> T | None:
        """Delete an object; return it while finalizers or a grace period still hold it.

        With `uid` or `resource_version` it is deleted only while these match.

        Errors: `NotFound`; `Conflict` when a precondition does not hold.
        """
        request = verbs.delete_request(
            kind,
            key,
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            grace_seconds=grace_seconds,
            dry_run=dry_run,
        )
        ref = str(kind.ref(key))
        response = await self._send(request, ref=ref, timeout=timeout)
        if _is_status(response.body):
            return None
        return _answer(kind, request, response.body, ref)

    async def delete_collection(
        self,
        kind: Kind[Any],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Delete all objects that the selectors find; an empty selector finds them all."""
        request = verbs.delete_collection_request(
            kind,
            namespace=namespace,
            labels=labels,
            fields=fields,
            propagation=propagation,
            grace_seconds=grace_seconds,
            dry_run=dry_run,
        )
        await self._send(request, ref=_collection_ref(kind, namespace), timeout=timeout)

    async def evict(
        self,
        key: Key,
        *,
        uid: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Ask for a pod to be removed, as its disruption budgets allow.

        Errors: `TooManyRequests` while a budget forbids it; its cause says which one. When the
        status of a budget is not computed yet, the call waits for ten seconds or more, up to
        `timeout`.
        """
        request = verbs.evict_request(key, uid=uid, grace_seconds=grace_seconds, dry_run=dry_run)
        await self._send(request, ref=str(verbs.PLAIN_PODS.ref(key)), timeout=timeout)

    async def read_document(
        self, path: str, *, accept: str = JSON, timeout: float | None = None
    ) -> Response:
        """Read a document that is not an object: discovery, OpenAPI, the version, metrics."""
        request = Request("GET", path, headers=(("accept", accept),))
        return await self._send(request, ref=path, timeout=timeout)

    # Implementation

    async def _send(self, request: Request, *, ref: str, timeout: float | None) -> Response:
        response = await self.transport.request(
            request, timeout=self.timeout if timeout is None else timeout
        )
        if not 200 <= response.status < 300:
            raise error_from_response(response, ref=ref)
        return response

    async def _object(self, kind: Kind[T], key: Key, request: Request, timeout: float | None) -> T:
        ref = str(kind.ref(key))
        response = await self._send(request, ref=ref, timeout=timeout)
        return _answer(kind, request, response.body, ref)

    @asynccontextmanager
    async def _events(
        self, kind: Kind[T], request: Request, idle: float
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        async with (
            self.transport.stream(request, idle=idle) as pieces,
            aclosing(_decoded(kind, pieces, request.path)) as events,
        ):
            yield events


def _answer(kind: Kind[T], request: Request, body: bytes, ref: str) -> T:
    try:
        return decode_object(kind, body, ref=ref)
    except UndecodableObject as error:
        if request.method == "GET":
            raise
        raise UndecodableObject(error.problem, ref=ref, carried_out=True) from error


async def _decoded(
    kind: Kind[T], pieces: AsyncIterator[bytes], path: str
) -> AsyncGenerator[WatchEvent[T], None]:
    joiner = LineJoiner()
    sent = 0
    async for piece in pieces:
        for line in joiner.feed(piece):
            yield decode_line(kind, line, path=path)
            sent += 1
            if not sent % _YIELD_EVERY:
                # A burst that has arrived already never waits: let other tasks run.
                await asyncio.sleep(0)


def _collection_ref(kind: Kind[Any], namespace: str) -> str:
    return f"{kind.resource} in {namespace}" if namespace else kind.resource


class _Head(Struct, frozen=True):
    kind: str = ""


def _is_status(body: bytes) -> bool:
    try:
        return msgspec.json.decode(body, type=_Head).kind == "Status"
    except UNDECODABLE:
        return False
