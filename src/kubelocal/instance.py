"""One local cluster on this machine: where its files are and which addresses are its own.

Every instance has a number, and with it its own loopback network: pods in the lower half of
127.N.0.0/16, services in the upper, the API server at its top. While an instance runs, its
supervisor and its control plane lock the number with an abstract socket each, so that two instances
never share it, whichever user started them, also while one of the two is started again.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from kubelocal.distribution import Distribution

__all__ = [
    "CONTROL_PLANE",
    "SUPERVISOR",
    "Instance",
    "InstanceError",
    "Instances",
    "Settings",
    "api_address",
    "operator_address",
    "pod_network",
    "service_network",
]

CONTROL_PLANE, SUPERVISOR = "", "-supervisor"
_FIRST, _LAST = 20, 119
_CHOOSING_SECONDS = 90.0
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")


class InstanceError(Exception):
    """An instance cannot be used; the message says why and what to do."""


class Settings(Struct, frozen=True, omit_defaults=True):
    """The settings that an instance was created with; stored beside its data."""

    network: int
    nodes: int = 1
    zones: int = 1
    mounts: str = ""  # how containers get their mount paths; empty: by what the machine allows
    images: tuple[str, ...] = ()
    operator: bool = True


class Instance(Struct, frozen=True):
    """A named local cluster and its folder."""

    name: str
    folder: Path

    @property
    def settings_file(self) -> Path:
        """The settings that it was created with."""
        return self.folder / "instance.json"

    @property
    def database(self) -> Path:
        """The API server's state."""
        return self.folder / "state.db"

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def operator_kubeconfig(self) -> Path:
        """The operator's kubeconfig: an account with its permissions and no others."""
        return self.folder / "operator.kubeconfig"

    @property
    def logs(self) -> Path:
        """The logs of its own processes."""
        return self.folder / "logs"

    def log_of(self, process: str) -> Path:
        """The log of one of its own processes."""
        return self.logs / f"{process}.log"

    @property
    def keeper_log(self) -> Path:
        """The log of the process that is the parent of all pods."""
        return self.node_folder / "keeper" / "keeper.log"

    @property
    def pid_file(self) -> Path:
        """The supervisor's pid and start time."""
        return self.folder / "supervisor.pid"

    @property
    def children_file(self) -> Path:
        """Name, pid and start time of the processes that the supervisor started."""
        return self.folder / "children.pid"

    @property
    def node_folder(self) -> Path:
        """Where the node agent keeps pods and volumes."""
        return self.folder / "node"

    @property
    def ready_file(self) -> Path:
        """Present while the control plane responds."""
        return self.folder / "ready"

    def settings(self) -> Settings | None:
        """Return the settings of the instance, or None when it does not exist."""
        try:
            return msgspec.json.decode(self.settings_file.read_bytes(), type=Settings)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise InstanceError(
                f"{self.settings_file} cannot be read: {error}. Fix it, or delete the folder "
                f"{self.folder} with all data of this instance"
            ) from error

    def save(self, settings: Settings) -> None:
        """Store the settings of the instance."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        self.settings_file.write_bytes(msgspec.json.encode(settings))

    def purge(self) -> None:
        """Delete everything of the instance, volumes included."""
        shutil.rmtree(self.folder, ignore_errors=False)


class Instances:
    """The local clusters of one distribution on this machine."""

    def __init__(self, distribution: Distribution) -> None:
        self.distribution = distribution

    def home(self) -> Path:
        """Return the folder of all instances: from the environment, else in the user's data."""
        chosen = os.environ.get(self.distribution.home_variable)
        if chosen:
            return Path(chosen)
        data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
        return Path(data) / self.distribution.name

    def find(self, name: str) -> Instance:
        """Return the instance of that name, whether it exists or not."""
        if _NAME.fullmatch(name) is None:
            raise InstanceError(
                f"{name!r} cannot be an instance's name: use up to 32 small letters, digits and "
                "dashes"
            )
        return Instance(name, self.home() / name)

    def known(self) -> list[Instance]:
        """Return the instances that exist here, by name."""
        files = sorted(self.home().glob("*/instance.json"))
        return [Instance(file.parent.name, file.parent) for file in files]

    def free_network(self) -> int:
        """Return a network number that no instance uses and no process on this machine holds.

        Pods whose supervisor and control plane were killed hold it too: they listen on it.
        """
        from kubelocal.node.addresses import listening_addresses  # noqa: PLC0415 - only here

        used = {settings.network for i in self.known() if (settings := i.settings()) is not None}
        local = (address.split(".") for address in listening_addresses())
        used |= {int(second) for first, second, *_ in local if first == "127"}
        for number in range(_FIRST, _LAST + 1):
            if number in used:
                continue
            with (
                suppress(InstanceError),
                self.hold_network(number, by=SUPERVISOR),
                self.hold_network(number),
            ):
                return number
        raise InstanceError(
            f"all loopback networks from 127.{_FIRST} to 127.{_LAST} are in use; "
            f"stop an instance with `{self.distribution.command} down --name NAME --purge`"
        )

    @contextmanager
    def choosing(self) -> Iterator[None]:
        """Keep every other `up` on this machine from choosing a network until this one is locked.

        A network that was found free is locked only when its supervisor has started.
        """
        deadline = time.monotonic() + _CHOOSING_SECONDS
        while True:
            lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                lock.bind(f"\0{self.distribution.name}-choosing")
            except OSError as error:
                lock.close()
                if time.monotonic() > deadline:
                    raise InstanceError(
                        f"another local cluster on this machine has been starting for "
                        f"{_CHOOSING_SECONDS:g} s; wait for it, or stop it, and try again"
                    ) from error
                time.sleep(0.02)
            else:
                break
        try:
            yield
        finally:
            lock.close()

    @contextmanager
    def hold_network(self, number: int, *, by: str = CONTROL_PLANE) -> Iterator[None]:
        """Lock a network while the context lasts; the kernel releases it when the process ends.

        A control plane and its supervisor, which may outlive each other, have a lock each.
        """
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lock.bind(f"\0{self.distribution.name}-127.{number}{by}")
        except OSError as error:
            lock.close()
            raise InstanceError(
                f"another local cluster on this machine uses the addresses 127.{number}.x.y; "
                "stop it first, or choose another --name"
            ) from error
        try:
            yield
        finally:
            lock.close()


def pod_network(number: int) -> str:
    """Return the network of pod addresses."""
    return f"127.{number}.0.0/17"


def service_network(number: int) -> str:
    """Return the network of service addresses."""
    return f"127.{number}.128.0/18"


def api_address(number: int) -> tuple[str, int]:
    """Return where the API server listens."""
    return f"127.{number}.255.254", 6443


def operator_address(number: int) -> str:
    """Return where the operator serves its health and metrics."""
    return f"127.{number}.255.253"
