"""Local mode in a folder of its own, started and ended by the command people use."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.bytecode import compiled
from kubecontroller.client.api import Client
from kubecontroller.client.config import load
from kubecontroller.client.http import HttpTransport

__all__ = ["LocalCluster", "local_cluster"]


class LocalCluster:
    """A running instance, and what its processes use."""

    def __init__(self, folder: Path, name: str, ready_seconds: float) -> None:
        self.folder = folder
        self.name = name
        self.ready_seconds = ready_seconds

    @property
    def kubeconfig(self) -> Path:
        return self.folder / self.name / "kubeconfig"

    def client(self) -> Client:
        """Return a client as its admin."""
        return Client(HttpTransport(load(file=self.kubeconfig)), field_manager="bench")

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Return its processes: the supervisor, the control plane, the operator, pods' keepers."""
        found: dict[str, list[psutil.Process]] = {}
        for process in psutil.process_iter():
            try:
                words = process.cmdline()
            except (psutil.Error, OSError):
                continue
            role = self._role(words)
            if role:
                found.setdefault(role, []).append(process)
        return found

    def _role(self, words: list[str]) -> str:
        text = " ".join(words)
        if "control-plane" in words and self.name in words:
            return "control plane"
        if "run" in words and str(self.folder) in text:
            return "operator"
        if "supervise" in words and self.name in words:
            return "supervisor"
        return "keepers" if "redis_operator" in text and str(self.folder) in text else ""

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time used so far by each part."""
        return {
            role: sum(sum(p.cpu_times()[:2]) for p in members)
            for role, members in self.processes().items()
        }

    def rss_mib(self, role: str) -> float:
        """Return the memory of one part."""
        return float(sum(p.memory_info().rss for p in self.processes().get(role, []))) / 2**20


@contextmanager
def local_cluster(name: str, *options: str) -> Iterator[LocalCluster]:
    """Bring up an instance, and take it down with all its data."""
    with tempfile.TemporaryDirectory(prefix="bench-local-") as folder:
        environment = {**compiled(), "REDIS_OPERATOR_HOME": folder}

        def command(*words: str) -> None:
            program = [sys.executable, "-m", "redis_operator.cli.main", *words, "--name", name]
            done = subprocess.run(
                program, env=environment, capture_output=True, text=True, check=False, timeout=120
            )
            if done.returncode:
                raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")

        begun = time.perf_counter()
        command("up", "--detach", *options)
        try:
            yield LocalCluster(Path(folder), name, time.perf_counter() - begun)
        finally:
            command("down", "--purge")
