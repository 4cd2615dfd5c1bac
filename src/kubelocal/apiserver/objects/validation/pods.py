"""What Go checks in pods and in the templates of pods."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kubelocal.apiserver.causes import (
    Cause,
    duplicate,
    forbidden,
    go_quote,
    invalid,
    required,
)
from kubelocal.apiserver.kinds.names import label_problem
from kubelocal.apiserver.kinds.quantities import parse_quantity
from kubelocal.apiserver.objects.validation.syntax import (
    at_least,
    choice,
    dns_label,
    dns_subdomain,
    labels,
    port_name,
    port_number,
    quantity,
    selector,
    target_port,
)

__all__ = ["check_pod", "check_pod_spec"]

_ADDED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
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
    """Check a pod, and on update that only what may change does."""
    spec = pod.get("spec") or {}
    if old is not None and spec == (old.get("spec") or {}):
        return  # it was checked when it came
    yield from check_pod_spec("spec", spec)
    if old is not None:
        yield from _check_change(spec, old.get("spec") or {})


def _check_change(spec: dict[str, Any], old: dict[str, Any]) -> Iterator[Cause]:
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or ()) != len(old.get(field) or ()):
            text = "pod updates may not add or remove containers"
            yield forbidden(f"spec.{field}", text)
            return
    yield from _check_added_tolerations(spec, old)
    if _fixed(spec, old) != _fixed(old, old):
        yield forbidden("spec", _UPDATE)


def _fixed(spec: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Leave out of a spec what may change."""
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


def _check_added_tolerations(spec: dict[str, Any], old: dict[str, Any]) -> Iterator[Cause]:
    """What the server itself added may go: it is added again."""
    kept = spec.get("tolerations") or []
    owned = [
        toleration
        for toleration in old.get("tolerations") or ()
        if toleration.get("key") not in _ADDED
    ]
    if any(toleration not in kept for toleration in owned):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", text)


def check_pod_spec(
    path: str, spec: dict[str, Any], claims: frozenset[str] = frozenset()
) -> Iterator[Cause]:
    """Check what a pod is to run; `claims` are volumes that its workload will add."""
    volumes = spec.get("volumes") or []
    yield from _check_volumes(f"{path}.volumes", volumes)
    known = {volume.get("name") for volume in volumes} | claims
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    yield from _check_containers(path, spec, known)
    policies = ("Always", "OnFailure", "Never")
    yield from choice(f"{path}.restartPolicy", spec.get("restartPolicy"), policies)
    dns = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    yield from choice(f"{path}.dnsPolicy", spec.get("dnsPolicy"), dns)
    yield from labels(f"{path}.nodeSelector", spec.get("nodeSelector"))
    yield from _check_security(f"{path}.securityContext", spec.get("securityContext") or {})
    yield from _check_names(path, spec)
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _check_toleration(f"{path}.tolerations[{index}]", toleration)
    yield from _check_affinity(f"{path}.affinity", spec.get("affinity") or {})
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _check_spread(f"{path}.topologySpreadConstraints[{index}]", constraint)


def _check_names(path: str, spec: dict[str, Any]) -> Iterator[Cause]:
    if spec.get("serviceAccountName"):
        yield from dns_subdomain(f"{path}.serviceAccountName", spec["serviceAccountName"])
    for field in ("hostname", "subdomain"):
        value = spec.get(field)
        if value and "." in value:
            yield invalid(f"{path}.{field}", value, "must not contain dots")
        elif value:
            yield from dns_label(f"{path}.{field}", value)
    deadline = spec.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and not 0 < deadline < 2**31:
        text = "must be between 1 and 2147483647, inclusive"
        yield invalid(f"{path}.activeDeadlineSeconds", deadline, text)


def _check_security(path: str, context: dict[str, Any]) -> Iterator[Cause]:
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        value = context.get(field)
        if isinstance(value, int) and not 0 <= value < 2**31:
            text = "must be between 0 and 2147483647, inclusive"
            yield invalid(f"{path}.{field}", value, text)


def _check_volumes(path: str, volumes: list[dict[str, Any]]) -> Iterator[Cause]:
    seen = set()
    for index, volume in enumerate(volumes):
        place, name = f"{path}[{index}]", volume.get("name", "")
        sources = [field for field in volume if field != "name"]
        for extra in sources[1:]:
            text = "may not specify more than 1 volume type"
            yield forbidden(f"{place}.{extra}", text)
        for field in sources[:1]:
            wanted = _VOLUME_NAMES.get(field)
            if wanted and not (volume[field] or {}).get(wanted):
                yield required(f"{place}.{field}.{wanted}")
        if not name:
            yield required(f"{place}.name")
            continue
        yield from dns_label(f"{place}.name", name)
        if name in seen:
            yield duplicate(f"{place}.name", name)
        seen.add(name)


def _check_containers(path: str, spec: dict[str, Any], volumes: set[Any]) -> Iterator[Cause]:
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            place = f"{path}.{field}[{index}]"
            yield from _check_container(place, container, volumes)
            name = container.get("name", "")
            if name and name in seen:
                yield duplicate(f"{place}.name", name)
            seen.add(name)


def _check_container(path: str, container: dict[str, Any], volumes: set[Any]) -> Iterator[Cause]:
    name, image = container.get("name", ""), container.get("image", "")
    if name:
        yield from dns_label(f"{path}.name", name)
    else:
        yield required(f"{path}.name")
    if not image:
        yield required(f"{path}.image")
    elif image.strip() != image:
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    for handler, threshold in (("livenessProbe", 1), ("startupProbe", 1), ("readinessProbe", 0)):
        yield from _check_probe(f"{path}.{handler}", container.get(handler), threshold)
    for moment, handler_value in (container.get("lifecycle") or {}).items():
        if moment in {"postStart", "preStop"}:
            yield from _check_handler(f"{path}.lifecycle.{moment}", handler_value)
    yield from _check_ports(f"{path}.ports", container.get("ports") or [])
    for index, variable in enumerate(container.get("env") or ()):
        if "valueFrom" not in variable and _VARIABLE.fullmatch(variable.get("name") or ""):
            continue  # as nearly all are
        yield from _check_variable(f"{path}.env[{index}]", variable)
    yield from _check_mounts(f"{path}.volumeMounts", container.get("volumeMounts") or [], volumes)
    policies = ("Always", "IfNotPresent", "Never")
    yield from choice(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), policies)
    ends = ("File", "FallbackToLogsOnError")
    place = f"{path}.terminationMessagePolicy"
    yield from choice(place, container.get("terminationMessagePolicy"), ends)
    yield from _check_resources(f"{path}.resources", container.get("resources") or {})
    yield from _check_security(f"{path}.securityContext", container.get("securityContext") or {})


def _check_ports(path: str, ports: list[dict[str, Any]]) -> Iterator[Cause]:
    seen = set()
    for index, port in enumerate(ports):
        place, name, number = f"{path}[{index}]", port.get("name"), port.get("containerPort")
        if name:
            yield from port_name(f"{place}.name", name)
            if name in seen:
                yield duplicate(f"{place}.name", name)
            seen.add(name)
        if number:
            yield from port_number(f"{place}.containerPort", number)
        else:
            yield required(f"{place}.containerPort")
        if port.get("hostPort"):
            yield from port_number(f"{place}.hostPort", port["hostPort"])
        yield from choice(f"{place}.protocol", port.get("protocol"), _PROTOCOLS)


def _check_probe(path: str, probe: dict[str, Any] | None, threshold: int) -> Iterator[Cause]:
    if probe is None:
        return
    yield from _check_handler(path, probe)
    for field in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        if (probe.get(field) or 0) < 0:
            yield from at_least(f"{path}.{field}", probe[field])
    if threshold and probe.get("successThreshold", 1) not in {threshold, -1}:
        yield invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def _check_handler(path: str, handler: dict[str, Any] | None) -> Iterator[Cause]:
    found = [name for name in _HANDLERS if name in (handler or {})]
    if not found:
        yield required(path, "must specify a handler type")
        return
    assert handler is not None
    for extra in found[1:]:
        yield forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    kind, action = found[0], handler[found[0]] or {}
    if kind == "exec" and not action.get("command"):
        yield required(f"{path}.exec.command")
    elif kind in {"httpGet", "tcpSocket", "grpc"}:
        yield from target_port(f"{path}.{kind}.port", action.get("port", 0))


def _check_variable(path: str, variable: dict[str, Any]) -> Iterator[Cause]:
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
        return
    if not source:
        names = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        yield invalid(place, "", f"must specify one of: {names}")
    elif len(source) > 1:
        yield invalid(place, "", "may not have more than one field specified at a time")
    yield from _check_source(place, source)


def _check_source(place: str, source: dict[str, Any]) -> Iterator[Cause]:
    for kind in ("configMapKeyRef", "secretKeyRef"):
        for field in ("name", "key"):
            if kind in source and not source[kind].get(field):
                yield required(f"{place}.{kind}.{field}")
    field_path = (source.get("fieldRef") or {}).get("fieldPath")
    if "fieldRef" in source and not field_path:
        yield required(f"{place}.fieldRef.fieldPath")
    elif field_path and not _FIELDS.fullmatch(field_path):
        text = f"error converting fieldPath: field label not supported: {field_path}"
        yield invalid(f"{place}.fieldRef.fieldPath", field_path, text)


def _check_mounts(path: str, mounts: list[dict[str, Any]], volumes: set[Any]) -> Iterator[Cause]:
    seen = set()
    for index, mount in enumerate(mounts):
        place, name, target = f"{path}[{index}]", mount.get("name"), mount.get("mountPath")
        if not name:
            yield required(f"{place}.name")
        elif name not in volumes:
            message = f"Not found: {go_quote(name)}"
            yield Cause(f"{place}.name", "FieldValueNotFound", message)
        if not target:
            yield required(f"{place}.mountPath")
        elif target in seen:
            yield invalid(f"{place}.mountPath", target, "must be unique")
        seen.add(target)


def _check_resources(path: str, resources: dict[str, Any]) -> Iterator[Cause]:
    limits = resources.get("limits") or {}
    for field in ("limits", "requests"):
        for name, amount in (resources.get(field) or {}).items():
            place = f"{path}.{field}[{name}]"
            if "/" not in name and not _STANDARD.fullmatch(name):
                yield invalid(place, name, "must be a standard resource type or fully qualified")
                yield invalid(place, name, "must be a standard resource for containers")
            yield from quantity(place, amount)
            asked, most = parse_quantity(str(amount)), parse_quantity(str(limits.get(name, "")))
            if field == "requests" and asked is not None and most is not None and asked > most:
                text = f"must be less than or equal to {name} limit of {limits[name]}"
                yield invalid(f"{path}.requests", str(amount), text)


def _check_toleration(path: str, toleration: dict[str, Any]) -> Iterator[Cause]:
    operator, value = toleration.get("operator", "Equal"), toleration.get("value")
    if operator == "Exists" and value:
        text = "value must be empty when `operator` is 'Exists'"
        yield invalid(f"{path}.operator", value, text)
    elif operator not in {"Exists", "Equal"}:
        yield from choice(f"{path}.operator", operator, ("Equal", "Exists"))
    if not toleration.get("key") and operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and '
        yield invalid(f"{path}.operator", operator, f'{text}all keys"')
    effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
    yield from choice(f"{path}.effect", toleration.get("effect"), effects)


def _check_affinity(path: str, affinity: dict[str, Any]) -> Iterator[Cause]:
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        hard, soft = (
            f"{mode}DuringSchedulingIgnoredDuringExecution" for mode in ("required", "preferred")
        )
        for index, term in enumerate(found.get(hard) or ()):
            yield from _check_term(f"{path}.{kind}.{hard}[{index}]", term)
        for index, weighted in enumerate(found.get(soft) or ()):
            place, weight = f"{path}.{kind}.{soft}[{index}]", weighted.get("weight", 0)
            if not 0 < weight < 101:
                yield invalid(f"{place}.weight", weight, "must be in the range 1-100")
            yield from _check_term(f"{place}.podAffinityTerm", weighted.get("podAffinityTerm", {}))


def _check_term(path: str, term: dict[str, Any]) -> Iterator[Cause]:
    yield from selector(f"{path}.labelSelector", term.get("labelSelector"))
    key = term.get("topologyKey", "")
    place = f"{path}.topologyKey"
    if not key:
        yield required(place, "can not be empty")
        yield invalid(place, key, "name part must be non-empty")
    problem = label_problem(key or "-")
    if problem:
        yield invalid(place, key, problem)


def _check_spread(path: str, constraint: dict[str, Any]) -> Iterator[Cause]:
    skew = constraint.get("maxSkew", 0)
    if skew <= 0:
        yield invalid(f"{path}.maxSkew", skew, "must be greater than zero")
    if not constraint.get("topologyKey"):
        yield required(f"{path}.topologyKey", "can not be empty")
    ways = ("DoNotSchedule", "ScheduleAnyway")
    yield from choice(f"{path}.whenUnsatisfiable", constraint.get("whenUnsatisfiable", ""), ways)
    yield from selector(f"{path}.labelSelector", constraint.get("labelSelector"))
