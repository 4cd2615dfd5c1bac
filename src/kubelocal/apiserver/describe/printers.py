"""The columns of `kubectl get`, for each built-in kind that has its own.

`columns.json` lists them by kind. `*` after a name: only in wide output; `#`: a number; after `=`
the path of the value (`#` before it: its length) and the text to show if it is missing. Every other
column is a function here, of its kind or of all kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from kubelocal.apiserver.describe.columns import Column, age
from kubelocal.apiserver.describe.pod_status import container_counts, shown_status
from kubelocal.apiserver.kinds.selectors import selector_text
from kubelocal.apiserver.storage.entries import Object, value_at

__all__ = ["Printer", "printer_of"]

Cell = Callable[[Object, datetime], Any]
Printer = tuple[tuple[Column, ...], Callable[[Object, datetime], list[Any]]]

_COLUMN = re.compile(r"([^*#=]+)(\*?)(#?)(?:=(#?)([^|]+)(?:\|(.*))?)?")


@cache
def printer_of(kind: str) -> Printer | None:
    """Return the columns of a kind and the functions of their cells, if it has its own."""
    texts: dict[str, list[str]] = msgspec.json.decode(
        files(__package__).joinpath("columns.json").read_bytes()
    )
    if kind not in texts:
        return None
    columns: list[Column] = []
    cells: list[Cell] = []
    for text in texts[kind]:
        found = _COLUMN.fullmatch(text)
        assert found is not None, text
        name, wide, number, counted, path, default = found.groups()
        columns.append(
            Column(
                name,
                "integer" if number else "string",
                format="name" if name == "Name" else "",
                priority=len(wide),
            )
        )
        if path:
            cells.append(_at(path, default, is_counted=bool(counted), is_number=bool(number)))
        else:
            cells.append(_CELLS.get(f"{kind} {name}") or _CELLS[name])
    return tuple(columns), lambda value, now: [cell(value, now) for cell in cells]


def _at(path: str, default: str | None, *, is_counted: bool, is_number: bool) -> Cell:
    missing: Any = default or ""
    if missing == "0":
        missing = 0

    def cell(value: Object, _now: datetime) -> Any:
        found = value_at(value, path)
        if is_counted:
            return len(found or ())
        if found is None or found == "":
            return missing
        return found if is_number or missing == 0 else str(found)

    return cell


def _created(value: Object, now: datetime) -> str:
    return age(value["metadata"].get("creationTimestamp"), now)


def _template(field: str) -> Cell:
    """Show the names or the images of a workload's containers."""

    def cell(value: Object, _now: datetime) -> str:
        containers = value_at(value, "spec.template.spec.containers") or ()
        return ",".join(one.get(field, "") for one in containers)

    return cell


def _selector(field: str) -> Cell:
    return lambda value, _now: selector_text(value_at(value, f"spec.{field}")) or "<none>"


def _service_selector(value: Object, _now: datetime) -> str:
    return selector_text({"matchLabels": value_at(value, "spec.selector")}) or "<none>"


def _ready_replicas(value: Object, _now: datetime) -> str:
    ready, wanted = (value_at(value, path) for path in ("status.readyReplicas", "spec.replicas"))
    return f"{ready or 0}/{wanted or 0}"


def _pod_ready(value: Object, _now: datetime) -> str:
    ready, total, _, _ = container_counts(value)
    return f"{ready}/{total}"


def _pod_restarts(value: Object, now: datetime) -> str:
    _, _, restarts, last = container_counts(value)
    return f"{restarts} ({age(last, now)} ago)" if restarts and last else str(restarts)


def _true_conditions(value: Object) -> set[str]:
    found = value_at(value, "status.conditions") or ()
    return {one["type"] for one in found if one.get("status") == "True"}


def _gates(value: Object, _now: datetime) -> str:
    gates = value_at(value, "spec.readinessGates") or ()
    true = _true_conditions(value)
    met = sum(gate["conditionType"] in true for gate in gates)
    return f"{met}/{len(gates)}" if gates else "<none>"


def _node_status(value: Object, _now: datetime) -> str:
    words = [
        "Ready" if one["status"] == "True" else "NotReady"
        for one in value_at(value, "status.conditions") or ()
        if one["type"] == "Ready"
    ] or ["Unknown"]
    return ",".join([*words, *["SchedulingDisabled"] * bool(value_at(value, "spec.unschedulable"))])


def _roles(value: Object, _now: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = value["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    return ",".join(roles) or "<none>"


def _node_address(kind: str) -> Cell:
    def cell(value: Object, _now: datetime) -> str:
        found = value_at(value, "status.addresses") or ()
        return next((str(one["address"]) for one in found if one["type"] == kind), "<none>")

    return cell


def _external(value: Object, _now: datetime) -> str:
    spec = value.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", "<none>"))
    if spec.get("type") == "LoadBalancer":
        points = value_at(value, "status.loadBalancer.ingress") or ()
        return ",".join(one.get("ip") or one.get("hostname", "") for one in points) or "<pending>"
    return ",".join(spec.get("externalIPs") or ()) or "<none>"


def _ports(value: Object, _now: datetime) -> str:
    shown = []
    for one in value_at(value, "spec.ports") or ():
        number = f"{one['port']}:{one['nodePort']}" if one.get("nodePort") else one["port"]
        shown.append(f"{number}/{one.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


def _job_status(value: Object, _now: datetime) -> str:
    true = _true_conditions(value)
    words = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"]
    found = [word for word in words if word in true]
    if found[:1] not in (["Complete"], ["Failed"]) and value["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return found[0] if found else "Running"


def _completions(value: Object, _now: datetime) -> str:
    spec, done = value.get("spec") or {}, value_at(value, "status.succeeded") or 0
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallel = spec.get("parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(value: Object, now: datetime) -> str:
    status = value.get("status") or {}
    end = status.get("completionTime")
    until = datetime.fromisoformat(end) if end else now
    return age(status["startTime"], until) if status.get("startTime") else ""


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(path: str) -> Cell:
    def cell(value: Object, _now: datetime) -> str:
        modes = value_at(value, path) or ()
        is_bound = path.startswith("spec.") or bool(value_at(value, "spec.volumeName"))
        return ",".join(short for mode, short in _MODES.items() if mode in modes and is_bound)

    return cell


def _phase(value: Object, _now: datetime) -> str:
    is_going = value["metadata"].get("deletionTimestamp")
    return "Terminating" if is_going else str(value_at(value, "status.phase") or "")


def _claimed(value: Object, _now: datetime) -> str:
    is_bound = value_at(value, "spec.volumeName")
    return str(value_at(value, "status.capacity.storage") or "") if is_bound else ""


def _claim(value: Object, _now: datetime) -> str:
    claim = value_at(value, "spec.claimRef") or {}
    return f"{claim.get('namespace', '')}/{claim['name']}" if claim.get("name") else ""


def _quota(*, limits: bool) -> Cell:
    def cell(value: Object, _now: datetime) -> str:
        hard, used = (value_at(value, f"status.{word}") or {} for word in ("hard", "used"))
        names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def _config_data(value: Object, _now: datetime) -> int:
    return len(value.get("data") or ()) + len(value.get("binaryData") or ())


def _few(found: Sequence[str], none: str) -> str:
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more or none


def _endpoints(value: Object, _now: datetime) -> str:
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in value.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return _few(found, "<none>")


def _slice_endpoints(value: Object, _now: datetime) -> str:
    points = value.get("endpoints") or ()
    return _few([ip for one in points for ip in one.get("addresses") or ()], "<unset>")


def _slice_ports(value: Object, _now: datetime) -> str:
    return _few([str(one.get("port", "*")) for one in value.get("ports") or ()], "<unset>")


def _first_seen(value: Object) -> str | None:
    return value.get("firstTimestamp") or value.get("eventTime")


def _last_seen(value: Object, now: datetime) -> str:
    series = value_at(value, "series.lastObservedTime")
    return age(series or value.get("lastTimestamp") or _first_seen(value), now)


def _about(value: Object, _now: datetime) -> str:
    about = value.get("involvedObject") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _source(value: Object, _now: datetime) -> str:
    source = value.get("source") or {}
    component = source.get("component") or value.get("reportingComponent", "")
    host = source.get("host") or value.get("reportingInstance", "")
    return f"{component}, {host}" if host else component


def _role(value: Object, _now: datetime) -> str:
    role = value.get("roleRef") or {}
    return f"{role.get('kind')}/{role.get('name')}"


def _subjects(kind: str) -> Cell:
    def cell(value: Object, _now: datetime) -> str:
        found = [one for one in value.get("subjects") or () if one["kind"] == kind]
        is_account = kind == "ServiceAccount"
        return ", ".join(
            f"{one.get('namespace', '')}/{one['name']}" if is_account else one["name"]
            for one in found
        )

    return cell


def _controller(value: Object, _now: datetime) -> str:
    for owner in value["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            kind = owner["kind"].lower() + (f".{group}" if group else "")
            return f"{kind}/{owner['name']}"
    return "<none>"


_CELLS: dict[str, Cell] = {
    "Age": _created,
    "Containers": _template("name"),
    "Images": _template("image"),
    "Selector": _selector("selector"),
    "Ready": _ready_replicas,
    "Pod Ready": _pod_ready,
    "Pod Status": lambda value, _: shown_status(value),
    "Restarts": _pod_restarts,
    "Readiness Gates": _gates,
    "Node Status": _node_status,
    "Roles": _roles,
    "Internal-IP": _node_address("InternalIP"),
    "Node External-IP": _node_address("ExternalIP"),
    "External-IP": _external,
    "Port(s)": _ports,
    "Service Selector": _service_selector,
    "Job Status": _job_status,
    "Completions": _completions,
    "Duration": _duration,
    "Status": _phase,
    "PersistentVolume Access Modes": _modes("spec.accessModes"),
    "Access Modes": _modes("status.accessModes"),
    "Capacity": _claimed,
    "Claim": _claim,
    "Request": _quota(limits=False),
    "Limit": _quota(limits=True),
    "Data": _config_data,
    "Endpoints": _endpoints,
    "EndpointSlice Endpoints": _slice_endpoints,
    "Ports": _slice_ports,
    "Last Seen": _last_seen,
    "First Seen": lambda value, now: age(_first_seen(value), now),
    "Object": _about,
    "Source": _source,
    "Message": lambda value, _: value.get("message", "").strip(),
    "Count": lambda value, _: value_at(value, "series.count") or value.get("count") or 1,
    "Role": _role,
    "Users": _subjects("User"),
    "Groups": _subjects("Group"),
    "ServiceAccounts": _subjects("ServiceAccount"),
    "Controller": _controller,
    "Pod-Selector": _selector("podSelector"),
    "AllowVolumeExpansion": lambda value, _: bool(value.get("allowVolumeExpansion")),
}
