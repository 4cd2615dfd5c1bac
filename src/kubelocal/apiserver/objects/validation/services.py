"""What Go checks in services, endpoints, slices of them, and network policies."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from kubelocal.apiserver.causes import (
    Cause,
    Fields,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubelocal.apiserver.objects.validation.syntax import (
    choice,
    dns_label,
    immutable,
    ip_address,
    labels,
    port_number,
    selector,
    target_port,
)

__all__ = ["check_endpoints", "check_network_policy", "check_service", "check_slice"]

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def check_service(service: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a Service; an address once given stays."""
    spec = service.get("spec") or {}
    kind, address = spec.get("type", "ClusterIP"), spec.get("clusterIP", "")
    ports = spec.get("ports") or []
    if not ports and address != "None" and kind != "ExternalName":
        yield required("spec.ports")
    if kind == "ExternalName" and not spec.get("externalName"):
        yield required("spec.externalName")
    yield from labels("spec.selector", spec.get("selector"))
    yield from choice("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    yield from choice("spec.type", kind, _TYPES)
    yield from _check_ports(ports, kind)
    policies = ("Cluster", "Local")
    for field in ("externalTrafficPolicy", "internalTrafficPolicy"):
        yield from choice(f"spec.{field}", spec.get(field), policies)
    if address and address != "None":
        yield from ip_address("spec.clusterIPs[0]", address)
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        yield from choice(f"spec.ipFamilies[{index}]", family, ("IPv4", "IPv6"))
    if old is not None:
        yield from _check_address(spec, old.get("spec") or {})


def _check_address(spec: dict[str, Any], old: dict[str, Any]) -> Iterator[Cause]:
    if "ExternalName" in {spec.get("type"), old.get("type")}:
        return
    before, after = old.get("clusterIP", ""), spec.get("clusterIP", "")
    if before and after != before:
        text = "may not change once set"
        yield invalid("spec.clusterIPs[0]", spec.get("clusterIPs") or [after], text)


def _check_ports(ports: list[dict[str, Any]], kind: str) -> Iterator[Cause]:
    names: set[str] = set()
    numbers: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            yield from dns_label(f"{path}.name", name)
            if name in names:
                yield duplicate(f"{path}.name", name)
            names.add(name)
        elif len(ports) > 1:
            yield required(f"{path}.name")
        number, protocol = port.get("port", 0), port.get("protocol", "TCP")
        yield from port_number(f"{path}.port", number)
        yield from choice(f"{path}.protocol", protocol, _PROTOCOLS)
        if port.get("targetPort") is not None:
            yield from target_port(f"{path}.targetPort", port["targetPort"])
        if kind == "ClusterIP" and port.get("nodePort"):
            text = "may not be used when `type` is 'ClusterIP'"
            yield forbidden(f"{path}.nodePort", text)
        if (number, protocol) in numbers:
            shown = Fields(Name="", Protocol=protocol, AppProtocol=None, Port=number)
            yield duplicate(path, Fields(**shown, TargetPort=0, NodePort=0))
        numbers.add((number, protocol))


def check_endpoints(endpoints: dict[str, Any], _: dict[str, Any] | None) -> Iterator[Cause]:
    """Check Endpoints."""
    for index, subset in enumerate(endpoints.get("subsets") or ()):
        path = f"subsets[{index}]"
        ready, waiting = subset.get("addresses") or [], subset.get("notReadyAddresses") or []
        if not ready and not waiting:
            text = "must specify `addresses` or `notReadyAddresses`"
            yield required(path, text)
        for field, addresses in (("addresses", ready), ("notReadyAddresses", waiting)):
            for place, address in enumerate(addresses):
                yield from ip_address(f"{path}.{field}[{place}].ip", address.get("ip", ""))
        for place, port in enumerate(subset.get("ports") or ()):
            yield from port_number(f"{path}.ports[{place}].port", port.get("port", 0))
            protocol = port.get("protocol")
            yield from choice(f"{path}.ports[{place}].protocol", protocol, _PROTOCOLS)


def check_slice(slice_: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check an EndpointSlice."""
    kind = slice_.get("addressType", "")
    if not kind:
        yield required("addressType")
    elif kind not in {"FQDN", "IPv4", "IPv6"}:
        yield not_supported("addressType", kind, ["FQDN", "IPv4", "IPv6"])
    for index, endpoint in enumerate(slice_.get("endpoints") or ()):
        path = f"endpoints[{index}].addresses"
        addresses = endpoint.get("addresses") or []
        if not addresses:
            yield required(path, "must contain at least 1 address")
        for place, address in enumerate(addresses):
            if kind in {"IPv4", "IPv6"}:
                yield from _address_of(f"{path}[{place}]", address, kind)
    yield from _check_slice_ports(slice_.get("ports") or [])
    if old is not None:
        yield from immutable("addressType", kind, old.get("addressType"))


def _check_slice_ports(ports: list[dict[str, Any]]) -> Iterator[Cause]:
    seen = set()
    for index, port in enumerate(ports):
        name = port.get("name", "")
        if name:
            yield from dns_label(f"ports[{index}].name", name)
        if name in seen:
            yield duplicate(f"ports[{index}].name", name)
        seen.add(name)
        yield from choice(f"ports[{index}].protocol", port.get("protocol"), _PROTOCOLS)


def _address_of(path: str, address: str, kind: str) -> Iterator[Cause]:
    found = list(ip_address(path, address))
    yield from found
    if not found and ipaddress.ip_address(address).version != int(kind[-1]):
        yield invalid(path, address, f"must be an {kind} address")


def check_network_policy(policy: dict[str, Any], _: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a NetworkPolicy."""
    spec = policy.get("spec") or {}
    yield from selector("spec.podSelector", spec.get("podSelector"))
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for place, port in enumerate(rule.get("ports") or ()):
                at = f"{path}.ports[{place}]"
                yield from choice(f"{at}.protocol", port.get("protocol"), ("TCP", "UDP", "SCTP"))
                if port.get("port") is not None:
                    yield from target_port(f"{at}.port", port["port"])
            for place, peer in enumerate(rule.get(peers) or ()):
                yield from _check_peer(f"{path}.{peers}[{place}]", peer)
    for index, kind in enumerate(spec.get("policyTypes") or ()):
        yield from choice(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))


def _check_peer(path: str, peer: dict[str, Any]) -> Iterator[Cause]:
    if not peer:
        yield required(path, "must specify a peer")
    for field in ("podSelector", "namespaceSelector"):
        yield from selector(f"{path}.{field}", peer.get(field))
    block = peer.get("ipBlock")
    if block is None:
        return
    yield from _check_block(f"{path}.ipBlock", block)
    if len(peer) > 1:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _check_block(path: str, block: dict[str, Any]) -> Iterator[Cause]:
    text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    outer = _network(block.get("cidr", ""))
    if outer is None:
        yield invalid(f"{path}.cidr", block.get("cidr", ""), text)
    for index, cidr in enumerate(block.get("except") or ()):
        inner = _network(cidr)
        if inner is None:
            yield invalid(f"{path}.except[{index}]", cidr, text)
        elif outer is not None and not (inner[0] in outer and inner.prefixlen > outer.prefixlen):
            subset = "must be a strict subset of `cidr`"
            yield invalid(f"{path}.except[{index}]", cidr, subset)


def _network(cidr: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    if "/" not in cidr:
        return None
    try:
        return ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        return None
