"""All objects of an installation as one value, in the order in which they are applied. Pure.

The order is safe for an upgrade too: an older operator bears newer definitions and more rights, and
what the API server refuses becomes stricter only when the new operator runs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from redis_operator import __version__
from redis_operator.api.crd import crds
from redis_operator.api.webhooks import INSTALLATION_LABEL

from . import rights
from .admission import deletion_protection, webhooks
from .options import Options
from .workload import budget, deployment, metrics_service, network_policy, webhook_service

__all__ = [
    "INSTALLATION_LABEL",
    "KEPT_KINDS",
    "OPTIONAL_KINDS",
    "Object",
    "Stage",
    "objects",
    "stages",
]

Object = dict[str, Any]
KEPT_KINDS: Final = frozenset(
    {
        "Namespace",
        "CustomResourceDefinition",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
"""What databases need without an operator: neither an upgrade nor a plain removal deletes it."""

OPTIONAL_KINDS: Final = frozenset({"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
"""What an older cluster does not know; the operator works without."""


class Stage(StrEnum):
    """What is applied together; each is in force before the next begins."""

    NAMESPACE = "namespace"
    DEFINITIONS = "definitions"
    RIGHTS = "rights"
    CONFIGURATION = "configuration"
    CONTROLLER = "controller"
    ADMISSION = "admission"


def stages(options: Options) -> dict[Stage, list[Object]]:
    """Return the objects of each stage, in order."""
    found = {
        Stage.NAMESPACE: [_namespace(options)],
        Stage.DEFINITIONS: list(crds().values()),
        Stage.RIGHTS: _rights(options),
        Stage.CONFIGURATION: [
            metrics_service(options),
            webhook_service(options),
            network_policy(options),
            budget(options),
        ],
        Stage.CONTROLLER: [deployment(options)],
        Stage.ADMISSION: [*deletion_protection(), *webhooks(options)],
    }
    return {stage: [_labelled(o, options) for o in made] for stage, made in found.items()}


def objects(options: Options) -> list[Object]:
    """Return every object, in order."""
    return [made for stage in stages(options).values() for made in stage]


def _namespace(options: Options) -> Object:
    enforced = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": options.namespace, "labels": enforced},
    }


def _rights(options: Options) -> list[Object]:
    """Rights come before whoever uses them, and a role before its binding."""
    roles = [rights.cluster_role(databases=not options.watch_namespaces)]
    roles += [rights.namespaced_role(name) for name in options.watch_namespaces]
    roles.append(rights.election_role(options.namespace))
    roles += [rights.bundle_role(), rights.certificate_role(options.namespace)]
    bindings = [rights.bound(role, namespace=options.namespace) for role in roles]
    return [
        rights.service_account(options.namespace),
        *rights.database_users(),
        *(made for pair in zip(roles, bindings, strict=True) for made in pair),
    ]


def _labelled(made: Object, options: Options) -> Object:
    metadata = made["metadata"]
    ours = {
        "app.kubernetes.io/name": rights.OPERATOR,
        "app.kubernetes.io/part-of": rights.OPERATOR,
        "app.kubernetes.io/version": __version__,
        INSTALLATION_LABEL: options.namespace,
    }
    labels = dict(metadata.get("labels") or {}) | ours
    return {**made, "metadata": {**metadata, "labels": labels}}
