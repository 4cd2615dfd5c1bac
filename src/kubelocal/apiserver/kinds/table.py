"""The table of what is served: every built-in kind (`table.json`), and the type of its rows.

A row has all that discovery, routing and generic code need. What a kind does differently
(defaults, validation, strategy on writes, columns) is keyed by `(group, kind)` elsewhere.
`Registry` is what is served right now: the table, and what CRDs add and remove.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

__all__ = ["BUILT_IN", "Registry", "Resource", "Subresource", "Version"]

ALL_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


class Subresource(Struct, frozen=True):
    """A path below an object: its own kind on the wire and its own verbs."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


class Version(Struct, frozen=True):
    """One version of a CRD; built-in kinds have none."""

    schema: dict[str, Any]
    columns: tuple[dict[str, Any], ...] = ()
    selectable: tuple[str, ...] = ()
    scale: dict[str, Any] | None = None
    warning: str | None = None
    rereads: bool = False  # stored bodies may not be what this version shows


class Resource(Struct, frozen=True):
    """One served kind at one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    singular: str = ""
    list_kind: str = ""
    storage: str = ""  # the version objects are stored in, when it is not this one
    custom: Version | None = None
    status: bool = False  # status is written only through its own subresource

    @property
    def api_version(self) -> str:
        """Return `group/version` as in objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_version(self) -> str:
        """Return the `apiVersion` under which objects of this kind are stored."""
        version = self.storage or self.version
        return f"{self.group}/{version}" if self.group else version

    @property
    def key(self) -> str:
        """Return the name of the collection that all versions of this kind share."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_name(self) -> str:
        """Return the kind of a list of these."""
        return self.list_kind or f"{self.kind}List"

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource of that name, if it is served."""
        return next((sub for sub in self.subresources if sub.name == name), None)


BUILT_IN = msgspec.json.decode(
    files(__package__).joinpath("table.json").read_bytes(), type=tuple[Resource, ...]
)


class Registry:
    """Finds resources by path and by kind; CRDs change it while the server runs."""

    def __init__(self, built_in: Iterable[Resource] = BUILT_IN) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._custom: dict[str, tuple[Resource, ...]] = {}
        self.revision = 0  # grows with each change, so that discovery can be cached
        for resource in built_in:
            self._by_path[resource.group, resource.version, resource.plural] = resource

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource of a path, if it is served."""
        return self._by_path.get((group, version, plural))

    def by_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource of a kind, if it is served."""
        for resource in self._by_path.values():
            if (resource.group, resource.version, resource.kind) == (group, version, kind):
                return resource
        return None

    def in_collection(self, key: str) -> Resource | None:
        """Return one resource that reads and writes a collection, preferring stored versions."""
        found = [resource for resource in self._by_path.values() if resource.key == key]
        kept = [one for one in found if not one.storage or one.storage == one.version]
        return next(iter(kept or found), None)

    def resources(self) -> tuple[Resource, ...]:
        """Return everything served."""
        return tuple(self._by_path.values())

    def serve(self, name: str, resources: tuple[Resource, ...]) -> None:
        """Serve what the CRD of that name defines now, and nothing it defined before."""
        self.withdraw(name)
        self._custom[name] = resources
        for resource in resources:
            self._by_path[resource.group, resource.version, resource.plural] = resource

    def withdraw(self, name: str) -> None:
        """Stop serving what the CRD of that name defined."""
        self.revision += 1
        for resource in self._custom.pop(name, ()):
            self._by_path.pop((resource.group, resource.version, resource.plural), None)

    def of_crd(self, name: str) -> tuple[Resource, ...]:
        """Return what the CRD of that name has served here."""
        return self._custom.get(name, ())
