"""What the runner of a container needs of its pod and of its node."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from kubelocal.node.environment.variables import Sources
from kubelocal.node.images import Images
from kubelocal.node.layout import ContainerRecord, Layout, PodFolder
from kubelocal.node.process.cgroups import Cgroups
from kubelocal.node.process.client import Processes
from kubelocal.node.process.mounts import Mode

__all__ = ["Machine", "PodContext", "Recorder"]


class Recorder(Protocol):
    """Writes events."""

    def record(
        self, pod: Mapping[str, Any], *, reason: str, message: str, warning: bool, field: str = ""
    ) -> None:
        """Record an event of a pod, or of one of its containers (`spec.containers{name}`)."""


class Machine(Struct, frozen=True):
    """The parts that all pods of the agent share."""

    processes: Processes
    images: Images
    mode: Mode
    layout: Layout
    recorder: Recorder
    cgroups: Cgroups
    pids_limit: int | None = None
    hidden: tuple[Path, ...] = ()

    def now(self) -> datetime:
        """The time of day."""
        return datetime.now().astimezone()


class PodContext(Protocol):
    """A pod, as its containers need it."""

    machine: Machine
    folder: PodFolder

    @property
    def pod(self) -> Mapping[str, Any]:
        """The current pod of the API."""

    @property
    def address(self) -> str:
        """The pod's own address."""

    @property
    def volumes(self) -> Mapping[str, Path]:
        """The folders of the pod's volumes."""

    async def sources(self) -> Sources:
        """The sources of variables."""

    def service_variables(self) -> Mapping[str, str]:
        """The variables with the addresses of services."""

    def remember(self, name: str, record: ContainerRecord) -> None:
        """Record which instance of a container is about to be started."""

    def changed(self) -> None:
        """Publish the pod's status again."""

    async def wait_objects_changed(self, timeout: float) -> None:
        """Return when an object that the pod refers to changed, or after so many seconds."""
