"""EndpointSlice and Endpoints: the addresses behind a Service, and which are ready."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kubelocal.controllers.engine.pods import is_deleting, is_ready
from kubelocal.controllers.engine.view import (
    Change,
    Changes,
    Create,
    Delete,
    Obj,
    Update,
    View,
    controller_of,
    controller_reference,
)

__all__ = ["plan"]

_SERVICE_NAME = "kubernetes.io/service-name"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_MANAGER = "endpointslice-controller.k8s.io"


def plan(view: View, namespace: str, name: str, now: datetime) -> Changes:  # noqa: ARG001 - one shape for all controllers
    """Return the changes to the endpoints of one Service."""
    service = view.get("services", namespace, name)
    slices = [
        s
        for s in view.list("endpointslices", namespace)
        if _labels(s).get(_SERVICE_NAME) == name and _labels(s).get(_MANAGED_BY) == _MANAGER
    ]
    endpoints = view.get("endpoints", namespace, name)
    if service is None or is_deleting(service):
        left = [_delete("endpointslices", s) for s in slices]
        if endpoints is not None and service is None:
            left.append(_delete("endpoints", endpoints))
        return Changes(tuple(left))
    selector = service["spec"].get("selector")
    if not selector or service["spec"].get("type") == "ExternalName":
        return Changes()
    pods = sorted(
        (
            p
            for p in view.list("pods", namespace)
            if selector.items() <= _labels(p).items() and _has_place(p)
        ),
        key=lambda p: str(p["metadata"]["name"]),
    )
    nodes = {n["metadata"]["name"]: n for n in view.list("nodes")}
    steps: list[Change] = []
    steps += _slice_steps(service, slices, pods, nodes)
    steps += _endpoints_steps(service, endpoints, pods)
    return Changes(tuple(steps))


def _labels(obj: Obj) -> Obj:
    return obj["metadata"].get("labels") or {}


def _has_place(pod: Obj) -> bool:
    status = pod.get("status", {})
    return bool(status.get("podIP")) and status.get("phase") not in ("Succeeded", "Failed")


def _delete(resource: str, obj: Obj) -> Change:
    metadata = obj["metadata"]
    return Delete(resource, metadata["namespace"], metadata["name"], metadata["uid"])


def _ports(service: Obj, pod: Obj) -> list[Obj]:
    """Return the pod's ports for a service; a named target that it lacks is omitted."""
    ports = []
    for port in service["spec"].get("ports") or ():
        target = port.get("targetPort", port["port"])
        number = target if isinstance(target, int) else _named(pod, target, port["protocol"])
        if number is not None:
            ports.append(
                {"name": port.get("name", ""), "port": number, "protocol": port["protocol"]}
            )
    return ports


def _named(pod: Obj, name: str, protocol: str) -> int | None:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return None


def _target(pod: Obj) -> Obj:
    metadata = pod["metadata"]
    return {
        "kind": "Pod",
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
    }


def _endpoint(service: Obj, pod: Obj, nodes: dict[str, Obj]) -> Obj:
    ready, leaving = is_ready(pod), is_deleting(pod)
    publish = bool(service["spec"].get("publishNotReadyAddresses"))
    endpoint: Obj = {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {
            "ready": publish or (ready and not leaving),
            "serving": ready,
            "terminating": leaving,
        },
        "targetRef": _target(pod),
    }
    if _has_hostname(service, pod):
        endpoint["hostname"] = pod["spec"]["hostname"]
    node = nodes.get(pod["spec"].get("nodeName", ""))
    if node is not None:
        endpoint["nodeName"] = node["metadata"]["name"]
        zone = _labels(node).get("topology.kubernetes.io/zone")
        if zone:
            endpoint["zone"] = zone
    return endpoint


def _has_hostname(service: Obj, pod: Obj) -> bool:
    spec = pod["spec"]
    return bool(spec.get("hostname")) and spec.get("subdomain") == service["metadata"]["name"]


def _by_ports(service: Obj, pods: Iterable[Obj]) -> dict[str, tuple[list[Obj], list[Obj]]]:
    """Group pods by the ports they offer: named ports may differ between pods."""
    groups: dict[str, tuple[list[Obj], list[Obj]]] = {}
    for pod in pods:
        ports = _ports(service, pod)
        groups.setdefault(repr(ports), (ports, []))[1].append(pod)
    return groups


def _slice_steps(
    service: Obj, slices: list[Obj], pods: list[Obj], nodes: dict[str, Obj]
) -> list[Change]:
    steps: list[Change] = []
    unused = list(slices)
    groups = _by_ports(service, pods) or {"": ([], [])}
    for ports, members in groups.values():
        wanted_endpoints = [_endpoint(service, pod, nodes) for pod in members]
        match = next((s for s in unused if (s.get("ports") or []) == ports), None) or next(
            iter(unused), None
        )
        labels = _slice_labels(service)
        if match is None:
            steps.append(Create("endpointslices", _slice(service, labels, ports, wanted_endpoints)))
            continue
        unused.remove(match)
        same = (
            (match.get("ports") or []) == ports
            and (match.get("endpoints") or []) == wanted_endpoints
            and _labels(match) == labels
        )
        if not same:
            metadata = {**match["metadata"], "labels": labels}
            changed = {**match, "metadata": metadata, "ports": ports, "endpoints": wanted_endpoints}
            steps.append(Update("endpointslices", changed))
    return steps + [_delete("endpointslices", s) for s in unused]


def _slice_labels(service: Obj) -> Obj:
    labels = {**_labels(service), _SERVICE_NAME: service["metadata"]["name"], _MANAGED_BY: _MANAGER}
    if service["spec"].get("clusterIP") == "None":
        labels["service.kubernetes.io/headless"] = ""
    return labels


def _slice(service: Obj, labels: Obj, ports: list[Obj], endpoints: list[Obj]) -> Obj:
    name = service["metadata"]["name"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{name}-",
            "namespace": service["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [controller_reference(service)],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    }


def _endpoints_steps(service: Obj, found: Obj | None, pods: list[Obj]) -> list[Change]:
    subsets = [
        subset
        for ports, members in _by_ports(service, pods).values()
        if (subset := _subset(service, ports, members))
    ]
    labels = {**_labels(service), "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    if service["spec"].get("clusterIP") == "None":
        labels["service.kubernetes.io/headless"] = ""
    if found is None:
        metadata = service["metadata"]
        made: Obj = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "labels": labels,
            },
        }
        if subsets:
            made["subsets"] = subsets
        return [Create("endpoints", made)]
    if controller_of(found) is not None:
        return []
    if (found.get("subsets") or []) == subsets and _labels(found) == labels:
        return []
    changed = {**found, "metadata": {**found["metadata"], "labels": labels}, "subsets": subsets}
    if not subsets:
        del changed["subsets"]
    return [Update("endpoints", changed)]


def _subset(service: Obj, ports: list[Obj], pods: list[Obj]) -> Obj:
    publish = bool(service["spec"].get("publishNotReadyAddresses"))
    sides: dict[str, list[Obj]] = {"addresses": [], "notReadyAddresses": []}
    for pod in pods:
        if is_deleting(pod) and not publish:
            continue
        address: Obj = {"ip": pod["status"]["podIP"], "targetRef": _target(pod)}
        if _has_hostname(service, pod):
            address["hostname"] = pod["spec"]["hostname"]
        if pod["spec"].get("nodeName"):
            address["nodeName"] = pod["spec"]["nodeName"]
        side = "addresses" if publish or is_ready(pod) else "notReadyAddresses"
        sides[side].append(address)
    if not any(sides.values()):
        return {}
    return {**{k: v for k, v in sides.items() if v}, "ports": ports}
