"""The installer's own objects, and what it may do. Pure.

Whoever hands out rights must have them: the installer holds every right of the operator, so that it
needs neither `escalate` nor `bind`.
"""

from __future__ import annotations

from typing import Any, Final

from redis_operator.api.crd import redisoperator_crd
from redis_operator.install.objects import INSTALLATION_LABEL
from redis_operator.install.options import DEFAULT_NAMESPACE, Options
from redis_operator.install.rights import (
    BUNDLE_RIGHTS,
    CERTIFICATE_RIGHTS,
    CLUSTER_RIGHTS,
    DATABASE_RIGHTS,
    ELECTION_RIGHTS,
    USER_RIGHTS,
    Rule,
    bound,
    role,
    rule,
    service_account,
)
from redis_operator.install.workload import (
    PORT,
    from_pod,
    probes,
    restricted_container,
    restricted_pod,
)

__all__ = [
    "INSTALLER",
    "INSTALLER_LABELS",
    "INSTALLER_RIGHTS",
    "STRATEGY_ACCOUNT",
    "STRATEGY_RIGHTS",
    "installer_objects",
]

INSTALLER: Final = "redis-operator-installer"
INSTALLER_LABELS: Final = {"app.kubernetes.io/name": INSTALLER}
STRATEGY_ACCOUNT: Final = "redis-operator-strategy"
_RBAC: Final = "rbac.authorization.k8s.io"
_KEPT: Final = ["get", "create", "patch", "delete"]

INSTALLER_RIGHTS: Final[tuple[Rule, ...]] = (
    rule("redisoperator.dev", "redisoperators", ["get", "list", "watch", "patch"]),
    rule("redisoperator.dev", "redisoperators/status", ["patch"]),
    rule("", "namespaces", [*_KEPT, "list", "watch"]),
    rule("apiextensions.k8s.io", "customresourcedefinitions", ["get", "create", "patch"]),
    rule("apps", "deployments", [*_KEPT, "list", "watch"]),
    rule("batch", "jobs", [*_KEPT, "list", "watch"]),
    rule(_RBAC, "clusterroles clusterrolebindings", _KEPT),
    rule(
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies validatingadmissionpolicybindings "
        "validatingwebhookconfigurations mutatingwebhookconfigurations",
        _KEPT,
    ),
)
"""What it does itself, beside what the operator and its users may do."""

STRATEGY_RIGHTS: Final[tuple[Rule, ...]] = (rule("", "configmaps", ["create", "patch"]),)
"""In the operator's own namespace: a version writes down what it consists of."""


def installer_objects(options: Options) -> list[dict[str, Any]]:
    """Return what `kubectl apply` puts into a cluster, in order; the image is that of the choices.

    A `RedisOperator` then says what is to be installed.
    """
    namespace = options.namespace
    granted = (
        *INSTALLER_RIGHTS,
        *DATABASE_RIGHTS,
        *CLUSTER_RIGHTS,
        *CERTIFICATE_RIGHTS,
        *BUNDLE_RIGHTS,
        *USER_RIGHTS,
    )
    cluster_role = role("ClusterRole", INSTALLER, granted)
    election = role("Role", INSTALLER, ELECTION_RIGHTS, namespace=namespace)
    strategy = role("Role", STRATEGY_ACCOUNT, STRATEGY_RIGHTS, namespace=namespace)
    enforced = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    made = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": enforced},
        },
        redisoperator_crd(),
        service_account(namespace, INSTALLER),
        service_account(namespace, STRATEGY_ACCOUNT),
        cluster_role,
        bound(cluster_role, namespace=namespace, account=INSTALLER),
        election,
        bound(election, namespace=namespace, account=INSTALLER),
        strategy,
        bound(strategy, namespace=namespace, account=STRATEGY_ACCOUNT),
        _deployment(options),
    ]
    return [_labelled(one, namespace) for one in made]


def _labelled(made: dict[str, Any], namespace: str) -> dict[str, Any]:
    metadata = made["metadata"]
    labels = {
        **(metadata.get("labels") or {}),
        "app.kubernetes.io/part-of": DEFAULT_NAMESPACE,
        INSTALLATION_LABEL: namespace,
    }
    return {**made, "metadata": {**metadata, "labels": labels}}


def _deployment(options: Options) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "serviceAccountName": INSTALLER,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": restricted_pod(),
        "containers": [
            {
                "name": "installer",
                "image": options.image,
                "imagePullPolicy": options.pull_policy,
                "command": ["redis-operator"],
                "args": ["installer", "--log", "json"],
                "env": [
                    from_pod("POD_NAME", "metadata.name"),
                    from_pod("POD_NAMESPACE", "metadata.namespace"),
                ],
                "ports": [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}],
                **probes(),
                "resources": {
                    "requests": {"cpu": "20m", "memory": "64Mi"},
                    "limits": {"memory": "256Mi"},
                },
                "securityContext": restricted_container(),
            }
        ],
    }
    if options.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in options.pull_secrets]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": options.namespace, "name": INSTALLER},
        "spec": {
            "replicas": 1,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": dict(INSTALLER_LABELS)},
            "template": {"metadata": {"labels": dict(INSTALLER_LABELS)}, "spec": pod},
        },
    }
