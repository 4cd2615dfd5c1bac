"""The controller runtime: caches, queues, workers, leader election, and the process around them.

What every operator needs is in `kubecontroller`; the names here are for those with webhooks, with
triggers, finalizers or a process of their own. `docs/kubecontroller/runtime.md` explains them with
a whole operator.

May import: `client`, `custom`.
Called by: `testing`, `kubelocal.controllers`, `kubelocal.node`, and by operators.
Begin with: `manager`, which starts the parts in order, then `controller`, `informer` and
    `workqueue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubecontroller.runtime.certkeeper import conversion_target, webhook_target
    from kubecontroller.runtime.changes import Added, Change, Deleted, Updated
    from kubecontroller.runtime.controller import URGENT_PRIORITY, CachesNotSynced, Watch
    from kubecontroller.runtime.deletion import delete_after_live_read
    from kubecontroller.runtime.election import LeadershipLost
    from kubecontroller.runtime.expectations import Expectations
    from kubecontroller.runtime.finalizers import add_finalizer, has_finalizer, remove_finalizer
    from kubecontroller.runtime.issued import IssuedCertificate
    from kubecontroller.runtime.lease import default_identity
    from kubecontroller.runtime.logs import Format, HumanFormatter
    from kubecontroller.runtime.owners import write_own
    from kubecontroller.runtime.process import freeze_cached_objects
    from kubecontroller.runtime.secured import SecuredMetrics
    from kubecontroller.runtime.server import CannotServe
    from kubecontroller.runtime.serving import VALIDATING, Certificate, serve_with
    from kubecontroller.runtime.store import label_index
    from kubecontroller.runtime.triggers import Trigger, any_of, itself, spec_or_metadata_changed
    from kubecontroller.runtime.webhook import (
        Admission,
        AdmissionRequest,
        Admit,
        Allowed,
        Cause,
        Denied,
        WebhookServer,
    )

__all__ = [
    "URGENT_PRIORITY",
    "VALIDATING",
    "Added",
    "Admission",
    "AdmissionRequest",
    "Admit",
    "Allowed",
    "CachesNotSynced",
    "CannotServe",
    "Cause",
    "Certificate",
    "Change",
    "Deleted",
    "Denied",
    "Expectations",
    "Format",
    "HumanFormatter",
    "IssuedCertificate",
    "LeadershipLost",
    "SecuredMetrics",
    "Trigger",
    "Updated",
    "Watch",
    "WebhookServer",
    "add_finalizer",
    "any_of",
    "conversion_target",
    "default_identity",
    "delete_after_live_read",
    "freeze_cached_objects",
    "has_finalizer",
    "itself",
    "label_index",
    "remove_finalizer",
    "serve_with",
    "spec_or_metadata_changed",
    "webhook_target",
    "write_own",
]

if not TYPE_CHECKING:  # else any name would pass the type checker
    from kubecontroller._lazy import loader

    __getattr__ = loader(
        __name__,
        {
            "certkeeper": "conversion_target webhook_target",
            "changes": "Added Change Deleted Updated",
            "controller": "URGENT_PRIORITY CachesNotSynced Watch",
            "deletion": "delete_after_live_read",
            "election": "LeadershipLost",
            "expectations": "Expectations",
            "finalizers": "add_finalizer has_finalizer remove_finalizer",
            "issued": "IssuedCertificate",
            "lease": "default_identity",
            "logs": "Format HumanFormatter",
            "owners": "write_own",
            "process": "freeze_cached_objects",
            "secured": "SecuredMetrics",
            "server": "CannotServe",
            "serving": "VALIDATING Certificate serve_with",
            "store": "label_index",
            "triggers": "Trigger any_of itself spec_or_metadata_changed",
            "webhook": "Admission AdmissionRequest Admit Allowed Cause Denied WebhookServer",
        },
    )
