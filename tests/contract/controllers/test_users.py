"""As whom containers run, and what that lets them do."""

from __future__ import annotations

import os
from typing import Any

import pytest

from contract.controllers.workloads import LIVE, World

pytestmark = pytest.mark.skipif(
    not os.environ.get("KUBECONFIG") and os.geteuid() != 0,
    reason="local mode of an ordinary user cannot run pods as somebody else, and says so",
)
CONTEXT = {"runAsUser": 1234, "runAsGroup": 2345, "fsGroup": 3456, "supplementalGroups": [4567]}


def pod(context: dict[str, Any], *volumes: dict[str, Any]) -> dict[str, Any]:
    return {"restartPolicy": "Never", "securityContext": context, "volumes": list(volumes)}


def printed(world: World, script: str, *volumes: dict[str, Any], **container: Any) -> list[str]:
    """What a script of the user printed."""
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    spec = world.pod_spec(script, pod=pod(CONTEXT, *volumes), volumeMounts=mounts, **container)
    world.run_pod("p", spec)
    return world.printed("p").splitlines()


def test_a_container_runs_as_the_user_and_groups_that_it_asks_for(world: World) -> None:
    found = printed(
        world, "id -u; id -g; id -G; touch /etc/mine 2>/dev/null || echo refused; echo $HOME"
    )
    assert found[:2] == ["1234", "2345"]
    assert {*found[2].split()} == {"2345", "3456", "4567"}
    assert "refused" in found
    assert found[-1] == "/"


def test_a_container_may_ask_for_another_user_than_its_pod(world: World) -> None:
    found = printed(world, "id -u; id -g", securityContext={"runAsUser": 4321})
    assert found == ["4321", "2345"]


def test_commands_run_as_the_user_of_their_container(world: World) -> None:
    world.run_pod("p", world.pod_spec(LIVE, pod={"securityContext": CONTEXT}))
    world.running("p")
    assert world.kubectl("exec", "p", "--", "id", "-u").strip() == "1234"


def test_output_can_be_opened_again_by_the_user(world: World) -> None:
    assert printed(world, "echo said >/dev/stdout") == ["said"]


def test_volumes_belong_to_the_group_of_the_pod(world: World) -> None:
    script = "echo x >/empty/file && stat -c %g /empty/file /empty; stat -c %a /empty"
    found = printed(world, script, {"name": "empty", "emptyDir": {}})
    assert found[:2] == ["3456", "3456"]
    assert found[2].startswith("2")


def test_secrets_are_readable_by_the_group_of_the_pod(world: World) -> None:
    world.create("secrets", {"metadata": {"name": "s"}, "stringData": {"key": "hidden"}})
    volume = {"name": "secret", "secret": {"secretName": "s", "defaultMode": 0o400}}
    found = printed(world, "cat /secret/key; echo; stat -L -c %a:%g /secret/key", volume)
    assert found == ["hidden", "440:3456"]


def test_a_claim_is_written_by_the_group_of_the_pod(world: World) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    world.create("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": claim})
    volume = {"name": "disk", "persistentVolumeClaim": {"claimName": "c"}}
    assert printed(world, "echo kept >/disk/file && cat /disk/file", volume) == ["kept"]


def test_no_program_gains_privileges_where_that_is_forbidden(world: World) -> None:
    script = "grep NoNewPrivs /proc/self/status | tr -d '\\t'"
    forbidden = {"allowPrivilegeEscalation": False}
    assert printed(world, script, securityContext=forbidden) == ["NoNewPrivs:1"]


@pytest.mark.parametrize(
    ("context", "bounds"),
    [
        ({}, "00000000a80425fb"),
        ({"capabilities": {"drop": ["ALL"]}}, "0000000000000000"),
        ({"capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}}, "0000000000001000"),
        ({"capabilities": {"drop": ["KILL", "MKNOD"]}}, "00000000a00425db"),
    ],
    ids=["usual", "none", "one", "two less"],
)
def test_root_has_the_capabilities_of_its_container_and_no_others(
    world: World, context: dict[str, Any], bounds: str
) -> None:
    script = "awk '/CapBnd|CapEff/ {print $2}' /proc/self/status"
    spec = world.pod_spec(script, pod={"restartPolicy": "Never"}, securityContext=context)
    world.run_pod("p", spec)
    assert world.printed("p").split() == [bounds, bounds]


def test_commands_have_the_capabilities_of_their_container(world: World) -> None:
    none = {"capabilities": {"drop": ["ALL"]}}
    world.run_pod("p", world.pod_spec(LIVE, securityContext=none))
    world.running("p")
    found = world.kubectl("exec", "p", "--", "grep", "CapEff", "/proc/self/status")
    assert found.split() == ["CapEff:", "0000000000000000"]


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"runAsNonRoot": True}, "container has runAsNonRoot and image will run as root"),
        (
            {"runAsNonRoot": True, "runAsUser": 0},
            "container's runAsUser breaks non-root policy",
        ),
    ],
    ids=["no user", "root"],
)
def test_a_container_that_may_not_be_root_and_would_be_is_not_started(
    world: World, context: dict[str, Any], message: str
) -> None:
    world.run_pod("p", world.pod_spec(LIVE, securityContext=context))
    path = "{.status.containerStatuses[0].state.waiting}"

    def told() -> bool:
        found = world.kubectl("get", "pod", "p", "-o", f"jsonpath={path}")
        return "CreateContainerConfigError" in found and message in found

    world.until(f"the refusal {message}", told)


def test_a_container_that_may_not_be_root_and_is_somebody_else_runs(world: World) -> None:
    found = printed(world, "id -u", securityContext={"runAsNonRoot": True})
    assert found == ["1234"]
