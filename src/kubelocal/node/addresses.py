"""Loopback addresses of pods: each pod has its own, and a new pod gets another.

Addresses are allocated round-robin, and a released address is not leased again for a while, so
that a client that still has the address of a dead pod does not reach another pod. Only
when every other address is in use is a released one reused early, the one released first. The
hosts file of a pod is written here too.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kubelocal.node.errors import AddressError
from kubelocal.node.process.launch import hostname_of

__all__ = ["AddressPool", "can_bind", "hosts_text", "listening_addresses"]

_LOOK_EVERY = 1.0
_COOL_DOWN = 60.0


class AddressPool:
    """The addresses of one instance, out of one loopback network.

    `state` is the file with the position in the range, so that the next agent continues there.
    """

    def __init__(
        self,
        network: str,
        *,
        state: Path | None = None,
        is_free: Callable[[str], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._network = ipaddress.IPv4Network(network)
        if not self._network.is_loopback:
            raise AddressError(
                f"{network} is not a loopback network; choose one within 127.0.0.0/8"
            )
        self._state = state
        self._is_free = is_free or self._is_unused
        self._clock = clock
        self._leased: set[str] = set()
        self._released: dict[str, float] = {}  # when each was released, the first one first
        self._busy: set[str] = set()
        self._looked = -_LOOK_EVERY
        self._next = self._read()

    def _is_unused(self, address: str) -> bool:
        """Return whether an address is free; listening sockets are read only once in a while."""
        if self._clock() - self._looked >= _LOOK_EVERY:
            self._looked = self._clock()
            self._busy = listening_addresses()
        return address not in self._busy and can_bind(address)

    def _read(self) -> int:
        if self._state is None:
            return 0
        try:
            return int(self._state.read_text())
        except (OSError, ValueError):
            return 0

    def adopt(self, addresses: Iterable[str]) -> None:
        """Mark addresses of running pods as leased."""
        self._leased.update(addresses)

    def lease(self) -> str:
        """Return a free address and keep it until it is released."""
        self._end_cool_downs()
        size = self._network.num_addresses
        for step in range(size):
            position = (self._next + step) % size
            address = str(self._network[position])
            if position % 256 in (0, 255) or address in self._leased or address in self._released:
                continue
            if self._is_free(address):
                self._remember(position + 1)
                return self._take(address)
        for address in self._released:
            if self._is_free(address):
                return self._take(address)
        raise AddressError(
            f"no address of {self._network} is free: {len(self._leased)} are leased to pods and "
            "others are taken by other programs; delete pods, or start with a wider range"
        )

    def _end_cool_downs(self) -> None:
        now = self._clock()
        for address, since in list(self._released.items()):
            if now - since < _COOL_DOWN:
                return
            del self._released[address]

    def _take(self, address: str) -> str:
        self._released.pop(address, None)
        self._leased.add(address)
        return address

    def _remember(self, position: int) -> None:
        self._next = position % self._network.num_addresses
        if self._state is not None:
            fresh = self._state.with_name(f"{self._state.name}.new")
            with contextlib.suppress(OSError):  # a full disk costs the order, not the pod
                fresh.write_text(str(self._next))
                fresh.replace(self._state)

    def release(self, address: str) -> None:
        """Release an address; safe to repeat."""
        if address in self._leased:
            self._leased.discard(address)
            self._released[address] = self._clock()


def listening_addresses() -> set[str]:
    """Return the addresses of this machine on which some program listens."""
    try:
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return set()
    found = set()
    for line in lines:
        fields = line.split()
        if fields[3] == "0A":
            number = int(fields[1].split(":")[0], 16)
            found.add(str(ipaddress.IPv4Address(number.to_bytes(4, "little"))))
    return found


def can_bind(address: str) -> bool:
    """Return whether programs can bind an address on this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


_HEAD = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


def hosts_text(pod: Mapping[str, Any], address: str) -> str:
    """Return the `/etc/hosts` of a pod."""
    spec, metadata = pod["spec"], pod["metadata"]
    hostname = hostname_of(pod)
    names = [hostname]
    if spec.get("subdomain"):
        domain = f"{spec['subdomain']}.{metadata['namespace']}.svc.cluster.local"
        names.insert(0, f"{hostname}.{domain}")
    lines = [f"{address}\t" + "\t".join(names)]
    aliases = spec.get("hostAliases") or ()
    if aliases:
        lines.append("\n# Entries added by HostAliases.")
        lines += [f"{alias['ip']}\t" + "\t".join(alias["hostnames"]) for alias in aliases]
    return _HEAD + "\n".join(lines) + "\n"
