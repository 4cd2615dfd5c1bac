"""Read your own writes: do not decide from a cache that is older than what this process wrote.

After each write the returned resourceVersion is recorded for the owner it was done for. Before the
next reconcile of that owner every cache concerned must have reached it. Versions are compared as
numbers, within one cache only: caches of two namespaces are two, since the version of a quiet one
moves only by bookmarks, once a minute. A version that cannot be compared counts as reached, since
waiting for it could never end; and nothing is waited for longer than `patience` seconds: an old
cache is better than an object that is not reconciled.

For deletions use `expectations`: the response to a delete has no version that a cache reaches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from kubecontroller.client.meta import Key, is_at_least, parse_version
from kubecontroller.runtime.logs import fields

__all__ = ["Consistency", "Versioned"]

_log = logging.getLogger(__name__)


class Versioned(Protocol):
    """A cache that knows the version it has reached, such as an informer."""

    @property
    def version(self) -> str:
        """The version reached."""
        ...


class Consistency:
    """The versions written for each owner, and the caches that have to reach them.

    `on_ready` is called with an owner whose caches caught up after it had to wait.
    Assumption: `wrote` and `limitation` are called by the one reconcile of that owner.
    """

    def __init__(
        self,
        *,
        patience: float = 5.0,
        clock: Callable[[], float] | None = None,
        **caches: Versioned,
    ) -> None:
        self._patience = patience
        self._clock = clock if clock is not None else lambda: asyncio.get_running_loop().time()
        self._caches: dict[tuple[str, str], Versioned] = {}
        self._written: dict[Key, tuple[str, dict[str, str]]] = {}
        self._held_since: dict[Key, float] = {}
        self.on_ready: Callable[[Key], None] | None = None
        for resource, cache in caches.items():
            self.add_cache(resource, cache)

    def add_cache(self, resource: str, cache: Versioned, *, namespace: str = "") -> None:
        """Add the cache of a resource, for one namespace or for all that have none of their own."""
        self._caches[resource, namespace] = cache
        on_progress = getattr(cache, "on_progress", None)
        if on_progress is not None:
            on_progress.append(self._wake)

    def wrote(self, owner: Key, *, uid: str, resource: str, version: str) -> None:
        """Record a write done for an owner; the newest version of each resource is kept.

        Errors: `KeyError` for a resource without a cache: nothing would show the write.
        """
        self._cache(resource, owner[0])
        known_uid, versions = self._written.get(owner, (uid, {}))
        if known_uid != uid:
            versions = {}  # another object of the same name: its writes begin here
        before = versions.get(resource, "")
        if not before or is_at_least(before, version) is not True:
            versions[resource] = version
        self._written[owner] = (uid, versions)

    def limitation(self, owner: Key) -> str | None:
        """Return which cache is behind the process's own writes, or nothing when it may decide."""
        behind = self._behind(owner)
        if behind is None:
            self._held_since.pop(owner, None)
            return None
        now = self._clock()
        since = self._held_since.setdefault(owner, now)
        if now - since < self._patience:
            return behind
        _log.warning("deciding from an old cache", extra=fields(why=behind, waited=now - since))
        self._suspect(owner, behind)
        del self._held_since[owner]
        self._written.pop(owner, None)
        return None

    def _behind(self, owner: Key) -> str | None:
        _, versions = self._written.get(owner, ("", {}))
        for resource, version in list(versions.items()):
            cache = self._cache(resource, owner[0])
            if _is_behind(cache.version, version):
                reached = cache.version or "nothing"
                return f"the cache of {resource} has reached {reached}, own write: {version}"
            del versions[resource]
        if not versions:
            self._written.pop(owner, None)
        return None

    def _suspect(self, owner: Key, why: str) -> None:
        """Reopen the watches of caches that are behind: they may be dead."""
        for resource, version in self._written.get(owner, ("", {}))[1].items():
            cache = self._cache(resource, owner[0])
            suspect = getattr(cache, "suspect", None)
            if suspect is not None and _is_behind(cache.version, version):
                suspect(why)

    def _cache(self, resource: str, namespace: str) -> Versioned:
        for place in (namespace, ""):
            if (resource, place) in self._caches:
                return self._caches[resource, place]
        known = sorted({name for name, _ in self._caches})
        raise KeyError(f"no cache of {resource!r} in {namespace!r}: this store has {known}")

    def _wake(self) -> None:
        """Enqueue the owners that waited for a cache which has just advanced."""
        for owner in list(self._held_since):
            if self._behind(owner) is None:
                del self._held_since[owner]
                if self.on_ready is not None:
                    self.on_ready(owner)

    def forget(self, owner: Key, *, uid: str) -> None:
        """Drop the records of a deleted owner, unless another object has its name now."""
        known: tuple[str, Any] | None = self._written.get(owner)
        if known is not None and known[0] == uid:
            del self._written[owner]
            self._held_since.pop(owner, None)


def _is_behind(reached: str, wanted: str) -> bool:
    if parse_version(wanted) is None:
        return False
    return not reached or is_at_least(reached, wanted) is False
