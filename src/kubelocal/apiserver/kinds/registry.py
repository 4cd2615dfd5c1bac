"""Which resources are served right now: the built-in table, and what CRDs add and take away."""

from __future__ import annotations

from collections.abc import Iterable

from kubelocal.apiserver.kinds.table import BUILT_IN, Resource

__all__ = ["Registry"]


class Registry:
    """Finds resources by path and by kind; CRDs change it while the server runs."""

    def __init__(self, built_in: Iterable[Resource] = BUILT_IN) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._custom: dict[str, tuple[Resource, ...]] = {}
        self.revision = 0  # grows with each change, so that discovery can be cached
        for resource in built_in:
            self._by_path[resource.group, resource.version, resource.plural] = resource

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return what a path names, if it is served."""
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
