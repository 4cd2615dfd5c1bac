"""The operator's rights: one table, for Kubernetes, the chart and local mode. Pure.

No wildcard, no `escalate`, no `bind`, no `impersonate`, no `pods/exec`. A test compares the table
with the calls that the operator really makes.
"""

from __future__ import annotations

from typing import Any, Final

from redis_operator.api.webhooks import (
    CONFIGURATION,
    INSTALLATION_LABEL,
    ISSUED_SECRET,
    SECRET,
)

__all__ = [
    "BUNDLE_RIGHTS",
    "CERTIFICATE_RIGHTS",
    "CLUSTER_RIGHTS",
    "DATABASE_RIGHTS",
    "ELECTION_RIGHTS",
    "ISSUED_RIGHTS",
    "METRICS_RIGHT",
    "NAMESPACED",
    "OPERATOR",
    "RBAC",
    "RELEASE_RIGHTS",
    "REVIEW_RIGHTS",
    "USER_RIGHTS",
    "Rule",
    "account",
    "bound",
    "bundle_role",
    "certificate_role",
    "cluster_role",
    "database_users",
    "election_role",
    "metrics_reader_role",
    "namespaced_role",
    "review_role",
    "role",
    "rule",
    "service_account",
]

OPERATOR: Final = "redis-operator"
"""The name of the operator's account, and of its namespace."""

NAMESPACED: Final = f"{OPERATOR}-namespaced"
"""The name of the cluster-wide rights of an operator of some namespaces."""

RBAC: Final = "rbac.authorization.k8s.io"
_READ: Final = ["get", "list", "watch"]
_FOLLOW: Final = ["list", "watch"]
_OWNED: Final = [*_READ, "create", "patch", "delete"]
_WRITE: Final = ["create", "update", "patch", "delete", "deletecollection"]
Rule = dict[str, list[str]]


def rule(group: str, resources: str, verbs: list[str], *names: str) -> Rule:
    """Return verbs on resources of one group, as an RBAC rule."""
    narrowed = {"resourceNames": list(names)} if names else {}
    named = {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}
    return {**named, **narrowed}


DATABASE_RIGHTS: Final = (
    rule("redisoperator.dev", "redis", [*_READ, "create", "patch"]),
    rule("redisoperator.dev", "redis/status", ["patch"]),
    # no call needs `finalizers`: it would allow an owner reference that blocks the owner's deletion
    rule("redisoperator.dev", "redis/finalizers", ["update"]),
    rule("redisoperator.dev", "redisfailovers", _FOLLOW),
    rule("redisoperator.dev", "redisfailovers/status", ["patch"]),
    rule("redisoperator.dev", "redisfailovers/finalizers", ["update"]),
    rule("redisoperator.dev", "redisbackups", _OWNED),
    rule("redisoperator.dev", "redisbackups/status", ["patch"]),
    rule("redisoperator.dev", "redisbackups/finalizers", ["update"]),
    rule("redisoperator.dev", "redisbackupschedules", _FOLLOW),
    rule("redisoperator.dev", "redisbackupschedules/status", ["patch"]),
    rule("redisoperator.dev", "redisbackupschedules/finalizers", ["update"]),
    rule("redisoperator.dev", "redisrestores", [*_READ, "patch"]),
    rule("redisoperator.dev", "redisrestores/status", ["patch"]),
    rule("redisoperator.dev", "redisrestores/finalizers", ["update"]),
    # workers of backups and restores
    rule("batch", "jobs", [*_READ, "create", "delete"]),
    rule("", "pods", [*_READ, "patch", "delete"]),
    rule("", "pods/resize", ["patch"]),
    rule("", "persistentvolumeclaims", [*_READ, "patch", "delete"]),
    rule("", "secrets services configmaps serviceaccounts", _OWNED),
    rule("", "events", ["create", "patch", "list"]),
    rule("apps", "statefulsets deployments", _OWNED),
    rule("policy", "poddisruptionbudgets", _OWNED),
    rule("networking.k8s.io", "networkpolicies", _OWNED),
    # The Role of a database is empty: without rights in it, no right to grant rights is needed.
    rule(RBAC, "roles rolebindings", _OWNED),
)
"""Where databases are: in every namespace, or in each watched one."""

CLUSTER_RIGHTS: Final = (
    rule("redisoperator.dev", "redisversions", _FOLLOW),
    rule("", "nodes", _FOLLOW),
    rule("storage.k8s.io", "storageclasses", _FOLLOW),
)
"""Cluster-scoped objects; read only."""

RELEASE_RIGHTS: Final = (
    rule("redisoperator.dev", "redis redisbackups redisrestores", [*_READ, "patch"]),
    rule("", "namespaces", ["get"]),
)
"""In the whole cluster where namespaces are listed: to remove finalizers in terminating namespaces.

Kubernetes deletes the Role there together with the rest, in any order. RBAC cannot limit a patch
to finalizers: it could also change a spec. Outside of the listed namespaces that has no effect,
since no other operator acts on these kinds. Compared with other ways in docs/decisions/032.
"""

ELECTION_RIGHTS: Final = (
    rule("coordination.k8s.io", "leases", ["get", "watch", "create", "update"]),
)
"""In the operator's own namespace: the leader election."""

CERTIFICATE_RIGHTS: Final = (
    rule("", "secrets", [*_READ, "update"], SECRET),
    rule("", "secrets", ["create"]),  # create cannot be limited to a name
    rule("", "events", ["create", "patch"]),
)
"""In the operator's own namespace: the certificate of the webhooks."""

ISSUED_RIGHTS: Final = (rule("", "secrets", _READ, ISSUED_SECRET),)
"""The same where an issuer signs the certificate: it is only read, and its bundle is not
managed."""

BUNDLE_RIGHTS: Final = (
    rule(
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        [*_READ, "patch"],
        CONFIGURATION,
    ),
)
"""Of the one webhook configuration: its CA bundle."""

REVIEW_RIGHTS: Final = (
    rule("authentication.k8s.io", "tokenreviews", ["create"]),
    rule("authorization.k8s.io", "subjectaccessreviews", ["create"]),
)
"""Where metrics are secured: to check the account of a reader, and its rights."""

METRICS_RIGHT: Final[Rule] = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
"""Of a reader of secured metrics."""

_VIEW: Final = (
    rule(
        "redisoperator.dev",
        "redis redisfailovers redisbackups redisbackupschedules redisrestores redisversions",
        _READ,
    ),
)
_EDIT: Final = (
    rule(
        "redisoperator.dev",
        "redis redis/scale redisfailovers redisbackups redisbackupschedules redisrestores",
        _WRITE,
    ),
)
USER_RIGHTS: Final = (*_VIEW, *_EDIT)
"""The rights of users who view or edit a namespace."""


def role(kind: str, name: str, rules: tuple[Rule, ...], **metadata: Any) -> dict[str, Any]:
    """Return a Role or ClusterRole."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "rules": [dict(rule) for rule in rules],
    }


def cluster_role(*, databases: bool = True) -> dict[str, Any]:
    """Return the rights in the whole cluster; without those on databases, what an operator
    of some namespaces needs.

    They have different names: an installation that changes from one to the other has both until
    no pod needs the first any more.
    """
    rules = (*(DATABASE_RIGHTS if databases else RELEASE_RIGHTS), *CLUSTER_RIGHTS)
    return role("ClusterRole", OPERATOR if databases else NAMESPACED, rules)


def namespaced_role(namespace: str = "") -> dict[str, Any]:
    """Return the rights of the operator in each watched namespace."""
    place = {"namespace": namespace} if namespace else {}
    return role("Role", OPERATOR, DATABASE_RIGHTS, **place)


def election_role(namespace: str = "") -> dict[str, Any]:
    """Return the rights of the replicas, in their own namespace, for leader election."""
    place = {"namespace": namespace} if namespace else {}
    return role("Role", f"{OPERATOR}-election", ELECTION_RIGHTS, **place)


def certificate_role(
    namespace: str, rules: tuple[Rule, ...] = CERTIFICATE_RIGHTS
) -> dict[str, Any]:
    """Return the rights of the replicas, in their own namespace, to share a certificate."""
    return role("Role", f"{OPERATOR}-certificate", rules, namespace=namespace)


def bundle_role() -> dict[str, Any]:
    """Return the rights to set the CA bundle of the webhooks."""
    return role("ClusterRole", f"{OPERATOR}-ca-bundle", BUNDLE_RIGHTS)


def review_role() -> dict[str, Any]:
    """Return the rights to check the readers of metrics."""
    return role("ClusterRole", f"{OPERATOR}-metrics-reviews", REVIEW_RIGHTS)


def metrics_reader_role() -> dict[str, Any]:
    """Return the rights of a reader of secured metrics; an administrator binds them."""
    return role("ClusterRole", f"{OPERATOR}-metrics-reader", (METRICS_RIGHT,))


def database_users() -> list[dict[str, Any]]:
    """Return the rights on databases for users who may view or edit a namespace."""
    names = {"view": (_VIEW, ("view",)), "edit": (_EDIT, ("edit", "admin"))}
    return [
        role(
            "ClusterRole",
            f"{OPERATOR}-{name}",
            rules,
            labels={f"{RBAC}/aggregate-to-{other}": "true" for other in roles},
        )
        for name, (rules, roles) in names.items()
    ]


def bound(given: dict[str, Any], *, namespace: str, account: str = OPERATOR) -> dict[str, Any]:
    """Return the binding of a role to an account in a namespace."""
    metadata = {k: v for k, v in given["metadata"].items() if k in {"name", "namespace"}}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{given['kind']}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": given["kind"], "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
    }


def account(namespace: str = OPERATOR) -> list[dict[str, Any]]:
    """Return the operator's namespace and account with its role: all that local mode needs."""
    given = cluster_role()
    made = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        service_account(namespace),
        given,
        bound(given, namespace=namespace),
    ]
    label = {INSTALLATION_LABEL: namespace}  # `install` may take them over
    return [{**one, "metadata": {**one["metadata"], "labels": label}} for one in made]


def service_account(namespace: str, name: str = OPERATOR) -> dict[str, Any]:
    """Return the account of the operator's pods."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"namespace": namespace, "name": name},
        "automountServiceAccountToken": False,
    }
