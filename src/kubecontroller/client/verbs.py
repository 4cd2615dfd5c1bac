"""Requests for each verb of the API: paths, parameters and bodies from kinds and keys.

Pure. The client sends what is built here; tests of the requests need no server.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from kubecontroller.client.apply import intent_body
from kubecontroller.client.meta import Key, Manifest, key_of
from kubecontroller.client.patches import MergePatch, Patch
from kubecontroller.client.request import (
    APPLY_PATCH,
    JSON,
    Request,
    collection_path,
    object_path,
    query,
)
from kubecontroller.client.scheme import Kind

__all__ = [
    "PLAIN_PODS",
    "Propagation",
    "VersionMatch",
    "apply_request",
    "create_request",
    "delete_collection_request",
    "delete_request",
    "evict_request",
    "get_request",
    "list_request",
    "patch_request",
    "replace_request",
    "scale_patch",
    "watch_request",
]

PLAIN_PODS: Final[Kind[Manifest]] = Kind("", "v1", "Pod", "pods", True, dict)
_ACCEPT: Final = (("accept", JSON),)


class Propagation(StrEnum):
    """What happens to an object's dependents when it is deleted."""

    ORPHAN = "Orphan"
    BACKGROUND = "Background"
    FOREGROUND = "Foreground"


class VersionMatch(StrEnum):
    """How a list's resourceVersion is matched: exactly, or not older than."""

    EXACT = "Exact"
    NOT_OLDER_THAN = "NotOlderThan"


def get_request(
    kind: Kind[Any], key: Key, *, subresource: str = "", resource_version: str = ""
) -> Request:
    """Build the request that reads one object."""
    return Request(
        "GET",
        _path(kind, key, subresource),
        query=query(resourceVersion=resource_version),
        headers=_ACCEPT,
    )


def list_request(
    kind: Kind[Any],
    *,
    namespace: str = "",
    labels: str = "",
    fields: str = "",
    resource_version: str = "",
    match: VersionMatch | None = None,
    limit: int = 0,
    continue_: str = "",
) -> Request:
    """Build the request for a page; a continue token fixes the version, so none is sent with it."""
    parameters = query(
        labelSelector=labels,
        fieldSelector=fields,
        resourceVersion="" if continue_ else resource_version,
        resourceVersionMatch=match.value if match and not continue_ else "",
        limit=limit or None,
        continue_=continue_,
    )
    return Request("GET", _collection(kind, namespace), query=parameters, headers=_ACCEPT)


def watch_request(
    kind: Kind[Any],
    *,
    namespace: str = "",
    labels: str = "",
    fields: str = "",
    resource_version: str = "",
    bookmarks: bool = True,
    initial_events: bool = False,
    server_timeout: int = 0,
) -> Request:
    """Build the request that opens a watch."""
    parameters = query(
        watch=True,
        labelSelector=labels,
        fieldSelector=fields,
        resourceVersion=resource_version,
        resourceVersionMatch=VersionMatch.NOT_OLDER_THAN.value if initial_events else "",
        sendInitialEvents=initial_events,
        allowWatchBookmarks=bookmarks,
        timeoutSeconds=server_timeout or None,
    )
    return Request("GET", _collection(kind, namespace), query=parameters, headers=_ACCEPT)


def create_request(
    kind: Kind[Any], manifest: Mapping[str, Any], *, manager: str, dry_run: bool = False
) -> Request:
    """Build the request that creates an object in the namespace of its metadata."""
    return Request(
        "POST",
        _collection(kind, _own_namespace(kind, key_of(manifest))),
        query=_write_query(manager, dry_run=dry_run),
        headers=_headers(JSON),
        body=msgspec.json.encode(_typed(kind, manifest)),
    )


def replace_request(
    kind: Kind[Manifest],
    manifest: Manifest,
    *,
    manager: str,
    subresource: str = "",
    dry_run: bool = False,
) -> Request:
    """Build the request that replaces a whole object; projected kinds do not fit its type."""
    return Request(
        "PUT",
        _path(kind, key_of(manifest), subresource),
        query=_write_query(manager, dry_run=dry_run),
        headers=_headers(JSON),
        body=msgspec.json.encode(_typed(kind, manifest)),
    )


def patch_request(
    kind: Kind[Any],
    key: Key,
    patch: Patch,
    *,
    manager: str,
    subresource: str = "",
    dry_run: bool = False,
) -> Request:
    """Build the request that changes part of an object."""
    return Request(
        "PATCH",
        _path(kind, key, subresource),
        query=_write_query(manager, dry_run=dry_run),
        headers=_headers(patch.media_type),
        body=patch.body(),
    )


def apply_request(
    kind: Kind[Any],
    intent: Mapping[str, Any],
    *,
    manager: str,
    force: bool = True,
    subresource: str = "",
    resource_version: str = "",
    dry_run: bool = False,
) -> Request:
    """Build the request of a server-side apply of the whole intent."""
    body = intent_body(kind, intent, subresource=subresource, resource_version=resource_version)
    return Request(
        "PATCH",
        _path(kind, key_of(intent), subresource),
        query=query(fieldManager=manager, force=force, dryRun="All" if dry_run else ""),
        headers=_headers(APPLY_PATCH),
        body=msgspec.json.encode(body),
    )


def scale_patch(replicas: int, *, resource_version: str = "") -> MergePatch:
    """Build the patch of a scale subresource, with a precondition if a version is given."""
    change: Manifest = {"spec": {"replicas": replicas}}
    if resource_version:
        change["metadata"] = {"resourceVersion": resource_version}
    return MergePatch(change)


def delete_request(
    kind: Kind[Any],
    key: Key,
    *,
    uid: str = "",
    resource_version: str = "",
    propagation: Propagation | None = None,
    grace_seconds: int | None = None,
    dry_run: bool = False,
) -> Request:
    """Build the request that deletes one object, with preconditions if they are given."""
    options = _delete_options(
        uid=uid,
        resource_version=resource_version,
        propagation=propagation,
        grace_seconds=grace_seconds,
        dry_run=dry_run,
    )
    body = msgspec.json.encode(options)
    return Request("DELETE", _path(kind, key), headers=_headers(JSON), body=body)


def delete_collection_request(
    kind: Kind[Any],
    *,
    namespace: str = "",
    labels: str = "",
    fields: str = "",
    propagation: Propagation | None = None,
    grace_seconds: int | None = None,
    dry_run: bool = False,
) -> Request:
    """Build the request that deletes all objects that match the selectors."""
    options = _delete_options(propagation=propagation, grace_seconds=grace_seconds, dry_run=dry_run)
    return Request(
        "DELETE",
        _collection(kind, namespace),
        query=query(labelSelector=labels, fieldSelector=fields),
        headers=_headers(JSON),
        body=msgspec.json.encode(options),
    )


def evict_request(
    key: Key, *, uid: str = "", grace_seconds: int | None = None, dry_run: bool = False
) -> Request:
    """Build the request that evicts a pod."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": key[0], "name": key[1]},
        "deleteOptions": _delete_options(uid=uid, grace_seconds=grace_seconds, dry_run=dry_run),
    }
    return Request(
        "POST",
        _path(PLAIN_PODS, key, "eviction"),
        query=query(dryRun="All" if dry_run else ""),
        headers=_headers(JSON),
        body=msgspec.json.encode(body),
    )


def _write_query(manager: str, *, dry_run: bool) -> tuple[tuple[str, str], ...]:
    return query(fieldManager=manager, dryRun="All" if dry_run else "")


def _path(kind: Kind[Any], key: Key, subresource: str = "") -> str:
    return object_path(
        kind.group,
        kind.version,
        kind.plural,
        namespace=_own_namespace(kind, key),
        name=key[1],
        subresource=subresource,
    )


def _own_namespace(kind: Kind[Any], key: Key) -> str:
    if kind.namespaced and not key[0]:
        raise ValueError(f"{kind.kind} {key[1]!r} is namespaced: give its namespace")
    if key[0] and not kind.namespaced:
        raise ValueError(f"{kind.kind} {key[1]!r} has no namespace: leave {key[0]!r} out")
    return key[0]


def _collection(kind: Kind[Any], namespace: str) -> str:
    return collection_path(kind.group, kind.version, kind.plural, namespace)


def _headers(media_type: str) -> tuple[tuple[str, str], ...]:
    return (*_ACCEPT, ("content-type", media_type))


def _typed(kind: Kind[Any], manifest: Mapping[str, Any]) -> Manifest:
    return {**manifest, "apiVersion": kind.api_version, "kind": kind.kind}


def _delete_options(
    *,
    uid: str = "",
    resource_version: str = "",
    propagation: Propagation | None = None,
    grace_seconds: int | None = None,
    dry_run: bool = False,
) -> Manifest:
    options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if uid or resource_version:
        options["preconditions"] = {name: text for name, text in preconditions.items() if text}
    if propagation is not None:
        options["propagationPolicy"] = propagation.value
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if dry_run:
        options["dryRun"] = ["All"]
    return options
