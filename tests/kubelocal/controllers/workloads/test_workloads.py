from __future__ import annotations

import copy
from typing import Any

import pytest

from kubelocal.controllers.engine.view import Changes
from kubelocal.controllers.workloads import deployment, job, replicaset, statefulset


def workload(kind: str, name: str = "web", **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "valkey:9.1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "d", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


def run_statefulset(world: Any) -> None:
    world.settle(lambda: statefulset.plan(world, "d", "web", world.now))


def run_deployment(world: Any) -> None:
    def both() -> Changes:
        steps = deployment.plan(world, "d", "web", world.now).steps
        for name in world.names("replicasets"):
            steps += replicaset.plan(world, "d", name, world.now).steps
        return Changes(steps)

    world.settle(both)


def run_job(world: Any) -> None:
    world.settle(lambda: job.plan(world, "d", "web", world.now))


def change_image(world: Any, resource: str, image: str) -> None:
    obj = copy.deepcopy(world.get(resource, "d", "web"))
    obj["spec"]["template"]["spec"]["containers"][0]["image"] = image
    world.objects[resource, "d", "web"] = obj


def images(world: Any) -> dict[str, str]:
    return {p["metadata"]["name"]: p["spec"]["containers"][0]["image"] for p in world.list("pods")}


def test_ordered_statefulset_waits_for_each_pod_before_the_next(world: Any) -> None:
    world.add("statefulsets", workload("StatefulSet", replicas=3))
    run_statefulset(world)
    assert world.names("pods") == ["web-0"]
    world.make_ready("web-0")
    run_statefulset(world)
    assert world.names("pods") == ["web-0", "web-1"]


def test_parallel_statefulset_makes_all_pods_at_once(world: Any) -> None:
    world.add("statefulsets", workload("StatefulSet", replicas=3, podManagementPolicy="Parallel"))
    run_statefulset(world)
    assert world.names("pods") == ["web-0", "web-1", "web-2"]


def test_statefulset_gives_each_pod_its_claim_and_keeps_it_when_scaled_in(world: Any) -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    world.add(
        "statefulsets",
        workload(
            "StatefulSet", replicas=2, podManagementPolicy="Parallel", volumeClaimTemplates=[claim]
        ),
    )
    run_statefulset(world)
    assert world.names("persistentvolumeclaims") == ["data-web-0", "data-web-1"]
    volumes = world.get("pods", "d", "web-1")["spec"]["volumes"]
    assert volumes == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}]
    world.get("statefulsets", "d", "web")["spec"]["replicas"] = 1
    world.make_ready()
    run_statefulset(world)
    assert world.names("pods") == ["web-0"]
    assert world.names("persistentvolumeclaims") == ["data-web-0", "data-web-1"]


def test_statefulset_rolls_from_the_last_pod_and_stops_at_one_that_is_not_ready(world: Any) -> None:
    world.add("statefulsets", workload("StatefulSet", replicas=3, podManagementPolicy="Parallel"))
    run_statefulset(world)
    world.make_ready()
    run_statefulset(world)
    change_image(world, "statefulsets", "valkey:9.2")
    run_statefulset(world)
    assert images(world) == {"web-0": "valkey:9.1", "web-1": "valkey:9.1", "web-2": "valkey:9.2"}
    world.make_ready()
    run_statefulset(world)
    assert images(world)["web-1"] == "valkey:9.2"
    assert images(world)["web-0"] == "valkey:9.1"
    assert world.status("statefulsets", "web")["updatedReplicas"] == 2


def test_statefulset_partition_keeps_low_ordinals_on_the_old_revision(world: Any) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    world.add("statefulsets", workload("StatefulSet", replicas=2, updateStrategy=strategy))
    for _ in range(2):
        run_statefulset(world)
        world.make_ready()
    run_statefulset(world)
    change_image(world, "statefulsets", "valkey:9.2")
    for _ in range(3):
        run_statefulset(world)
        world.make_ready()
    assert images(world) == {"web-0": "valkey:9.1", "web-1": "valkey:9.2"}
    world._delete("pods", "d", "web-0", world.get("pods", "d", "web-0")["metadata"]["uid"])
    run_statefulset(world)
    assert images(world)["web-0"] == "valkey:9.1"  # recreated below the partition: still old


def test_statefulset_on_delete_waits_for_a_person(world: Any) -> None:
    world.add(
        "statefulsets", workload("StatefulSet", replicas=1, updateStrategy={"type": "OnDelete"})
    )
    run_statefulset(world)
    world.make_ready()
    change_image(world, "statefulsets", "valkey:9.2")
    run_statefulset(world)
    assert images(world) == {"web-0": "valkey:9.1"}
    world._delete("pods", "d", "web-0", world.get("pods", "d", "web-0")["metadata"]["uid"])
    run_statefulset(world)
    assert images(world) == {"web-0": "valkey:9.2"}


def test_statefulset_recreated_takes_over_the_history_its_namesake_left(world: Any) -> None:
    world.add("statefulsets", workload("StatefulSet", replicas=1))
    run_statefulset(world)
    for orphan in (*world.list("controllerrevisions"), *world.list("pods")):
        del orphan["metadata"]["ownerReferences"]
    del world.objects["statefulsets", "d", "web"]
    made = world.add("statefulsets", workload("StatefulSet", replicas=1))
    run_statefulset(world)
    (kept,) = world.list("controllerrevisions")
    assert [r["uid"] for r in kept["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]


def test_statefulset_adopts_an_orphan_of_its_name_without_restarting_it(world: Any) -> None:
    world.add("statefulsets", workload("StatefulSet", replicas=1))
    run_statefulset(world)
    world.make_ready()
    before = world.get("pods", "d", "web-0")["metadata"]["uid"]
    del world.get("pods", "d", "web-0")["metadata"]["ownerReferences"]
    run_statefulset(world)
    pod = world.get("pods", "d", "web-0")
    assert pod["metadata"]["uid"] == before
    assert pod["metadata"]["ownerReferences"][0]["name"] == "web"


@pytest.mark.parametrize("replicas", [1, 4, 10])
def test_deployment_roll_never_leaves_its_bounds(world: Any, replicas: int) -> None:
    world.add("deployments", workload("Deployment", replicas=replicas))
    run_deployment(world)
    world.make_ready()
    run_deployment(world)
    change_image(world, "deployments", "valkey:9.2")
    surge = -(-replicas // 4)
    for _ in range(60):
        steps = deployment.plan(world, "d", "web", world.now).steps
        for name in world.names("replicasets"):
            steps += replicaset.plan(world, "d", name, world.now).steps
        for step in steps:
            try:
                world.apply(step)
            except AssertionError:
                break
            asked = sum(s["spec"]["replicas"] for s in world.list("replicasets"))
            assert asked <= replicas + surge
            ready = sum(1 for p in world.list("pods") if p.get("status"))
            assert ready >= replicas - replicas // 4
        world.make_ready()
    assert set(images(world).values()) == {"valkey:9.2"}
    assert world.status("deployments", "web")["availableReplicas"] == replicas


def test_deployment_undo_brings_the_old_replicaset_back_under_a_new_revision(world: Any) -> None:
    world.add("deployments", workload("Deployment", replicas=1))
    for image in ("valkey:9.1", "valkey:9.2", "valkey:9.1"):
        change_image(world, "deployments", image)
        for _ in range(5):
            run_deployment(world)
            world.make_ready()
    assert len(world.list("replicasets")) == 2
    revision = world.get("deployments", "d", "web")["metadata"]["annotations"]
    assert revision["deployment.kubernetes.io/revision"] == "3"


def test_recreate_deployment_runs_no_two_revisions_at_once(world: Any) -> None:
    world.add("deployments", workload("Deployment", replicas=2, strategy={"type": "Recreate"}))
    for _ in range(3):
        run_deployment(world)
        world.make_ready()
    change_image(world, "deployments", "valkey:9.2")
    for _ in range(5):
        run_deployment(world)
        assert len(set(images(world).values())) <= 1
        world.make_ready()
    assert set(images(world).values()) == {"valkey:9.2"}


def test_job_counts_each_pod_once_and_completes(world: Any) -> None:
    world.add("jobs", workload("Job", completions=2, parallelism=1))
    run_job(world)
    for _ in range(2):
        (active,) = [p for p in world.list("pods") if not p.get("status")]
        world.finish(active["metadata"]["name"], "Succeeded")
        run_job(world)
    status = world.status("jobs", "web")
    assert status["succeeded"] == 2
    assert [c["type"] for c in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert not any(p["metadata"].get("finalizers") for p in world.list("pods"))


def test_job_retries_with_backoff_and_gives_up_at_its_limit(world: Any) -> None:
    world.add("jobs", workload("Job", completions=1, parallelism=1, backoffLimit=1))
    run_job(world)
    (first,) = world.names("pods")
    world.finish(first, "Failed")
    run_job(world)
    assert world.names("pods") == [first]  # ten seconds must pass before the next try
    world.pass_seconds(11)
    run_job(world)
    second = next(n for n in world.names("pods") if n != first)
    world.finish(second, "Failed")
    run_job(world)
    status = world.status("jobs", "web")
    assert status["failed"] == 2
    assert status["conditions"][-1]["reason"] == "BackoffLimitExceeded"


def test_replicaset_scales_in_the_pods_that_cost_least(world: Any) -> None:
    world.add("replicasets", workload("ReplicaSet", replicas=3))
    world.settle(lambda: replicaset.plan(world, "d", "web", world.now))
    ready = world.names("pods")[0]
    world.make_ready(ready)
    world.get("replicasets", "d", "web")["spec"]["replicas"] = 1
    world.settle(lambda: replicaset.plan(world, "d", "web", world.now))
    assert world.names("pods") == [ready]
