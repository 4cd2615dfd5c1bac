"""Admission: the policy and the webhooks that refuse objects before they are stored. Pure.

Deletion protection is a policy that the API server evaluates itself: it works with or without an
operator, and costs no call. All other checks need the operator's rules, and so its webhooks.
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
"""The Certificate that an issuer signs, where one is named."""
_NAME: Final = "redis-deletion-protection"
_UNPROTECTED: Final = (
    "!has(oldObject.spec.deletion) || !has(oldObject.spec.deletion.protected) || "
    "!oldObject.spec.deletion.protected"
)


def deletion_protection() -> list[dict[str, Any]]:
    """Return the policy that refuses to delete a protected database, by any request.

    The deletion of its namespace is not refused, which deletes pods, claims and Secrets anyway. It
    needs Kubernetes 1.30 or later.
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
    """Return the webhook configuration of the operator; none if it is switched off.

    It has no CA bundle: the operator adds and maintains it; or, where an issuer is named, the CA
    injector of cert-manager, by an annotation.
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
    """Return the Certificate for the named issuer; none if none is named."""
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
                "secretTemplate": {"labels": labels},  # a removal finds it by these
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
