"""What a simulated node knows of a pod and of its disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubelocal.node.pod.states import Container

__all__ = ["KeptPod", "Volume"]


@dataclass
class Volume:
    """What is on a disk beside the data: whose it is, and whether the server ended in peace."""

    uid: str
    identity: str
    unsaved: bool = False
    fresh: bool = False  # no server has run on it yet
    led: bool = False  # its server led when it was asked to stop, and has had no role since


@dataclass
class KeptPod:
    """What a node knows of a pod."""

    name: str
    namespace: str
    uid: str
    node: str = ""
    ip: str = ""
    begun: datetime | None = None
    containers: list[Container] = field(default_factory=list)
    booted: bool = False
    last_start: float = -1e9
    failures: int = 0
    handover_seconds: float = 0.0  # that a primary of mode Failover waits before it ends
    published: dict[str, Any] = field(default_factory=dict)
    judged: tuple[Any, ...] = ()  # what the last status was made from

    @property
    def server(self) -> Container:
        """The container that matters."""
        return next(c for c in self.containers if c.name == "server")
