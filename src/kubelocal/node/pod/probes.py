"""The definitions of probes, and how results become a verdict.

Pure: counts successes and failures against the thresholds. `probing` runs the checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

__all__ = [
    "ExecCheck",
    "HttpCheck",
    "Probe",
    "Result",
    "TcpCheck",
    "Verdict",
    "handler_of",
    "probe_of",
]


class ExecCheck(Struct, frozen=True):
    """Run a command in the container; exit code 0 is success."""

    command: tuple[str, ...]


class TcpCheck(Struct, frozen=True):
    """Connect to a port."""

    host: str
    port: int


class HttpCheck(Struct, frozen=True):
    """Send an HTTP request; 200 to 399 is success."""

    host: str
    port: int
    path: str
    scheme: str
    headers: tuple[tuple[str, str], ...] = ()


Check = ExecCheck | TcpCheck | HttpCheck


class Probe(Struct, frozen=True):
    """A probe with all its numbers, in seconds and counts."""

    check: Check
    initial_delay: float
    period: float
    timeout: float
    success_threshold: int
    failure_threshold: int
    grace: float | None


class Result(Struct, frozen=True):
    """The result of one check."""

    success: bool
    message: str = ""


def _port_number(port: int | str, ports: Sequence[Mapping[str, Any]]) -> int:
    """Return a port that may be given by name."""
    if isinstance(port, int):
        return port
    if port.isdecimal():
        return int(port)
    for declared in ports:
        if declared.get("name") == port:
            return int(declared["containerPort"])
    return 0


def handler_of(
    handler: Mapping[str, Any], container: Mapping[str, Any], *, address: str
) -> Check | None:
    """Return the check of a probe or a lifecycle hook, or None when it has none."""
    ports = container.get("ports") or ()
    if handler.get("exec") is not None:
        return ExecCheck(tuple(handler["exec"].get("command") or ()))
    if handler.get("tcpSocket") is not None:
        socket = handler["tcpSocket"]
        return TcpCheck(socket.get("host") or address, _port_number(socket["port"], ports))
    if handler.get("httpGet") is not None:
        get = handler["httpGet"]
        headers = tuple((item["name"], item["value"]) for item in get.get("httpHeaders") or ())
        path = get.get("path") or "/"
        return HttpCheck(
            host=get.get("host") or address,
            port=_port_number(get["port"], ports),
            path=path if path.startswith("/") else f"/{path}",
            scheme=(get.get("scheme") or "HTTP").lower(),
            headers=headers,
        )
    return None


def probe_of(container: Mapping[str, Any], name: str, *, address: str) -> Probe | None:
    """Return a container's probe (`startupProbe`, ...), with Kubernetes' defaults."""
    declared = container.get(name)
    if not declared:
        return None
    check = handler_of(declared, container, address=address)
    if check is None:
        return None
    grace = declared.get("terminationGracePeriodSeconds")
    return Probe(
        check=check,
        initial_delay=float(declared.get("initialDelaySeconds") or 0),
        period=float(declared.get("periodSeconds") or 10),
        timeout=float(declared.get("timeoutSeconds") or 1),
        success_threshold=int(declared.get("successThreshold") or 1),
        failure_threshold=int(declared.get("failureThreshold") or 3),
        grace=None if grace is None else float(grace),
    )


class Verdict:
    """Turns single results into a verdict that changes only when a threshold is reached."""

    def __init__(self, probe: Probe, *, initial: bool) -> None:
        self._probe = probe
        self._last: bool | None = None
        self._run = 0
        self.holds = initial

    def add(self, result: Result) -> bool:
        """Count a result; return whether a threshold is reached, even for the same verdict."""
        self._run = self._run + 1 if result.success == self._last else 1
        self._last = result.success
        needed = self._probe.success_threshold if result.success else self._probe.failure_threshold
        if self._run < needed:
            return False
        self.holds = result.success
        return True
