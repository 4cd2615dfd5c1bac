"""The columns people know from `kubectl get`, for each built-in kind that has its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from kubelocal.apiserver.describe import cells
from kubelocal.apiserver.describe.columns import Column
from kubelocal.apiserver.storage.entries import Object

__all__ = ["PRINTERS"]

Cells = Callable[[Object, datetime], list[Any]]
Printer = tuple[tuple[Column, ...], Cells]

_AGE = Column("Age")


def _wide(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, priority=1) for name in names)


def _plain(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name) for name in names)


_INT = "integer"
_WORKLOAD = _wide("Containers", "Images", "Selector")
_BINDING = (*_plain("Role"), _AGE, *_wide("Users", "Groups", "ServiceAccounts"))
_HOOKS: Printer = ((Column("Webhooks", _INT), _AGE), cells.webhooks)

PRINTERS: dict[tuple[str, str], Printer] = {
    ("", "Namespace"): (
        (*_plain("Status"), _AGE),
        lambda value, now: [cells.status_of(value).get("phase", ""), cells.created(value, now)],
    ),
    ("", "Node"): (
        (
            *_plain("Status", "Roles", "Age", "Version"),
            *_wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        cells.node,
    ),
    ("", "PersistentVolume"): (
        (
            *_plain(
                "Capacity",
                "Access Modes",
                "Reclaim Policy",
                "Status",
                "Claim",
                "StorageClass",
                "VolumeAttributesClass",
                "Reason",
                "Age",
            ),
            *_wide("VolumeMode"),
        ),
        cells.volume,
    ),
    ("", "PersistentVolumeClaim"): (
        (
            *_plain(
                "Status",
                "Volume",
                "Capacity",
                "Access Modes",
                "StorageClass",
                "VolumeAttributesClass",
                "Age",
            ),
            *_wide("VolumeMode"),
        ),
        cells.claim,
    ),
    ("", "Pod"): (
        (
            *_plain("Ready", "Status", "Restarts", "Age"),
            *_wide("IP", "Node", "Nominated Node", "Readiness Gates"),
        ),
        cells.pod,
    ),
    ("", "ResourceQuota"): (_plain("Request", "Limit", "Age"), cells.quota),
    ("", "Secret"): (
        _plain("Type", "Data", "Age"),
        lambda value, now: [
            value.get("type", ""),
            len(value.get("data") or ()),
            cells.created(value, now),
        ],
    ),
    ("", "ServiceAccount"): (
        _plain("Secrets", "Age"),
        lambda value, now: [len(value.get("secrets") or ()), cells.created(value, now)],
    ),
    ("", "Service"): (
        (*_plain("Type", "Cluster-IP", "External-IP", "Port(s)", "Age"), *_wide("Selector")),
        cells.service,
    ),
    ("", "ConfigMap"): (
        _plain("Data", "Age"),
        lambda value, now: [
            len(value.get("data") or ()) + len(value.get("binaryData") or ()),
            cells.created(value, now),
        ],
    ),
    ("", "Endpoints"): (_plain("Endpoints", "Age"), cells.endpoints),
    ("", "Event"): (
        (
            *_plain("Last Seen", "Type", "Reason", "Object"),
            *_wide("Subobject", "Source"),
            *_plain("Message"),
            *_wide("First Seen", "Count"),
            Column("Name", format="name", priority=1),
        ),
        cells.event,
    ),
    ("apps", "Deployment"): (
        (*_plain("Ready", "Up-to-date", "Available", "Age"), *_WORKLOAD),
        cells.deployment,
    ),
    ("apps", "ReplicaSet"): (
        (
            *(Column(name, _INT) for name in ("Desired", "Current", "Ready")),
            _AGE,
            *_WORKLOAD,
        ),
        cells.replica_set,
    ),
    ("apps", "StatefulSet"): (
        (*_plain("Ready", "Age"), *_wide("Containers", "Images")),
        cells.stateful_set,
    ),
    ("apps", "ControllerRevision"): (_plain("Controller", "Revision", "Age"), cells.revision),
    ("batch", "Job"): (
        (*_plain("Status", "Completions", "Duration", "Age"), *_WORKLOAD),
        cells.job,
    ),
    ("coordination.k8s.io", "Lease"): (
        _plain("Holder", "Age"),
        lambda value, now: [
            cells.spec_of(value).get("holderIdentity", ""),
            cells.created(value, now),
        ],
    ),
    ("discovery.k8s.io", "EndpointSlice"): (
        _plain("AddressType", "Ports", "Endpoints", "Age"),
        cells.endpoint_slice,
    ),
    ("networking.k8s.io", "NetworkPolicy"): (
        _plain("Pod-Selector", "Age"),
        lambda value, now: [
            cells.selector(cells.spec_of(value).get("podSelector")),
            cells.created(value, now),
        ],
    ),
    ("policy", "PodDisruptionBudget"): (
        (
            *_plain("Min Available", "Max Unavailable"),
            Column("Allowed Disruptions", _INT),
            _AGE,
        ),
        cells.budget,
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): (_BINDING, cells.binding),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): (_BINDING, cells.binding),
    ("storage.k8s.io", "StorageClass"): (
        _plain("Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"),
        cells.storage_class,
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _HOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _HOOKS,
}
