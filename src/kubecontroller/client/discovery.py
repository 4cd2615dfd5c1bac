"""What an API server serves: discovery documents, and the mapper from names to kinds.

Pure parts parse the documents; `RestMapper` fetches them lazily, caches them by group, and is
notified when custom kinds change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from kubecontroller.client.api import Client
from kubecontroller.client.errors import (
    UNDECODABLE,
    ApiError,
    NoSuchKind,
    NotFound,
    UndecodableObject,
)
from kubecontroller.client.request import JSON, Response, api_root
from kubecontroller.client.scheme import Kind, Scheme, split_api_version

__all__ = ["AGGREGATED", "Group", "Resource", "RestMapper", "parse_aggregated", "parse_plain"]

Document = TypeVar("Document")

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ACCEPT_EITHER: Final = f"{AGGREGATED},{JSON}"


class Resource(Struct, frozen=True):
    """One resource of one version of a group, and what can be done with it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    singular: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()


class Group(Struct, frozen=True):
    """A group: its versions, the preferred one first, with their resources."""

    name: str
    versions: Mapping[str, tuple[Resource, ...]]

    def resources(self) -> Iterable[Resource]:
        """Return all resources, those of the preferred version first."""
        return (resource for listed in self.versions.values() for resource in listed)


class _ResponseKind(Struct, frozen=True):
    kind: str = ""


class _SubresourceV2(Struct, frozen=True):
    subresource: str = ""


class _ResourceV2(Struct, frozen=True, rename="camel"):
    resource: str
    response_kind: _ResponseKind | None = None
    scope: str = ""
    singular_resource: str = ""
    verbs: tuple[str, ...] | None = None
    short_names: tuple[str, ...] | None = None
    subresources: tuple[_SubresourceV2, ...] | None = None


class _VersionV2(Struct, frozen=True):
    version: str
    resources: tuple[_ResourceV2, ...] | None = None


class _Name(Struct, frozen=True):
    name: str = ""


class _GroupV2(Struct, frozen=True):
    metadata: _Name = _Name()
    versions: tuple[_VersionV2, ...] | None = None


class _GroupListV2(Struct, frozen=True):
    items: tuple[_GroupV2, ...] | None = None


class _PlainVersion(Struct, frozen=True):
    version: str = ""


class _PlainGroup(Struct, frozen=True, rename="camel"):
    name: str = ""
    versions: tuple[_PlainVersion, ...] | None = None
    preferred_version: _PlainVersion = _PlainVersion()


class _PlainGroups(Struct, frozen=True):
    groups: tuple[_PlainGroup, ...] | None = None
    versions: tuple[str, ...] | None = None


class _PlainResource(Struct, frozen=True, rename="camel"):
    name: str = ""
    singular_name: str = ""
    namespaced: bool = False
    kind: str = ""
    verbs: tuple[str, ...] | None = None
    short_names: tuple[str, ...] | None = None


class _PlainResources(Struct, frozen=True):
    resources: tuple[_PlainResource, ...] | None = None


def parse_aggregated(body: bytes) -> list[Group]:
    """Return the groups in an aggregated discovery document; the core group has no name."""
    groups = []
    for item in msgspec.json.decode(body, type=_GroupListV2).items or ():
        name = item.metadata.name
        versions = {
            version.version: tuple(
                Resource(
                    group=name,
                    version=version.version,
                    kind=resource.response_kind.kind if resource.response_kind else "",
                    plural=resource.resource,
                    namespaced=resource.scope == "Namespaced",
                    singular=resource.singular_resource,
                    verbs=resource.verbs or (),
                    short_names=resource.short_names or (),
                    subresources=tuple(s.subresource for s in resource.subresources or ()),
                )
                for resource in version.resources or ()
            )
            for version in item.versions or ()
        }
        groups.append(Group(name, versions))
    return groups


def parse_plain(group: str, version: str, body: bytes) -> tuple[Resource, ...]:
    """Return the resources in one version's plain discovery document."""
    listed = msgspec.json.decode(body, type=_PlainResources).resources or ()
    under: dict[str, list[str]] = {}
    for item in listed:
        parent, slash, subresource = item.name.partition("/")
        if slash:
            under.setdefault(parent, []).append(subresource)
    return tuple(
        Resource(
            group=group,
            version=version,
            kind=item.kind,
            plural=item.name,
            namespaced=item.namespaced,
            singular=item.singular_name,
            verbs=item.verbs or (),
            short_names=item.short_names or (),
            subresources=tuple(under.get(item.name, ())),
        )
        for item in listed
        if "/" not in item.name
    )


_Fits: TypeAlias = Callable[[Resource, str], bool]


def _is_kind(resource: Resource, name: str) -> bool:
    return resource.kind == name


class RestMapper:
    """Finds kinds by name; only unknown names cause requests.

    Guarantees: a kind that was found is returned from memory; an unknown one costs at most one
    discovery in `patience` seconds, however often it is requested; concurrent callers share one
    discovery. `forget` drops a group when a custom kind in it changes. Registered kinds keep their
    types, others are plain values.
    """

    def __init__(self, client: Client, scheme: Scheme, *, patience: float = 10.0) -> None:
        self._client = client
        self._scheme = scheme
        self._patience = patience
        self._groups: dict[str, Group] = {}
        self._missed: dict[tuple[str, str, str], float] = {}
        self._aggregated = True
        # Single flight: callers during a discovery wait for its result.
        self._turn = asyncio.Lock()

    async def kind_for(self, group: str, kind: str, version: str = "") -> Kind[Any]:
        """Return a kind by its name, in the preferred version unless one is given.

        Errors: `NoSuchKind`.
        """
        return await self._find(group, version, kind, _is_kind)

    async def kind_of(self, api_version: str, kind: str) -> Kind[Any]:
        """Return the kind an object's `apiVersion` and `kind` name."""
        group, version = split_api_version(api_version)
        return await self._find(group, version, kind, _is_kind)

    async def groups(self) -> list[Group]:
        """Return everything that the server serves, read again."""
        async with self._turn:
            await self._load_all()
            return list(self._groups.values())

    def forget(self, group: str) -> None:
        """Drop the cache of a group, and the misses in it: its kinds have changed."""
        self._groups.pop(group, None)
        self._missed = {key: when for key, when in self._missed.items() if key[0] != group}

    async def _find(self, group: str, version: str, name: str, fits: _Fits) -> Kind[Any]:
        found = self._known(group, version, name, fits)
        if found is not None:
            return found
        key = (group, version, name)
        async with self._turn:
            found = self._known(group, version, name, fits)
            now = asyncio.get_running_loop().time()
            if found is None and now >= self._missed.get(key, 0.0):
                await self._load(group)
                found = self._known(group, version, name, fits)
                self._remember_miss(key, now, missed=found is None)
        if found is None:
            wanted = f"{name} in {'/'.join(part for part in (group, version) if part) or 'v1'}"
            raise NoSuchKind(
                wanted, advice="Install its CustomResourceDefinition, or correct the name"
            )
        return found

    def _remember_miss(self, key: tuple[str, str, str], now: float, *, missed: bool) -> None:
        self._missed = {k: until for k, until in self._missed.items() if until > now and k != key}
        if missed:
            self._missed[key] = now + self._patience

    def _known(self, group: str, version: str, name: str, fits: _Fits) -> Kind[Any] | None:
        known = self._groups.get(group)
        for resource in known.resources() if known else ():
            if fits(resource, name) and version in {"", resource.version}:
                return self._kind(resource)
        return None

    def _kind(self, resource: Resource) -> Kind[Any]:
        registered = self._scheme.find(resource.group, resource.version, resource.kind)
        if registered is not None and registered.plural == resource.plural:
            return registered
        return Kind(
            group=resource.group,
            version=resource.version,
            kind=resource.kind,
            plural=resource.plural,
            namespaced=resource.namespaced,
            model=dict,
        )

    async def _load(self, group: str) -> None:
        """Load one group, or all of them where the server has one aggregated document."""
        if self._aggregated:
            await self._load_all()
            return
        await self._load_plain_group(group)

    async def _load_all(self) -> None:
        for path in ("/api", "/apis"):
            response = await self._client.read_document(path, accept=_ACCEPT_EITHER)
            if not _is_aggregated(response):
                self._aggregated = False
                await self._load_plain()
                return
            self._replace(path, _parsed(path, response))

    def _replace(self, path: str, groups: list[Group]) -> None:
        """Replace the cached named groups, or the core group, with those of the server."""
        core = path == "/api"
        kept = {name: group for name, group in self._groups.items() if (name == "") != core}
        self._groups = {**kept, **{group.name: group for group in groups}}

    async def _load_plain(self) -> None:
        response = await self._client.read_document("/apis")
        listed = _decoded(response, _PlainGroups, "/apis").groups or ()
        self._groups = {}
        for name in ("", *(group.name for group in listed)):
            await self._load_plain_group(name)

    async def _load_plain_group(self, group: str) -> None:
        path = f"/apis/{group}" if group else "/api"
        try:
            response = await self._client.read_document(path)
        except NotFound:
            self._groups.pop(group, None)
            return
        versions: dict[str, tuple[Resource, ...]] = {}
        for version in _plain_versions(response, group, path):
            root = api_root(group, version)
            try:
                document = await self._client.read_document(root)
            except NotFound:
                # The version was removed between the two requests: the cache is out of date.
                self._groups.pop(group, None)
                return
            except ApiError:
                continue  # an aggregated server is down: keep the other versions
            versions[version] = parse_plain(group, version, document.body)
        self._groups[group] = Group(group, versions)


def _plain_versions(response: Response, group: str, path: str) -> list[str]:
    if not group:
        return list(_decoded(response, _PlainGroups, path).versions or ())
    listed = _decoded(response, _PlainGroup, path)
    names = [version.version for version in listed.versions or ()]
    preferred = listed.preferred_version.version
    return sorted(names, key=lambda name: name != preferred)  # stable: the others keep their order


def _is_aggregated(response: Response) -> bool:
    return "apidiscovery.k8s.io" in response.headers.get("content-type", "")


def _parsed(path: str, response: Response) -> list[Group]:
    try:
        return parse_aggregated(response.body)
    except UNDECODABLE as error:
        raise UndecodableObject(f"not a discovery document ({error})", ref=path) from error


def _decoded(response: Response, model: type[Document], path: str) -> Document:
    try:
        return msgspec.json.decode(response.body, type=model)
    except UNDECODABLE as error:
        raise UndecodableObject(f"not a discovery document ({error})", ref=path) from error
