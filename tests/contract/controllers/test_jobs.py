"""Jobs: completions, failures, deadlines."""

from __future__ import annotations

from typing import Any

from contract.controllers.workloads import World, conditions


def make(world: World, script: str, *, policy: str = "Never", **spec: Any) -> None:
    pod = world.pod_spec(script, pod={"restartPolicy": policy})
    body = {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}, **spec}}
    world.create("jobs", body)


def ended(world: World, kind: str) -> dict[str, Any]:
    world.until(f"the job is {kind}", lambda: conditions(world.read("jobs/j")).get(kind) == "True")
    return world.read("jobs/j")


def reason(job: dict[str, Any], kind: str) -> str:
    [found] = [each for each in job["status"]["conditions"] if each["type"] == kind]
    text: str = found["reason"]
    return text


def test_job_completes(world: World) -> None:
    make(world, "true")
    job = ended(world, "Complete")
    assert job["status"]["succeeded"] == 1
    assert job["status"]["completionTime"]
    assert conditions(job) == {"SuccessCriteriaMet": "True", "Complete": "True"}
    assert reason(job, "Complete") == "CompletionsReached"


def test_pods_of_a_job_are_labelled(world: World) -> None:
    make(world, "true")
    job = ended(world, "Complete")
    [pod] = world.read("pods")["items"]
    labels = pod["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "j"
    assert labels["batch.kubernetes.io/controller-uid"] == job["metadata"]["uid"]
    assert pod["metadata"]["name"].startswith("j-")
    assert pod["status"]["phase"] == "Succeeded"


def test_several_completions(world: World) -> None:
    make(world, "true", completions=3, parallelism=2)
    job = ended(world, "Complete")
    assert job["status"]["succeeded"] == 3


def test_failure_without_retries(world: World) -> None:
    make(world, "exit 3", backoffLimit=0)
    job = ended(world, "Failed")
    assert job["status"]["failed"] == 1
    assert reason(job, "Failed") == "BackoffLimitExceeded"
    assert "completionTime" not in job["status"]


def test_failure_is_retried(world: World) -> None:
    make(world, "exit 3", backoffLimit=1)
    job = ended(world, "Failed")
    assert job["status"]["failed"] == 2
    assert len(world.read("pods")["items"]) == 2


def test_retry_in_place(world: World) -> None:
    volumes = [{"name": "state", "emptyDir": {}}]
    mounts = [{"name": "state", "mountPath": "/state"}]
    script = "test -f /state/again || { touch /state/again; exit 1; }"
    pod = world.pod_spec(
        script, pod={"restartPolicy": "OnFailure", "volumes": volumes}, volumeMounts=mounts
    )
    world.create("jobs", {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}})
    ended(world, "Complete")
    [found] = world.read("pods")["items"]
    assert found["status"]["containerStatuses"][0]["restartCount"] == 1


def test_deadline_ends_the_job(world: World) -> None:
    make(world, "sleep 60", activeDeadlineSeconds=1)
    job = ended(world, "Failed")
    assert reason(job, "Failed") == "DeadlineExceeded"
    world.until("its pods are gone", lambda: not world.pods("job-name=j"))


def test_suspended_job_makes_no_pods(world: World) -> None:
    make(world, "true", suspend=True)
    world.until("it says so", lambda: conditions(world.read("jobs/j")).get("Suspended") == "True")
    assert world.read("pods")["items"] == []
    world.patch("jobs/j", {"spec": {"suspend": False}}).done()
    ended(world, "Complete")


def test_deletion_in_the_background_takes_the_pods(world: World) -> None:
    make(world, "true")
    ended(world, "Complete")
    world.delete("jobs/j", propagationPolicy="Background").done()
    world.until("the pods are gone", lambda: not world.read("pods")["items"])


def test_pods_that_still_run_go_with_a_job_in_the_background(world: World) -> None:
    make(world, "sleep 1000")
    world.until("the pod is there", lambda: bool(world.read("pods")["items"]))
    world.delete("jobs/j", propagationPolicy="Background").done()
    world.until("the pods are gone", lambda: not world.read("pods")["items"])


def test_without_a_word_pods_stay_when_their_job_goes(world: World) -> None:
    make(world, "true")
    ended(world, "Complete")
    world.delete("jobs/j").done()
    world.until("the job is gone", lambda: world.get("jobs/j").status == 404)
    [pod] = world.read("pods")["items"]
    assert "ownerReferences" not in pod["metadata"]
