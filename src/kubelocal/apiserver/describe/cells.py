"""What `kubectl get` shows in the cells of each built-in kind."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kubelocal.apiserver.describe.columns import age
from kubelocal.apiserver.describe.pod_status import container_counts, shown_status
from kubelocal.apiserver.storage.entries import Object

__all__ = [
    "binding",
    "budget",
    "claim",
    "created",
    "deployment",
    "endpoint_slice",
    "endpoints",
    "event",
    "job",
    "node",
    "pod",
    "quota",
    "replica_set",
    "revision",
    "selector",
    "service",
    "spec_of",
    "stateful_set",
    "status_of",
    "storage_class",
    "volume",
    "webhooks",
]


def created(value: Object, now: datetime) -> str:
    """Return how old an object is."""
    return age(value["metadata"].get("creationTimestamp"), now)


def spec_of(value: Object) -> Object:
    """Return the spec, empty if there is none."""
    return value.get("spec") or {}


def status_of(value: Object) -> Object:
    """Return the status, empty if there is none."""
    return value.get("status") or {}


def _labels(selector: Object | None) -> str:
    pairs = [f"{key}={item}" for key, item in sorted((selector or {}).items())]
    return ",".join(pairs) or "<none>"


def selector(selector: Object | None) -> str:
    """Return a LabelSelector as one text."""
    if selector is None:
        return "<none>"
    parts = [f"{key}={item}" for key, item in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or ():
        values = ",".join(sorted(one.get("values") or ()))
        match one["operator"]:
            case "In":
                parts.append(f"{one['key']} in ({values})")
            case "NotIn":
                parts.append(f"{one['key']} notin ({values})")
            case "Exists":
                parts.append(one["key"])
            case _:
                parts.append(f"!{one['key']}")
    return ",".join(sorted(parts)) or "<none>"


def _template(value: Object) -> tuple[str, str]:
    """Return the names and the images of a workload's containers."""
    containers = ((spec_of(value).get("template") or {}).get("spec") or {}).get("containers") or ()
    return ",".join(one["name"] for one in containers), ",".join(
        one.get("image", "") for one in containers
    )


def pod(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a pod."""
    spec, status = spec_of(value), status_of(value)
    ready, total, restarts, last = container_counts(value)
    text = str(restarts)
    if restarts and last:
        text = f"{restarts} ({age(last, now)} ago)"
    gates = spec.get("readinessGates") or ()
    true = {one["type"] for one in status.get("conditions") or () if one.get("status") == "True"}
    met = sum(gate["conditionType"] in true for gate in gates)
    ips = status.get("podIPs") or ()
    return [
        f"{ready}/{total}",
        shown_status(value),
        text,
        created(value, now),
        (ips[0]["ip"] if ips else status.get("podIP")) or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        f"{met}/{len(gates)}" if gates else "<none>",
    ]


def node(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a node."""
    status = status_of(value)
    words = [
        "Ready" if one["status"] == "True" else "NotReady"
        for one in status.get("conditions") or ()
        if one["type"] == "Ready"
    ] or ["Unknown"]
    if spec_of(value).get("unschedulable"):
        words.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    labels = value["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    addresses = {one["type"]: one["address"] for one in status.get("addresses") or ()}
    facts = status.get("nodeInfo") or {}
    return [
        ",".join(words),
        ",".join(roles) or "<none>",
        created(value, now),
        facts.get("kubeletVersion", ""),
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        facts.get("osImage") or "<unknown>",
        facts.get("kernelVersion") or "<unknown>",
        facts.get("containerRuntimeVersion") or "<unknown>",
    ]


def service(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a service."""
    spec = spec_of(value)
    kind = spec.get("type", "ClusterIP")
    ports = ",".join(
        f"{one['port']}:{one['nodePort']}/{one.get('protocol', 'TCP')}"
        if one.get("nodePort")
        else f"{one['port']}/{one.get('protocol', 'TCP')}"
        for one in spec.get("ports") or ()
    )
    external = ",".join(spec.get("externalIPs") or ()) or "<none>"
    if kind == "ExternalName":
        external = spec.get("externalName", "<none>")
    elif kind == "LoadBalancer":
        points = (status_of(value).get("loadBalancer") or {}).get("ingress") or ()
        external = ",".join(one.get("ip") or one.get("hostname", "") for one in points)
        external = external or "<pending>"
    return [
        kind,
        spec.get("clusterIP") or "<none>",
        external,
        ports or "<none>",
        created(value, now),
        _labels(spec.get("selector")),
    ]


def deployment(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a deployment."""
    spec, status = spec_of(value), status_of(value)
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        created(value, now),
        *_template(value),
        selector(spec.get("selector")),
    ]


def replica_set(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a replica set."""
    spec, status = spec_of(value), status_of(value)
    return [
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        created(value, now),
        *_template(value),
        selector(spec.get("selector")),
    ]


def stateful_set(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a stateful set."""
    ready = f"{status_of(value).get('readyReplicas', 0)}/{spec_of(value).get('replicas', 0)}"
    return [ready, created(value, now), *_template(value)]


def _job_state(value: Object) -> str:
    true = {
        one["type"] for one in status_of(value).get("conditions") or () if one["status"] == "True"
    }
    if "Complete" in true:
        return "Complete"
    if "Failed" in true:
        return "Failed"
    if value["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind, word in (
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if kind in true:
            return word
    return "Running"


def job(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a job."""
    spec, status = spec_of(value), status_of(value)
    done = status.get("succeeded", 0)
    wanted = spec.get("completions")
    if wanted is None:
        parallel = spec.get("parallelism") or 0
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    else:
        completions = f"{done}/{wanted}"
    span = ""
    if status.get("startTime"):
        end = status.get("completionTime")
        until = datetime.fromisoformat(end) if end else now
        span = age(status["startTime"], until)
    return [
        _job_state(value),
        completions,
        span,
        created(value, now),
        *_template(value),
        selector(spec.get("selector")),
    ]


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: Any) -> str:
    found = [short for mode, short in _MODES.items() if mode in (modes or ())]
    return ",".join(found)


def claim(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a claim."""
    spec, status = spec_of(value), status_of(value)
    phase = status.get("phase", "")
    if value["metadata"].get("deletionTimestamp"):
        phase = "Terminating"
    volume = spec.get("volumeName", "")
    return [
        phase,
        volume,
        (status.get("capacity") or {}).get("storage", "") if volume else "",
        _modes(status.get("accessModes")) if volume else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        created(value, now),
        spec.get("volumeMode") or "<unset>",
    ]


def volume(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a volume."""
    spec, status = spec_of(value), status_of(value)
    claim = spec.get("claimRef") or {}
    phase = status.get("phase", "")
    if value["metadata"].get("deletionTimestamp"):
        phase = "Terminating"
    return [
        (spec.get("capacity") or {}).get("storage", ""),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase,
        f"{claim.get('namespace', '')}/{claim['name']}" if claim.get("name") else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        created(value, now),
        spec.get("volumeMode") or "<unset>",
    ]


def quota(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a quota."""
    status = status_of(value)
    hard, used = status.get("hard") or {}, status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        text = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits.") else requests).append(text)
    return [", ".join(requests), ", ".join(limits), created(value, now)]


def endpoints(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a endpoints."""
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in value.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    text = ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")
    return [text or "<none>", created(value, now)]


def endpoint_slice(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a slice of endpoints."""
    ports = [str(one.get("port", "*")) for one in value.get("ports") or ()]
    found = [ip for one in value.get("endpoints") or () for ip in one.get("addresses") or ()]
    shown = ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")
    listed = ",".join(ports[:3]) + (f" + {len(ports) - 3} more..." if len(ports) > 3 else "")
    unset = "<unset>"
    return [value.get("addressType", ""), listed or unset, shown or unset, created(value, now)]


def event(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a event."""
    about = value.get("involvedObject") or {}
    series = value.get("series") or {}
    first = value.get("firstTimestamp") or value.get("eventTime")
    last = series.get("lastObservedTime") or value.get("lastTimestamp") or first
    source = value.get("source") or {}
    component = source.get("component") or value.get("reportingComponent", "")
    host = source.get("host") or value.get("reportingInstance", "")
    return [
        age(last, now),
        value.get("type", ""),
        value.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        value.get("message", "").strip(),
        age(first, now),
        series.get("count") or value.get("count") or 1,
        value["metadata"]["name"],
    ]


def budget(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a budget."""
    spec = spec_of(value)
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return [
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        status_of(value).get("disruptionsAllowed", 0),
        created(value, now),
    ]


def binding(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a binding."""
    role = value.get("roleRef") or {}
    names: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for one in value.get("subjects") or ():
        name = one["name"]
        if one["kind"] == "ServiceAccount":
            name = f"{one.get('namespace', '')}/{name}"
        names.setdefault(one["kind"], []).append(name)
    return [
        f"{role.get('kind')}/{role.get('name')}",
        created(value, now),
        *(", ".join(names[kind]) for kind in ("User", "Group", "ServiceAccount")),
    ]


def revision(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a revision."""
    owners = value["metadata"].get("ownerReferences") or ()
    owner = next((one for one in owners if one.get("controller")), None)
    text = "<none>"
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        kind = owner["kind"].lower() + (f".{group}" if group else "")
        text = f"{kind}/{owner['name']}"
    return [text, value.get("revision", 0), created(value, now)]


def storage_class(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a class."""
    return [
        value.get("provisioner", ""),
        value.get("reclaimPolicy", "Delete"),
        value.get("volumeBindingMode") or "Immediate",
        bool(value.get("allowVolumeExpansion")),
        created(value, now),
    ]


def webhooks(value: Object, now: datetime) -> list[Any]:
    """Return the cells of a webhooks."""
    return [len(value.get("webhooks") or ()), created(value, now)]
