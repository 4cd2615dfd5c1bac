"""Checks of pods and of pod templates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kubelocal.apiserver.causes import Cause, duplicate, forbidden, go_quote, invalid, required
from kubelocal.apiserver.kinds.quantities import parse_quantity
from kubelocal.apiserver.objects.validation.checks import CHECKS, amounts, find, target_port

__all__ = ["check_pod", "check_pod_spec"]

_ADDED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_STANDARD = re.compile(r"cpu|memory|ephemeral-storage|hugepages-.+")
_FIELDS = re.compile(
    r"metadata\.(name|namespace|uid|labels(\['.*'\])?|annotations(\['.*'\])?)"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIP|hostIPs|podIP|podIPs)"
)
_VOLUME_NAMES = {
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "configMap": "name",
    "hostPath": "path",
}
_VARIABLE = re.compile(r"[ -<>-~]+")
_UPDATE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)


def check_pod(pod: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a pod, and on update that only mutable fields change."""
    spec, before = pod.get("spec") or {}, (old or {}).get("spec") or {}
    if old is not None and spec == before:
        return  # it was checked when it was created
    yield from check_pod_spec("spec", spec)
    if old is None:
        return
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or ()) != len(before.get(field) or ()):
            yield forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    kept = spec.get("tolerations") or []
    for toleration in before.get("tolerations") or ():
        if toleration not in kept and toleration.get("key") not in _ADDED:
            text = "existing toleration can not be modified except its tolerationSeconds"
            yield forbidden("spec.tolerations", text)
    if _fixed(spec, before) != _fixed(before, before):
        yield forbidden("spec", _UPDATE)


def _fixed(spec: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Return a spec without its mutable fields."""
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if spec.get("terminationGracePeriodSeconds") == 1:
        before = old.get("terminationGracePeriodSeconds")
        if before is not None and before < 0:
            free.add("terminationGracePeriodSeconds")
    result = {name: value for name, value in spec.items() if name not in free}
    for field in ("containers", "initContainers"):
        result[field] = [
            {name: value for name, value in container.items() if name != "image"}
            for container in spec.get(field) or ()
        ]
    return result


def check_pod_spec(
    path: str, spec: dict[str, Any], claims: frozenset[str] = frozenset()
) -> Iterator[Cause]:
    """Check the spec of a pod; `claims` are volumes that its workload will add."""
    yield from find("#pod", path, spec)
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()} | claims
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            place, name = f"{path}.{field}[{index}]", container.get("name", "")
            if name and name in seen:
                yield duplicate(f"{place}.name", name)
            seen.add(name)
            mounts = container.get("volumeMounts") or []
            yield from _check_mounts(f"{place}.volumeMounts", mounts, volumes)


def _check_mounts(path: str, mounts: list[dict[str, Any]], volumes: set[Any]) -> Iterator[Cause]:
    seen = set()
    for index, mount in enumerate(mounts):
        place, name, target = f"{path}[{index}]", mount.get("name"), mount.get("mountPath")
        if name and name not in volumes:
            yield Cause(f"{place}.name", "FieldValueNotFound", f"Not found: {go_quote(name)}")
        if target in seen:
            yield invalid(f"{place}.mountPath", target, "must be unique")
        seen.add(target)


def _hostname(path: str, value: str) -> Iterator[Cause]:
    if "." in value:
        yield invalid(path, value, "must not contain dots")
    else:
        yield from find("label", path, value)


def _volume(path: str, volume: dict[str, Any]) -> Iterator[Cause]:
    sources = [field for field in volume if field != "name"]
    for extra in sources[1:]:
        yield forbidden(f"{path}.{extra}", "may not specify more than 1 volume type")
    for field in sources[:1]:
        wanted = _VOLUME_NAMES.get(field)
        if wanted and not (volume[field] or {}).get(wanted):
            yield required(f"{path}.{field}.{wanted}")


def _image(path: str, image: str) -> Iterator[Cause]:
    if image.strip() != image:
        yield invalid(path, image, "must not have leading or trailing whitespace")


def _once(path: str, count: int) -> Iterator[Cause]:
    if count not in {1, -1}:
        yield invalid(path, count, "must be 1")


def _handler(path: str, handler: dict[str, Any]) -> Iterator[Cause]:
    found = [name for name in _HANDLERS if name in handler]
    if not found:
        yield required(path, "must specify a handler type")
        return
    for extra in found[1:]:
        yield forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    kind, action = found[0], handler[found[0]] or {}
    if kind == "exec" and not action.get("command"):
        yield required(f"{path}.exec.command")
    elif kind in {"httpGet", "tcpSocket", "grpc"}:
        yield from target_port(f"{path}.{kind}.port", action.get("port", 0))


def _variable(path: str, variable: dict[str, Any]) -> Iterator[Cause]:
    name, source = variable.get("name", ""), variable.get("valueFrom")
    if not name:
        yield required(f"{path}.name")
    elif not _VARIABLE.fullmatch(name):
        text = (
            "a valid environment variable name must consist only of printable ASCII characters "
            "other than '='"
        )
        yield invalid(f"{path}.name", name, text)
    if source is None:
        return
    place = f"{path}.valueFrom"
    if variable.get("value"):
        yield invalid(place, "", "may not be specified when `value` is not empty")
    elif len(source) != 1:
        names = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        yield invalid(place, "", f"must specify one of: {names}")
    else:
        yield from find("#source", place, source)


def _field_path(path: str, field: str) -> Iterator[Cause]:
    if not _FIELDS.fullmatch(field):
        text = f"error converting fieldPath: field label not supported: {field}"
        yield invalid(path, field, text)


def _resources(path: str, resources: dict[str, Any]) -> Iterator[Cause]:
    limits = resources.get("limits") or {}
    for field in ("limits", "requests"):
        yield from amounts(f"{path}.{field}", resources.get(field) or {})
        for name, value in (resources.get(field) or {}).items():
            place = f"{path}.{field}[{name}]"
            if "/" not in name and not _STANDARD.fullmatch(name):
                yield invalid(place, name, "must be a standard resource type or fully qualified")
            asked, most = parse_quantity(str(value)), parse_quantity(str(limits.get(name, "")))
            if field == "requests" and asked is not None and most is not None and asked > most:
                text = f"must be less than or equal to {name} limit of {limits[name]}"
                yield invalid(f"{path}.requests", str(value), text)


def _toleration(path: str, toleration: dict[str, Any]) -> Iterator[Cause]:
    operator, value = toleration.get("operator", "Equal"), toleration.get("value")
    if operator == "Exists" and value:
        text = "value must be empty when `operator` is 'Exists'"
        yield invalid(f"{path}.operator", value, text)
    if not toleration.get("key") and operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and '
        yield invalid(f"{path}.operator", operator, f'{text}all keys"')


CHECKS |= {
    "field path": _field_path,
    "handler": _handler,
    "hostname": _hostname,
    "image": _image,
    "once": _once,
    "resources": _resources,
    "toleration": _toleration,
    "variable": _variable,
    "volume": _volume,
}
