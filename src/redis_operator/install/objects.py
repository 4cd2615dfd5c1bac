"""All objects of an installation as one value, in the order in which they are applied. Pure.

The order is safe for an upgrade too: an older operator works with newer definitions and more
rights, and admission becomes stricter only when the new operator runs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from redis_operator import __version__
from redis_operator.api.crd import crds
from redis_operator.api.webhooks import INSTALLATION_LABEL

from . import rights
from .admission import certificate, deletion_protection, webhooks
from .monitoring.objects import monitoring
from .options import Options
from .workload import budget, deployment, metrics_service, network_policy, webhook_service

__all__ = [
    "COMPONENT_LABEL",
    "INSTALLATION_LABEL",
    "KEPT_KINDS",
    "MONITORING_KINDS",
    "OPTIONAL_KINDS",
    "VERSION_LABEL",
    "Component",
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
"""Objects that databases need without an operator: no upgrade or plain removal deletes them."""

MONITORING_KINDS: Final = frozenset({"ServiceMonitor", "PrometheusRule"})
"""Objects that only a cluster with the Prometheus Operator can have."""

OPTIONAL_KINDS: Final = MONITORING_KINDS | {
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
"""Objects that not every cluster can have; the operator works without them."""

VERSION_LABEL: Final = "app.kubernetes.io/version"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
"""On every object: its component of the installation."""


class Component(StrEnum):
    """Parts of an installation; all but the controller can be switched off."""

    CONTROLLER = "controller"
    ADMISSION = "admission"
    MONITORING = "monitoring"


class Stage(StrEnum):
    """Objects that are applied together; each stage works before the next begins."""

    NAMESPACE = "namespace"
    DEFINITIONS = "definitions"
    RIGHTS = "rights"
    CONFIGURATION = "configuration"
    CONTROLLER = "controller"
    ADMISSION = "admission"
    MONITORING = "monitoring"


def stages(options: Options) -> dict[Stage, list[Object]]:
    """Return the objects of each stage, in order."""
    found = {
        Stage.NAMESPACE: [_namespace(options)],
        Stage.DEFINITIONS: list(crds().values()),
        Stage.RIGHTS: _rights(options),
        Stage.CONFIGURATION: [
            metrics_service(options),
            *_admission(webhook_service(options), options),
            *(_of(Component.ADMISSION, made) for made in certificate(options)),
            network_policy(options),
            budget(options),
        ],
        Stage.CONTROLLER: [deployment(options)],
        Stage.ADMISSION: [
            *deletion_protection(),
            *(_of(Component.ADMISSION, made) for made in webhooks(options)),
        ],
        Stage.MONITORING: [_of(Component.MONITORING, made) for made in monitoring(options)],
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
    """Rights come before their users, and a role before its binding."""
    roles = [rights.cluster_role(databases=not options.watch_namespaces)]
    roles += [rights.namespaced_role(name) for name in options.watch_namespaces]
    roles.append(rights.election_role(options.namespace))
    readers = []
    if options.monitoring.secured:
        roles.append(rights.review_role())
        readers.append(rights.metrics_reader_role())
    asked = [rights.bundle_role(), rights.certificate_role(options.namespace)]
    if options.issuer is not None:
        asked = [rights.certificate_role(options.namespace, rights.ISSUED_RIGHTS)]
    return [
        rights.service_account(options.namespace),
        *rights.database_users(),
        *readers,
        *_with_bindings(roles, options),
        *(one for made in _with_bindings(asked, options) for one in _admission(made, options)),
    ]


def _with_bindings(roles: list[Object], options: Options) -> list[Object]:
    bindings = [rights.bound(role, namespace=options.namespace) for role in roles]
    return [made for pair in zip(roles, bindings, strict=True) for made in pair]


def _admission(made: Object, options: Options) -> list[Object]:
    """Return an object that admission needs, or nothing while that is switched off."""
    return [_of(Component.ADMISSION, made)] if options.webhooks else []


def _of(component: Component, made: Object) -> Object:
    metadata = made["metadata"]
    labels = {**(metadata.get("labels") or {}), COMPONENT_LABEL: component.value}
    return {**made, "metadata": {**metadata, "labels": labels}}


def _labelled(made: Object, options: Options) -> Object:
    metadata = made["metadata"]
    ours = {
        "app.kubernetes.io/name": rights.OPERATOR,
        "app.kubernetes.io/part-of": rights.OPERATOR,
        VERSION_LABEL: __version__,
        INSTALLATION_LABEL: options.namespace,
    }
    labels = {COMPONENT_LABEL: Component.CONTROLLER.value, **(metadata.get("labels") or {})} | ours
    return {**made, "metadata": {**metadata, "labels": labels}}
