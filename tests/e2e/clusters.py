"""Where end-to-end tests run: a local cluster of their own, or the one KUBECONFIG names."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kubecontroller.client.api import Client
from kubecontroller.client.config import load
from kubecontroller.client.errors import NotFound
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.objects import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS
from redis_operator.api.crd import crds

__all__ = [
    "OPERATOR_PROGRAM",
    "PATIENCE",
    "Cluster",
    "Clusters",
    "LocalCluster",
    "RealCluster",
    "cpu_seconds",
    "until",
]

PATIENCE = float(os.environ.get("E2E_PATIENCE", "1"))
"""How many times longer than on a fair machine everything may take."""
_ONLY_NAMESPACE = os.environ.get("E2E_NAMESPACE", "") if os.environ.get("KUBECONFIG") else ""
_OF_DATABASES = "redisoperator.dev/database"
OPERATOR_PROGRAM = ("-m", "redis_operator.cli.main")
_WITHOUT_RULE = Path(__file__).parent / "without_rule.py"
_SMALL_EXPORTER = Path(__file__).parent / "small_exporter.py"


class Cluster:
    """A cluster with the operator in it."""

    kubeconfig: Path
    is_local: bool
    only_namespace = ""
    """The one namespace that the operator watches; empty: it watches all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def client(self) -> Client:
        return Client(HttpTransport(load(file=self.kubeconfig)), field_manager="e2e")

    def defaults(self) -> dict[str, Any]:
        """Return what every database of this run is made with, unless a test says otherwise."""
        found = {
            "engine": os.environ.get("E2E_ENGINE", ""),
            "version": os.environ.get("E2E_VERSION", ""),
            "image": os.environ.get("E2E_IMAGE", ""),
        }
        return {name: value for name, value in found.items() if value}

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def stop_operator(self) -> None:
        raise NotImplementedError

    def start_operator(self) -> None:
        raise NotImplementedError

    def kill_operator(self) -> None:
        """Kill -9; somebody starts it again."""
        raise NotImplementedError

    def operator_pid(self) -> int:
        """Return the process that is the operator now."""
        raise NotImplementedError

    def require_process(self) -> None:
        """Skip a test where the operator is not a process of this machine."""

    def power(self, state: str, node: str) -> None:
        """Cut a node's power (`off`), or give it back (`on`)."""
        raise NotImplementedError

    @property
    def operator_log(self) -> Path:
        """Return what the operator of this cluster writes."""
        raise NotImplementedError

    @contextmanager
    def operator_without(self, rule: str) -> Iterator[None]:
        """Replace the operator by one that lacks a rule of the planner, for as long as it takes."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        program = (str(_WITHOUT_RULE), rule)
        with self.replaced_operator(folder / "operator.log", self.kubeconfig, program=program):
            yield

    @contextmanager
    def replaced_operator(
        self, log: Path, kubeconfig: Path, *words: str, program: Sequence[str] = OPERATOR_PROGRAM
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run another operator process in place of the cluster's own."""
        self.stop_operator()
        try:
            process = start_operator(log, kubeconfig, *words, program=program)
            try:
                wait_started(process, log)
                yield process
            finally:
                process.terminate()
                process.wait(timeout=60)
        finally:
            self.start_operator()

    def recover(self) -> bool:
        """Put right what a failed test may have left behind; false when that is impossible."""
        raise NotImplementedError

    def kubectl(self, *words: str, check: bool = True, stdin: str = "") -> str:
        program = Path(sys.executable).parent / "kubectl"
        done = subprocess.run(
            [str(program), "--kubeconfig", str(self.kubeconfig), *words],
            capture_output=True,
            text=True,
            check=False,
            input=stdin,
            timeout=120,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def evidence(self, namespace: str) -> list[tuple[str, str]]:
        """Return what may tell why a test failed, as sections of its report."""
        found = [("operator", _end_of(self.operator_log.read_text(), 150))]
        if not namespace:
            return found
        where = ("-n", namespace)
        found += [
            (kind, self.kubectl("get", kind, "-o", "wide", *where, check=False))
            for kind in ("pods", "events")
        ]
        for pod in self.kubectl("get", "pods", "-o", "name", *where, check=False).split():
            told = self.kubectl("logs", pod, "--timestamps", "--tail=60", *where, check=False)
            found.append((pod, told))
        return found

    async def create_namespace(self, client: Client, name: str) -> None:
        """Create a namespace; one of the same name that a test before left must end first."""
        await until(lambda: self._is_gone(client, name), seconds=90, what=f"end of {name}")
        await client.create(NAMESPACES.plain(), {"metadata": {"name": name}})

    async def end_databases(self, client: Client, namespace: str) -> None:
        """Delete the databases of a namespace first where that is faster."""

    async def delete_namespace(self, client: Client, name: str) -> None:
        """Delete a namespace and everything in it; it must always come to its end."""
        await client.delete(NAMESPACES, ("", name))
        await until(lambda: self._is_gone(client, name), seconds=90, what=f"end of {name}")

    async def _is_gone(self, client: Client, name: str) -> bool:
        try:
            await client.get(NAMESPACES, ("", name))
        except NotFound:
            return True
        return False


class LocalCluster(Cluster):
    """Local mode in a folder, and under a name, of its own."""

    is_local = True
    up_options: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.name = f"e2e-{os.getpid()}"
        self.kubeconfig = folder / self.name / "kubeconfig"

    def start(self) -> None:
        images = self.folder / "images"
        images.mkdir()
        if shutil.which("redis_exporter") is None:
            _small_exporter(images / "redis_exporter" / "1.74.0" / "bin")
        words = ("--nodes", "3", "--zones", "3", "--images", str(images), *self.up_options)
        self._run("up", "--name", self.name, *words, "--detach")
        self._wait_for_nodes(3)

    def _wait_for_nodes(self, count: int) -> None:
        """Wait for all nodes: both copies of a shard would go to the first if it were alone."""
        ready = '{.items[*].status.conditions[?(@.type=="Ready")].status}'
        deadline = time.monotonic() + 30 * PATIENCE
        while self.kubectl("get", "nodes", "-o", f"jsonpath={ready}").split() != ["True"] * count:
            assert time.monotonic() < deadline, self.kubectl("get", "nodes")
            time.sleep(0.1)

    def stop(self) -> None:
        self._run("down", "--name", self.name, "--purge")

    def recover(self) -> bool:
        return False  # a new one is cheap

    @property
    def operator_log(self) -> Path:
        return self.folder / self.name / "logs" / "operator.log"

    def _run(self, *words: str) -> str:
        environment = {**os.environ, "REDIS_OPERATOR_HOME": str(self.folder)}
        done = subprocess.run(
            [sys.executable, "-m", "redis_operator.cli.main", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def power(self, state: str, node: str) -> None:
        verb = {"off": "stop", "on": "start"}[state]
        self._run("node", verb, node, "--name", self.name)

    def operator_pid(self) -> int:
        return self.process("run")

    def process(self, word: str) -> int:
        """Return the pid of a process of this cluster by a word of its command, once there is one.

        Never 0: a signal to that would go to our own process group.
        """
        supervisor = int((self.folder / self.name / "supervisor.pid").read_text().split()[0])
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            for child in _children(supervisor):
                if word.encode() in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                    return child
            time.sleep(0.05)
        raise AssertionError(f"no process of {word!r} runs")

    def kill_operator(self) -> None:
        os.kill(self.operator_pid(), signal.SIGKILL)

    def stop_operator(self) -> None:
        """Stop the operator process where it stands: it is there and does nothing."""
        os.kill(self.operator_pid(), signal.SIGSTOP)

    def start_operator(self) -> None:
        os.kill(self.operator_pid(), signal.SIGCONT)


def _small_exporter(folder: Path) -> None:
    """Put an exporter of the tests' own where the image of the real one is looked for."""
    folder.mkdir(parents=True)
    program = folder / "redis_exporter"
    # In one file, by the machine's own Python: a container sees nothing of a clone below /tmp.
    python = Path(sys.executable).resolve()
    program.write_text(f"#!{python}\n{_SMALL_EXPORTER.read_text()}")
    program.chmod(0o755)


class RealCluster(Cluster):
    """Any cluster, by its kubeconfig; the operator runs here, as a process of this machine."""

    is_local = False

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        super().__init__(folder)
        self.kubeconfig = kubeconfig
        self.only_namespace = _ONLY_NAMESPACE
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        asyncio.run(self._install())
        self.start_operator()
        assert self._process is not None
        wait_started(self._process, self.operator_log)

    async def _install(self) -> None:
        client = self.client()
        for definition in crds().values():
            await client.apply(CUSTOM_RESOURCE_DEFINITIONS.plain(), definition)
        await client.close()

    def stop(self) -> None:
        self.stop_operator()

    async def end_databases(self, client: Client, namespace: str) -> None:
        """Delete the databases, so that no pod is left when the namespace is deleted.

        Kubernetes deletes the pods of a namespace first, and then comes back to it after half of
        their grace period: minutes, where a server may take that long to save its data.
        """
        for kind in ("redisfailovers", "redis"):
            self.kubectl("delete", kind, "--all", "--wait=false", "-n", namespace, check=False)

        async def ended() -> bool:
            return not (await client.list(PODS, namespace=namespace, labels=_OF_DATABASES)).items

        with suppress(AssertionError):  # of a test that failed, or took the operator away
            await until(ended, seconds=15, what="end of the databases", every=0.3)

    def recover(self) -> bool:
        self.kill_operator()
        for node in self.kubectl("get", "nodes", "-o", "name").split():
            self.kubectl("uncordon", node)
        return True

    @property
    def operator_log(self) -> Path:
        return self.folder / "operator.log"

    def start_operator(self) -> None:
        image = os.environ.get("E2E_OPERATOR_IMAGE", "")  # workers of backups run in it
        words = ("--worker-image", image) if image else ()
        kubeconfig = Path(os.environ.get("E2E_OPERATOR_KUBECONFIG", self.kubeconfig))
        self._process = start_operator(self.operator_log, kubeconfig, *words)

    def operator_pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop_operator(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(timeout=60)

    def kill_operator(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(timeout=10)
        self.start_operator()

    def power(self, state: str, node: str) -> None:
        """Run the command that the caller gave for this, with the name of the node in `NODE`."""
        command = os.environ[f"E2E_POWER_{state.upper()}"]
        done = subprocess.run(
            ["sh", "-c", command],
            env={**os.environ, "NODE": node},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


class Clusters:
    """The cluster of one test process. After a test that failed, the next one gets a clean one."""

    def __init__(self, make: Callable[[], Cluster]) -> None:
        self._make = make
        self._cluster: Cluster | None = None

    def current(self) -> Cluster:
        """Return the cluster, started if there is none."""
        if self._cluster is None:
            made = self._make()
            made.start()
            self._cluster = made
        return self._cluster

    def renew(self) -> None:
        """Throw the cluster away, or put it right where it cannot be replaced."""
        if self._cluster is not None and not self._cluster.recover():
            self.stop()

    def stop(self) -> None:
        """Stop the cluster, if there is one."""
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            cluster.stop()


def start_operator(
    log: Path,
    kubeconfig: Path,
    *words: str,
    program: Sequence[str] = OPERATOR_PROGRAM,
    election: bool = False,
) -> subprocess.Popen[bytes]:
    """Start an operator as a process of this machine; it is alone, unless it is to be elected."""
    alone = () if election else ("--no-election",)
    watched = ("--namespaces", _ONLY_NAMESPACE) if _ONLY_NAMESPACE else ()
    with log.open("ab") as output:
        return subprocess.Popen(
            [
                *(sys.executable, *program, "run", "--kubeconfig", str(kubeconfig)),
                *(*alone, *watched, "--health-port", "0", *words),
            ],
            stdout=output,
            stderr=output,
        )


def wait_started(process: subprocess.Popen[bytes], log: Path) -> None:
    """Report an operator that cannot run at once, and not by every test that waits for it."""
    deadline = time.monotonic() + 30 * PATIENCE
    while "workers started" not in log.read_text():
        ended = process.poll() is not None or time.monotonic() > deadline
        assert not ended, f"the operator does not run: {log.read_text()[-2000:]}"
        time.sleep(0.1)


def _end_of(text: str, lines: int) -> str:
    return "\n".join(text.splitlines()[-lines:])


def cpu_seconds(pid: int) -> float:
    """Return how many seconds of CPU a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


async def until(met: Callable[[], Any], *, seconds: float, what: str, every: float = 0.1) -> Any:
    """Wait until something is true; say what was waited for when it does not come."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        found = await met()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        await asyncio.sleep(every)
