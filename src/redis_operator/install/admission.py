"""What is refused before it is stored. Pure.

Deletion protection is a policy that the API server carries out itself: it holds with or without an
operator, and costs no call. All else needs the operator's rules, and so its webhooks.
"""

from __future__ import annotations

from typing import Any, Final

from redis_operator.api.webhooks import (
    CONFIGURATION,
    INSTALLATION_LABEL,
    ISSUED_SECRET,
    SERVICE,
    WEBHOOKS,
    Webhook,
    service_names,
)

from .options import Options
from .workload import WEBHOOK_PORT

__all__ = ["CERTIFICATE", "CERTIFICATE_GROUP", "certificate", "deletion_protection", "webhooks"]

_GROUP: Final = "admissionregistration.k8s.io/v1"
CERTIFICATE_GROUP: Final = "cert-manager.io"
CERTIFICATE: Final = "redis-operator-webhook"
"""The Certificate that an issuer is asked for, where one is named."""
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

    It has no CA bundle: the operator puts it in, and keeps it there; or, where an issuer is named,
    the injector of cert-manager, by an annotation.
    """
    if not options.webhooks:
        return []
    metadata: dict[str, Any] = {"name": CONFIGURATION}
    if options.issuer is not None:
        source = f"{options.namespace}/{CERTIFICATE}"
        metadata["annotations"] = {f"{CERTIFICATE_GROUP}/inject-ca-from": source}
    return [
        {
            "apiVersion": _GROUP,
            "kind": "ValidatingWebhookConfiguration",
            "metadata": metadata,
            "webhooks": [_webhook(row, options) for row in WEBHOOKS],
        }
    ]


def certificate(options: Options) -> list[dict[str, Any]]:
    """Return the Certificate that the named issuer is asked for; none if none is named."""
    issuer = options.issuer
    if issuer is None or not options.webhooks:
        return []
    labels = {INSTALLATION_LABEL: options.namespace}
    return [
        {
            "apiVersion": f"{CERTIFICATE_GROUP}/v1",
            "kind": "Certificate",
            "metadata": {"namespace": options.namespace, "name": CERTIFICATE},
            "spec": {
                "secretName": ISSUED_SECRET,
                "secretTemplate": {"labels": labels},  # by which a removal knows it as ours
                "dnsNames": list(service_names(options.namespace)),
                "usages": ["digital signature", "server auth"],
                "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
                "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": issuer.group},
            },
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
