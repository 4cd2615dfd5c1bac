"""What is refused before it is stored. Pure.

Deletion protection is a policy that the API server carries out itself: it holds with or without an
operator, and costs no call. All else needs the operator's rules, and so its webhooks.
"""

from __future__ import annotations

from typing import Any, Final

from redis_operator.api.webhooks import CONFIGURATION, SERVICE, WEBHOOKS, Webhook

from .options import Options
from .workload import WEBHOOK_PORT

__all__ = ["deletion_protection", "webhooks"]

_GROUP: Final = "admissionregistration.k8s.io/v1"
_NAME: Final = "redis-deletion-protection"
_UNPROTECTED: Final = (
    "!has(oldObject.spec.deletion) || !has(oldObject.spec.deletion.protected) || "
    "!oldObject.spec.deletion.protected"
)


def deletion_protection() -> list[dict[str, Any]]:
    """Return the policy that refuses to delete a protected database, however it is asked for.

    Not the deletion of its namespace, which takes pods, claims and Secrets away around it. Needs
    Kubernetes 1.30 or later.
    """
    rule = {
        "apiGroups": ["redisoperator.dev"],
        "apiVersions": ["v1"],
        "operations": ["DELETE"],
        "resources": ["redis"],
    }
    return [
        {
            "apiVersion": _GROUP,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": _NAME},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [
                    {
                        "expression": _UNPROTECTED,
                        "message": "spec.deletion.protected is true: set it to false first",
                    }
                ],
            },
        },
        {
            "apiVersion": _GROUP,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": _NAME},
            "spec": {"policyName": _NAME, "validationActions": ["Deny"]},
        },
    ]


def webhooks(options: Options) -> list[dict[str, Any]]:
    """Return the configuration by which the API server asks the operator; none if not wanted.

    It has no CA bundle: the operator puts it in, and keeps it there.
    """
    if not options.webhooks:
        return []
    return [
        {
            "apiVersion": _GROUP,
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": CONFIGURATION},
            "webhooks": [_webhook(row, options) for row in WEBHOOKS],
        }
    ]


def _webhook(row: Webhook, options: Options) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": row.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {
                "namespace": options.namespace,
                "name": SERVICE,
                "path": row.path,
                "port": WEBHOOK_PORT,
            }
        },
        "rules": [
            {
                "apiGroups": ["redisoperator.dev"],
                "apiVersions": ["v1"],
                "operations": list(row.operations),
                "resources": [row.resource],
                "scope": "Namespaced" if row.namespaced else "Cluster",
            }
        ],
        "failurePolicy": row.failure_policy,
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": row.timeout_seconds,
    }
    if row.namespaced and options.watch_namespaces:
        watched = {
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": list(options.watch_namespaces),
        }
        made["namespaceSelector"] = {"matchExpressions": [watched]}
    return made
