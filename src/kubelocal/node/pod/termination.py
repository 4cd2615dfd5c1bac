"""What a container says of its own end: its termination message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubelocal.node.layout import PodFolder
from kubelocal.node.pod.states import Container

__all__ = ["termination_message"]

_MOST_MESSAGE = 4096
_MOST_LOG = 2048
_MOST_LINES = 80


def termination_message(
    folder: PodFolder, spec: Mapping[str, Any], container: Container, code: int
) -> str:
    """Return what the container wrote to its termination log, or the end of its log.

    The log is asked only where the policy says so and the container failed.
    """
    try:
        written = (folder.container(container.name) / "termination-log").read_bytes()
    except OSError:
        written = b""
    if written:
        return written[-_MOST_MESSAGE:].decode(errors="replace")
    if code == 0 or spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
        return ""
    return _end_of_log(folder, container)


def _end_of_log(folder: PodFolder, container: Container) -> str:
    path = folder.log(container.name, container.attempt)
    try:
        with path.open("rb") as log:
            log.seek(0, 2)
            log.seek(max(log.tell() - 16 * _MOST_LOG, 0))
            lines = log.read().splitlines()
    except OSError:
        return ""
    texts = [line.split(b" ", 3)[-1] for line in lines if line.count(b" ") >= 3]
    return b"\n".join([*texts[-_MOST_LINES:], b""])[-_MOST_LOG:].decode(errors="replace")
