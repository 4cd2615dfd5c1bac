from __future__ import annotations

import os
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kubelocal.apiserver.objects.prepare import quality_of_service
from kubelocal.node.layout import PodFolder
from kubelocal.node.pod.probes import (
    ExecCheck,
    HttpCheck,
    Result,
    TcpCheck,
    Verdict,
    probe_of,
)
from kubelocal.node.pod.states import (
    Backoff,
    Container,
    Role,
    Running,
    Terminated,
    Waiting,
    from_status,
    termination_message,
)
from kubelocal.node.pod.status import PodState, phase_of, pod_status

NOW = datetime(2026, 11, 15, 7, 13, 51, tzinfo=UTC)
BEFORE = NOW - timedelta(seconds=30)
RUNNING = Running(BEFORE)
DONE = Terminated(0, "Completed", BEFORE, NOW)
BROKEN = Terminated(3, "Error", BEFORE, NOW)
CREATING = Waiting("ContainerCreating")
LOOPING = Waiting("CrashLoopBackOff")


def pod(policy: str = "Always", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": 1},
        "spec": {"restartPolicy": policy, "containers": [{"name": "a"}, {"name": "b"}], **spec},
    }


def state(*containers: Container, **more: Any) -> PodState:
    return PodState(containers=containers, host_ip="127.0.1.1", **more)


def main(name: str, at: Any, **more: Any) -> Container:
    return Container(name, Role.MAIN, "redis:7.0", at, **more)


def init(name: str, at: Any, role: Role = Role.INIT, **more: Any) -> Container:
    return Container(name, role, "redis:7.0", at, **more)


@pytest.mark.parametrize(
    ("policy", "containers", "expected"),
    [
        ("Always", [main("a", CREATING), main("b", RUNNING)], "Pending"),
        ("Always", [main("a", RUNNING), main("b", RUNNING)], "Running"),
        ("Always", [main("a", DONE), main("b", BROKEN)], "Running"),
        ("Always", [main("a", LOOPING, last=BROKEN), main("b", RUNNING)], "Running"),
        ("Never", [main("a", DONE), main("b", RUNNING)], "Running"),
        ("Never", [main("a", DONE), main("b", DONE)], "Succeeded"),
        ("Never", [main("a", DONE), main("b", BROKEN)], "Failed"),
        ("OnFailure", [main("a", DONE), main("b", BROKEN)], "Running"),
        ("OnFailure", [main("a", DONE), main("b", DONE)], "Succeeded"),
        ("Always", [init("i", RUNNING), main("a", CREATING)], "Pending"),
        ("Always", [init("i", BROKEN), main("a", CREATING)], "Pending"),
        ("Never", [init("i", BROKEN), main("a", CREATING)], "Failed"),
        ("Always", [init("i", DONE), main("a", RUNNING)], "Running"),
        ("Always", [init("i", RUNNING, Role.SIDECAR), main("a", CREATING)], "Pending"),
        ("Never", [init("i", RUNNING, Role.SIDECAR, started=True), main("a", DONE)], "Running"),
        ("Never", [init("i", DONE, Role.SIDECAR), main("a", DONE)], "Succeeded"),
    ],
)
def test_phase_follows_from_containers_and_policy(
    policy: str, containers: list[Container], expected: str
) -> None:
    assert phase_of(pod(policy), state(*containers)) == expected


def test_pod_that_the_node_failed_is_failed() -> None:
    reason = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
    status = pod_status(pod(), state(main("a", RUNNING), failed=reason), now=NOW)
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {
        c["type"]: (c["status"], c.get("reason", ""), c.get("message", ""))
        for c in status["conditions"]
    }


def test_unready_containers_are_named_as_a_kubelet_names_them() -> None:
    status = pod_status(pod(), state(main("a", CREATING), main("b", CREATING)), now=NOW)
    unready = ("False", "ContainersNotReady", "containers with unready status: [a b]")
    assert conditions(status) == {
        "PodReadyToStartContainers": ("False", "", ""),
        "Initialized": ("True", "", ""),
        "Ready": unready,
        "ContainersReady": unready,
    }


def test_init_containers_that_are_not_done_are_named() -> None:
    containers = [init("one", DONE), init("two", RUNNING), main("a", CREATING)]
    manifest = pod(initContainers=[{"name": "one"}, {"name": "two"}])
    found = conditions(pod_status(manifest, state(*containers, pod_ip="127.5.0.1"), now=NOW))
    assert found["Initialized"] == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [two]",
    )
    assert found["PodReadyToStartContainers"] == ("True", "", "")


@pytest.mark.parametrize(
    ("ends", "reason"), [((DONE, DONE), "PodCompleted"), ((DONE, BROKEN), "PodFailed")]
)
def test_pod_that_is_over_is_not_ready(ends: tuple[Terminated, Terminated], reason: str) -> None:
    containers = [main("a", ends[0]), main("b", ends[1])]
    whole = state(*containers, pod_ip="127.5.0.1", is_terminal=True)
    found = conditions(pod_status(pod("Never"), whole, now=NOW))
    assert found["Ready"] == ("False", reason, "")
    assert found["PodReadyToStartContainers"] == ("False", "", "")


@pytest.mark.parametrize(
    ("existing", "message"),
    [
        ([], 'corresponding condition of pod readiness gate "g" does not exist.'),
        (
            [{"type": "g", "status": "False"}],
            'the status of pod readiness gate "g" is not "True", but False',
        ),
    ],
)
def test_readiness_gates_hold_the_pod_back(existing: list[dict[str, str]], message: str) -> None:
    manifest = pod(readinessGates=[{"conditionType": "g"}])
    manifest["status"] = {"conditions": existing}
    ready = state(main("a", RUNNING, ready=True, started=True))
    found = conditions(pod_status(manifest, ready, now=NOW))
    assert found["Ready"] == ("False", "ReadinessGatesNotReady", message)
    assert found["ContainersReady"] == ("True", "", "")


def test_transition_time_stays_while_the_status_does() -> None:
    ready = state(main("a", RUNNING, ready=True, started=True), pod_ip="127.5.0.1")
    manifest = pod()
    manifest["status"] = pod_status(manifest, ready, now=BEFORE)
    again = pod_status(manifest, ready, now=NOW)
    assert again == manifest["status"]


def test_container_statuses_have_the_fields_of_a_kubelets() -> None:
    """The fields and order that a v1.34 kubelet wrote for the same pod."""
    manifest = pod()
    manifest["spec"]["containers"] = [
        {
            "name": "b",
            "resources": {
                "limits": {"memory": "100Mi"},
                "requests": {"cpu": "10m", "memory": "100Mi"},
            },
            "volumeMounts": [
                {"name": "conf", "mountPath": "/conf", "readOnly": True},
                {"name": "down", "mountPath": "/down"},
            ],
        },
        {"name": "a"},
    ]
    containers = [
        main("b", RUNNING, ready=True, started=True, identity="ab", image_identity="sha256:e0"),
        main("a", LOOPING, last=BROKEN, restarts=2, identity="cd"),
    ]
    whole = state(*containers, pod_ip="127.5.0.1", start_time=BEFORE)
    first, second = pod_status(manifest, whole, now=NOW)["containerStatuses"]
    assert first["name"] == "a"
    assert first["lastState"]["terminated"]["startedAt"] == "2026-11-15T07:13:21Z"
    assert second == {
        "name": "b",
        "state": {"running": {"startedAt": "2026-11-15T07:13:21Z"}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": "redis:7.0",
        "imageID": "sha256:e0",
        "started": True,
        "containerID": "process://ab",
        "resources": {
            "limits": {"memory": "100Mi"},
            "requests": {"cpu": "10m", "memory": "100Mi"},
        },
        "allocatedResources": {"cpu": "10m", "memory": "100Mi"},
        "volumeMounts": [
            {
                "name": "conf",
                "mountPath": "/conf",
                "readOnly": True,
                "recursiveReadOnly": "Disabled",
            },
            {"name": "down", "mountPath": "/down"},
        ],
    }


def test_what_was_published_can_be_taken_up_again() -> None:
    containers = [
        main("a", RUNNING, ready=True, started=True, identity="ab", restarts=1, last=BROKEN),
        main("b", LOOPING, last=BROKEN, restarts=4, identity="cd"),
    ]
    status = pod_status(pod(), state(*containers), now=NOW)
    found = [from_status(one, Role.MAIN) for one in status["containerStatuses"]]
    assert [(c.state, c.last, c.restarts, c.ready, c.identity) for c in found] == [
        (c.state, c.last, c.restarts, c.ready, c.identity) for c in containers
    ]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"memory": "1Gi"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
            "Guaranteed",
        ),
        ({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}, "Burstable"),
    ],
)
def test_quality_of_service_follows_from_resources(
    resources: dict[str, Any], expected: str
) -> None:
    manifest = pod(containers=[{"name": "a", "resources": resources}])
    assert quality_of_service(manifest["spec"]) == expected


def test_crash_loop_waits_longer_each_time_up_to_five_minutes() -> None:
    backoff = Backoff()
    delays = [backoff.after_end(ran=1.0) for _ in range(8)]
    assert delays == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    assert backoff.after_end(ran=601.0) == 0.0
    assert backoff.after_end(ran=1.0) == 10.0


def test_crash_loop_goes_on_where_an_earlier_agent_left_it() -> None:
    assert Backoff(ends=2).after_end(ran=1.0) == 20.0


CONTAINER = {
    "name": "a",
    "ports": [{"name": "redis", "containerPort": 6379}],
    "livenessProbe": {"tcpSocket": {"port": "redis"}},
    "readinessProbe": {
        "httpGet": {"port": 8080, "path": "ok", "scheme": "HTTPS"},
        "periodSeconds": 2,
        "timeoutSeconds": 3,
        "successThreshold": 2,
        "failureThreshold": 4,
        "initialDelaySeconds": 5,
    },
    "startupProbe": {"exec": {"command": ["true"]}, "terminationGracePeriodSeconds": 0},
}


def test_probes_are_read_with_their_defaults() -> None:
    liveness = probe_of(CONTAINER, "livenessProbe", address="127.5.0.1")
    assert liveness is not None
    assert liveness.check == TcpCheck("127.5.0.1", 6379)
    numbers = (liveness.initial_delay, liveness.period, liveness.timeout)
    assert numbers == (0.0, 10.0, 1.0)
    assert (liveness.success_threshold, liveness.failure_threshold) == (1, 3)
    readiness = probe_of(CONTAINER, "readinessProbe", address="127.5.0.1")
    assert readiness is not None
    assert readiness.check == HttpCheck("127.5.0.1", 8080, "/ok", "https")
    startup = probe_of(CONTAINER, "startupProbe", address="127.5.0.1")
    assert startup is not None
    assert startup.check == ExecCheck(("true",))
    assert startup.grace == 0.0
    assert probe_of({"name": "a"}, "livenessProbe", address="") is None


def test_verdict_changes_only_at_its_thresholds() -> None:
    probe = probe_of(CONTAINER, "readinessProbe", address="127.5.0.1")
    assert probe is not None
    verdict = Verdict(probe, initial=False)
    seen = []
    for success in (True, True, False, False, False, True, False, False, False, False):
        verdict.add(Result(success))
        seen.append(verdict.holds)
    assert seen == [False, True, True, True, True, True, True, True, True, False]


def test_of_a_huge_termination_log_only_the_end_is_read(tmp_path: Path) -> None:
    """A container may make it as large as it likes, at no cost to itself."""
    folder = PodFolder(tmp_path)
    folder.container("a").mkdir(parents=True)
    log = folder.container("a") / "termination-log"
    log.touch()
    os.truncate(log, 300 << 20)
    with log.open("ab") as handle:
        handle.write(b"out of luck")
    tracemalloc.start()
    try:
        message = termination_message(folder, {}, main("a", BROKEN), 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert message.endswith("out of luck")
    assert len(message) == 4096
    assert peak < 1 << 20
