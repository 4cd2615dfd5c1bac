"""Kinds and the types they are read as.

A `Kind[T]` says how a kind is addressed and which type its objects have. A `Scheme` is the registry
of kinds by group, version and kind; a kind that it does not know is read as a plain value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from kubecontroller.client.meta import Key, Manifest, Ref
from kubecontroller.custom.definition import Column, definition
from kubecontroller.custom.schema import object_schema

__all__ = ["GroupVersionKind", "Kind", "Scheme", "split_api_version"]

T_co = TypeVar("T_co", covariant=True)

GroupVersionKind: TypeAlias = tuple[str, str, str]


class Kind(Struct, Generic[T_co], frozen=True):
    """How a kind is addressed, and the type its objects are decoded into.

    `model` is a projected Struct, or `dict` for plain values. The type parameter follows it, so
    that functions that need whole objects can require a `Kind[Manifest]`.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    model: type[T_co]

    @property
    def api_version(self) -> str:
        """The `apiVersion` of objects of this kind."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def gvk(self) -> GroupVersionKind:
        """Group, version and kind."""
        return (self.group, self.version, self.kind)

    @property
    def list_kind(self) -> str:
        """The `kind` of lists of these objects."""
        return f"{self.kind}List"

    @property
    def resource(self) -> str:
        """The resource's full name, as people write it: `statefulsets.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def plain(self) -> Kind[Manifest]:
        """Return the same kind read as whole plain values, which may be written back."""
        return Kind(
            group=self.group,
            version=self.version,
            kind=self.kind,
            plural=self.plural,
            namespaced=self.namespaced,
            model=dict,
        )

    def definition(
        self,
        *,
        columns: Sequence[Column] = (),
        short_names: Sequence[str] = (),
        categories: Sequence[str] = (),
        scale: Mapping[str, str] | None = None,
    ) -> Manifest:
        """Return the CustomResourceDefinition of this kind, its schema made from the model.

        Errors: `TypeError` where the model is not a Struct, or has a field that has no schema.
        """
        model: Any = self.model
        if not issubclass(model, Struct):
            raise TypeError(f"{self.kind} is read as {model.__name__}: a schema needs a Struct")
        return definition(
            group=self.group,
            version=self.version,
            kind=self.kind,
            plural=self.plural,
            namespaced=self.namespaced,
            schema=object_schema(model),
            short_names=short_names,
            categories=categories,
            columns=columns,
            scale=scale,
        )

    def ref(self, key: Key) -> Ref:
        """Return the name of one object of this kind, for messages."""
        return Ref(kind=self.kind, namespace=key[0], name=key[1])


class Scheme:
    """A registry of kinds."""

    def __init__(self, *kinds: Kind[Any]) -> None:
        self._kinds: dict[GroupVersionKind, Kind[Any]] = {}
        for kind in kinds:
            self.add(kind)

    def __iter__(self) -> Iterator[Kind[Any]]:
        return iter(self._kinds.values())

    def __contains__(self, gvk: object) -> bool:
        return gvk in self._kinds

    def add(self, kind: Kind[Any]) -> None:
        """Register a kind; the same twice is fine."""
        known = self._kinds.get(kind.gvk)
        if known is not None and known != kind:
            raise ValueError(
                f"{kind.api_version} {kind.kind} is registered as another type already"
            )
        self._kinds[kind.gvk] = kind

    def find(self, group: str, version: str, kind: str) -> Kind[Any] | None:
        """Return the registered kind, if there is one."""
        return self._kinds.get((group, version, kind))


def split_api_version(api_version: str) -> tuple[str, str]:
    """Return group and version; the core group is the empty string."""
    group, slash, version = api_version.partition("/")
    return (group, version) if slash else ("", group)
