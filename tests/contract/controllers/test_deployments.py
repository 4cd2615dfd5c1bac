"""Deployments and ReplicaSets: rolling, undoing, recreating, adopting, letting go."""

from __future__ import annotations

from typing import Any

from contract.controllers.workloads import World, conditions

REVISION = "deployment.kubernetes.io/revision"


def make(world: World, spec: dict[str, Any] | None = None, **more: Any) -> None:
    world.create("deployments", world.workload(spec, **more))


def change(world: World, value: str) -> None:
    env = [
        {
            "op": "add",
            "path": "/spec/template/spec/containers/0/env",
            "value": [{"name": "V", "value": value}],
        }
    ]
    world.patch("deployments/w", env, "application/json-patch+json").done()


def sets(world: World) -> dict[str, int]:
    """Replicas wanted of each ReplicaSet, by revision."""
    found = world.read("replicasets", labelSelector="app=w")["items"]
    return {each["metadata"]["annotations"][REVISION]: each["spec"]["replicas"] for each in found}


def reasons(world: World) -> dict[str, tuple[str, str]]:
    listed = world.read("deployments/w")["status"]["conditions"]
    return {each["type"]: (each["status"], each["reason"]) for each in listed}


def complete(world: World) -> dict[str, Any]:
    world.kubectl("rollout", "status", "deployment/w", "--timeout=60s")
    return world.read("deployments/w")


def test_deployment_makes_a_replica_set_and_pods(world: World) -> None:
    make(world, replicas=2)
    complete(world)
    [owned] = world.read("replicasets", labelSelector="app=w")["items"]
    stamp = owned["metadata"]["labels"]["pod-template-hash"]
    assert owned["metadata"]["name"] == f"w-{stamp}"
    assert owned["spec"]["selector"]["matchLabels"] == {"app": "w", "pod-template-hash": stamp}
    for pod in world.pods():
        assert pod["metadata"]["labels"]["pod-template-hash"] == stamp
        assert pod["metadata"]["name"].startswith(f"w-{stamp}-")


def test_status_and_conditions(world: World) -> None:
    make(world, replicas=2)
    found = complete(world)
    status = found["status"]
    assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (2, 2, 2)
    assert status["updatedReplicas"] == 2
    assert status["observedGeneration"] == found["metadata"]["generation"]
    assert reasons(world)["Available"] == ("True", "MinimumReplicasAvailable")
    world.until(
        "progress is reported",
        lambda: reasons(world)["Progressing"] == ("True", "NewReplicaSetAvailable"),
    )
    assert found["metadata"]["annotations"][REVISION] == "1"


def test_change_rolls_to_a_new_replica_set(world: World) -> None:
    make(world, replicas=2)
    complete(world)
    change(world, "2")
    complete(world)
    assert sets(world) == {"1": 0, "2": 2}
    world.ready_count(2)


def test_roll_keeps_to_its_limits(world: World) -> None:
    limits = {"maxSurge": 1, "maxUnavailable": 0}
    make(world, replicas=2, strategy={"type": "RollingUpdate", "rollingUpdate": limits})
    complete(world)
    start = world.read("pods")["metadata"]["resourceVersion"]
    with world.watch("pods", resourceVersion=start, labelSelector="app=w") as stream:
        change(world, "2")
        complete(world)
        world.create(
            "pods", {"metadata": {"name": "end", "labels": {"app": "w"}}, "spec": world.pod_spec()}
        )
        alive: set[str] = set()
        most = 0
        while True:
            event = stream.next(45)
            name = event["object"]["metadata"]["name"]
            if name == "end":
                break
            gone = event["type"] == "DELETED" or "deletionTimestamp" in event["object"]["metadata"]
            (alive.discard if gone else alive.add)(name)
            most = max(most, len(alive))
    assert most <= 3


def test_undo_goes_back(world: World) -> None:
    make(world, replicas=1)
    complete(world)
    change(world, "2")
    complete(world)
    assert world.kubectl("rollout", "undo", "deployment/w") == "deployment.apps/w rolled back\n"
    found = complete(world)
    assert "env" not in found["spec"]["template"]["spec"]["containers"][0]
    assert sets(world) == {"2": 0, "3": 1}
    assert found["metadata"]["annotations"][REVISION] == "3"


def test_history_lists_revisions(world: World) -> None:
    make(world, replicas=1)
    complete(world)
    change(world, "2")
    complete(world)
    assert world.kubectl("rollout", "history", "deployment/w").split() == [
        "deployment.apps/w",
        "REVISION",
        "CHANGE-CAUSE",
        "1",
        "<none>",
        "2",
        "<none>",
    ]


def test_recreate_ends_the_old_before_the_new(world: World) -> None:
    make(world, replicas=2, strategy={"type": "Recreate"})
    complete(world)
    old = {each["metadata"]["name"] for each in world.pods()}
    start = world.read("pods")["metadata"]["resourceVersion"]
    with world.watch("pods", resourceVersion=start) as stream:
        change(world, "2")
        gone: set[str] = set()
        while True:
            event = stream.next(45)
            if event["type"] == "DELETED":
                gone.add(event["object"]["metadata"]["name"])
            if event["type"] == "ADDED":
                break
    assert gone == old


def test_paused_deployment_does_not_roll(world: World) -> None:
    make(world, replicas=1)
    complete(world)
    world.kubectl("rollout", "pause", "deployment/w")
    change(world, "2")
    world.until(
        "the change is seen",
        lambda: world.read("deployments/w")["status"]["observedGeneration"] == 3,
    )
    assert sets(world) == {"1": 1}
    world.kubectl("rollout", "resume", "deployment/w")
    complete(world)
    assert sets(world) == {"1": 0, "2": 1}


def test_restart_replaces_the_pods(world: World) -> None:
    make(world, replicas=1)
    complete(world)
    [before] = [each["metadata"]["uid"] for each in world.pods()]
    assert world.kubectl("rollout", "restart", "deployment/w") == "deployment.apps/w restarted\n"
    complete(world)
    world.ready_count(1)
    assert world.pods()[0]["metadata"]["uid"] != before


def test_old_replica_sets_are_cleaned_up(world: World) -> None:
    make(world, replicas=1, revisionHistoryLimit=1)
    complete(world)
    for value in ("2", "3"):
        change(world, value)
        complete(world)
    world.until("the oldest is gone", lambda: set(sets(world)) == {"2", "3"})


def test_deletion_takes_replica_sets_and_pods(world: World) -> None:
    make(world, replicas=1)
    complete(world)
    world.delete("deployments/w").done()
    world.until("all is gone", lambda: not sets(world) and not world.read("pods")["items"])


def test_replica_set_replaces_a_lost_pod(world: World) -> None:
    world.create("replicasets", world.workload(replicas=2))
    world.ready_count(2)
    before = {each["metadata"]["name"] for each in world.pods()}
    world.delete(f"pods/{min(before)}").done()
    world.until(
        "another is made", lambda: {each["metadata"]["name"] for each in world.pods()} - before
    )
    world.ready_count(2)


def test_replica_set_adopts_a_pod_that_matches(world: World) -> None:
    world.run_pod("lone", world.pod_spec(), labels={"app": "w"})
    world.running("lone")
    world.create("replicasets", world.workload(replicas=2))
    world.ready_count(2)
    [reference] = world.read("pods/lone")["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["name"], reference["controller"]) == (
        "ReplicaSet",
        "w",
        True,
    )


def test_replica_set_lets_go_of_a_pod_that_no_longer_matches(world: World) -> None:
    world.create("replicasets", world.workload(replicas=1))
    world.ready_count(1)
    name = world.pods()[0]["metadata"]["name"]
    world.patch(f"pods/{name}", {"metadata": {"labels": {"app": "free"}}}).done()
    world.until(
        "it is free", lambda: "ownerReferences" not in world.read(f"pods/{name}")["metadata"]
    )
    world.ready_count(1)


def test_failed_rollout_is_reported(world: World) -> None:
    make(world, world.gated(), replicas=1, progressDeadlineSeconds=2)
    world.until(
        "the deadline passes",
        lambda: conditions(world.read("deployments/w")).get("Progressing") == "False",
    )
    [reason] = [
        each["reason"]
        for each in world.read("deployments/w")["status"]["conditions"]
        if each["type"] == "Progressing"
    ]
    assert reason == "ProgressDeadlineExceeded"
