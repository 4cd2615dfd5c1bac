"""The one table of what is served: every built-in kind (`table.json`), and the shape of rows.

A row says all that discovery, routing and generic code need. What a kind does differently
(defaults, validation, strategy on writes, columns) is keyed by `(group, kind)` elsewhere.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

__all__ = ["BUILT_IN", "Resource", "Subresource", "Version"]

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
    """What a CRD says of one of its versions; built-ins have none."""

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
    storage: str = ""  # the version objects are kept in, when it is not this one
    custom: Version | None = None
    status: bool = False  # status is written through its own subresource only

    @property
    def api_version(self) -> str:
        """Return `group/version` as objects spell it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_version(self) -> str:
        """Return the `apiVersion` objects of this kind are kept under."""
        version = self.storage or self.version
        return f"{self.group}/{version}" if self.group else version

    @property
    def key(self) -> str:
        """Return the name of the collection all versions of this kind share."""
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
