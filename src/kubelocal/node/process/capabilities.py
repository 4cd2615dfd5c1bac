"""The capabilities of root in a container: the usual ones, and what its spec adds and drops.

A container that runs as root would otherwise be root on the machine: it could enter the mounts of
other processes and read what is hidden from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["capabilities_of"]

_NAMES: Final = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
]
_NUMBERS: Final = {name: number for number, name in enumerate(_NAMES)}
_USUAL: Final = frozenset(
    _NUMBERS[name]
    for name in [
        "CHOWN",
        "DAC_OVERRIDE",
        "FSETID",
        "FOWNER",
        "MKNOD",
        "NET_RAW",
        "SETGID",
        "SETUID",
        "SETFCAP",
        "SETPCAP",
        "NET_BIND_SERVICE",
        "SYS_CHROOT",
        "KILL",
        "AUDIT_WRITE",
    ]
)
"""The capabilities that container runtimes give by default."""


def capabilities_of(container: Mapping[str, Any]) -> list[int] | None:
    """Return the numbers of the capabilities that a container may have; None: all there are."""
    context = container.get("securityContext") or {}
    if context.get("privileged"):
        return None
    asked = context.get("capabilities") or {}
    drop, add = (_numbers(asked.get(verb) or ()) for verb in ("drop", "add"))
    return sorted((_USUAL - drop) | add)


def _numbers(names: Any) -> frozenset[int]:
    found = {str(name).upper().removeprefix("CAP_") for name in names}
    if "ALL" in found:
        return frozenset(_NUMBERS.values())
    return frozenset(_NUMBERS[name] for name in found if name in _NUMBERS)
