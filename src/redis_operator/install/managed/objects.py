"""The installer's own objects, and its rights. Pure.

An account can only grant rights that it has: the installer has every right of the operator, so that
it needs neither `escalate` nor `bind`.
"""

from __future__ import annotations

from typing import Any, Final

from redis_operator.api.crd import redisoperator_crd
from redis_operator.install.admission import CERTIFICATE_GROUP
from redis_operator.install.monitoring.objects import MONITORING_GROUP
from redis_operator.install.objects import INSTALLATION_LABEL
from redis_operator.install.options import DEFAULT_NAMESPACE, Options
from redis_operator.install.rights import (
    BUNDLE_RIGHTS,
    CERTIFICATE_RIGHTS,
    CLUSTER_RIGHTS,
    DATABASE_RIGHTS,
    ELECTION_RIGHTS,
    METRICS_RIGHT,
    RBAC,
    REVIEW_RIGHTS,
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
    network_policy,
    probes,
    restricted_container,
    restricted_pod,
)

__all__ = [
    "HOME_RIGHTS",
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
_ADMISSION: Final = "admissionregistration.k8s.io"
_APPLIED: Final = ["get", "create", "patch"]
_OWNED: Final = [*_APPLIED, "delete"]

INSTALLER_RIGHTS: Final[tuple[Rule, ...]] = (
    rule("redisoperator.dev", "redisoperators", ["get", "list", "watch", "patch"]),
    rule("redisoperator.dev", "redisoperators/status", ["patch"]),
    # its own, which it cannot delete while it lives there
    rule("", "namespaces", ["get", "list", "watch", "patch"]),
    rule("apiextensions.k8s.io", "customresourcedefinitions", _APPLIED),
    rule(RBAC, "clusterroles clusterrolebindings", _OWNED),
    rule(_ADMISSION, "validatingwebhookconfigurations", _OWNED),
    rule(_ADMISSION, "validatingadmissionpolicies validatingadmissionpolicybindings", _APPLIED),
)
"""Its own rights, beside those of the operator and its users."""

HOME_RIGHTS: Final[tuple[Rule, ...]] = (
    rule("apps", "deployments", [*_OWNED, "list", "watch"]),
    rule("batch", "jobs", ["get", "list", "watch", "create", "delete"]),
    rule(MONITORING_GROUP, "servicemonitors prometheusrules", _OWNED),
    rule(CERTIFICATE_GROUP, "certificates", [*_OWNED, "list"]),
    *ELECTION_RIGHTS,
)
"""In the operator's own namespace: the programs that it starts, and how they are scraped."""

STRATEGY_RIGHTS: Final[tuple[Rule, ...]] = (rule("", "configmaps", ["create", "patch"]),)
"""In the operator's own namespace: a version writes the list of its objects."""


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
        *REVIEW_RIGHTS,
        METRICS_RIGHT,
        *USER_RIGHTS,
    )
    cluster_role = role("ClusterRole", INSTALLER, granted)
    own_role = role("Role", INSTALLER, HOME_RIGHTS, namespace=namespace)
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
        own_role,
        bound(own_role, namespace=namespace, account=INSTALLER),
        strategy,
        bound(strategy, namespace=namespace, account=STRATEGY_ACCOUNT),
        network_policy(options, INSTALLER, INSTALLER_LABELS),
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
