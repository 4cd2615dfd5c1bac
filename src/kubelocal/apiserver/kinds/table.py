"""The one table of what is served: every built-in kind, and the shape CRDs add rows in.

A row says all that discovery, routing and generic code need. What a kind does differently
(defaults, validation, strategy on writes, columns) is keyed by `(group, kind)` elsewhere.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["BUILT_IN", "Resource", "Subresource", "Version"]

ALL_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


class Subresource(Struct, frozen=True):
    """A path below an object: its own kind on the wire and its own verbs."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


class Version(Struct, frozen=True):
    """What a CRD says of one of its versions; built-ins have none."""

    schema: dict[str, Any]
    columns: tuple[dict[str, Any], ...] = ()
    selectable: tuple[str, ...] = ()
    scale: dict[str, Any] | None = None
    warning: str | None = None
    rereads: bool = False  # stored bodies may not be what this version shows


class Resource(Struct, frozen=True):
    """One served kind at one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    singular: str = ""
    list_kind: str = ""
    storage: str = ""  # the version objects are kept in, when it is not this one
    custom: Version | None = None
    status: bool = False  # status is written through its own subresource only

    @property
    def api_version(self) -> str:
        """Return `group/version` as objects spell it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_version(self) -> str:
        """Return the `apiVersion` objects of this kind are kept under."""
        version = self.storage or self.version
        return f"{self.group}/{version}" if self.group else version

    @property
    def key(self) -> str:
        """Return the name of the collection all versions of this kind share."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_name(self) -> str:
        """Return the kind of a list of these."""
        return self.list_kind or f"{self.kind}List"

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource of that name, if it is served."""
        return next((sub for sub in self.subresources if sub.name == name), None)


_RW = ("get", "patch", "update")
_STATUS = ("status", _RW)


def _row(
    where: str,
    kind: str,
    plural: str,
    *,
    short: str = "",
    cluster: bool = False,
    categories: tuple[str, ...] = (),
    subs: tuple[Subresource, ...] = (),
    status: bool = False,
    verbs: tuple[str, ...] = ALL_VERBS,
    singular: str | None = None,
) -> Resource:
    group, _, version = where.rpartition("/")
    if status:
        subs = (*subs, Subresource("status", kind, _RW))
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        namespaced=not cluster,
        short_names=tuple(short.split()),
        categories=categories,
        subresources=subs,
        verbs=verbs,
        singular=kind.lower() if singular is None else singular,
        status=status,
    )


_SCALE = Subresource("scale", "Scale", _RW, "autoscaling", "v1")
_CONNECT = ("create", "get")
_POD = (
    Subresource("attach", "PodAttachOptions", _CONNECT),
    Subresource("binding", "Binding", ("create",)),
    Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
    Subresource("exec", "PodExecOptions", _CONNECT),
    Subresource("log", "Pod", ("get",)),
    Subresource("portforward", "PodPortForwardOptions", _CONNECT),
)
_CREATE = ("create",)
_ALL = ("all",)

BUILT_IN: tuple[Resource, ...] = (
    _row("v1", "Binding", "bindings", verbs=_CREATE),
    _row("v1", "ConfigMap", "configmaps", short="cm"),
    _row("v1", "Endpoints", "endpoints", short="ep", singular="endpoints"),
    _row("v1", "Event", "events", short="ev"),
    _row(
        "v1",
        "Namespace",
        "namespaces",
        short="ns",
        cluster=True,
        status=True,
        subs=(Subresource("finalize", "Namespace", ("update",)),),
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
    ),
    _row("v1", "Node", "nodes", short="no", cluster=True, status=True),
    _row("v1", "PersistentVolume", "persistentvolumes", short="pv", cluster=True, status=True),
    _row("v1", "PersistentVolumeClaim", "persistentvolumeclaims", short="pvc", status=True),
    _row("v1", "Pod", "pods", short="po", categories=_ALL, subs=_POD, status=True),
    _row("v1", "ResourceQuota", "resourcequotas", short="quota", status=True),
    _row("v1", "Secret", "secrets"),
    _row(
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        short="sa",
        subs=(Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),),
    ),
    _row("v1", "Service", "services", short="svc", categories=_ALL, status=True),
    _row(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        cluster=True,
        categories=("api-extensions",),
    ),
    _row(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        cluster=True,
        categories=("api-extensions",),
    ),
    _row(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        short="crd crds",
        cluster=True,
        categories=("api-extensions",),
        status=True,
    ),
    _row("apps/v1", "ControllerRevision", "controllerrevisions"),
    _row(
        "apps/v1",
        "Deployment",
        "deployments",
        short="deploy",
        categories=_ALL,
        subs=(_SCALE,),
        status=True,
    ),
    _row(
        "apps/v1",
        "ReplicaSet",
        "replicasets",
        short="rs",
        categories=_ALL,
        subs=(_SCALE,),
        status=True,
    ),
    _row(
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        short="sts",
        categories=_ALL,
        subs=(_SCALE,),
        status=True,
    ),
    _row(
        "authentication.k8s.io/v1",
        "SelfSubjectReview",
        "selfsubjectreviews",
        cluster=True,
        verbs=_CREATE,
    ),
    _row("authentication.k8s.io/v1", "TokenReview", "tokenreviews", cluster=True, verbs=_CREATE),
    _row(
        "authorization.k8s.io/v1",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        verbs=_CREATE,
    ),
    _row(
        "authorization.k8s.io/v1",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        cluster=True,
        verbs=_CREATE,
    ),
    _row(
        "authorization.k8s.io/v1",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        cluster=True,
        verbs=_CREATE,
    ),
    _row(
        "authorization.k8s.io/v1",
        "SubjectAccessReview",
        "subjectaccessreviews",
        cluster=True,
        verbs=_CREATE,
    ),
    _row("batch/v1", "Job", "jobs", categories=_ALL, status=True),
    _row("coordination.k8s.io/v1", "Lease", "leases"),
    _row("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
    _row("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", short="netpol"),
    _row("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", short="pdb", status=True),
    _row("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", cluster=True),
    _row("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", cluster=True),
    _row("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    _row("rbac.authorization.k8s.io/v1", "Role", "roles"),
    _row("storage.k8s.io/v1", "StorageClass", "storageclasses", short="sc", cluster=True),
)
