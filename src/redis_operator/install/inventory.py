"""The inventory of an installation, stored in the cluster beside it. Pure.

A ConfigMap lists every object that was applied, and the options of the installation. It is written
before the objects that it names, and shortened after they are deleted: at every moment it names at
least all that exists, so that the next run after an interruption knows what to finish or to remove.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from redis_operator import __version__
from redis_operator.api.webhooks import ISSUED_SECRET, SECRET

from .objects import INSTALLATION_LABEL, KEPT_KINDS, Object
from .options import Options

__all__ = [
    "INVENTORY",
    "InstallPhase",
    "Inventory",
    "Item",
    "certificate_items",
    "item_of",
    "read",
    "surplus",
    "written",
]

INVENTORY: Final = "redis-operator-installation"

_PLURALS: Final = {
    "ConfigMap": "configmaps",
    "Certificate": "certificates",
    "NetworkPolicy": "networkpolicies",
    "Secret": "secrets",
    "CustomResourceDefinition": "customresourcedefinitions",
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Service": "services",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "Deployment": "deployments",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "ServiceMonitor": "servicemonitors",
    "PrometheusRule": "prometheusrules",
}
_ROLES: Final = ("Role", "ClusterRole")


class InstallPhase(StrEnum):
    """How far an installation has come."""

    INSTALLING = "Installing"
    INSTALLED = "Installed"
    REMOVING = "Removing"


class Item(Struct, frozen=True, order=True, rename="camel", omit_defaults=True):
    """One object, named so that any other version of this program can find it."""

    api_version: str
    kind: str
    plural: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        place = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.kind} {self.name}{place}"

    @property
    def is_kept(self) -> bool:
        """Whether databases need it without an operator."""
        return self.kind in KEPT_KINDS

    @property
    def is_asking(self) -> bool:
        """Whether it is a webhook of the operator: it is deleted before the operator."""
        return self.kind == "ValidatingWebhookConfiguration"


class Inventory(Struct, frozen=True):
    """The record of an installation."""

    options: Options
    items: tuple[Item, ...] = ()
    phase: InstallPhase = InstallPhase.INSTALLING
    version: str = __version__
    digest: str = ""  # of the strategy that this is about


def item_of(made: Mapping[str, Any]) -> Item:
    """Return the entry of an object in the list."""
    metadata, kind = made["metadata"], made["kind"]
    return Item(
        api_version=made["apiVersion"],
        kind=kind,
        plural=_PLURALS[kind],
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
    )


def certificate_items(namespace: str, *, but: Options | None = None) -> list[Item]:
    """Return the Secrets that are not applied: the operator's own certificate, and an issuer's.

    Without the one that some choices have in use.
    """
    used = ""
    if but is not None and but.webhooks:
        used = SECRET if but.issuer is None else ISSUED_SECRET
    names = [name for name in (SECRET, ISSUED_SECRET) if name != used]
    return [Item("v1", "Secret", _PLURALS["Secret"], name, namespace) for name in names]


def written(inventory: Inventory) -> Object:
    """Return the ConfigMap that stores it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": inventory.options.namespace,
            "name": INVENTORY,
            "labels": {INSTALLATION_LABEL: inventory.options.namespace},
        },
        "data": {
            "phase": inventory.phase.value,
            "version": inventory.version,
            "sha256": inventory.digest,
            "options": _text(inventory.options),
            "objects": _text(inventory.items),
        },
    }


def read(data: Mapping[str, str] | None) -> Inventory | None:
    """Return the content of a ConfigMap, or None when it was damaged."""
    found = data or {}
    try:
        return Inventory(
            options=msgspec.json.decode(found.get("options", ""), type=Options),
            items=msgspec.json.decode(found.get("objects", ""), type=tuple[Item, ...]),
            phase=InstallPhase(found.get("phase", "")),
            version=found.get("version", ""),
            digest=found.get("sha256", ""),
        )
    except (msgspec.DecodeError, ValueError):
        return None


def surplus(old: Iterable[Item], new: Iterable[Item]) -> list[Item]:
    """Return the objects that only the older installation had, in the order to delete them.

    Bindings are deleted before their roles: nothing is bound to a role that does not exist.
    """
    gone = set(old) - set(new)
    return sorted((i for i in gone if not i.is_kept), key=lambda i: (i.kind in _ROLES, i))


def _text(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=1).decode()
