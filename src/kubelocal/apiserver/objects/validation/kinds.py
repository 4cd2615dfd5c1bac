"""Checks of built-in kinds beyond single fields: rules between fields, and of changes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from kubelocal.apiserver.causes import Cause, duplicate, forbidden, invalid, required, too_long
from kubelocal.apiserver.kinds.quantities import parse_quantity
from kubelocal.apiserver.objects.validation.checks import (
    CHECKS,
    Object,
    address,
    config_key,
    find,
    immutable,
    one_of,
    template_labels,
)
from kubelocal.apiserver.objects.validation.definitions import check_definition
from kubelocal.apiserver.objects.validation.pods import check_pod, check_pod_spec

__all__ = ["problems"]

_Rule = Callable[[Object, Object | None], Iterator[Cause]]

_LIMIT = 1024 * 1024
_RBAC = "rbac.authorization.k8s.io"
_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def problems(group: str, kind: str, document: Object, old: Object | None) -> list[Cause]:
    """Return what is wrong with an object, or with its change if `old` is given."""
    found = list(find(f"{kind}.{group}" if group else kind, "", document))
    for rule in _RULES.get((group, kind), ()):
        found += rule(document, old)
    return found


def _fixed(*paths: str) -> _Rule:
    """Return the rule that fields may not change."""

    def rule(new: Object, old: Object | None) -> Iterator[Cause]:
        for path in paths if old is not None else ():
            after: Any = new
            before: Any = old
            for name in path.split("."):
                after, before = (after or {}).get(name), (before or {}).get(name)
            yield from immutable(path, after, before)

    return rule


def _service(service: Object, old: Object | None) -> Iterator[Cause]:
    """Check the ports of a Service, and that its cluster IP stays."""
    spec, before = service.get("spec") or {}, (old or {}).get("spec") or {}
    kind, ip = spec.get("type", "ClusterIP"), spec.get("clusterIP", "")
    ports = spec.get("ports") or []
    if not ports and ip != "None" and kind != "ExternalName":
        yield required("spec.ports")
    if kind == "ExternalName" and not spec.get("externalName"):
        yield required("spec.externalName")
    if ip and ip != "None":
        yield from address("spec.clusterIPs[0]", ip)
    known = before.get("clusterIP")
    if "ExternalName" not in {kind, before.get("type")} and known and ip != known:
        shown = spec.get("clusterIPs") or [ip]
        yield invalid("spec.clusterIPs[0]", shown, "may not change once set")
    numbers: set[tuple[Any, Any]] = set()
    for index, one in enumerate(ports):
        path, number = f"spec.ports[{index}]", (one.get("port", 0), one.get("protocol", "TCP"))
        if len(ports) > 1 and not one.get("name"):
            yield required(f"{path}.name")
        if kind == "ClusterIP" and one.get("nodePort"):
            yield forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")
        if number in numbers:
            yield duplicate(path, one)
        numbers.add(number)


def _data(data_path: str) -> _Rule:
    """Return the check of the keys and the size of a ConfigMap or a Secret."""

    def rule(new: Object, old: Object | None) -> Iterator[Cause]:
        size = 0
        for field in ("data", "binaryData"):
            is_text = field == "data" and data_path != "data"
            for key, text in (new.get(field) or {}).items():
                yield from config_key(f"{field}[{key}]", key)
                size += len(text.encode()) if is_text else _decoded_size(text)
        for key in {*(new.get("data") or ())} & {*(new.get("binaryData") or ())}:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        if size > _LIMIT:
            yield too_long(data_path, _LIMIT)
        if old is None or not old.get("immutable"):
            return
        text = "field is immutable when `immutable` is set"
        if not new.get("immutable"):
            yield forbidden("immutable", text)
        for field in ("data", "binaryData"):
            if (new.get(field) or {}) != (old.get(field) or {}):
                yield forbidden(field, text)

    return rule


def _decoded_size(text: str) -> int:
    try:
        return len(base64.b64decode(text))
    except binascii.Error:
        return len(text)


def _secret(secret: Object, old: Object | None) -> Iterator[Cause]:
    """Check that a Secret has the keys of its type, which never changes."""
    data, kind = secret.get("data") or {}, secret.get("type", "Opaque")
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            yield required(f"data[{key}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        yield required("data[username]")
        yield required("data[password]")
    account = "kubernetes.io/service-account.name"
    annotations = (secret.get("metadata") or {}).get("annotations") or {}
    if kind == "kubernetes.io/service-account-token" and not annotations.get(account):
        yield required(f"metadata.annotations[{account}]")
    if old is not None:
        yield from immutable("type", kind, old.get("type", "Opaque"))


def _claim(claim: Object, old: Object | None) -> Iterator[Cause]:
    """Check a PersistentVolumeClaim; a bound one may only grow."""
    spec, before = claim.get("spec") or {}, (old or {}).get("spec") or {}
    size = _size(spec)
    if size is None:
        yield required("spec.resources[storage]")
    elif size <= 0:
        yield invalid("spec.resources[storage]", str(size), "must be greater than zero")
    if old is None:
        return
    free = {"volumeName"} if not before.get("volumeName") else set()
    is_bound = (old.get("status") or {}).get("phase") == "Bound"
    if is_bound:
        free |= {"resources", "volumeAttributesClassName"}
    if "storageClassName" not in before:
        free.add("storageClassName")
    changed = {name for name in {*spec, *before} if spec.get(name) != before.get(name)}
    old_size = _size(before)
    if changed - free:
        text = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
        yield forbidden("spec", text)
    elif is_bound and size is not None and old_size is not None and size < old_size:
        text = "field can not be less than status.capacity"
        yield forbidden("spec.resources.requests.storage", text)


def _size(spec: Object) -> Any:
    requests = (spec.get("resources") or {}).get("requests") or {}
    return parse_quantity(str(requests.get("storage", "")))


def _template(kind: str) -> _Rule:
    """Return the check of a workload's selector and template."""

    def rule(workload: Object, _: Object | None) -> Iterator[Cause]:
        spec = workload.get("spec") or {}
        yield from template_labels(spec, kind)
        template = (spec.get("template") or {}).get("spec") or {}
        claims = frozenset(
            str((claim.get("metadata") or {}).get("name"))
            for claim in spec.get("volumeClaimTemplates") or ()
        )
        path = "spec.template.spec"
        yield from check_pod_spec(path, template, claims)
        if template.get("restartPolicy", "Always") != "Always":
            yield from one_of("Always")(f"{path}.restartPolicy", template["restartPolicy"])

    return rule


def _stateful_set(sts: Object, old: Object | None) -> Iterator[Cause]:
    spec, before = sts.get("spec") or {}, (old or {}).get("spec") or {}
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete" and strategy.get("rollingUpdate") is not None:
        text = "only allowed for updateStrategy 'RollingUpdate'"
        path = "spec.updateStrategy.rollingUpdate"
        yield invalid(path, strategy["rollingUpdate"], text)
    changed = {name for name in {*spec, *before} if spec.get(name) != before.get(name)}
    if old is not None and changed - {*_MUTABLE}:
        names = ", ".join(f"'{name}'" for name in _MUTABLE[:-1])
        text = (
            f"updates to statefulset spec for fields other than {names} and "
            f"'{_MUTABLE[-1]}' are forbidden"
        )
        yield forbidden("spec", text)


def _deployment(deployment: Object, _: Object | None) -> Iterator[Cause]:
    spec = deployment.get("spec") or {}
    strategy, path = spec.get("strategy") or {}, "spec.strategy.rollingUpdate"
    rolling = strategy.get("rollingUpdate") or {}
    if strategy.get("type") == "Recreate" and strategy.get("rollingUpdate") is not None:
        yield forbidden(path, "may not be specified when strategy `type` is 'Recreate'")
    zeros = {0, "0%"}
    if rolling.get("maxSurge") in zeros and rolling.get("maxUnavailable") in zeros:
        text = "may not be 0 when `maxSurge` is 0"
        yield invalid(f"{path}.maxUnavailable", rolling["maxUnavailable"], text)
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds", 0)
    if deadline is not None and deadline <= ready:
        text = "must be greater than minReadySeconds"
        yield invalid("spec.progressDeadlineSeconds", deadline, text)


def _job(job: Object, old: Object | None) -> Iterator[Cause]:
    """Check a Job; its template must not change."""
    spec, before = job.get("spec") or {}, (old or {}).get("spec") or {}
    template = (spec.get("template") or {}).get("spec") or {}
    yield from check_pod_spec("spec.template.spec", template)
    if template.get("restartPolicy") not in {"OnFailure", "Never"}:
        text = 'valid values: "OnFailure", "Never"'
        yield required("spec.template.spec.restartPolicy", text)
    if spec.get("selector") is not None:
        uid = (job.get("metadata") or {}).get("uid")
        own = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        if not spec.get("manualSelector") and spec["selector"] != own:
            yield invalid("spec.selector", spec["selector"], "`selector` not auto-generated")
        yield from template_labels(spec, "job")
    if old is not None and not before.get("suspend"):
        yield from immutable("spec.template", spec.get("template"), before.get("template"))


def _budget(budget: Object, _: Object | None) -> Iterator[Cause]:
    spec = budget.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")


def _role(role: Object, _: Object | None) -> Iterator[Cause]:
    for index, rule in enumerate(role.get("rules") or ()):
        path, urls = f"rules[{index}]", rule.get("nonResourceURLs")
        if not rule.get("verbs"):
            yield required(f"{path}.verbs", "verbs must contain at least one value")
        if urls and role.get("kind") == "Role":
            text = "namespaced rules cannot apply to non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, text)
        elif urls and (rule.get("apiGroups") or rule.get("resources")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, text)
        for field in ("apiGroups", "resources") if not urls else ():
            if not rule.get(field):
                yield required(f"{path}.{field}")


def _binding(binding: Object, old: Object | None) -> Iterator[Cause]:
    is_namespaced = binding.get("kind") == "RoleBinding"
    role, kinds = binding.get("roleRef") or {}, ("Role", "ClusterRole")
    yield from one_of(_RBAC)("roleRef.apiGroup", role.get("apiGroup", ""))
    yield from one_of(*kinds[not is_namespaced :])("roleRef.kind", role.get("kind", ""))
    for index, subject in enumerate(binding.get("subjects") or ()):
        path, kind = f"subjects[{index}]", subject.get("kind", "")
        if kind in {"ServiceAccount", "User", "Group"}:
            group = "" if kind == "ServiceAccount" else _RBAC
            yield from one_of(group)(f"{path}.apiGroup", subject.get("apiGroup", ""))
        if not is_namespaced and kind == "ServiceAccount" and not subject.get("namespace"):
            yield required(f"{path}.namespace")
    if old is not None and role != old.get("roleRef"):
        yield invalid("roleRef", role, "cannot change roleRef")


def _webhook(path: str, webhook: Object) -> Iterator[Cause]:
    if webhook.get("name", "").count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        yield invalid(f"{path}.name", webhook.get("name", ""), text)
    versions = webhook.get("admissionReviewVersions")
    if versions and not {"v1", "v1beta1"} & set(versions):
        text = "must include at least one of v1, v1beta1"
        yield invalid(f"{path}.admissionReviewVersions", versions, text)
    client = webhook.get("clientConfig") or {}
    url = client.get("url")
    if (url is None) == (client.get("service") is None):
        yield required(f"{path}.clientConfig", "exactly one of url or service is required")
    elif url is not None and urlsplit(url).scheme != "https":
        text = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        yield invalid(f"{path}.clientConfig.url", urlsplit(url).scheme, text)


CHECKS["webhook"] = _webhook
_RULES: dict[tuple[str, str], tuple[_Rule, ...]] = {
    ("", "Pod"): (check_pod,),
    ("", "Service"): (_service,),
    ("", "ConfigMap"): (_data("[]"),),
    ("", "Secret"): (_data("data"), _secret),
    ("", "PersistentVolumeClaim"): (_claim,),
    ("", "ResourceQuota"): (_fixed("spec.scopes"),),
    ("apps", "StatefulSet"): (_template("statefulset"), _stateful_set),
    ("apps", "Deployment"): (_template("deployment"), _deployment, _fixed("spec.selector")),
    ("apps", "ReplicaSet"): (_template("replicaset"), _fixed("spec.selector")),
    ("batch", "Job"): (_job, _fixed("spec.selector", "spec.completions", "spec.completionMode")),
    ("policy", "PodDisruptionBudget"): (_budget,),
    ("discovery.k8s.io", "EndpointSlice"): (_fixed("addressType"),),
    ("storage.k8s.io", "StorageClass"): (
        _fixed("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
    ),
    (_RBAC, "Role"): (_role,),
    (_RBAC, "ClusterRole"): (_role,),
    (_RBAC, "RoleBinding"): (_binding,),
    (_RBAC, "ClusterRoleBinding"): (_binding,),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (check_definition,),
}
