"""The files in the node agent's folder, and the record of each pod.

The record of a pod is written before anything of it is started, so that after an agent was killed
at any moment the next one finds every process again, and its address.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

__all__ = ["ContainerRecord", "Layout", "PodFolder", "PodRecord"]


class ContainerRecord(msgspec.Struct, frozen=True):
    """The last started instance of a container."""

    identity: str
    attempt: int
    started: str = ""


class PodRecord(msgspec.Struct, frozen=True):
    """The record of a pod, by which an agent finds it again."""

    namespace: str
    name: str
    uid: str
    node: str
    address: str = ""
    start_time: str = ""
    containers: dict[str, ContainerRecord] = {}


class PodFolder:
    """The folder of one pod."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def volume(self, name: str) -> Path:
        """The folder of a volume of the pod."""
        return self.path / "volumes" / name

    def container(self, name: str) -> Path:
        """The folder of a container."""
        return self.path / "containers" / name

    def spec(self, name: str) -> Path:
        """The description of the last started instance of a container."""
        return self.container(name) / "spec.json"

    def log(self, name: str, attempt: int) -> Path:
        """The log of one instance of a container."""
        return self.path / "logs" / name / f"{attempt}.log"

    def read(self) -> PodRecord | None:
        """Return the pod's record, or None when there is none, or half of one.

        Errors: OSError when it cannot be read now, which says nothing about the pod.
        """
        try:
            return msgspec.json.decode((self.path / "pod").read_bytes(), type=PodRecord)
        except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
            return None

    def write(self, record: PodRecord) -> None:
        """Write the pod's record, whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        fresh = self.path / "pod.new"
        fresh.write_bytes(msgspec.json.encode(record))
        fresh.replace(self.path / "pod")

    def remove(self) -> None:
        """Remove all files of the pod; claims are in another folder and stay."""
        shutil.rmtree(self.path, ignore_errors=True)

    def drop_old_logs(self, name: str, attempt: int) -> None:
        """Remove the logs of instances before the previous one."""
        for log in (self.path / "logs" / name).glob("*.log*"):
            number = log.name.partition(".")[0]
            if number.isdecimal() and int(number) < attempt - 1:
                with contextlib.suppress(OSError):
                    log.unlink()


class Layout:
    """The folder of a node agent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.keeper = root / "keeper"
        self.claims = root / "volumes"
        self.addresses = root / "addresses"
        self._groups = root / "cgroups"

    def prepare(self) -> None:
        """Create the folders."""
        for folder in (self.root, self.claims, self.root / "pods", self.root / "nodes"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def group_name(self, instance: str) -> str:
        """The name of this folder's cgroups, different from that of any other folder."""
        return f"{instance}-{hashlib.sha256(bytes(self.root.resolve())).hexdigest()[:8]}"

    def remember_groups(self, folders: Iterable[Path]) -> None:
        """Record where cgroups were created: the next agent may create its own in another place."""
        known = {*map(str, self.groups()), *map(str, folders)}
        with contextlib.suppress(OSError):  # continue on a full disk
            self._groups.write_text("".join(f"{folder}\n" for folder in sorted(known)))

    def groups(self) -> list[Path]:
        """The folders in which agents of this folder created cgroups."""
        try:
            return [Path(line) for line in self._groups.read_text().splitlines()]
        except OSError:
            return []

    def forget_groups(self) -> None:
        """Forget the cgroups, which were removed."""
        self._groups.unlink(missing_ok=True)

    def pod(self, uid: str) -> PodFolder:
        """The folder of the pod with this uid."""
        return PodFolder(self.root / "pods" / uid)

    def pods(self) -> list[PodFolder]:
        """The folders of all pods."""
        return [PodFolder(path) for path in sorted((self.root / "pods").iterdir())]

    def claim(self, volume: str) -> Path:
        """The folder of a persistent volume's data."""
        return self.claims / volume

    def is_stopped(self, node: str) -> bool:
        """Whether a node was powered off."""
        return (self.root / "nodes" / f"{node}.stopped").exists()

    def mark_stopped(self, node: str, *, stopped: bool) -> None:
        """Record that a node was powered off, or is on again."""
        mark = self.root / "nodes" / f"{node}.stopped"
        if stopped:
            mark.touch()
        else:
            mark.unlink(missing_ok=True)
