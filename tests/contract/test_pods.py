"""Pods without a node: what may change, binding, eviction; and the scale of workloads."""

from __future__ import annotations

from typing import Any

import pytest

from contract.driver import STRATEGIC, Space

LABELS = {"app": "a"}


def body(name: str = "p", **spec: Any) -> dict[str, Any]:
    quiet = {"automountServiceAccountToken": False, "schedulerName": "nobody"}
    containers = [{"name": "main", "image": "redis:7.0"}]
    metadata = {"name": name, "labels": LABELS}
    return {"metadata": metadata, "spec": {**quiet, "containers": containers, **spec}}


@pytest.fixture
def pods(space: Space) -> Space:
    space.post("serviceaccounts", {"metadata": {"name": "default"}})
    return space


def causes(reply: Any) -> set[tuple[str, str]]:
    reply.refused(422, "Invalid")
    return {cause[:2] for cause in reply.causes()}


def test_new_pod_is_pending(pods: Space) -> None:
    assert pods.create("pods", body())["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_image_may_change(pods: Space) -> None:
    pods.create("pods", body())
    patch = {"spec": {"containers": [{"name": "main", "image": "redis:7.2"}]}}
    found = pods.patch("pods/p", patch, STRATEGIC).object
    assert found["spec"]["containers"][0]["image"] == "redis:7.2"
    assert found["metadata"]["generation"] == 2


def test_command_may_not_change(pods: Space) -> None:
    pods.create("pods", body())
    patch = {"spec": {"containers": [{"name": "main", "command": ["x"]}]}}
    reply = pods.patch("pods/p", patch, STRATEGIC)
    assert causes(reply) == {("spec", "FieldValueForbidden")}
    assert reply.json["message"].startswith(
        'Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than'
        " `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
        "`spec.tolerations` (only additions to existing tolerations),"
        "`spec.terminationGracePeriodSeconds`"
        " (allow it to be set to 1 if it was previously negative)"
    )


def test_containers_may_not_be_added(pods: Space) -> None:
    pods.create("pods", body())
    patch = {"spec": {"containers": [{"name": "more", "image": "x:1"}]}}
    reply = pods.patch("pods/p", patch, STRATEGIC)
    assert causes(reply) == {("spec.containers", "FieldValueForbidden")}


def test_tolerations_may_be_added(pods: Space) -> None:
    found = pods.create("pods", body())
    more = [*found["spec"]["tolerations"], {"key": "x", "operator": "Exists"}]
    after = pods.patch("pods/p", {"spec": {"tolerations": more}}).object
    assert after["spec"]["tolerations"] == more


def test_labels_may_change(pods: Space) -> None:
    pods.create("pods", body())
    found = pods.patch("pods/p", {"metadata": {"labels": {"x": "y"}}}).object
    assert found["metadata"]["labels"] == {"app": "a", "x": "y"}
    assert found["metadata"]["generation"] == 1


def test_containers_are_required(pods: Space) -> None:
    reply = pods.post("pods", {"metadata": {"name": "p"}, "spec": {"containers": []}})
    assert causes(reply) == {("spec.containers", "FieldValueRequired")}


def test_container_name_is_required(pods: Space) -> None:
    reply = pods.post("pods", body(containers=[{"image": "x"}]))
    assert ("spec.containers[0].name", "FieldValueRequired") in causes(reply)


def test_container_image_is_required(pods: Space) -> None:
    reply = pods.post("pods", body(containers=[{"name": "a"}]))
    assert causes(reply) == {("spec.containers[0].image", "FieldValueRequired")}


def test_container_names_are_unique(pods: Space) -> None:
    containers = [{"name": "a", "image": "x"}, {"name": "a", "image": "y"}]
    reply = pods.post("pods", body(containers=containers))
    assert causes(reply) == {("spec.containers[1].name", "FieldValueDuplicate")}


def test_mounted_volume_must_exist(pods: Space) -> None:
    mounts = [{"name": "none", "mountPath": "/x"}]
    reply = pods.post(
        "pods", body(containers=[{"name": "a", "image": "x", "volumeMounts": mounts}])
    )
    assert reply.causes() == {
        ("spec.containers[0].volumeMounts[0].name", "FieldValueNotFound", 'Not found: "none"')
    }


def test_request_may_not_exceed_the_limit(pods: Space) -> None:
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    reply = pods.post(
        "pods", body(containers=[{"name": "a", "image": "x", "resources": resources}])
    )
    assert reply.causes() == {
        (
            "spec.containers[0].resources.requests",
            "FieldValueInvalid",
            'Invalid value: "2": must be less than or equal to cpu limit of 1',
        )
    }


def test_restart_policy_is_known(pods: Space) -> None:
    reply = pods.post("pods", body(restartPolicy="Odd"))
    assert causes(reply) == {("spec.restartPolicy", "FieldValueNotSupported")}


def test_image_pull_policy_is_known(pods: Space) -> None:
    containers = [{"name": "a", "image": "x", "imagePullPolicy": "Odd"}]
    reply = pods.post("pods", body(containers=containers))
    assert causes(reply) == {("spec.containers[0].imagePullPolicy", "FieldValueNotSupported")}


def test_pod_of_an_absent_account_is_forbidden(pods: Space) -> None:
    status = pods.post("pods", body(serviceAccountName="none")).refused(403, "Forbidden")
    assert status["message"] == (
        'pods "p" is forbidden: error looking up service account'
        f' {pods.name}/none: serviceaccount "none" not found'
    )


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"memory": "1Gi"}}, "Burstable"),
    ],
    ids=["nothing", "requests", "limits", "memory only"],
)
def test_quality_of_service(pods: Space, resources: dict[str, Any], quality: str) -> None:
    containers = [{"name": "a", "image": "x", "resources": resources}]
    assert pods.create("pods", body(containers=containers))["status"]["qosClass"] == quality


def binding(name: str = "p", node: str = "nowhere") -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


def test_binding_sets_the_node(pods: Space) -> None:
    pods.create("pods", body())
    reply = pods.post("pods/p/binding", binding())
    assert reply.status == 201
    assert (reply.json["kind"], reply.json["status"]) == ("Status", "Success")
    found = pods.read("pods/p")
    assert found["spec"]["nodeName"] == "nowhere"
    condition = found["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


def test_second_binding_is_a_conflict(pods: Space) -> None:
    pods.create("pods", body())
    pods.post("pods/p/binding", binding()).done()
    status = pods.post("pods/p/binding", binding(node="elsewhere")).refused(409, "Conflict")
    assert status["message"] == (
        'Operation cannot be fulfilled on pods/binding "p":'
        ' pod p is already assigned to node "nowhere"'
    )


def test_binding_of_an_absent_pod_is_not_found(pods: Space) -> None:
    pods.post("pods/p/binding", binding()).refused(404, "NotFound")


def eviction(name: str = "p", **options: Any) -> dict[str, Any]:
    metadata = {"name": name}
    whole = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    return {**whole, "deleteOptions": options} if options else whole


def test_eviction_without_a_budget_deletes(pods: Space) -> None:
    pods.create("pods", body())
    reply = pods.post("pods/p/eviction", eviction())
    assert reply.status == 201
    assert reply.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }
    pods.get("pods/p").refused(404)


def test_dry_eviction_deletes_nothing(pods: Space) -> None:
    pods.create("pods", body())
    assert pods.post("pods/p/eviction", eviction(dryRun=["All"])).status == 201
    pods.read("pods/p")


def test_eviction_gives_grace(pods: Space) -> None:
    pods.create("pods", body(nodeName="nowhere"))
    pods.post("pods/p/eviction", eviction(gracePeriodSeconds=7)).done()
    metadata = pods.read("pods/p")["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 7
    pods.delete("pods/p", gracePeriodSeconds=0).done()


def test_eviction_of_an_absent_pod_is_not_found(pods: Space) -> None:
    pods.post("pods/p/eviction", eviction()).refused(404, "NotFound")


def test_status_update_does_not_change_the_spec(pods: Space) -> None:
    pods.create("pods", body())
    patch = {"spec": {"nodeName": "nowhere"}, "status": {"phase": "Running", "podIP": "10.1.2.3"}}
    found = pods.patch("pods/p/status", patch).object
    assert "nodeName" not in found["spec"]
    assert found["status"]["phase"] == "Running"
    assert found["status"]["podIPs"] == [{"ip": "10.1.2.3"}]


def test_log_of_an_unbound_pod_is_a_bad_request(pods: Space) -> None:
    pods.create("pods", body())
    reply = pods.get("pods/p/log", container="none")
    status = reply.refused(400, "BadRequest")
    assert status["message"] == "container none is not valid for pod p"


def workload(**spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "main", "image": "redis:7.0"}]},
    }
    return {
        "metadata": {"name": "w"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec},
    }


QUIET: dict[str, Any] = {"replicas": 0, "paused": True}


def test_scale_of_a_deployment(space: Space) -> None:
    space.create("deployments", workload(**QUIET))
    scale = space.read("deployments/w/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["metadata"]["name"] == "w"
    assert scale["spec"] == {}
    assert scale["status"] == {"replicas": 0, "selector": "app=a"}


def test_scale_changes_the_replicas(space: Space) -> None:
    space.create("deployments", workload(**QUIET))
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}}
    answer = space.put("deployments/w/scale", {**scale, "spec": {"replicas": 4}}).object
    assert answer["spec"] == {"replicas": 4}
    found = space.read("deployments/w")
    assert found["spec"]["replicas"] == 4
    assert found["metadata"]["generation"] == 2


def test_scale_below_zero_is_invalid(space: Space) -> None:
    space.create("deployments", workload(**QUIET))
    reply = space.patch("deployments/w/scale", {"spec": {"replicas": -1}})
    assert causes(reply) == {("spec.replicas", "FieldValueInvalid")}


def test_selector_must_match_the_template(space: Space) -> None:
    body = workload()
    body["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    reply = space.post("deployments", body)
    assert reply.causes() == {
        (
            "spec.template.metadata.labels",
            "FieldValueInvalid",
            'Invalid value: {"app":"a"}: `selector` does not match template `labels`',
        )
    }


def test_selector_is_immutable(space: Space) -> None:
    space.create("deployments", workload(**QUIET))
    labels = {"app": "a", "more": "x"}
    patch = {
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
    }
    reply = space.patch("deployments/w", patch)
    assert causes(reply) == {("spec.selector", "FieldValueInvalid")}
    assert "field is immutable" in reply.json["message"]


def test_stateful_set_template_may_change_but_not_the_service(space: Space) -> None:
    space.create("statefulsets", workload(replicas=0, serviceName="x"))
    reply = space.patch("statefulsets/w", {"spec": {"serviceName": "y"}})
    assert causes(reply) == {("spec", "FieldValueForbidden")}
    assert reply.json["message"] == (
        'StatefulSet.apps "w" is invalid: spec: Forbidden: updates to statefulset spec for fields'
        " other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit',"
        " 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    )


def test_claim_may_not_shrink_or_change_class(space: Space) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "none-such",
        "resources": {"requests": {"storage": "2Gi"}},
    }
    space.create("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})
    reply = space.patch("persistentvolumeclaims/c", {"spec": {"storageClassName": "other"}})
    assert ("spec", "FieldValueForbidden") in causes(reply)


def test_job_template_is_immutable(space: Space) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "x:1"}]}}
    space.create(
        "jobs",
        {
            "metadata": {"name": "j"},
            "spec": {"suspend": True, "template": template, "parallelism": 0},
        },
    )
    patch = {"spec": {"completions": 5}}
    reply = space.patch("jobs/j", patch)
    assert ("spec.completions", "FieldValueInvalid") in causes(reply)


def test_budget_takes_one_of_two_limits(space: Space) -> None:
    spec = {"minAvailable": 1, "maxUnavailable": 1, "selector": {"matchLabels": LABELS}}
    reply = space.post("poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": spec})
    reply.refused(422)
    [(field, reason, message)] = reply.causes()
    assert (field, reason) == ("spec", "FieldValueInvalid")
    assert message.endswith("minAvailable and maxUnavailable cannot be both set")
