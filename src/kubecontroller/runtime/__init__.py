"""The controller runtime: caches, queues, workers, leader election, and the process around them.

The names that an operator author imports are here; `docs/kubecontroller/runtime.md` explains them
with a whole operator.

May import: `client`, `custom`.
Called by: `testing`, `kubelocal.controllers`, `kubelocal.node`, and by operators.
Begin with: `manager`, which starts the parts in order, then `controller`, `informer` and
    `workqueue`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kubecontroller.runtime.applier import Applier
from kubecontroller.runtime.changes import Added, Change, Deleted, Updated
from kubecontroller.runtime.controller import Controller, Watch
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.lease import LeaseSettings, default_identity
from kubecontroller.runtime.outcomes import Again, Done, Outcome, Retry, Stop
from kubecontroller.runtime.store import Reader

if TYPE_CHECKING:
    from kubecontroller.runtime.manager import Manager
    from kubecontroller.runtime.process import run_process

__all__ = [
    "Added",
    "Again",
    "Applier",
    "Change",
    "Controller",
    "Deleted",
    "Done",
    "Informer",
    "LeaseSettings",
    "Manager",
    "Outcome",
    "Reader",
    "Retry",
    "Stop",
    "Updated",
    "Watch",
    "default_identity",
    "run_process",
]

_LOADED_ON_USE = {"Manager": "manager", "run_process": "process"}


def __getattr__(name: str) -> Any:
    """Load what only a whole process needs (HTTP, metrics) on first use: it takes long."""
    if name not in _LOADED_ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LOADED_ON_USE[name]}"), name)
