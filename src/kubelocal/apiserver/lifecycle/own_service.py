"""The Service `kubernetes` in `default`, by which pods find this server, and its endpoints.

It has the first address of the service network, as in Kubernetes. It is recreated when deleted.
"""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

from msgspec import Struct

from kubelocal.apiserver.core import Core
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.objects.metadata import new_uid, timestamp
from kubelocal.apiserver.storage.entries import Object

__all__ = ["Place", "offer", "own_address"]

_NAMESPACE, _NAME = "default", "kubernetes"
_HTTPS, _OPEN_TO_ALL = 443, 6443
_FIRST_PORT = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")


class Place(Struct, frozen=True):
    """The address on which the server listens, and its cluster IP."""

    host: str
    port: int
    cluster_ip: str


def own_address(network: str) -> str:
    """Return the cluster IP of the server itself."""
    return str(ipaddress.IPv4Network(network)[1])


def offer(core: Core, place: Place) -> None:
    """Create the Service and its endpoints, and recreate them when they are deleted."""
    _ensure(core, place)

    def react(resource: Resource, value: Object, gone: bool) -> None:
        named = (value["metadata"].get("namespace"), value["metadata"]["name"])
        if gone and resource.key in _KEYS and named == (_NAMESPACE, _NAME):
            _ensure(core, place)

    core.reactions.append(react)


def _ensure(core: Core, place: Place) -> None:
    for key, kind, version, wanted in _objects(place):
        found = core.read(key, _NAMESPACE, _NAME)
        if found is None:
            metadata = {
                "name": _NAME,
                "namespace": _NAMESPACE,
                "uid": new_uid(core.bits),
                "creationTimestamp": timestamp(core.clock()),
            }
            found = {"kind": kind, "apiVersion": version, "metadata": metadata}
        found["metadata"]["labels"] = wanted.pop("labels")
        if any(found.get(word) != part for word, part in wanted.items()):
            core.put(core.resource(key), found | wanted)


def _service_port() -> int:
    """Return the port of HTTPS, or the server's usual one where this user may not bind it."""
    try:
        first = int(_FIRST_PORT.read_text())
    except (OSError, ValueError):
        first = 1024
    return _HTTPS if os.geteuid() == 0 or first <= _HTTPS else _OPEN_TO_ALL


def _objects(place: Place) -> list[tuple[str, str, str, Object]]:
    port = {"name": "https", "port": place.port, "protocol": "TCP"}
    service: Object = {
        "labels": {"component": "apiserver", "provider": "kubernetes"},
        "spec": {
            "clusterIP": place.cluster_ip,
            "clusterIPs": [place.cluster_ip],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [port | {"port": _service_port(), "targetPort": place.port}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    }
    endpoints: Object = {
        "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        "subsets": [{"addresses": [{"ip": place.host}], "ports": [port]}],
    }
    piece: Object = {
        "labels": {"kubernetes.io/service-name": _NAME},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [place.host], "conditions": {"ready": True}}],
        "ports": [port],
    }
    return [
        ("services", "Service", "v1", service),
        ("endpoints", "Endpoints", "v1", endpoints),
        (_SLICES, "EndpointSlice", "discovery.k8s.io/v1", piece),
    ]


_SLICES = "endpointslices.discovery.k8s.io"
_KEYS = {"services", "endpoints", _SLICES}
