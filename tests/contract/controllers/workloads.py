"""Building workloads that do nothing but live, and asking what became of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.driver import Space, until

__all__ = ["LIVE", "READY_LATER", "World", "conditions", "is_ready"]

# Lives until told to end, and then ends at once.
LIVE = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
# Ready only when somebody makes the file.
READY_LATER = {"exec": {"command": ["test", "-f", "/state/ready"]}, "periodSeconds": 1}


def conditions(found: dict[str, Any]) -> dict[str, str]:
    """Type and status of each condition."""
    listed = found.get("status", {}).get("conditions") or []
    return {each["type"]: each["status"] for each in listed}


def is_ready(pod: dict[str, Any]) -> bool:
    return conditions(pod).get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


@dataclass(frozen=True)
class World(Space):
    """A namespace in a cluster that works."""

    kubeconfig: str = ""
    image: str = ""

    def until(self, what: str, probe: Callable[[], Any], seconds: float = 45) -> Any:
        return until(what, probe, seconds=seconds)

    def container(self, script: str = LIVE, **more: Any) -> dict[str, Any]:
        return {
            "name": "main",
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", script],
            **more,
        }

    def pod_spec(
        self, script: str = LIVE, *, pod: dict[str, Any] | None = None, **container: Any
    ) -> Any:
        return {
            "terminationGracePeriodSeconds": 2,
            "containers": [self.container(script, **container)],
            **(pod or {}),
        }

    def gated(self) -> dict[str, Any]:
        """A pod spec whose pod is ready only after `open_gate`."""
        mounts = [{"name": "state", "mountPath": "/state"}]
        volumes = [{"name": "state", "emptyDir": {}}]
        return dict(
            self.pod_spec(pod={"volumes": volumes}, readinessProbe=READY_LATER, volumeMounts=mounts)
        )

    def open_gate(self, pod: str) -> None:
        self.until(f"{pod} runs", lambda: self.phase(pod) == "Running")
        self.kubectl("exec", pod, "--", "touch", "/state/ready")

    def close_gate(self, pod: str) -> None:
        self.kubectl("exec", pod, "--", "rm", "/state/ready")

    def workload(self, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """The body of a Deployment, StatefulSet or ReplicaSet of pods labelled app=w."""
        labels = {"app": "w"}
        template = {"metadata": {"labels": labels}, "spec": spec or self.pod_spec()}
        whole = {"selector": {"matchLabels": labels}, "template": template, **more}
        return {"metadata": {"name": "w"}, "spec": whole}

    def run_pod(self, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        return self.create("pods", {"metadata": {"name": name, **metadata}, "spec": spec})

    def phase(self, pod: str) -> str:
        found = self.get(f"pods/{pod}")
        return found.json["status"]["phase"] if found.status == 200 else ""

    def finished(self, pod: str) -> dict[str, Any]:
        """The pod once it has ended."""
        self.until(f"{pod} ends", lambda: self.phase(pod) in ("Succeeded", "Failed"))
        return self.read(f"pods/{pod}")

    def printed(self, pod: str, container: str = "main") -> str:
        """What a container of a pod printed that ended well.

        The log of a container may be empty for a moment after the API server has told its end.
        """
        found = self.finished(pod)
        assert found["status"]["phase"] == "Succeeded", found["status"]
        return str(
            self.until(f"{pod} has a log", lambda: self.logs(pod, container=container), seconds=15)
        )

    def running(self, pod: str) -> dict[str, Any]:
        self.until(f"{pod} is ready", lambda: self.pod_is_ready(pod))
        return self.read(f"pods/{pod}")

    def pod_is_ready(self, pod: str) -> bool:
        found = self.get(f"pods/{pod}")
        return found.status == 200 and is_ready(found.json)

    def pods(self, selector: str = "app=w") -> list[dict[str, Any]]:
        """Pods that are not on their way out."""
        items = self.read("pods", labelSelector=selector)["items"]
        return [each for each in items if "deletionTimestamp" not in each["metadata"]]

    def ready_names(self, selector: str = "app=w") -> list[str]:
        return [each["metadata"]["name"] for each in self.pods(selector) if is_ready(each)]

    def ready(self, *names: str) -> None:
        self.until(f"{names} are ready", lambda: sorted(self.ready_names()) == sorted(names))

    def ready_count(self, count: int) -> None:
        self.until(
            f"{count} pods are ready and no others exist",
            lambda: len(self.pods()) == count == len(self.ready_names()),
        )

    def logs(self, pod: str, **query: Any) -> str:
        reply = self.get(f"pods/{pod}/log", accept="*/*", **query)
        assert reply.status == 200, reply.text
        return reply.text

    def kubectl(self, *words: str, fails: bool = False) -> str:
        program = str(Path(sys.executable).parent / "kubectl")
        command = [program, "--kubeconfig", self.kubeconfig, "-n", self.name, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert (done.returncode != 0) is fails, f"{words}: {done.stdout}{done.stderr}"
        return done.stderr if fails else done.stdout
