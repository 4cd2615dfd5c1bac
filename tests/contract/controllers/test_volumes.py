"""Claims: provisioned, bound, protected, grown; and volumes as a container sees them."""

from __future__ import annotations

from typing import Any

from contract.controllers.workloads import LIVE, World


def claim(world: World, name: str = "c", size: str = "16Mi") -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    world.create("persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec})


def user(world: World, name: str = "p", script: str = LIVE, used: str = "c") -> dict[str, Any]:
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": used}}]
    mounts = [{"name": "disk", "mountPath": "/disk"}]
    spec = world.pod_spec(
        script, pod={"volumes": volumes, "restartPolicy": "Never"}, volumeMounts=mounts
    )
    return world.run_pod(name, spec)


def test_claim_gets_the_default_class_and_is_bound(world: World) -> None:
    claim(world)
    user(world)
    world.running("p")
    found = world.read("persistentvolumeclaims/c")
    assert found["status"]["phase"] == "Bound"
    assert found["status"]["capacity"] == {"storage": "16Mi"}
    assert found["spec"]["storageClassName"]
    volume = world.read(f"persistentvolumes/{found['spec']['volumeName']}")
    assert volume["status"]["phase"] == "Bound"
    assert volume["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
    assert volume["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_volume_goes_with_its_claim(world: World) -> None:
    claim(world)
    user(world, script="true")
    world.finished("p")
    name = world.read("persistentvolumeclaims/c")["spec"]["volumeName"]
    world.delete("pods/p").done()
    world.delete("persistentvolumeclaims/c").done()
    world.until("the volume is gone", lambda: world.get(f"persistentvolumes/{name}").status == 404)


def test_claim_in_use_is_protected(world: World) -> None:
    claim(world)
    user(world)
    world.running("p")
    world.delete("persistentvolumeclaims/c").done()
    found = world.read("persistentvolumeclaims/c")
    assert found["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert "deletionTimestamp" in found["metadata"]
    world.delete("pods/p").done()
    world.until("the claim is gone", lambda: world.get("persistentvolumeclaims/c").status == 404)


def test_data_outlive_the_pod(world: World) -> None:
    claim(world)
    user(world, "writer", "echo kept > /disk/file")
    world.finished("writer")
    world.delete("pods/writer").done()
    user(world, "reader", "cat /disk/file")
    assert world.printed("reader") == "kept\n"


def test_claim_grows(world: World) -> None:
    claim(world)
    user(world)
    world.running("p")
    patch = {"spec": {"resources": {"requests": {"storage": "32Mi"}}}}
    world.patch("persistentvolumeclaims/c", patch).done()
    world.until(
        "the capacity follows",
        lambda: world.read("persistentvolumeclaims/c")["status"]["capacity"] == {"storage": "32Mi"},
    )


def test_claim_of_an_absent_class_stays_pending(world: World) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "none-such",
        "resources": {"requests": {"storage": "16Mi"}},
    }
    world.create("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})
    user(world)
    world.until(
        "the pod is told",
        lambda: any(
            each["type"] == "PodScheduled" and each["reason"] == "Unschedulable"
            for each in world.read("pods/p")["status"].get("conditions", [])
        ),
    )
    assert world.read("persistentvolumeclaims/c")["status"]["phase"] == "Pending"


def test_files_of_config_maps_and_secrets(world: World) -> None:
    world.create(
        "configmaps", {"metadata": {"name": "m"}, "data": {"a.conf": "one\n", "b": "two\n"}}
    )
    world.create("secrets", {"metadata": {"name": "s"}, "stringData": {"word": "hush"}})
    volumes = [
        {"name": "m", "configMap": {"name": "m"}},
        {"name": "i", "configMap": {"name": "m", "items": [{"key": "b", "path": "sub/renamed"}]}},
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "o", "configMap": {"name": "absent", "optional": True}},
        {"name": "e", "emptyDir": {}},
    ]
    mounts = [{"name": each["name"], "mountPath": f"/v/{each['name']}"} for each in volumes]
    script = (
        "cat /v/m/a.conf /v/m/b /v/i/sub/renamed /v/s/word; echo; ls /v/m; ls /v/o | wc -l;"
        " touch /v/e/x && ls /v/e"
    )
    spec = world.pod_spec(
        script, pod={"volumes": volumes, "restartPolicy": "Never"}, volumeMounts=mounts
    )
    world.run_pod("p", spec)
    assert world.printed("p") == "one\ntwo\ntwo\nhush\na.conf\nb\n0\nx\n"


def test_downward_and_projected_files(world: World) -> None:
    world.create("configmaps", {"metadata": {"name": "m"}, "data": {"k": "v\n"}})
    item = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    sources = [
        {"configMap": {"name": "m"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    volumes = [
        {"name": "d", "downwardAPI": {"items": [item]}},
        {"name": "p", "projected": {"sources": sources}},
    ]
    mounts = [{"name": each["name"], "mountPath": f"/v/{each['name']}"} for each in volumes]
    script = "cat /v/d/labels; echo; cat /v/p/k /v/p/name"
    spec = world.pod_spec(
        script, pod={"volumes": volumes, "restartPolicy": "Never"}, volumeMounts=mounts
    )
    world.run_pod("p", spec, labels={"app": "w", "tier": "x"})
    assert world.printed("p") == 'app="w"\ntier="x"\nv\np'


def test_containers_share_an_empty_directory(world: World) -> None:
    mounts = [{"name": "e", "mountPath": "/e"}]
    reader = "while ! test -f /e/x; do sleep 0.1; done; cat /e/x"
    containers = [
        world.container("echo shared > /e/x", volumeMounts=mounts) | {"name": "writer"},
        world.container(reader, volumeMounts=mounts) | {"name": "reader"},
    ]
    volumes = [{"name": "e", "emptyDir": {}}]
    pod = {"containers": containers, "volumes": volumes, "restartPolicy": "Never"}
    world.run_pod("p", world.pod_spec(pod=pod))
    assert world.printed("p", "reader") == "shared\n"


def test_missing_config_map_holds_the_container(world: World) -> None:
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "k"}}}]
    world.run_pod("p", world.pod_spec(env=env))

    def waiting() -> str:
        statuses = world.read("pods/p")["status"].get("containerStatuses", [])
        text: str = statuses[0]["state"].get("waiting", {}).get("reason", "") if statuses else ""
        return text

    world.until("it says why", lambda: waiting() == "CreateContainerConfigError")
    world.create("configmaps", {"metadata": {"name": "absent"}, "data": {"k": "v"}})
    world.running("p")
