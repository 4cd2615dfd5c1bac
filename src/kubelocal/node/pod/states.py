"""The states of a container on a node, as values.

Also what follows its end: the termination message, and the back-off until the next start.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from msgspec import Struct

from kubelocal.node.layout import PodFolder

__all__ = [
    "FIRST",
    "LONGEST",
    "Backoff",
    "Container",
    "ContainerState",
    "Role",
    "Running",
    "Terminated",
    "Waiting",
    "from_status",
    "instant",
    "parse_instant",
    "termination_message",
]


class Role(Enum):
    """The role of a container in its pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


class Waiting(Struct, frozen=True):
    """Not started, and why."""

    reason: str
    message: str = ""


class Running(Struct, frozen=True):
    """Started, and since when."""

    started: datetime


class Terminated(Struct, frozen=True):
    """Ended, and how."""

    code: int
    reason: str
    started: datetime | None
    finished: datetime
    message: str = ""
    identity: str = ""


ContainerState = Waiting | Running | Terminated


class Container(Struct):
    """The state of one container of a pod on this node. Changed only by its runner."""

    name: str
    role: Role
    image: str
    state: ContainerState
    last: Terminated | None = None
    restarts: int = 0
    ready: bool = False
    started: bool = False
    identity: str = ""
    image_identity: str = ""
    attempt: int = -1

    @property
    def succeeded(self) -> bool:
        """Whether it ended successfully."""
        return isinstance(self.state, Terminated) and self.state.code == 0


def instant(moment: datetime) -> str:
    """Format an instant as Kubernetes does: RFC 3339, whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_instant(text: str) -> datetime:
    """Parse an instant of Kubernetes."""
    return datetime.fromisoformat(text)


def from_status(status: dict[str, Any], role: Role) -> Container:
    """Return the container state that an earlier agent published, to continue from there."""
    found = _state(status.get("state") or {})
    last = _state(status.get("lastState") or {})
    return Container(
        name=status["name"],
        role=role,
        image=status.get("image", ""),
        state=found or Waiting("ContainerCreating"),
        last=last if isinstance(last, Terminated) else None,
        restarts=int(status.get("restartCount") or 0),
        ready=bool(status.get("ready")),
        started=bool(status.get("started")),
        identity=status.get("containerID", "").rpartition("://")[2],
        image_identity=status.get("imageID", ""),
    )


def _state(value: dict[str, Any]) -> ContainerState | None:
    if value.get("running") is not None:
        return Running(parse_instant(value["running"]["startedAt"]))
    if value.get("terminated") is not None:
        ended = value["terminated"]
        started = ended.get("startedAt")
        return Terminated(
            code=int(ended["exitCode"]),
            reason=ended.get("reason", ""),
            started=parse_instant(started) if started else None,
            finished=parse_instant(ended["finishedAt"]),
            message=ended.get("message", ""),
            identity=ended.get("containerID", "").rpartition("://")[2],
        )
    if value.get("waiting") is not None:
        return Waiting(value["waiting"].get("reason", ""), value["waiting"].get("message", ""))
    return None


_MOST_MESSAGE = 4096
_MOST_LOG = 2048
_MOST_LINES = 80


def termination_message(
    folder: PodFolder, spec: Mapping[str, Any], container: Container, code: int
) -> str:
    """Return the content of the container's termination log, or the end of its log.

    The log is used only where the policy says so and the container failed.
    """
    try:
        written = _last_bytes(folder.container(container.name) / "termination-log", _MOST_MESSAGE)
    except OSError:
        written = b""
    if written:
        return written.decode(errors="replace")
    if code == 0 or spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
        return ""
    return _end_of_log(folder, container)


def _last_bytes(path: Path, count: int) -> bytes:
    """Return the end of a file, however large a container made it."""
    with path.open("rb") as file:
        file.seek(max(file.seek(0, 2) - count, 0))
        return file.read(count)


def _end_of_log(folder: PodFolder, container: Container) -> str:
    path = folder.log(container.name, container.attempt)
    try:
        lines = _last_bytes(path, 16 * _MOST_LOG).splitlines()
    except OSError:
        return ""
    texts = [line.split(b" ", 3)[-1] for line in lines if line.count(b" ") >= 3]
    return b"\n".join([*texts[-_MOST_LINES:], b""])[-_MOST_LOG:].decode(errors="replace")


FIRST = 10.0
LONGEST = 300.0
_FORGIVEN = 2 * LONGEST


class Backoff:
    """The delays before the starts of one container.

    >>> backoff = Backoff()
    >>> [backoff.after_end(ran=1.0) for _ in range(4)], backoff.after_end(ran=601.0)
    ([0.0, 10.0, 20.0, 40.0], 0.0)
    """

    def __init__(self, ends: int = 0) -> None:
        self._next = 0.0
        for _ in range(min(ends, 8)):
            self.after_end(ran=0.0)

    def after_end(self, *, ran: float) -> float:
        """Return how long after its end a container that `ran` so many seconds may be restarted."""
        if ran > _FORGIVEN:
            self._next = 0.0
        delay = self._next
        self._next = min(max(FIRST, delay * 2), LONGEST)
        return delay
