from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.kubelocal.node.pod_world import (
    MODES,
    World,
    container,
    is_ready,
    phase_is,
    pod,
    status_of,
)

from kubecontroller.client.objects import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS
from kubecontroller.client.patches import StrategicPatch
from kubelocal.loopback import held_number
from kubelocal.node.api import VOLUMES
from kubelocal.node.errors import ModeError
from kubelocal.node.process.mounts import Mode


async def start(world: World, mode: Mode) -> None:
    try:
        await world.start_agent(mode=mode)
    except ModeError as error:
        pytest.skip(str(error))


async def claim(world: World, name: str) -> None:
    """A claim that is bound, as the provisioner leaves it."""
    volume = f"pv-{name}"
    capacity = {"storage": "1Gi"}
    await world.client.create(
        VOLUMES,
        {
            "metadata": {"name": volume},
            "spec": {
                "capacity": capacity,
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": f"/volumes/{volume}", "type": ""},
                "persistentVolumeReclaimPolicy": "Delete",
            },
        },
    )
    await world.client.create(
        PERSISTENT_VOLUME_CLAIMS.plain(),
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": capacity},
                "volumeName": volume,
            },
        },
    )


async def ping(address: str, port: int = 6379, *words: str) -> str:
    reader, writer = await asyncio.open_connection(address, port)
    writer.write((" ".join(words or ("PING",)) + "\r\n").encode())
    line = await reader.readline()
    if line.startswith(b"$"):
        line = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return line.decode().strip()


async def test_pod_runs_and_its_status_is_a_kubelets(world: World) -> None:
    await world.create(pod())
    status = (await world.until(is_ready))["status"]
    assert [c["type"] for c in status["conditions"]][:4] == [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
    ]
    assert all(c["lastProbeTime"] is None for c in status["conditions"])
    assert status["phase"] == "Running"
    assert status["podIP"].startswith("127.")
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["hostIP"] == f"127.{held_number()}.254.1"
    assert status["qosClass"] == "BestEffort"
    (only,) = status["containerStatuses"]
    assert only["containerID"].startswith("process://")
    assert set(only) == {
        "containerID",
        "image",
        "imageID",
        "lastState",
        "name",
        "ready",
        "resources",
        "restartCount",
        "started",
        "state",
    }
    reasons = [event["reason"] for event in await world.events()]
    assert reasons == ["Pulled", "Created", "Started"]


@pytest.mark.servers
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
async def test_valkey_serves_from_its_config_and_keeps_its_data(
    bare_world: World, mode: Mode
) -> None:
    world = bare_world
    await start(world, mode)
    await claim(world, "data")
    boot = "exec valkey-server /etc/redis-operator/valkey.conf --port 7001"
    await world.put(
        CONFIG_MAPS,
        "conf",
        data={"valkey.conf": "dir /data\nappendonly yes\n", "boot.sh": boot},
    )
    manifest = pod(
        "cache-0",
        {
            "name": "main",
            "image": "example.com/valkey/valkey:9.1-alpine",
            "command": ["sh", "/etc/redis-operator/boot.sh"],
            "volumeMounts": [
                {"name": "data", "mountPath": "/data"},
                {"name": "conf", "mountPath": "/etc/redis-operator", "readOnly": True},
            ],
            "readinessProbe": {"tcpSocket": {"port": 7001}, "periodSeconds": 1},
        },
        volumes=[
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "conf", "configMap": {"name": "conf"}},
        ],
    )
    await world.create(manifest)
    first = (await world.until(is_ready, "cache-0"))["status"]["podIP"]
    assert await ping(first, 7001, "SET", "key", "value") == "+OK"
    await world.delete("cache-0")
    await world.until_gone("cache-0")
    await world.create(manifest)
    second = (await world.until(is_ready, "cache-0"))["status"]["podIP"]
    assert second != first
    assert await ping(second, 7001, "GET", "key") == "value"


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
async def test_containers_see_their_variables_and_files(bare_world: World, mode: Mode) -> None:
    world = bare_world
    await start(world, mode)
    await world.put(CONFIG_MAPS, "conf", data={"greeting": "hello", "deep": "down"})
    await world.put(SECRETS, "hidden", data={"password": "c2VzYW1l"})
    script = (
        'echo "$GREETING $PASSWORD $NAME $BOTH $ADDRESS $LIMIT";'
        "cat /conf/sub/deep; echo; cat /secret/password; echo; cat /all/labels; echo;"
        "ls -lL /secret/password | cut -c1-10; readlink /conf/..data > /dev/null && echo linked"
    )
    env = [
        {"name": "GREETING", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "greeting"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "password"}}},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "BOTH", "value": "$(GREETING)-$(NAME)-$$(NAME)-$(NONE)"},
        {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {
            "name": "LIMIT",
            "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
        },
    ]
    manifest = pod(
        "p",
        container(
            "main",
            script,
            env=env,
            resources={"limits": {"memory": "64Mi"}},
            volumeMounts=[
                {"name": "conf", "mountPath": "/conf"},
                {"name": "secret", "mountPath": "/secret"},
                {"name": "all", "mountPath": "/all"},
            ],
        ),
        restartPolicy="Never",
        volumes=[
            {
                "name": "conf",
                "configMap": {"name": "conf", "items": [{"key": "deep", "path": "sub/deep"}]},
            },
            {"name": "secret", "secret": {"secretName": "hidden", "defaultMode": 0o400}},
            {
                "name": "all",
                "projected": {
                    "sources": [
                        {
                            "downwardAPI": {
                                "items": [
                                    {
                                        "path": "labels",
                                        "fieldRef": {"fieldPath": "metadata.labels"},
                                    }
                                ]
                            }
                        }
                    ]
                },
            },
        ],
    )
    manifest["metadata"]["labels"] = {"app": "cache"}
    await world.create(manifest)
    found = await world.until(phase_is("Succeeded"))
    address = found["status"]["podIP"]
    assert (await world.log()).splitlines() == [
        f"hello sesame p hello-p-$(NAME)-$(NONE) {address} 64",
        "down",
        "sesame",
        'app="cache"',
        "-r--------",
        "linked",
    ]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
async def test_changes_of_a_config_map_reach_a_running_pod(bare_world: World, mode: Mode) -> None:
    world = bare_world
    await start(world, mode)
    await world.put(CONFIG_MAPS, "conf", data={"word": "old"})
    script = "until [ $(cat /conf/word) = new ]; do sleep 0.01; done; echo seen"
    mounts = [{"name": "conf", "mountPath": "/conf"}]
    await world.create(
        pod(
            "p",
            container("main", script, volumeMounts=mounts),
            volumes=[{"name": "conf", "configMap": {"name": "conf"}}],
            restartPolicy="Never",
        )
    )
    await world.until(phase_is("Running"))
    await world.put(CONFIG_MAPS, "conf", data={"word": "new"})
    await world.until(phase_is("Succeeded"))
    assert await world.log() == "seen\n"


async def test_init_containers_run_in_order_and_sidecars_beside(world: World) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    inits = [
        container("one", "echo one >> /shared/order", volumeMounts=mounts),
        container(
            "side",
            "trap 'exit 0' TERM; echo side >> /shared/order; while :; do sleep 0.01; done",
            volumeMounts=mounts,
            restartPolicy="Always",
        ),
        container("two", "sleep 0.1; echo two >> /shared/order", volumeMounts=mounts),
    ]
    main = container("main", "sleep 0.1; cat /shared/order", volumeMounts=mounts)
    await world.create(
        pod(
            "p",
            main,
            initContainers=inits,
            restartPolicy="Never",
            volumes=[{"name": "shared", "emptyDir": {}}],
        )
    )
    found = await world.until(phase_is("Succeeded"))
    assert await world.log(container="main") == "one\nside\ntwo\n"
    assert status_of(found, "side")["state"]["terminated"]["exitCode"] == 0
    assert status_of(found, "two")["ready"]


async def test_failing_init_container_fails_a_pod_that_is_never_restarted(world: World) -> None:
    await world.create(pod("p", initContainers=[container("bad", "exit 4")], restartPolicy="Never"))
    found = await world.until(phase_is("Failed"))
    assert status_of(found, "bad")["state"]["terminated"]["exitCode"] == 4
    assert status_of(found)["state"] == {"waiting": {"reason": "PodInitializing"}}


async def test_crashing_container_restarts_at_once_and_then_backs_off(world: World) -> None:
    await world.create(pod("p", container("main", "echo run; exit 3")))
    found = await world.until(
        lambda p: (
            status_of(p).get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff"
        )
    )
    one = status_of(found)
    assert one["restartCount"] == 1
    assert one["lastState"]["terminated"]["exitCode"] == 3
    assert one["state"]["waiting"]["message"].startswith(
        "back-off 10s restarting failed container=main pod=p_default("
    )
    assert found["status"]["phase"] == "Running"
    assert (await world.until_event("BackOff"))["type"] == "Warning"


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
async def test_restarted_container_finds_its_volumes_and_nothing_else(
    bare_world: World, mode: Mode
) -> None:
    """What an image declares as a volume and nobody mounts goes with the instance."""
    world = bare_world
    await start(world, mode)
    script = "ls /data /kept; touch /data/lost /kept/found; exit 1"
    main = {
        "name": "main",
        "image": "valkey:9.1",
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "kept", "mountPath": "/kept"}],
    }
    await world.create(pod("p", main, volumes=[{"name": "kept", "emptyDir": {}}]))
    await world.until(
        lambda p: (
            status_of(p).get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff"
        )
    )
    log = await world.log()
    assert "found" in log
    assert "lost" not in log


async def test_end_of_containers_decides_the_phase(world: World) -> None:
    script = "echo because > /dev/termination-log; exit 5"
    await world.create(
        pod("p", container("good", "true"), container("bad", script), restartPolicy="Never")
    )
    found = await world.until(phase_is("Failed", "Succeeded"))
    assert found["status"]["phase"] == "Failed"
    ended = status_of(found, "bad")["state"]["terminated"]
    assert (ended["reason"], ended["message"]) == ("Error", "because\n")
    assert status_of(found, "good")["state"]["terminated"]["reason"] == "Completed"


async def test_readiness_follows_its_probe(world: World) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    probe = {"exec": {"command": ["test", "-e", "/shared/ready"]}, "periodSeconds": 1}
    await world.create(
        pod(
            "p",
            container("main", None, readinessProbe=probe, volumeMounts=mounts),
            volumes=[{"name": "shared", "emptyDir": {}}],
        )
    )
    found = await world.until(phase_is("Running"))
    assert not is_ready(found)
    assert (await world.until_event("Unhealthy"))["message"].startswith("Readiness probe failed")
    folder = world.data_dir / "pods" / found["metadata"]["uid"] / "volumes/shared"
    touch(folder / "ready")
    found = await world.until(is_ready)
    assert status_of(found)["restartCount"] == 0


def touch(path: Path) -> None:
    path.touch()


async def test_failing_liveness_restarts_the_container(world: World) -> None:
    probe = {"tcpSocket": {"port": 1}, "periodSeconds": 1, "failureThreshold": 1}
    await world.create(pod("p", container("main", None, livenessProbe=probe)))
    found = await world.until(lambda p: status_of(p).get("restartCount", 0) > 0)
    assert status_of(found)["lastState"]["terminated"]["exitCode"] == 143
    killing = await world.until_event("Killing")
    assert killing["message"] == "Container main failed liveness probe, will be restarted"


async def test_startup_probe_holds_readiness_back(world: World) -> None:
    slow = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 60}
    await world.create(pod("p", container("main", None, startupProbe=slow)))
    found = await world.until(phase_is("Running"))
    assert not status_of(found)["started"]
    assert not status_of(found)["ready"]


async def test_pod_that_ignores_its_signal_is_killed_after_its_grace(world: World) -> None:
    script = "trap '' TERM; echo trapped; while :; do sleep 1; done"
    await world.create(pod("p", container("main", script)))
    await world.until_logged("trapped")
    begun = time.monotonic()
    await world.delete()
    await world.until_gone(timeout=60)
    assert time.monotonic() - begun > 0.9, "its grace is one second"


async def test_pre_stop_runs_before_the_signal(world: World) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    await claim(world, "data")
    script = (
        "trap 'echo term >> /data/order; exit 0' TERM; echo trapped; while :; do sleep 0.01; done"
    )
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /data/order"]}}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    await world.create(
        pod("p", container("main", script, lifecycle=hook, volumeMounts=mounts), volumes=volumes)
    )
    await world.until_logged("trapped")
    await world.delete()
    await world.until_gone()
    assert read(world.data_dir / "volumes/pv-data/order") == "hook\nterm\n"


def read(path: Path) -> str:
    return path.read_text()


async def test_failing_post_start_hook_ends_the_container(world: World) -> None:
    hook = {"postStart": {"exec": {"command": ["false"]}}}
    await world.create(pod("p", container("main", None, lifecycle=hook)))
    await world.until_event("FailedPostStartHook")
    await world.until(lambda p: status_of(p).get("restartCount", 0) > 0)


async def test_pod_can_be_deleted_while_its_hook_runs(world: World) -> None:
    hook = {"postStart": {"exec": {"command": ["sleep", "600"]}}}
    await world.create(pod("p", container("main", None, lifecycle=hook)))
    await world.until_event("Started")
    await world.delete()
    await world.until_gone()


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        ({"image": "nothing:1"}, "ErrImagePull", "Available: "),
        ({"image": "redis:99"}, "ErrImagePull", "Available: "),
        ({"image": "nothing:1", "imagePullPolicy": "Never"}, "ErrImageNeverPull", "Never"),
        ({"image": "::"}, "InvalidImageName", "invalid reference format"),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "no", "key": "k"}}}]},
            "CreateContainerConfigError",
            'secret "no" not found',
        ),
        ({"command": ["/no/such"]}, "RunContainerError", 'exec: "/no/such"'),
    ],
    ids=["image", "version", "never", "name", "secret", "program"],
)
async def test_container_that_cannot_start_says_why(
    world: World, change: dict[str, Any], reason: str, words: str
) -> None:
    await world.create(pod("p", {**container(), **change}))
    found = await world.until(
        lambda p: status_of(p).get("state", {}).get("waiting", {}).get("reason") == reason
    )
    assert words in status_of(found)["state"]["waiting"]["message"]
    await world.until_event("Failed")


async def test_missing_object_that_appears_lets_the_container_start(world: World) -> None:
    reference = {"configMapKeyRef": {"name": "late", "key": "word"}}
    env = [{"name": "WORD", "valueFrom": reference}]
    await world.create(pod("p", container("main", "echo $WORD", env=env), restartPolicy="Never"))
    await world.until_event("Failed")
    await world.put(CONFIG_MAPS, "late", data={"word": "here"})
    await world.until(phase_is("Succeeded"), timeout=3)
    assert await world.log() == "here\n"


async def test_host_path_is_refused_with_a_reason(world: World) -> None:
    volumes = [{"name": "host", "hostPath": {"path": "/"}}]
    await world.create(pod("p", volumes=volumes))
    event = await world.until_event("FailedMount")
    assert "hostPath volumes are refused in local mode" in event["message"]


async def test_readiness_gate_is_waited_for(world: World) -> None:
    await world.create(pod("p", readinessGates=[{"conditionType": "my/gate"}]))
    found = await world.until(lambda p: status_of(p).get("ready"))
    ready = next(c for c in found["status"]["conditions"] if c["type"] == "Ready")
    assert ready["reason"] == "ReadinessGatesNotReady"
    gate = {"type": "my/gate", "status": "True"}
    patch = StrategicPatch({"status": {"conditions": [gate]}})
    await world.client.patch(PODS.plain(), ("default", "p"), patch, subresource="status")
    found = await world.until(is_ready)
    assert any(c["type"] == "my/gate" for c in found["status"]["conditions"])
