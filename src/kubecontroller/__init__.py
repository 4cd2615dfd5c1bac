"""A Kubernetes client and a controller runtime, and what tests of controllers need.

Everything that authors of operators import is here, loaded on first use. The built-in kinds are in
`client.objects`; every other module is private by convention. `client` talks to an API server,
`custom` makes definitions from types, `runtime` keeps caches and runs controllers, `testing` is the
test kit. An inner package never imports an outer one, and nothing here knows a product.

May import: nothing of the other packages in `src`.
Called by: `kubelocal`, and by operators.
Begin with: `docs/kubecontroller/cookbook.md` and `examples/website`, then `client.api`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubecontroller.client.access import Access
    from kubecontroller.client.api import Client
    from kubecontroller.client.config import load
    from kubecontroller.client.definitions import install_definitions
    from kubecontroller.client.errors import (
        AlreadyExists,
        ApiError,
        Conflict,
        Forbidden,
        Invalid,
        KubeError,
        NotFound,
    )
    from kubecontroller.client.http import HttpTransport
    from kubecontroller.client.meta import Condition, Key, Manifest, ObjectMeta, Part, Projected
    from kubecontroller.client.patches import JsonPatch, MergePatch
    from kubecontroller.client.scheme import Kind
    from kubecontroller.custom.conditions import with_condition
    from kubecontroller.custom.definition import Column
    from kubecontroller.runtime.applier import Applier
    from kubecontroller.runtime.builder import ControllerBuilder
    from kubecontroller.runtime.caches import Caches
    from kubecontroller.runtime.controller import Controller
    from kubecontroller.runtime.events import Recorder, Regarding
    from kubecontroller.runtime.finalizers import Finalizer
    from kubecontroller.runtime.informer import Informer
    from kubecontroller.runtime.lease import LeaseSettings
    from kubecontroller.runtime.logs import set_up
    from kubecontroller.runtime.manager import Manager
    from kubecontroller.runtime.metrics import Metrics
    from kubecontroller.runtime.outcomes import Again, Done, Outcome, Retry, Stop
    from kubecontroller.runtime.owners import NotOwned
    from kubecontroller.runtime.process import run_process
    from kubecontroller.runtime.server import HealthServer
    from kubecontroller.runtime.serving import serve_webhooks
    from kubecontroller.runtime.store import Reader
    from kubecontroller.runtime.triggers import by_label, mapped

__all__ = [
    "Access",
    "Again",
    "AlreadyExists",
    "ApiError",
    "Applier",
    "Caches",
    "Client",
    "Column",
    "Condition",
    "Conflict",
    "Controller",
    "ControllerBuilder",
    "Done",
    "Finalizer",
    "Forbidden",
    "HealthServer",
    "HttpTransport",
    "Informer",
    "Invalid",
    "JsonPatch",
    "Key",
    "Kind",
    "KubeError",
    "LeaseSettings",
    "Manager",
    "Manifest",
    "MergePatch",
    "Metrics",
    "NotFound",
    "NotOwned",
    "ObjectMeta",
    "Outcome",
    "Part",
    "Projected",
    "Reader",
    "Recorder",
    "Regarding",
    "Retry",
    "Stop",
    "by_label",
    "install_definitions",
    "load",
    "mapped",
    "run_process",
    "serve_webhooks",
    "set_up",
    "with_condition",
]

_PLACES = {
    "client.access": "Access",
    "client.api": "Client",
    "client.config": "load",
    "client.definitions": "install_definitions",
    "client.errors": "AlreadyExists ApiError Conflict Forbidden Invalid KubeError NotFound",
    "client.http": "HttpTransport",
    "client.meta": "Condition Key Manifest ObjectMeta Part Projected",
    "client.patches": "JsonPatch MergePatch",
    "client.scheme": "Kind",
    "custom.conditions": "with_condition",
    "custom.definition": "Column",
    "runtime.applier": "Applier",
    "runtime.builder": "ControllerBuilder",
    "runtime.caches": "Caches",
    "runtime.controller": "Controller",
    "runtime.events": "Recorder Regarding",
    "runtime.finalizers": "Finalizer",
    "runtime.informer": "Informer",
    "runtime.lease": "LeaseSettings",
    "runtime.logs": "set_up",
    "runtime.manager": "Manager",
    "runtime.metrics": "Metrics",
    "runtime.outcomes": "Again Done Outcome Retry Stop",
    "runtime.owners": "NotOwned",
    "runtime.process": "run_process",
    "runtime.server": "HealthServer",
    "runtime.serving": "serve_webhooks",
    "runtime.store": "Reader",
    "runtime.triggers": "by_label mapped",
}
_PLACE = {name: place for place, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a name on first use: a whole operator takes long to load, a client does not."""
    if name not in _PLACE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACE[name]}"), name)
