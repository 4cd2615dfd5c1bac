"""A Kubernetes client and a controller runtime, and what tests of controllers need.

What authors of operators import is here, loaded on first use. Beside it there are six public
modules: `client.objects` has the built-in kinds, `client` what programs need that speak with an API
server themselves, `runtime` what operators with unusual needs import (webhooks, changes, triggers,
finalizers by hand), `runtime.certificates` makes keys and certificates, `custom` has the pure parts
of custom kinds, and `testing` is the test kit. All other modules are private. An inner package
never imports an outer one, and nothing here knows a product.

May import: nothing of the other packages in `src`.
Called by: `kubelocal`, and by operators.
Begin with: `docs/kubecontroller/cookbook.md` and `examples/website`, then `client.api`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubecontroller.client.api import Client
    from kubecontroller.client.config import load
    from kubecontroller.client.definitions import install_definitions
    from kubecontroller.client.errors import (
        AlreadyExists,
        ApiError,
        BadRequest,
        Conflict,
        Forbidden,
        Invalid,
        KubeError,
        NotFound,
    )
    from kubecontroller.client.http import HttpTransport
    from kubecontroller.client.meta import (
        Condition,
        Key,
        Manifest,
        ObjectMeta,
        Part,
        Projected,
        controller_of,
        meta_of,
    )
    from kubecontroller.client.patches import JsonPatch, MergePatch
    from kubecontroller.client.scheme import Kind
    from kubecontroller.client.verbs import Propagation
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
    from kubecontroller.runtime.logs import fields, set_up
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
    "Again",
    "AlreadyExists",
    "ApiError",
    "Applier",
    "BadRequest",
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
    "Propagation",
    "Reader",
    "Recorder",
    "Regarding",
    "Retry",
    "Stop",
    "by_label",
    "controller_of",
    "fields",
    "install_definitions",
    "load",
    "mapped",
    "meta_of",
    "run_process",
    "serve_webhooks",
    "set_up",
    "with_condition",
]

if not TYPE_CHECKING:  # else any name would pass the type checker
    from kubecontroller._lazy import loader

    __getattr__ = loader(
        __name__,
        {
            "client.api": "Client",
            "client.config": "load",
            "client.definitions": "install_definitions",
            "client.errors": (
                "AlreadyExists ApiError BadRequest Conflict Forbidden Invalid KubeError NotFound"
            ),
            "client.http": "HttpTransport",
            "client.meta": "Condition Key Manifest ObjectMeta Part Projected controller_of meta_of",
            "client.patches": "JsonPatch MergePatch",
            "client.scheme": "Kind",
            "client.verbs": "Propagation",
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
            "runtime.logs": "fields set_up",
            "runtime.manager": "Manager",
            "runtime.metrics": "Metrics",
            "runtime.outcomes": "Again Done Outcome Retry Stop",
            "runtime.owners": "NotOwned",
            "runtime.process": "run_process",
            "runtime.server": "HealthServer",
            "runtime.serving": "serve_webhooks",
            "runtime.store": "Reader",
            "runtime.triggers": "by_label mapped",
        },
    )
