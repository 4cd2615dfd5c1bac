"""What Go code checks in objects of the built-in kinds beyond their schema and metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kubelocal.apiserver.causes import Cause
from kubelocal.apiserver.objects.validation.access import check_binding, check_role, check_webhooks
from kubelocal.apiserver.objects.validation.definitions import check_definition
from kubelocal.apiserver.objects.validation.pods import check_pod
from kubelocal.apiserver.objects.validation.services import (
    check_endpoints,
    check_network_policy,
    check_service,
    check_slice,
)
from kubelocal.apiserver.objects.validation.storage import (
    check_claim,
    check_class,
    check_config_map,
    check_lease,
    check_quota,
    check_secret,
    check_volume,
)
from kubelocal.apiserver.objects.validation.workloads import (
    check_budget,
    check_deployment,
    check_job,
    check_replica_set,
    check_stateful_set,
)

__all__ = ["problems"]

_RBAC = "rbac.authorization.k8s.io"
_HOOKS = "admissionregistration.k8s.io"
_CHECKS: dict[
    tuple[str, str], Callable[[dict[str, Any], dict[str, Any] | None], Iterator[Cause]]
] = {
    ("", "Pod"): check_pod,
    ("", "Service"): check_service,
    ("", "Endpoints"): check_endpoints,
    ("", "ConfigMap"): check_config_map,
    ("", "Secret"): check_secret,
    ("", "PersistentVolumeClaim"): check_claim,
    ("", "PersistentVolume"): check_volume,
    ("", "ResourceQuota"): check_quota,
    ("apps", "StatefulSet"): check_stateful_set,
    ("apps", "Deployment"): check_deployment,
    ("apps", "ReplicaSet"): check_replica_set,
    ("batch", "Job"): check_job,
    ("policy", "PodDisruptionBudget"): check_budget,
    ("coordination.k8s.io", "Lease"): check_lease,
    ("discovery.k8s.io", "EndpointSlice"): check_slice,
    ("storage.k8s.io", "StorageClass"): check_class,
    ("networking.k8s.io", "NetworkPolicy"): check_network_policy,
    (_RBAC, "Role"): check_role(namespaced=True),
    (_RBAC, "ClusterRole"): check_role(namespaced=False),
    (_RBAC, "RoleBinding"): check_binding(namespaced=True),
    (_RBAC, "ClusterRoleBinding"): check_binding(namespaced=False),
    (_HOOKS, "MutatingWebhookConfiguration"): check_webhooks,
    (_HOOKS, "ValidatingWebhookConfiguration"): check_webhooks,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): check_definition,
}


def problems(
    group: str, kind: str, document: dict[str, Any], old: dict[str, Any] | None
) -> list[Cause]:
    """Find what is wrong with an object, or with its change if `old` is given."""
    check = _CHECKS.get((group, kind))
    return [] if check is None else list(check(document, old))
