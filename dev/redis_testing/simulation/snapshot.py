"""A settled simulation, kept so that many histories can begin there."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from kubelocal.apiserver.storage.store import Store

from ..cluster.world import SimulatedCluster

__all__ = ["Snapshot", "restored", "taken"]


@dataclass(frozen=True)
class Snapshot:
    """A settled simulation, to continue from any number of times."""

    time: float
    version: int
    objects: Mapping[str, tuple[Any, ...]]
    world: SimulatedCluster
    parts: tuple[Any, ...]


def taken(time: float, store: Store, world: SimulatedCluster, parts: tuple[Any, ...]) -> Snapshot:
    """Return a snapshot of what there is now."""
    objects = {
        collection.name: tuple(collection.entries.values()) for collection in store.collections()
    }
    return Snapshot(time, store.version, objects, deepcopy(world), deepcopy(parts))


def restored(snapshot: Snapshot) -> Store:
    """Return a store with the objects of a snapshot."""
    store = Store(version=snapshot.version)
    for collection, entries in snapshot.objects.items():
        for entry in entries:
            store.load(collection, entry)
    return store
