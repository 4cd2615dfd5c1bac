"""What a container sees, when it is probed, restarted and ended: the work of a node."""

from __future__ import annotations

from typing import Any

import pytest

from contract.controllers.workloads import LIVE, World

STATE = [{"name": "state", "emptyDir": {}}]
MOUNTED = [{"name": "state", "mountPath": "/state"}]


def once(world: World, script: str, **container: Any) -> str:
    """What a script printed."""
    world.run_pod("p", world.pod_spec(script, pod={"restartPolicy": "Never"}, **container))
    return world.printed("p")


def status(world: World, pod: str = "p", number: int = 0) -> dict[str, Any]:
    statuses = world.read(f"pods/{pod}")["status"].get("containerStatuses") or [{}]
    found: dict[str, Any] = statuses[number]
    return found


def waiting(world: World) -> str:
    text: str = status(world).get("state", {}).get("waiting", {}).get("reason", "")
    return text


def test_environment(world: World) -> None:
    world.create("configmaps", {"metadata": {"name": "m"}, "data": {"k": "from-map"}})
    world.create("secrets", {"metadata": {"name": "s"}, "stringData": {"k": "from-secret"}})
    env = [
        {"name": "PLAIN", "value": "plain"},
        {"name": "JOINED", "value": "$(PLAIN)-$(PLAIN)"},
        {"name": "UNKNOWN", "value": "$(NONE)"},
        {"name": "ESCAPED", "value": "$$(PLAIN)"},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "SPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {
            "name": "OPTIONAL",
            "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": True}},
        },
        {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
    ]
    names = [each["name"] for each in env]
    script = "; ".join(f'echo "{name}=${{{name}-unset}}"' for name in names)
    spec = world.pod_spec(
        script,
        pod={"restartPolicy": "Never"},
        env=env,
        resources={"limits": {"memory": "64Mi"}},
    )
    world.run_pod("p", spec, labels={"app": "w"})
    assert world.printed("p").splitlines() == [
        "PLAIN=plain",
        "JOINED=plain-plain",
        "UNKNOWN=$(NONE)",
        "ESCAPED=$(PLAIN)",
        "NAME=p",
        f"SPACE={world.name}",
        "LABEL=w",
        "MAP=from-map",
        "SECRET=from-secret",
        "OPTIONAL=unset",
        "MEMORY=67108864",
    ]


def test_environment_from_whole_objects(world: World) -> None:
    world.create("configmaps", {"metadata": {"name": "m"}, "data": {"A": "1", "B": "2"}})
    world.create("secrets", {"metadata": {"name": "s"}, "stringData": {"B": "3"}})
    sources = [
        {"configMapRef": {"name": "m"}},
        {"secretRef": {"name": "s"}, "prefix": "S_"},
    ]
    env = [{"name": "A", "value": "own"}]
    assert once(world, "echo $A $B $S_B", envFrom=sources, env=env) == "own 2 3\n"


def test_arguments_are_expanded(world: World) -> None:
    env = [{"name": "WORD", "value": "hello"}]
    found = once(world, 'echo "$1"', env=env, args=["sh", "$(WORD) $(NONE) $$(WORD)"])
    assert found == "hello $(NONE) $(WORD)\n"


def test_pod_address_is_its_own(world: World) -> None:
    env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    for name in ("a", "b"):
        world.run_pod(name, world.pod_spec("echo $IP; " + LIVE, env=env))
    first, second = world.running("a"), world.running("b")
    assert first["status"]["podIP"] != second["status"]["podIP"]
    assert first["status"]["podIPs"] == [{"ip": first["status"]["podIP"]}]
    address = first["status"]["podIP"] + "\n"
    world.until("it has printed its address", lambda: world.logs("a") == address)


def test_running_pod_reports_itself(world: World) -> None:
    world.run_pod("p", world.pod_spec())
    pod = world.running("p")
    assert pod["status"]["phase"] == "Running"
    assert pod["spec"]["nodeName"]
    assert pod["status"]["hostIP"]
    assert pod["status"]["startTime"]
    [found] = pod["status"]["containerStatuses"]
    assert (found["name"], found["ready"], found["started"]) == ("main", True, True)
    assert found["restartCount"] == 0
    assert found["state"]["running"]["startedAt"]
    assert found["lastState"] == {}
    assert "://" in found["containerID"]
    kinds = {each["type"]: each["status"] for each in pod["status"]["conditions"]}
    assert kinds == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
        "PodScheduled": "True",
    }


@pytest.mark.parametrize(
    ("script", "phase", "code", "reason"),
    [("true", "Succeeded", 0, "Completed"), ("exit 7", "Failed", 7, "Error")],
)
def test_end_of_a_pod(world: World, script: str, phase: str, code: int, reason: str) -> None:
    world.run_pod("p", world.pod_spec(script, pod={"restartPolicy": "Never"}))
    pod = world.finished("p")
    assert pod["status"]["phase"] == phase
    ended = status(world)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, reason)
    assert ended["startedAt"] <= ended["finishedAt"]
    ready = next(each for each in pod["status"]["conditions"] if each["type"] == "Ready")
    assert ready["status"] == "False"


def test_termination_message(world: World) -> None:
    world.run_pod(
        "p",
        world.pod_spec("echo why > /dev/termination-log; exit 1", pod={"restartPolicy": "Never"}),
    )
    world.finished("p")
    assert status(world)["state"]["terminated"]["message"] == "why\n"


def test_on_failure_restarts_until_success(world: World) -> None:
    script = "test -f /state/x || { touch /state/x; exit 1; }"
    pod = {"restartPolicy": "OnFailure", "volumes": STATE}
    world.run_pod("p", world.pod_spec(script, pod=pod, volumeMounts=MOUNTED))
    found = world.finished("p")
    assert found["status"]["phase"] == "Succeeded"
    assert status(world)["restartCount"] == 1


def test_crash_loop_backs_off(world: World) -> None:
    world.run_pod("p", world.pod_spec("exit 3"))
    world.until("it backs off", lambda: waiting(world) == "CrashLoopBackOff")
    found = status(world)
    assert found["restartCount"] >= 1
    assert found["lastState"]["terminated"]["exitCode"] == 3
    assert found["state"]["waiting"]["message"].startswith("back-off ")
    assert "restarting failed container=main pod=p_" in found["state"]["waiting"]["message"]
    assert world.phase("p") == "Running"


def test_unknown_image_is_reported(world: World) -> None:
    container = world.container() | {"image": "none-such:1.0"}
    world.run_pod("p", world.pod_spec(pod={"containers": [container]}))
    world.until("it says so", lambda: waiting(world) in ("ErrImagePull", "ImagePullBackOff"))
    world.until("it backs off", lambda: waiting(world) == "ImagePullBackOff")
    assert world.phase("p") == "Pending"


def test_init_containers_run_one_after_another_first(world: World) -> None:
    def step(name: str) -> dict[str, Any]:
        return world.container(f"echo {name} >> /state/log", volumeMounts=MOUNTED) | {"name": name}

    pod = {"initContainers": [step("one"), step("two")], "volumes": STATE, "restartPolicy": "Never"}
    world.run_pod("p", world.pod_spec("cat /state/log", pod=pod, volumeMounts=MOUNTED))
    assert world.printed("p") == "one\ntwo\n"
    found = world.read("pods/p")
    states = found["status"]["initContainerStatuses"]
    assert [each["state"]["terminated"]["reason"] for each in states] == ["Completed", "Completed"]


def test_failed_init_container_holds_the_pod(world: World) -> None:
    step = world.container("exit 1") | {"name": "step"}
    pod = {"initContainers": [step], "restartPolicy": "Never"}
    world.run_pod("p", world.pod_spec(pod=pod))
    found = world.finished("p")
    assert found["status"]["phase"] == "Failed"
    assert waiting(world) == "PodInitializing"


def test_sidecar_runs_beside_and_ends_with_the_pod(world: World) -> None:
    side = world.container("touch /state/side; " + LIVE, volumeMounts=MOUNTED)
    side |= {"name": "side", "restartPolicy": "Always"}
    pod = {"initContainers": [side], "volumes": STATE, "restartPolicy": "Never"}
    script = "while ! test -f /state/side; do sleep 0.1; done; echo together"
    world.run_pod("p", world.pod_spec(script, pod=pod, volumeMounts=MOUNTED))
    assert world.printed("p") == "together\n"
    found = world.read("pods/p")
    [state] = found["status"]["initContainerStatuses"]
    assert "terminated" in state["state"]


def test_readiness_follows_its_probe(world: World) -> None:
    world.run_pod("p", world.gated())
    world.until("it runs", lambda: world.phase("p") == "Running")
    assert not world.pod_is_ready("p")
    assert status(world)["ready"] is False
    world.open_gate("p")
    world.running("p")
    world.close_gate("p")
    world.until("it is not ready", lambda: not world.pod_is_ready("p"), seconds=15)
    assert status(world)["restartCount"] == 0


def test_failed_liveness_restarts_the_container(world: World) -> None:
    probe = {
        "exec": {"command": ["test", "!", "-f", "/state/sick"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
    pod = {"volumes": STATE}
    script = "rm -f /state/sick; " + LIVE
    world.run_pod("p", world.pod_spec(script, pod=pod, volumeMounts=MOUNTED, livenessProbe=probe))
    world.running("p")
    world.kubectl("exec", "p", "--", "touch", "/state/sick")
    world.until("it is restarted", lambda: status(world)["restartCount"] == 1)
    world.until("it runs again", lambda: "running" in status(world)["state"])


def test_startup_probe_holds_the_others_back(world: World) -> None:
    startup = {
        "exec": {"command": ["test", "-f", "/state/up"]},
        "periodSeconds": 1,
        "failureThreshold": 60,
    }
    liveness = {
        "exec": {"command": ["test", "-f", "/state/up"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
    world.run_pod(
        "p",
        world.pod_spec(
            pod={"volumes": STATE},
            volumeMounts=MOUNTED,
            startupProbe=startup,
            livenessProbe=liveness,
        ),
    )
    world.until("it runs", lambda: "running" in status(world).get("state", {}))
    assert status(world)["started"] is False
    assert status(world)["ready"] is False
    world.kubectl("exec", "p", "--", "touch", "/state/up")
    world.running("p")
    assert status(world)["started"] is True
    assert status(world)["restartCount"] == 0


def test_probe_by_connection(world: World) -> None:
    server = "redis-server" if "redis" in world.image else "valkey-server"
    container = {
        "name": "main",
        "image": world.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [server, "--port", "6379", "--protected-mode", "no", "--save", ""],
        "ports": [{"containerPort": 6379}],
        "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1},
    }
    world.run_pod("p", world.pod_spec(pod={"containers": [container]}))
    world.running("p")


def test_process_is_asked_to_end_and_may_clean_up(world: World) -> None:
    """The exit is seen in the last status before the pod goes."""
    script = "trap 'sleep 0.5; exit 9' TERM; echo hears; while :; do sleep 0.1; done"
    world.run_pod(
        "p",
        world.pod_spec(script, pod={"restartPolicy": "Never"}),
        finalizers=["contract.test/hold"],
    )
    world.running("p")
    world.until("it can be asked", lambda: world.logs("p") == "hears\n")
    world.delete("pods/p").done()
    world.until("it has ended", lambda: "terminated" in status(world)["state"])
    assert status(world)["state"]["terminated"]["exitCode"] == 9
    world.patch("pods/p", {"metadata": {"finalizers": None}}).done()


def test_process_that_does_not_end_is_killed(world: World) -> None:
    script = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    world.run_pod("p", world.pod_spec(script, pod=pod), finalizers=["contract.test/hold"])
    world.running("p")
    world.until("it is deaf", lambda: world.logs("p") == "deaf\n")
    world.delete("pods/p").done()
    world.until("it has ended", lambda: "terminated" in status(world)["state"])
    assert status(world)["state"]["terminated"]["exitCode"] == 137
    world.patch("pods/p", {"metadata": {"finalizers": None}}).done()


def test_hooks_run_after_start_and_before_stop(world: World) -> None:
    hooks = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo started > /state/hook"]}},
        "preStop": {
            "exec": {
                "command": ["sh", "-c", "echo stopping > /proc/1/fd/1 || true; touch /state/stop"]
            }
        },
    }
    script = "trap 'test -f /state/stop && exit 5; exit 6' TERM; while :; do sleep 0.1; done"
    pod = {"restartPolicy": "Never", "volumes": STATE}
    spec = world.pod_spec(script, pod=pod, volumeMounts=MOUNTED, lifecycle=hooks)
    world.run_pod("p", spec, finalizers=["contract.test/hold"])
    world.running("p")
    assert world.kubectl("exec", "p", "--", "cat", "/state/hook") == "started\n"
    world.delete("pods/p").done()
    world.until("it has ended", lambda: "terminated" in status(world)["state"])
    assert status(world)["state"]["terminated"]["exitCode"] == 5
    world.patch("pods/p", {"metadata": {"finalizers": None}}).done()


def test_deleted_pod_is_gone_after_its_processes(world: World) -> None:
    world.run_pod("p", world.pod_spec())
    world.running("p")
    world.delete("pods/p").done()
    assert world.read("pods/p")["metadata"]["deletionGracePeriodSeconds"] == 2
    world.until("it is gone", lambda: world.get("pods/p").status == 404)


def test_deadline_of_a_pod(world: World) -> None:
    pod = {"activeDeadlineSeconds": 1, "restartPolicy": "Never"}
    world.run_pod("p", world.pod_spec(pod=pod))
    found = world.finished("p")
    assert found["status"]["phase"] == "Failed"
    assert found["status"]["reason"] == "DeadlineExceeded"


def test_logs_of_now_and_of_before(world: World) -> None:
    script = (
        "test -f /state/x && { echo second; " + LIVE + "; }; touch /state/x; echo first; exit 1"
    )
    world.run_pod("p", world.pod_spec(script, pod={"volumes": STATE}, volumeMounts=MOUNTED))
    world.until("it is restarted", lambda: status(world).get("restartCount") == 1)
    world.until("it runs", lambda: "running" in status(world)["state"])
    world.until("it has spoken", lambda: world.logs("p") == "second\n")
    world.until("it is kept", lambda: world.logs("p", previous=True) == "first\n")


def test_logs_can_be_cut(world: World) -> None:
    script = "for i in 1 2 3 4 5; do echo line $i; done"
    world.run_pod("p", world.pod_spec(script, pod={"restartPolicy": "Never"}))
    assert world.printed("p").count("\n") == 5
    assert world.logs("p", tailLines=2) == "line 4\nline 5\n"
    assert world.logs("p", limitBytes=6) == "line 1"
    assert world.logs("p", sinceSeconds=3600).count("\n") == 5
    assert world.logs("p", timestamps=True, tailLines=1).endswith("Z line 5\n")


def test_logs_can_be_followed(world: World) -> None:
    script = "echo one; while ! test -f /state/go; do sleep 0.1; done; echo two"
    pod = {"volumes": STATE, "restartPolicy": "Never"}
    world.run_pod("p", world.pod_spec(script, pod=pod, volumeMounts=MOUNTED))
    world.running("p")
    world.kubectl("exec", "p", "--", "touch", "/state/go")
    assert world.kubectl("logs", "-f", "p") == "one\ntwo\n"


def test_exec_runs_in_the_container(world: World) -> None:
    world.run_pod("p", world.pod_spec(env=[{"name": "A", "value": "b"}]))
    world.running("p")
    assert world.kubectl("exec", "p", "--", "sh", "-c", "echo $A; echo err >&2") == "b\n"
    error = world.kubectl("exec", "p", "--", "sh", "-c", "exit 3", fails=True)
    assert "command terminated with exit code 3" in error


def test_logs_before_the_container_runs(world: World) -> None:
    container = world.container() | {"image": "none-such:1.0"}
    world.run_pod("p", world.pod_spec(pod={"containers": [container]}))
    world.until("it waits", lambda: waiting(world) in ("ErrImagePull", "ImagePullBackOff"))
    reply = world.get("pods/p/log", accept="*/*")
    reply.refused(400, "BadRequest")
    assert reply.json["message"].startswith('container "main" in pod "p" is waiting to start: ')


def test_the_api_is_reached_with_what_every_container_is_told(world: World) -> None:
    script = (
        "cd /var/run/secrets/kubernetes.io/serviceaccount && printf "
        r"'GET /api HTTP/1.0\r\nAuthorization: Bearer %s\r\n\r\n' "
        '"$(cat token)" | timeout 20 openssl s_client -quiet -verify_quiet -verify_return_error '
        '-CAfile ca.crt -verify_ip "$KUBERNETES_SERVICE_HOST" '
        '-connect "$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT_HTTPS" 2>&1'
    )
    printed = once(world, script)
    assert " 200 OK" in printed
    assert "APIVersions" in printed
