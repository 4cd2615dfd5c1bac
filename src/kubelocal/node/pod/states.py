"""The states a container goes through on a node, as values."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import Any

from msgspec import Struct

__all__ = [
    "Container",
    "ContainerState",
    "Role",
    "Running",
    "Terminated",
    "Waiting",
    "from_status",
    "instant",
    "parse_instant",
]


class Role(Enum):
    """What a container is to its pod."""

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
    """What the node knows of one container of a pod. Changed only by its runner."""

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
        """Whether it ended well."""
        return isinstance(self.state, Terminated) and self.state.code == 0


def instant(moment: datetime) -> str:
    """Return a moment as Kubernetes writes it: RFC 3339, whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_instant(text: str) -> datetime:
    """Read a moment that Kubernetes wrote."""
    return datetime.fromisoformat(text)


def from_status(status: dict[str, Any], role: Role) -> Container:
    """Return what an earlier agent published of a container, to go on from there."""
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
