"""Cluster IPs of services: each gets one from the pool, or requests one.

Every cluster IP is a loopback address here, so that clients on the machine can use it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from kubelocal.apiserver.causes import Cause, invalid
from kubelocal.apiserver.core import Core
from kubelocal.apiserver.errors import StatusError, internal
from kubelocal.apiserver.errors import invalid as invalid_status
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.lifecycle.own_service import own_address
from kubelocal.apiserver.storage.entries import Object, decode

__all__ = ["Addresses", "Reservation"]

_PORTS = range(30000, 32768)


class Reservation:
    """Addresses and ports reserved while a write is in progress."""

    def __init__(self, release: Callable[[], None] = lambda: None) -> None:
        self._release: Callable[[], None] | None = release

    def keep(self) -> None:
        """Make the reservation permanent: the write succeeded."""
        self._release = None

    def release(self) -> None:
        """Release what was reserved, unless it was kept."""
        if self._release is not None:
            self._release()
            self._release = None


class Addresses:
    """The pool of cluster IPs and node ports; reads the used ones from the store."""

    def __init__(self, core: Core, network: str) -> None:
        self._core = core
        self._network = ipaddress.IPv4Network(network)
        self._own = own_address(network)
        self._taken: set[str] = set()
        self._ports: set[int] = set()
        self._next = 10
        for entry in core.store.collection("services").entries.values():
            spec = decode(entry.body).get("spec") or {}
            self._taken.update(_addresses(spec))
            self._ports.update(_node_ports(spec))
        core.reactions.append(self._react)

    def allocate(self, resource: Resource, new: Object, old: Object | None) -> Reservation:
        """Allocate the address and ports that a service needs and does not have."""
        if resource.key != "services":
            return Reservation()
        spec = new["spec"]
        before = (old or {}).get("spec") or {}
        held: set[str] = set()
        ports: set[int] = set()
        reservation = Reservation(lambda: self._give_back(held, ports))
        try:
            if spec.get("type", "ClusterIP") == "ExternalName":
                for key in ("clusterIP", "clusterIPs"):
                    spec.pop(key, None)
            else:
                self._give_address(new, before, held)
            if spec.get("type") in {"NodePort", "LoadBalancer"}:
                self._give_ports(spec, before, ports)
            else:
                _drop_ports(spec, before)
        except StatusError:
            reservation.release()
            raise
        return reservation

    def _give_address(self, new: Object, before: Object, held: set[str]) -> None:
        spec = new["spec"]
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = before["clusterIP"]
        wanted = spec.get("clusterIP") or ""
        if wanted == "None" or (wanted and before.get("clusterIP")):
            pass  # an existing address stays; validation refuses another
        elif wanted:
            self._claim(new, wanted)
            held.add(wanted)
        else:
            wanted = self._free()
            self._taken.add(wanted)
            held.add(wanted)
        spec["clusterIP"] = wanted
        if not before.get("clusterIP") or "clusterIPs" not in spec:
            spec["clusterIPs"] = [wanted]
        elif spec["clusterIPs"] == before.get("clusterIPs") and wanted != before["clusterIP"]:
            spec["clusterIPs"] = [wanted, *spec["clusterIPs"][1:]]

    def _claim(self, new: Object, wanted: str) -> None:
        def refuse(text: str) -> StatusError:
            cause: Cause = invalid("spec.clusterIPs", [wanted], text)
            return invalid_status("", "Service", new["metadata"]["name"], [cause])

        try:
            inside = ipaddress.IPv4Address(wanted) in self._network
        except ValueError:
            raise refuse("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)") from None
        if not inside:
            raise refuse(
                f"failed to allocate IP {wanted}: the provided IP ({wanted}) is not in the valid"
                f" range. The range of valid IPs is {self._network}"
            )
        if wanted in self._taken or wanted == self._own:
            raise refuse(f"failed to allocate IP {wanted}: provided IP is already allocated")
        self._taken.add(wanted)

    def _free(self) -> str:
        size = self._network.num_addresses
        for _ in range(size):
            self._next = self._next % (size - 2) + 1
            candidate = str(self._network[self._next])
            if candidate not in self._taken and candidate != self._own:
                return candidate
        raise internal("failed to allocate a serviceIP: range is full")

    def _give_ports(self, spec: Object, before: Object, held: set[int]) -> None:
        known = {
            (port.get("protocol"), port.get("port")): port.get("nodePort")
            for port in before.get("ports") or ()
        }
        for port in spec.get("ports") or ():
            if not port.get("nodePort"):
                same = known.get((port.get("protocol"), port.get("port")))
                port["nodePort"] = same or next(p for p in _PORTS if p not in self._ports)
            if port["nodePort"] not in self._ports:
                self._ports.add(port["nodePort"])
                held.add(port["nodePort"])

    def _give_back(self, addresses: set[str], ports: set[int]) -> None:
        self._taken -= addresses
        self._ports -= ports

    def _react(self, resource: Resource, value: Object, gone: bool) -> None:
        if resource.key != "services":
            return
        spec: Object = {} if gone else value.get("spec") or {}
        previous = self._core.store.collection("services").last().previous
        if previous is None:
            return
        before = decode(previous.body).get("spec") or {}
        self._taken -= _addresses(before) - _addresses(spec)
        self._ports -= _node_ports(before) - _node_ports(spec)


def _addresses(spec: Object) -> set[str]:
    return {ip for ip in spec.get("clusterIPs") or () if ip and ip != "None"}


def _node_ports(spec: Object) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def _drop_ports(spec: Object, before: Object) -> None:
    """Remove the node ports of a service whose type no longer has them."""
    given = _node_ports(before)
    for port in spec.get("ports") or ():
        if port.get("nodePort") in given:
            del port["nodePort"]
