"""Builds a controller: whose keys it reconciles, what else triggers them, and how it writes.

What is easy to forget is done here: before the same key is reconciled again, every watched cache
must have seen the controller's own writes (`consistency`), and its own writes of the status do not
trigger it.
"""

from __future__ import annotations

from typing import Any

from kubecontroller.client.meta import Key
from kubecontroller.runtime.applier import Applier
from kubecontroller.runtime.caches import Caches
from kubecontroller.runtime.consistency import Consistency
from kubecontroller.runtime.controller import Controller, Reconcile, Watch
from kubecontroller.runtime.manager import Manager
from kubecontroller.runtime.triggers import (
    Predicate,
    Trigger,
    itself,
    owner,
    spec_or_metadata_changed,
)

__all__ = ["ControllerBuilder"]


class ControllerBuilder:
    """A controller that is being built: set its triggers, then `add` its reconcile."""

    def __init__(
        self,
        manager: Manager,
        name: str,
        objects: Caches[Any],
        *,
        when: Predicate[Any] | None = spec_or_metadata_changed,
    ) -> None:
        """Reconcile the keys of `objects`, whenever one changes, except for its status."""
        self.consistency = Consistency()
        self._manager = manager
        self._name = name
        self._kind = objects.kind
        self._watches: list[Watch] = []
        self.watches(objects, itself, when=when)

    def owns(self, *children: Caches[Any]) -> ControllerBuilder:
        """Trigger the controlling owner of each child that changes or is deleted."""
        for caches in children:
            self.watches(caches, owner(self._kind))
        return self

    def watches(
        self, objects: Caches[Any], trigger: Trigger[Any], *, when: Predicate[Any] | None = None
    ) -> ControllerBuilder:
        """Trigger the keys that a trigger finds for a change of other objects.

        `by_label`, `mapped` and `owner` of `triggers` make triggers.
        """
        for informer in objects.informers:
            self._watches.append(Watch(informer, trigger, when))
            self.consistency.add_cache(
                informer.kind.resource, informer, namespace=informer.namespace
            )
        return self

    def applier(self, *, annotation: str = "") -> Applier:
        """Return the applier of the controller; the caches have to see its writes.

        `annotation` carries the hash of what was applied (default: `<group of the kind>/applied`).
        """
        return Applier(
            self._manager.client,
            annotation=annotation or f"{self._kind.group}/applied",
            consistency=self.consistency,
        )

    def add(
        self,
        reconcile: Reconcile,
        *,
        workers: int = 1,
        urgent_workers: int = 0,
        deadline: float = 300.0,
    ) -> Controller:
        """Add the controller to the manager; return it."""
        controller = Controller(
            self._name,
            reconcile,
            self._watches,
            workers=workers,
            urgent_workers=urgent_workers,
            deadline=deadline,
            gate=self.consistency.limitation,
        )

        def caught_up(key: Key) -> None:
            controller.enqueue(key, reason="the caches caught up")

        self.consistency.on_ready = caught_up
        self._manager.add(controller)
        return controller
