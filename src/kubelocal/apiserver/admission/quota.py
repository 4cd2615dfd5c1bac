"""ResourceQuota: limits of a namespace, checked whenever an object is created in it.

Usage is counted from the store each time, and only where there is a quota at all. Quotas with
scopes are not enforced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from kubelocal.apiserver.core import Core
from kubelocal.apiserver.errors import forbidden
from kubelocal.apiserver.kinds.quantities import parse_quantity
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.storage.entries import Object, decode

__all__ = ["check_quota_of_new"]

_COUNTED = frozenset({"pods", "services", "secrets", "configmaps", "persistentvolumeclaims"})
_COMPUTE = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}
_STORAGE = "requests.storage"
Measure = Callable[[Object], Fraction]


def check_quota_of_new(core: Core, resource: Resource, new: Object) -> None:
    """Refuse an object that would exceed a quota of its namespace."""
    if not resource.namespaced or not core.store.collection("resourcequotas").entries:
        return
    namespace = new["metadata"]["namespace"]
    for quota in _objects(core, "resourcequotas", namespace):
        spec = quota.get("spec") or {}
        measures = {
            name: (measure, Fraction(parse_quantity(str(limit)) or 0), str(limit))
            for name, limit in sorted((spec.get("hard") or {}).items())
            if (measure := _measure(name, resource)) is not None
        }
        if measures and not spec.get("scopes") and not spec.get("scopeSelector"):
            _check(core, resource, new, quota["metadata"]["name"], measures)


def _check(
    core: Core,
    resource: Resource,
    new: Object,
    quota: str,
    measures: Mapping[str, tuple[Measure, Fraction, str]],
) -> None:
    name = new["metadata"]["name"]
    unsaid = [one for one in measures if one in _COMPUTE and not _says(new, one)]
    if unsaid:
        why = f"failed quota: {quota}: must specify {','.join(unsaid)}"
        raise forbidden(resource.group, resource.plural, name, why)
    present = list(_objects(core, resource.key, new["metadata"]["namespace"]))
    exceeded: dict[str, tuple[str, str, str]] = {}
    for what, (measure, limit, said) in measures.items():
        asked = measure(new)
        used = sum((measure(one) for one in present), Fraction(0))
        if asked and used + asked > limit:
            exceeded[what] = (_text(asked, said), _text(used, said), said)
    if exceeded:
        parts = [",".join(f"{what}={exceeded[what][i]}" for what in exceeded) for i in range(3)]
        why = (
            f"exceeded quota: {quota}, requested: {parts[0]}, used: {parts[1]}, limited: {parts[2]}"
        )
        raise forbidden(resource.group, resource.plural, name, why)


def _measure(name: str, resource: Resource) -> Measure | None:
    """Return how much of a quota's resource one object uses, if any."""
    full = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    if name == f"count/{full}":
        return lambda _: Fraction(1)
    if name == full and name in _COUNTED:
        return _is_running if name == "pods" else lambda _: Fraction(1)
    if resource.key == "pods" and name in _COMPUTE:
        return lambda pod: _is_running(pod) * _of_pod(pod, *_COMPUTE[name])
    if resource.key == "persistentvolumeclaims" and name == _STORAGE:
        return _of_claim
    return None


def _is_running(pod: Object) -> Fraction:
    ended = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
    return Fraction(0 if ended else 1)


def _amounts(pod: Object, kind: str, resource: str) -> Iterator[Fraction]:
    for container in pod["spec"].get("containers") or ():
        said = ((container.get("resources") or {}).get(kind) or {}).get(resource)
        if said is not None:
            yield Fraction(parse_quantity(str(said)) or 0)


def _of_pod(pod: Object, kind: str, resource: str) -> Fraction:
    return sum(_amounts(pod, kind, resource), Fraction(0))


def _says(pod: Object, name: str) -> bool:
    count = len(pod["spec"].get("containers") or ())
    return sum(1 for _ in _amounts(pod, *_COMPUTE[name])) == count


def _of_claim(claim: Object) -> Fraction:
    asked = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0")
    return Fraction(parse_quantity(str(asked)) or 0)


def _objects(core: Core, collection: str, namespace: str) -> Iterator[dict[str, Any]]:
    for entry in core.store.collection(collection).entries.values():
        if entry.namespace == namespace:
            yield decode(entry.body)


def _text(amount: Fraction, like: str) -> str:
    """Format an amount in the unit of its limit."""
    unit = like.lstrip("+-.0123456789")
    size = parse_quantity(f"1{unit}") if unit else None
    shown = amount / size if size else amount
    if shown.denominator == 1:
        return f"{shown.numerator}{unit if size else ''}"
    return f"{int(amount * 1000)}m" if not unit else str(int(amount))
