"""What the API server itself refuses, with or without an operator. Pure."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["deletion_protection"]

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
