"""Clusters with the operator in them: the Deployment that `redis-operator install` makes.

`E2E_OPERATOR=installed` chooses them, on local mode and on the cluster KUBECONFIG names. The
operator is a pod of `E2E_OPERATOR_IMAGE` with exactly the rights of its installation. What tests do
to it is done to the Deployment: starting and stopping scale it, killing deletes its pods without a
grace period, and other settings or programs change the pod template for a while.

Without `E2E_NAMESPACE` it is installed by the command and watches all namespaces. A cluster has one
such installation. With it, the objects that `install --print` renders are applied under names of
their own, so that several runs have one operator each: it watches that namespace, and its rights
are those of `--watch-namespaces`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.clusters import OPERATOR_PROGRAM, PATIENCE, Cluster, LocalCluster, RealCluster
from kubecontroller.client.api import Client
from redis_operator.install.objects import INSTALLATION_LABEL
from redis_operator.install.options import DEFAULT_NAMESPACE
from redis_operator.install.rights import OPERATOR
from redis_operator.install.workload import POD_LABELS

__all__ = ["InstalledLocal", "InstalledReal", "is_asked_for"]

_LABELS = ",".join(f"{key}={value}" for key, value in POD_LABELS.items())
_REPLICAS = int(os.environ.get("E2E_OPERATOR_REPLICAS", "1"))
_FOLDER = "/e2e"  # where the pod finds the program that a test replaces the operator by
# Tests check what the controller says of a spec, which the webhooks would not let through.
_CHOICES = ("--replicas", str(_REPLICAS), "--without-webhooks", "--without-monitoring")
_POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
_PROTECTION = ("validatingadmissionpolicybinding", "redis-deletion-protection")
_PATCHED = """\
import os, sys, traceback
try:
    import {module}
    {module}.apply({word!r})
except BaseException:
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(3)
"""


def is_asked_for() -> bool:
    """Tell whether this run tests an operator that is installed in the cluster."""
    asked = os.environ.get("E2E_OPERATOR", "")
    if asked not in ("", "installed"):
        pytest.exit(f"E2E_OPERATOR is {asked!r}; it is `installed` or not set", returncode=4)
    return asked == "installed"


class _Log:
    """Collects what the pods of the operator write into one file."""

    def __init__(self, cluster: _Installed) -> None:
        self._cluster = cluster
        self._followed: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def follow(self) -> None:
        """Follow the pods that start now, in the background."""
        threading.Thread(target=self._find, daemon=True).start()

    def _find(self) -> None:
        deadline = time.monotonic() + 60 * PATIENCE
        missing = _REPLICAS
        while missing > 0 and time.monotonic() < deadline:
            missing = _REPLICAS
            for name in self._cluster.operator_pods("--field-selector=status.phase=Running"):
                missing -= 1
                with self._lock:
                    if name not in self._followed:
                        self._followed[name] = self._cluster.followed(name)
            time.sleep(1.0)

    def stop(self) -> None:
        with self._lock:
            for process in self._followed.values():
                process.kill()
                process.wait(timeout=10)


class _Installed(Cluster):
    """What an operator in the cluster needs, wherever that is."""

    home = DEFAULT_NAMESPACE
    """The namespace of the operator."""
    image: str
    arguments: tuple[str, ...] = ()

    def command(self, *words: str) -> str:
        """Run `redis-operator` for this cluster."""
        done = subprocess.run(
            [sys.executable, *OPERATOR_PROGRAM, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=400 * PATIENCE,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def install(self) -> None:
        self.operator_log.touch()
        self._log = _Log(self)
        arguments = (f"--argument={word}" for word in self.arguments)
        words = ("--image", self.image, *_CHOICES, *arguments)
        if self.only_namespace:
            self._install_beside_others(*words)
        else:
            where = ("--kubeconfig", str(self.kubeconfig), "--timeout", str(90 * PATIENCE))
            self.command("install", *words, *where)
        # The operator's own protection from deletion is tested, which this one comes before.
        self.kubectl("delete", *_PROTECTION, "--ignore-not-found", check=False)
        self.start_operator()

    def _install_beside_others(self, *words: str) -> None:
        """Apply what `install` renders, with names for what belongs to no namespace."""
        raise NotImplementedError

    def operator_pods(self, *selected: str) -> list[str]:
        """Return the names of the operator's pods, also of those that are ending."""
        words = ("get", "pods", "-n", self.home, "-l", _LABELS, "-o", "name", *selected)
        found = self.kubectl(*words, check=False).split()
        return [name.removeprefix("pod/") for name in found if name.startswith("pod/")]

    def followed(self, pod: str, file: Path | None = None) -> subprocess.Popen[bytes]:
        """Append what a pod of the operator writes to a file, until the pod ends."""
        program = Path(sys.executable).parent / "kubectl"
        with (file or self.operator_log).open("ab") as output:
            return subprocess.Popen(
                [program, "--kubeconfig", self.kubeconfig, "logs", "-f", "-n", self.home, pod],
                stdout=output,
                stderr=subprocess.DEVNULL,
            )

    def start_operator(self) -> None:
        self._scale(_REPLICAS)
        self._log.follow()
        self._wait(self._leader, "a pod of the operator to lead")

    def stop_operator(self) -> None:
        self._scale(0)
        self._wait(lambda: not self.operator_pods(), "the pods of the operator to end")

    def kill_operator(self) -> None:
        """End its pods without a grace period; the Deployment starts others."""
        words = ("--grace-period=0", "--force", "--wait=false")
        self.kubectl("delete", "pods", "-n", self.home, "-l", _LABELS, *words)
        self._log.follow()

    def require_process(self) -> None:
        pytest.skip("the operator is a pod: this test needs it as a process of this machine")

    def operator_pid(self) -> int:
        self.require_process()
        raise AssertionError("skipped")

    def power(self, state: str, node: str) -> None:
        on_node = self.operator_pods(f"--field-selector=spec.nodeName={node}")
        if state == "off" and len(on_node) == _REPLICAS:
            pytest.skip(f"all pods of the operator are on {node}: set E2E_OPERATOR_REPLICAS=2")
        super().power(state, node)

    @contextmanager
    def replaced_operator(
        self, log: Path, kubeconfig: Path, *words: str, program: Sequence[str] = OPERATOR_PROGRAM
    ) -> Iterator[Any]:
        """Run pods with other arguments, or with a changed program, in place of the usual ones."""
        if kubeconfig != self.kubeconfig:
            self.require_process()
        found = json.loads(self.kubectl("get", "deployment", OPERATOR, *self._here, "-o", "json"))
        usual = found["spec"]["template"]
        changed = json.loads(json.dumps(usual))
        container = changed["spec"]["containers"][0]
        container["args"] += ["--log", "human", *words]
        if program != OPERATOR_PROGRAM:
            self._patch_program(changed["spec"], Path(program[0]), program[1])
        self.stop_operator()
        follower: subprocess.Popen[bytes] | None = None
        try:
            self._replace_template(changed)
            self.start_operator()
            follower = self.followed(self._leader(), log)
            yield follower
        finally:
            self.stop_operator()
            if follower is not None:
                follower.kill()
                follower.wait(timeout=10)
            self._replace_template(usual)
            self.start_operator()

    def _patch_program(self, pod: dict[str, Any], script: Path, word: str) -> None:
        """Have Python apply a script of the tests before the operator of the image starts."""
        files = {
            script.name: script.read_text(),
            "sitecustomize.py": _PATCHED.format(module=script.stem, word=word),
        }
        made = {"apiVersion": "v1", "kind": "ConfigMap", "data": files}
        made["metadata"] = {"name": "e2e-program", "namespace": self.home}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(made))
        source = {"name": "e2e-program", "configMap": {"name": "e2e-program"}}
        pod.setdefault("volumes", []).append(source)
        container = pod["containers"][0]
        mount = {"name": "e2e-program", "mountPath": _FOLDER, "readOnly": True}
        container.setdefault("volumeMounts", []).append(mount)
        # the second folder has the program in an image of the Containerfile
        container["env"].append({"name": "PYTHONPATH", "value": f"{_FOLDER}:/program"})

    def _replace_template(self, template: dict[str, Any]) -> None:
        change = [{"op": "replace", "path": "/spec/template", "value": template}]
        words = ("deployment", OPERATOR, *self._here, "--type=json", "-p", json.dumps(change))
        self.kubectl("patch", *words)

    @property
    def _here(self) -> tuple[str, str]:
        return ("-n", self.home)

    def _scale(self, replicas: int) -> None:
        self.kubectl("scale", "deployment", OPERATOR, *self._here, f"--replicas={replicas}")

    def _leader(self) -> str:
        """Return the pod that leads; nothing while no pod that is there does."""
        holder = ("get", "lease", OPERATOR, *self._here, "-o", "jsonpath={.spec.holderIdentity}")
        name = self.kubectl(*holder, check=False).strip().rpartition("_")[0]
        return name if name and name in self.operator_pods() else ""

    def _wait(self, met: Any, what: str) -> None:
        deadline = time.monotonic() + 90 * PATIENCE
        while not met():
            if time.monotonic() > deadline:
                state = self.kubectl("get", "pods", *self._here, "-o", "wide", check=False)
                log = self.operator_log.read_text()[-2000:]
                raise AssertionError(f"waited for {what}\n{state}\n{log}")
            time.sleep(0.2)


class InstalledLocal(_Installed, LocalCluster):
    """Local mode, where the operator is a pod too; the product itself is its image."""

    up_options = ("--without-operator",)
    image = os.environ.get("E2E_OPERATOR_IMAGE", "redis-operator:1")
    arguments = ("--binding-addresses", "--secret-refresh=5")  # as `up` starts it

    def start(self) -> None:
        LocalCluster.start(self)
        self.install()

    def stop(self) -> None:
        self._log.stop()
        LocalCluster.stop(self)


class InstalledReal(_Installed, RealCluster):
    """The cluster that KUBECONFIG names."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        super().__init__(kubeconfig, folder)
        self.image = os.environ.get("E2E_OPERATOR_IMAGE", "")
        if not self.image:
            pytest.exit("E2E_OPERATOR=installed needs E2E_OPERATOR_IMAGE", returncode=4)
        self._rights: list[dict[str, Any]] = []  # in the one namespace that is watched
        self._namespace_is_new = False
        if self.only_namespace:
            self.home = f"{DEFAULT_NAMESPACE}-{self.only_namespace}"

    def start(self) -> None:
        self.install()

    def stop(self) -> None:
        self._log.stop()
        if self.only_namespace:
            which = ("-l", f"app.kubernetes.io/part-of={self.home}")
            self.kubectl("delete", "clusterrolebindings,clusterroles", *which, check=False)
            self.kubectl("delete", "namespace", self.home, "--wait=false", check=False)
            if self._namespace_is_new:
                self.kubectl("delete", "namespace", self.only_namespace, "--wait=false")
        else:
            where = ("--kubeconfig", str(self.kubeconfig), "--timeout", str(90 * PATIENCE))
            self.command("uninstall", *where)

    def recover(self) -> bool:
        with suppress(AssertionError):  # a node that is away may keep one of them
            self.kill_operator()
        self._allow_again()
        self.start_operator()
        for node in self.kubectl("get", "nodes", "-o", "name").split():
            self.kubectl("uncordon", node)
        return True

    def _allow_again(self) -> None:
        """Give the operator its rights in the namespace of the run, which may have been deleted.

        It does not lead before it may list what it watches.
        """
        if self.only_namespace and self._rights:
            words = ("get", "namespace", self.only_namespace, "-o", "jsonpath={.status.phase}")
            self._wait(
                lambda: self.kubectl(*words, "--ignore-not-found") != "Terminating",
                f"namespace {self.only_namespace} to end",
            )
            made = {"apiVersion": "v1", "kind": "Namespace"}
            self._apply([{**made, "metadata": {"name": self.only_namespace}}])
            self._apply_rights(self.only_namespace)
            self._namespace_is_new = True

    def _install_beside_others(self, *words: str) -> None:
        where = ("--namespace", self.home, "--watch-namespaces", self.only_namespace)
        rendered = self.command("install", "--print", *where, *words)
        made = [one for one in yaml.safe_load_all(rendered) if one["kind"] not in _POLICIES]
        definitions = [one for one in made if one["kind"] == "CustomResourceDefinition"]
        rest = [self._renamed(one) for one in made if one not in definitions]
        self._rights = [
            one for one in rest if one["metadata"].get("namespace") == self.only_namespace
        ]
        for one in definitions:  # all runs share them
            del one["metadata"]["labels"][INSTALLATION_LABEL]
        self.kubectl("create", "namespace", self.only_namespace)
        self._namespace_is_new = True
        self._apply(definitions)
        self._apply(rest)

    def _renamed(self, made: dict[str, Any]) -> dict[str, Any]:
        """Give an object that belongs to no namespace the name of this installation."""
        if "namespace" in made["metadata"] or made["kind"] == "Namespace":
            return made
        name = made["metadata"]["name"].replace(OPERATOR, self.home)
        labels = {**made["metadata"].get("labels", {}), "app.kubernetes.io/part-of": self.home}
        changed = {**made, "metadata": {**made["metadata"], "name": name, "labels": labels}}
        if "roleRef" in made:
            changed["roleRef"] = {**made["roleRef"], "name": name}
        return changed

    def _apply(self, made: list[dict[str, Any]]) -> None:
        words = ("--server-side", "--force-conflicts", "--field-manager=e2e", "-f", "-")
        self.kubectl("apply", *words, stdin=yaml.safe_dump_all(made))

    async def create_namespace(self, client: Client, name: str) -> None:
        """Create a namespace; where rights are given by namespace, they went with the old one."""
        if name == self.only_namespace and self._namespace_is_new:
            self._namespace_is_new = False  # it was created for the installation
            return
        await super().create_namespace(client, name)
        self._apply_rights(name)

    def _apply_rights(self, name: str) -> None:
        rights = [
            {**one, "metadata": {**one["metadata"], "namespace": name}} for one in self._rights
        ]
        if rights:
            self._apply(rights)
