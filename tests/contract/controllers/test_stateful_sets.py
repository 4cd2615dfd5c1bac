"""StatefulSets: order, identity, updates, adoption and the fate of claims."""

from __future__ import annotations

from typing import Any

import pytest

from contract.controllers.workloads import LIVE, World, is_ready

REVISION = "controller-revision-hash"


def make(world: World, spec: dict[str, Any] | None = None, **more: Any) -> None:
    world.create("statefulsets", world.workload(spec, serviceName="w", **more))


def uids(world: World) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in world.pods()}


def revisions(world: World) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["labels"][REVISION] for each in world.pods()}


def reported(world: World, **counts: int) -> dict[str, Any]:
    """The status once it says these numbers."""

    def probe() -> dict[str, Any] | None:
        status: dict[str, Any] = world.read("statefulsets/w")["status"]
        return status if counts.items() <= status.items() else None

    found: dict[str, Any] = world.until(f"the status says {counts}", probe)
    return found


def change(world: World, value: str) -> None:
    env = [
        {
            "op": "add",
            "path": "/spec/template/spec/containers/0/env",
            "value": [{"name": "V", "value": value}],
        }
    ]
    world.patch("statefulsets/w", env, "application/json-patch+json").done()


def test_each_pod_waits_for_the_one_before(world: World) -> None:
    start = world.read("pods")["metadata"]["resourceVersion"]
    with world.watch("pods", resourceVersion=start) as stream:
        make(world, replicas=3)
        ready: set[str] = set()
        added: list[str] = []
        while len(ready) < 3:
            event = stream.next(45)
            pod = event["object"]
            name = pod["metadata"]["name"]
            if event["type"] == "ADDED":
                added.append(name)
                assert ready == {f"w-{number}" for number in range(len(added) - 1)}
            elif is_ready(pod):
                ready.add(name)
    assert added == ["w-0", "w-1", "w-2"]


def test_pod_that_is_not_ready_holds_up_the_next(world: World) -> None:
    make(world, world.gated(), replicas=2)
    world.until("w-0 runs", lambda: world.phase("w-0") == "Running")
    assert [each["metadata"]["name"] for each in world.pods()] == ["w-0"]
    world.open_gate("w-0")
    world.until("w-1 is made", lambda: world.get("pods/w-1").status == 200)


def test_parallel_pods_do_not_wait(world: World) -> None:
    make(world, world.gated(), replicas=3, podManagementPolicy="Parallel")
    world.until("all run", lambda: len(world.pods()) == 3)
    assert world.ready_names() == []


def test_pods_have_an_identity(world: World) -> None:
    make(world, replicas=2)
    world.ready("w-0", "w-1")
    pod = world.read("pods/w-1")
    owner = world.read("statefulsets/w")["metadata"]["uid"]
    assert pod["spec"]["hostname"] == "w-1"
    assert pod["spec"]["subdomain"] == "w"
    labels = pod["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "w-1"
    assert labels["apps.kubernetes.io/pod-index"] == "1"
    assert labels["app"] == "w"
    assert pod["metadata"]["generateName"] == "w-"
    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": "w",
            "uid": owner,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_status_counts(world: World) -> None:
    make(world, replicas=2)
    world.ready("w-0", "w-1")
    found = reported(world, availableReplicas=2)
    assert (found["replicas"], found["readyReplicas"], found["updatedReplicas"]) == (2, 2, 2)
    assert found["currentReplicas"] == 2
    assert found["currentRevision"] == found["updateRevision"]
    assert found["observedGeneration"] == 1
    assert set(revisions(world).values()) == {found["updateRevision"]}


def test_deleted_pod_comes_back_under_its_name(world: World) -> None:
    make(world, replicas=2)
    world.ready("w-0", "w-1")
    before = uids(world)
    world.delete("pods/w-0").done()
    world.until(
        "a new w-0",
        lambda: (
            world.pod_is_ready("w-0") and uids(world).get("w-0", before["w-0"]) != before["w-0"]
        ),
    )
    assert uids(world)["w-1"] == before["w-1"]


def test_scaling_down_takes_the_highest_first(world: World) -> None:
    make(world, replicas=3)
    world.ready("w-0", "w-1", "w-2")
    start = world.read("pods")["metadata"]["resourceVersion"]
    with world.watch("pods", resourceVersion=start) as stream:
        world.patch("statefulsets/w/scale", {"spec": {"replicas": 1}}).done()
        gone: list[str] = []
        while len(gone) < 2:
            event = stream.next(45)
            if event["type"] == "DELETED":
                gone.append(event["object"]["metadata"]["name"])
    assert gone == ["w-2", "w-1"]
    assert world.ready_names() == ["w-0"]


def test_update_goes_from_the_highest_down(world: World) -> None:
    make(world, replicas=3, podManagementPolicy="Parallel")
    world.ready("w-0", "w-1", "w-2")
    before = revisions(world)
    start = world.read("pods")["metadata"]["resourceVersion"]
    with world.watch("pods", resourceVersion=start) as stream:
        change(world, "2")
        added: list[str] = []
        while len(added) < 3:
            event = stream.next(45)
            if event["type"] == "ADDED":
                added.append(event["object"]["metadata"]["name"])
    assert added == ["w-2", "w-1", "w-0"]
    world.ready("w-0", "w-1", "w-2")
    assert not set(revisions(world).values()) & set(before.values())


def test_partition_keeps_the_lower_pods(world: World) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    make(world, replicas=2, updateStrategy=strategy)
    world.ready("w-0", "w-1")
    before = revisions(world)
    change(world, "2")
    world.until("w-1 is new", lambda: revisions(world).get("w-1", before["w-1"]) != before["w-1"])
    world.ready("w-0", "w-1")
    status = reported(world, updatedReplicas=1, readyReplicas=2)
    assert revisions(world)["w-0"] == before["w-0"] == status["currentRevision"]
    assert revisions(world)["w-1"] == status["updateRevision"]
    world.patch(
        "statefulsets/w", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
    ).done()
    world.until("w-0 is new", lambda: revisions(world).get("w-0") == status["updateRevision"])
    world.ready("w-0", "w-1")


def test_on_delete_waits_for_the_hand(world: World) -> None:
    make(world, replicas=1, updateStrategy={"type": "OnDelete"})
    world.ready("w-0")
    before = revisions(world)["w-0"]
    change(world, "2")
    world.until(
        "the change is seen",
        lambda: world.read("statefulsets/w")["status"]["updateRevision"] != before,
    )
    assert revisions(world)["w-0"] == before
    world.delete("pods/w-0").done()
    world.until("w-0 is new", lambda: revisions(world).get("w-0", before) != before)


def test_changing_back_finds_the_old_revision(world: World) -> None:
    make(world, replicas=1)
    world.ready("w-0")
    first = revisions(world)["w-0"]
    change(world, "2")
    world.until(
        "w-0 is new",
        lambda: world.pod_is_ready("w-0") and revisions(world).get("w-0", first) != first,
    )
    remove = [{"op": "remove", "path": "/spec/template/spec/containers/0/env"}]
    world.patch("statefulsets/w", remove, "application/json-patch+json").done()
    world.until("w-0 is old", lambda: revisions(world).get("w-0") == first)
    history = world.read("controllerrevisions")["items"]
    assert sorted(each["revision"] for each in history) == [2, 3]


def test_orphaned_pods_stay_and_are_adopted(world: World) -> None:
    make(world, replicas=2)
    world.ready("w-0", "w-1")
    before = uids(world)
    world.delete("statefulsets/w", propagationPolicy="Orphan").done()
    world.until("the set is gone", lambda: world.get("statefulsets/w").status == 404)
    assert uids(world) == before
    assert all("ownerReferences" not in each["metadata"] for each in world.pods())
    make(world, replicas=2)
    owner = world.read("statefulsets/w")["metadata"]["uid"]

    def adopted() -> bool:
        references = [each["metadata"].get("ownerReferences", [{}])[0] for each in world.pods()]
        return [each.get("uid") for each in references] == [owner, owner]

    world.until("they are adopted", adopted)
    assert uids(world) == before


CLAIMS = [
    {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}},
    }
]


def with_disk(world: World) -> Any:
    mounts = [{"name": "data", "mountPath": "/disk"}]
    return world.pod_spec("date +%N >> /disk/starts; " + LIVE, volumeMounts=mounts)


def claims(world: World) -> list[str]:
    return world.names("persistentvolumeclaims")


def test_each_pod_has_its_claim_and_keeps_its_data(world: World) -> None:
    make(world, with_disk(world), replicas=2, volumeClaimTemplates=CLAIMS)
    world.ready("w-0", "w-1")
    assert claims(world) == ["data-w-0", "data-w-1"]
    first = world.kubectl("exec", "w-0", "--", "cat", "/disk/starts")
    before = uids(world)["w-0"]
    world.delete("pods/w-0").done()
    world.until(
        "a new w-0",
        lambda: world.pod_is_ready("w-0") and uids(world).get("w-0") not in (None, before),
    )
    after = world.kubectl("exec", "w-0", "--", "cat", "/disk/starts")
    assert after.startswith(first)
    assert len(after.splitlines()) == 2


def test_claims_outlive_scaling_and_deletion(world: World) -> None:
    make(world, with_disk(world), replicas=2, volumeClaimTemplates=CLAIMS)
    world.ready("w-0", "w-1")
    world.patch("statefulsets/w/scale", {"spec": {"replicas": 1}}).done()
    world.until("w-1 is gone", lambda: world.get("pods/w-1").status == 404)
    world.delete("statefulsets/w").done()
    world.until("w-0 is gone", lambda: world.get("pods/w-0").status == 404)
    assert claims(world) == ["data-w-0", "data-w-1"]


@pytest.mark.parametrize("moment", ["whenScaled", "whenDeleted"])
def test_claims_go_when_the_policy_says_so(world: World, moment: str) -> None:
    policy = {"whenScaled": "Retain", "whenDeleted": "Retain", moment: "Delete"}
    make(
        world,
        with_disk(world),
        replicas=2,
        volumeClaimTemplates=CLAIMS,
        persistentVolumeClaimRetentionPolicy=policy,
    )
    world.ready("w-0", "w-1")
    if moment == "whenScaled":
        world.patch("statefulsets/w/scale", {"spec": {"replicas": 1}}).done()
        world.until("the claim is gone", lambda: claims(world) == ["data-w-0"])
    else:
        world.delete("statefulsets/w").done()
        world.until("the claims are gone", lambda: claims(world) == [])


def test_a_quota_stops_pods_and_the_event_on_the_set_says_why(world: World) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    world.create("resourcequotas", quota)
    make(world, replicas=2, podManagementPolicy="Parallel")
    uid = world.read("statefulsets/w")["metadata"]["uid"]

    def told() -> str:
        found = world.read("events", fieldSelector=f"involvedObject.uid={uid},reason=FailedCreate")
        messages = [each["message"] for each in found["items"]]
        return next((text for text in messages if "exceeded quota" in text), "")

    message = world.until("an event says why", told)
    assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in message
    assert len(world.pods()) == 1
    world.delete("resourcequotas/q")
    world.until("the other pod comes", lambda: len(world.pods()) == 2)
