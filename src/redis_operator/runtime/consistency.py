"""Read your own writes: do not decide from a cache that is older than what we wrote.

After each write the returned resourceVersion is noted for the owner it was done for. Before the
next reconcile of that owner every cache concerned must have reached it. Versions are compared as
numbers, within one resource only; one that cannot be compared is let through, since waiting for
it could never end.

For deletions use `expectations`: the answer to a delete has no version that a cache reaches.
"""

from __future__ import annotations

from typing import Any, Protocol

from redis_operator.kube.meta import Key, is_at_least, parse_version

__all__ = ["Consistency", "Versioned"]


class Versioned(Protocol):
    """A cache that knows the version it has reached; an informer is one."""

    @property
    def version(self) -> str:
        """The version reached."""
        ...


class Consistency:
    """The versions written for each owner, and the caches that have to reach them.

    Assumption: `wrote` and `limitation` are called by the one reconcile of that owner.
    """

    def __init__(self, **caches: Versioned) -> None:
        self._caches: dict[str, Versioned] = dict(caches)
        self._written: dict[Key, tuple[str, dict[str, str]]] = {}

    def add_cache(self, resource: str, cache: Versioned) -> None:
        """Name the cache of a resource."""
        self._caches[resource] = cache

    def wrote(self, owner: Key, *, uid: str, resource: str, version: str) -> None:
        """Note a write done for an owner; the newest version of each resource is kept."""
        known_uid, versions = self._written.get(owner, (uid, {}))
        if known_uid != uid:
            versions = {}  # another object of the same name: what was written before is not its
        before = versions.get(resource, "")
        if not before or is_at_least(before, version) is not True:
            versions[resource] = version
        self._written[owner] = (uid, versions)

    def limitation(self, owner: Key) -> str | None:
        """Return which cache is behind our own writes, or nothing when a decision may be taken."""
        if owner not in self._written:
            return None
        _, versions = self._written[owner]
        for resource, version in list(versions.items()):
            cache = self._caches.get(resource)
            if cache is None:
                raise KeyError(f"no cache of {resource!r}: this store has {sorted(self._caches)}")
            if _is_behind(cache.version, version):
                reached = cache.version or "nothing"
                return f"the cache of {resource} has reached {reached}, we wrote {version}"
            del versions[resource]
        if not versions:
            del self._written[owner]
        return None

    def forget(self, owner: Key, *, uid: str) -> None:
        """Drop what was noted for an owner that is gone, unless it is another by now."""
        known: tuple[str, Any] | None = self._written.get(owner)
        if known is not None and known[0] == uid:
            del self._written[owner]


def _is_behind(reached: str, wanted: str) -> bool:
    if parse_version(wanted) is None:
        return False
    return not reached or is_at_least(reached, wanted) is False
