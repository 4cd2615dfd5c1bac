"""What the operator itself may do: one list, for Kubernetes and for local mode. Pure.

`tools/generate.py` writes it to `config/rbac`.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["OPERATOR", "account", "cluster_role", "election_role", "namespaced_role"]

OPERATOR: Final = "redis-operator"
"""The name of the operator's account, and of the namespace that it lives in."""

_RBAC: Final = "rbac.authorization.k8s.io"
_READ: Final = ["get", "list", "watch"]
_OWNED: Final = [*_READ, "create", "patch", "delete"]
Rule = dict[str, list[str]]


def _rule(group: str, resources: str, verbs: list[str]) -> Rule:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}


_NAMESPACED: Final = (
    _rule("redisoperator.dev", "redis", [*_READ, "patch", "update"]),
    _rule("redisoperator.dev", "redis/status", ["get", "patch"]),
    _rule("redisoperator.dev", "redis/finalizers", ["update"]),
    _rule("", "pods", [*_READ, "patch", "delete"]),
    _rule("", "pods/resize", ["patch"]),
    _rule("", "persistentvolumeclaims", [*_READ, "patch", "delete", "deletecollection"]),
    _rule("", "secrets services configmaps serviceaccounts", _OWNED),
    _rule("", "events", ["create", "patch", "list"]),
    _rule("apps", "statefulsets", [*_READ, "create", "patch", "update", "delete"]),
    _rule("policy", "poddisruptionbudgets", _OWNED),
    _rule("networking.k8s.io", "networkpolicies", _OWNED),
    # The Role of a database is empty: whoever may do nothing needs no right to hand out rights.
    _rule(_RBAC, "roles rolebindings", _OWNED),
)
_CLUSTER_WIDE: Final = (
    _rule("redisoperator.dev", "redisversions", _READ),
    _rule("", "nodes", _READ),
    _rule("storage.k8s.io", "storageclasses", _READ),
)
_ELECTION: Final = (_rule("coordination.k8s.io", "leases", ["get", "create", "update"]),)


def _role(kind: str, name: str, rules: tuple[Rule, ...]) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": [dict(rule) for rule in rules],
    }


def cluster_role() -> dict[str, Any]:
    """Return all rights of an operator that looks after the whole cluster."""
    return _role("ClusterRole", OPERATOR, (*_NAMESPACED, *_CLUSTER_WIDE))


def namespaced_role() -> dict[str, Any]:
    """Return what an operator that looks after some namespaces needs in each of them."""
    return _role("Role", OPERATOR, _NAMESPACED)


def election_role() -> dict[str, Any]:
    """Return what several operators need, in their own namespace, to agree who works."""
    return _role("Role", f"{OPERATOR}-election", _ELECTION)


def account() -> list[dict[str, Any]]:
    """Return the operator's namespace and account, its role, and what binds them together."""
    subject = {"kind": "ServiceAccount", "namespace": OPERATOR, "name": OPERATOR}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"namespace": OPERATOR, "name": OPERATOR},
        },
        cluster_role(),
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": OPERATOR},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": OPERATOR},
            "subjects": [subject],
        },
    ]
