"""Workers of backups as the caches show them: whose they are, how they are, and why they wait."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.objects import CONFIG_MAPS, DEPLOYMENTS, JOBS, PODS, Job, Pod
from kubecontroller.runtime.caches import Caches
from kubecontroller.runtime.informer import Informer
from kubecontroller.testing.loop import VirtualLoop
from kubecontroller.testing.tiny import TinyServer
from redis_operator.backup.task import Report
from redis_operator.manifests.names import ARCHIVE_LABEL, WORKER_LABEL
from redis_operator.manifests.replacing_workers import RESTORE_LABEL
from redis_operator.manifests.workers import ATTEMPT_LABEL, BACKUP_LABEL, BACKUP_UID_LABEL
from redis_operator.operator.backups.workers import (
    Workers,
    ended_before,
    final_message,
    host_of,
    is_controlled_by,
    waiting,
)
from redis_operator.planning.backups.attempts import State, Worker

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
KEY = ("ns", "monday")


def moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def meta(name: str, *, owner: str = "", namespace: str = "ns", **labels: str) -> dict[str, Any]:
    controls = {"apiVersion": "v1", "kind": "Any", "name": "any", "uid": owner, "controller": True}
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "creationTimestamp": EARLY,
        "labels": labels,
        "ownerReferences": [controls] if owner else [],
    }


def job(name: str, *conditions: dict[str, str], **fields: Any) -> dict[str, Any]:
    return {"metadata": meta(name, **fields), "status": {"conditions": list(conditions)}}


def condition(kind: str, status: str = "True", **fields: str) -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": EARLY, **fields}


def container(name: str = "worker", **state: Any) -> dict[str, Any]:
    before = state.pop("lastState", {})
    return {"name": name, "state": state, "lastState": before}


def pod(
    name: str, *containers: dict[str, Any], phase: str = "Running", **fields: Any
) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": phase, "podIP": "10.0.0.7", **fields.pop("status", {})}
    deleted = {"deletionTimestamp": EARLY} if fields.pop("going", False) else {}
    status["containerStatuses"] = list(containers)
    return {"metadata": meta(name, **fields) | deleted, "status": status}


RUNS: dict[str, Any] = {"running": {"startedAt": EARLY}}


def ended(code: int = 0, message: str = "", **fields: Any) -> dict[str, Any]:
    told = {"exitCode": code, "message": message, "reason": "Error", "finishedAt": LATE}
    return {"terminated": told | fields}


def asked(jobs: list[Any], pods: list[Any], question: Any) -> Any:
    """Ask about workers that caches have read from an API server."""

    async def read() -> Any:
        server = TinyServer()
        for collection, objects in (("apis/batch/v1/jobs", jobs), ("api/v1/pods", pods)):
            server.objects[collection] = {
                (one["metadata"]["namespace"], one["metadata"]["name"]): one for one in objects
            }
        client = Client(server.transport())
        informers: list[Informer[Any]] = [
            Informer(client, kind) for kind in (JOBS, PODS, DEPLOYMENTS, CONFIG_MAPS)
        ]
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        for informer in informers:
            await informer.wait_synced()
        found = question(Workers(*(Caches([informer]) for informer in informers)))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return found

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(read())


# Whose they are

OF_BACKUP = {BACKUP_LABEL: "monday", WORKER_LABEL: "backup"}
OTHER_JOBS = [
    job("elsewhere", owner="b", namespace="other", **OF_BACKUP),
    job("of-tuesday", owner="b", **OF_BACKUP | {BACKUP_LABEL: "tuesday"}),
    job("verifies", owner="b", **OF_BACKUP | {WORKER_LABEL: "verify"}),
    job("of-another-uid", owner="c", **OF_BACKUP),
    job("of-none", **OF_BACKUP),
]


def test_attempts_of_a_backup_are_jobs_that_it_controls() -> None:
    own = job("one", owner="b", **OF_BACKUP | {ATTEMPT_LABEL: "2"})
    found = asked([own, *OTHER_JOBS], [], lambda workers: workers.of_backup(KEY, "b"))
    assert found == (Worker(2, "one", State.ACTIVE),)
    verify = asked([own, *OTHER_JOBS], [], lambda workers: workers.of_backup(KEY, "b", "verify"))
    assert [worker.job for worker in verify] == ["verifies"]


def test_pods_of_a_job_are_those_that_it_controls_in_its_namespace() -> None:
    pods = [
        pod("mine", container(**RUNS), owner="uid-one"),
        pod("elsewhere", container(**RUNS), owner="uid-one", namespace="other"),
        pod("of-another", container(**RUNS), owner="uid-two"),
        pod("of-none", container(**RUNS)),
    ]
    found = asked([job("one")], pods, lambda workers: workers.pods_of(workers.job(("ns", "one"))))
    assert [one.metadata.name for one in found] == ["mine"]


def test_the_worker_that_deletes_carries_the_uid_of_its_backup() -> None:
    one = job("monday-delete", **{BACKUP_UID_LABEL: "b"})
    assert asked([one], [], lambda workers: workers.deleting(KEY, "b")).job == "monday-delete"
    assert asked([one], [], lambda workers: workers.deleting(KEY, "c")) is None
    assert asked([], [], lambda workers: workers.deleting(KEY, "b")) is None


def test_the_worker_that_takes_a_restore_point_belongs_to_its_schedule() -> None:
    one = job("monday-point", owner="s")
    assert asked([one], [], lambda workers: workers.marking(KEY, "s")).job == "monday-point"
    assert asked([one], [], lambda workers: workers.marking(KEY, "t")) is None
    assert asked([job("monday-point")], [], lambda w: w.marking(KEY, "s")) is None
    assert asked([], [], lambda workers: workers.marking(KEY, "s")) is None


def test_the_worker_of_a_restore_belongs_to_it() -> None:
    one = msgspec.convert(job("one", owner="r"), Job)
    assert asked([], [], lambda workers: workers.of_restore(one, "r")).job == "one"
    assert asked([], [], lambda workers: workers.of_restore(one, "q")) is None
    assert is_controlled_by(one, "r")
    assert not is_controlled_by(one, "q")
    assert not is_controlled_by(msgspec.convert(job("one"), Job), "r")


@pytest.mark.parametrize(
    ("one", "count"),
    [
        (pod("p", **OF_BACKUP), 1),
        (pod("p", phase="Pending", **OF_BACKUP), 1),
        (pod("p", phase="Succeeded", **OF_BACKUP), 0),
        (pod("p", phase="Failed", **OF_BACKUP), 0),
        (pod("p", **OF_BACKUP | {WORKER_LABEL: "delete"}), 0),
        (pod("p", **OF_BACKUP | {BACKUP_LABEL: "tuesday"}), 0),
        (pod("p", namespace="other", **OF_BACKUP), 0),
    ],
    ids=["runs", "pending", "succeeded", "failed", "deletes", "of another", "elsewhere"],
)
def test_pods_that_may_still_write_to_a_backup_are_counted(one: Any, count: int) -> None:
    assert asked([], [one], lambda workers: workers.living_pods(KEY)) == count


def test_pods_that_archive_for_a_schedule_are_those_that_do_not_end() -> None:
    label = {ARCHIVE_LABEL: "monday"}
    newer = pod("newer", **label)
    newer["metadata"]["creationTimestamp"] = LATE
    pods = [
        pod("older", **label),
        newer,
        pod("elsewhere", namespace="other", **label),
        pod("of-another", **{ARCHIVE_LABEL: "tuesday"}),
        pod("goes", going=True, **label),
        pod("succeeded", phase="Succeeded", **label),
        pod("failed", phase="Failed", **label),
    ]
    found = asked([], pods, lambda workers: workers.archiver_pods(KEY))
    assert [one.metadata.name for one in found] == ["newer", "older"]


OF_RESTORE = {RESTORE_LABEL: "monday"}


def test_jobs_of_a_restore_but_one_are_named() -> None:
    jobs = [
        job("two", **OF_RESTORE),
        job("one", **OF_RESTORE),
        job("kept", **OF_RESTORE),
        job("elsewhere", namespace="other", **OF_RESTORE),
        job("of-another", **{RESTORE_LABEL: "tuesday"}),
    ]
    found = asked(jobs, [], lambda workers: workers.others_of_restore(KEY, "uid-kept"))
    assert found == ("one", "two")


LIVES: dict[str, tuple[list[Any], list[Any], bool]] = {
    "none": ([], [], False),
    "the job that is kept": ([job("kept", **OF_RESTORE)], [], False),
    "another job": ([job("old", **OF_RESTORE)], [], True),
    "a pod of a job that is gone": ([], [pod("p", owner="uid-old", **OF_RESTORE)], True),
    "a pod of no job": ([], [pod("p", container(**RUNS), **OF_RESTORE)], True),
    "a pod of the job that is kept": ([], [pod("p", owner="uid-kept", **OF_RESTORE)], False),
    "a pod of another restore": ([], [pod("p", **{RESTORE_LABEL: "tuesday"})], False),
    "a pod that succeeded": ([], [pod("p", phase="Succeeded", **OF_RESTORE)], False),
    "a pod that failed": ([], [pod("p", phase="Failed", **OF_RESTORE)], False),
    "a worker that ended beside another container": (
        [],
        [pod("p", container(**ended()), container("stunnel", **RUNS), **OF_RESTORE)],
        False,
    ),
    "another container that ended beside a worker": (
        [],
        [pod("p", container(**RUNS), container("stunnel", **ended()), **OF_RESTORE)],
        True,
    ),
}


@pytest.mark.parametrize("row", LIVES)
def test_a_worker_of_a_restore_may_still_run(row: str) -> None:
    jobs, pods, lives = LIVES[row]
    assert asked(jobs, pods, lambda workers: workers.lives(KEY, "uid-kept")) is lives


# How they are

REPORT = '{"size": 9}'
FAILED = '{"error": "the store is full", "reason": "StoreFailed"}'


def seen(one: dict[str, Any], *pods: dict[str, Any]) -> Worker:
    name = one["metadata"]["name"]
    one["metadata"] |= meta(name, owner="b", **OF_BACKUP | {ATTEMPT_LABEL: "1"})
    for each in pods:
        each["metadata"] |= {"ownerReferences": meta("x", owner=f"uid-{name}")["ownerReferences"]}
    (found,) = asked([one], list(pods), lambda workers: workers.of_backup(KEY, "b"))
    assert isinstance(found, Worker)
    return found


HELD = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
MADE = {"waiting": {"reason": "ContainerCreating"}}
SEEN: dict[str, tuple[dict[str, Any], tuple[dict[str, Any], ...], Worker]] = {
    "no pod yet": (job("j"), (), Worker(1, "j", State.ACTIVE)),
    "runs": (
        job("j"),
        (pod("p", container(**RUNS)),),
        Worker(1, "j", State.ACTIVE, host="10.0.0.7"),
    ),
    "is being made": (
        job("j"),
        (pod("p", container(**MADE)),),
        Worker(1, "j", State.ACTIVE, made=moment(EARLY)),
    ),
    "its image is missing": (
        job("j"),
        (pod("p", container(**HELD)),),
        Worker(
            *(1, "j", State.ACTIVE),
            trouble="p waits: ErrImagePull no such image",
            made=moment(EARLY),
        ),
    ),
    "succeeded with a report": (
        job("j", condition("Complete")),
        (pod("p", container(**ended(0, REPORT)), phase="Succeeded"),),
        Worker(1, "j", State.SUCCEEDED, Report(size=9), ended=moment(EARLY)),
    ),
    "failed with a report": (
        job("j", condition("Failed", message="BackoffLimitExceeded")),
        (pod("p", container(**ended(1, FAILED)), phase="Failed"),),
        Worker(
            *(1, "j", State.FAILED, Report(error="the store is full", reason="StoreFailed")),
            ended=moment(EARLY),
        ),
    ),
    "failed without a report": (
        job("j", condition("Failed", message="BackoffLimitExceeded")),
        (pod("p", container(**ended(1, "Traceback")), phase="Failed"),),
        Worker(1, "j", State.FAILED, trouble="Traceback", ended=moment(EARLY)),
    ),
    "failed without a word": (
        job("j", condition("Failed", message="DeadlineExceeded")),
        (),
        Worker(1, "j", State.FAILED, trouble="DeadlineExceeded", ended=moment(EARLY)),
    ),
    "succeeded without a word": (
        job("j", condition("Complete", message="Complete")),
        (),
        Worker(1, "j", State.SUCCEEDED, ended=moment(EARLY)),
    ),
    "a condition that is not true": (
        job("j", condition("Failed", "False")),
        (),
        Worker(1, "j", State.ACTIVE),
    ),
    "the last of its conditions": (
        job("j", condition("FailureTarget"), condition("Failed", lastTransitionTime=LATE)),
        (),
        Worker(1, "j", State.FAILED, ended=moment(LATE)),
    ),
    "ended beside a container that runs on": (
        job("j"),
        (pod("p", container(**ended(0, REPORT)), container("stunnel", **RUNS)),),
        Worker(1, "j", State.SUCCEEDED, Report(size=9), ended=moment(LATE)),
    ),
    "failed beside a container that runs on": (
        job("j"),
        (pod("p", container(**ended(1, FAILED)), container("stunnel", **RUNS)),),
        Worker(
            *(1, "j", State.FAILED, Report(error="the store is full", reason="StoreFailed")),
            ended=moment(LATE),
        ),
    ),
    "runs beside a container that ended": (
        job("j"),
        (pod("p", container(**RUNS), container("stunnel", **ended())),),
        Worker(1, "j", State.ACTIVE, host="10.0.0.7"),
    ),
    "alone, and its Job has not noticed its end": (
        job("j"),
        (pod("p", container(**ended(0, REPORT))),),
        Worker(1, "j", State.ACTIVE, Report(size=9)),
    ),
}


@pytest.mark.parametrize("row", SEEN)
def test_a_worker_is_what_its_job_and_its_pods_say(row: str) -> None:
    one, pods, worker = SEEN[row]
    assert seen(one, *pods) == worker


def test_an_attempt_without_a_number_is_none() -> None:
    own = job("one", owner="b", **OF_BACKUP | {ATTEMPT_LABEL: "second"})
    (found,) = asked([own], [], lambda workers: workers.of_backup(KEY, "b"))
    assert found.attempt == 0


# What they say


def read(*pods: dict[str, Any]) -> list[Pod]:
    return [msgspec.convert(one, Pod) for one in pods]


def test_a_worker_is_asked_where_it_runs_and_stays() -> None:
    assert host_of(read(pod("p", container(**RUNS)))) == "10.0.0.7"
    assert host_of(read(pod("p", container(**MADE)))) == ""
    assert host_of(read(pod("p", container(**RUNS), going=True))) == ""
    assert host_of([]) == ""


def test_the_last_words_are_those_of_the_worker_alone() -> None:
    assert final_message(read(pod("p", container(**ended(0, REPORT))))) == (Report(size=9), "")
    beside = pod("p", container("stunnel", **ended(1, "bye")), container(**RUNS))
    assert final_message(read(beside)) == (None, "")
    long = "x" * 400
    assert final_message(read(pod("p", container(**ended(1, long))))) == (None, "x" * 300)
    silent = pod("p", container(**ended(137, "", reason="OOMKilled")))
    assert final_message(read(silent)) == (None, "OOMKilled (exit code 137)")


ENDED: dict[str, tuple[dict[str, Any], str]] = {
    "runs": (container(**RUNS), ""),
    "runs again": (container(**RUNS, lastState=ended(1, "before")), ""),
    "waits": (container(**HELD), ""),
    "waits to be started again": (container(**HELD, lastState=ended(1, "before")), "before"),
    "ended": (container(**ended(1, "now")), "now"),
    "ended twice": (container(**ended(1, "now"), lastState=ended(1, "before")), "now"),
    "ended with a report": (container(**ended(1, FAILED)), "the store is full"),
    "ended with a report of no error": (container(**ended(0, REPORT)), REPORT),
    "ended without a word": (container(**ended(9, "")), "Error (exit code 9)"),
    "another container": (container("stunnel", **ended(1, "now")), ""),
}


@pytest.mark.parametrize("row", ENDED)
def test_why_a_worker_ended_before_it_is_started_again(row: str) -> None:
    found, words = ENDED[row]
    assert ended_before(read(pod("p", found))) == words


def placed(status: str) -> dict[str, Any]:
    told = {"type": "PodScheduled", "status": status, "message": "no memory"}
    return {"status": {"conditions": [told]}}


WAITS: dict[str, tuple[dict[str, Any], str]] = {
    "no node": (pod("p", **placed("False")), "p has no node: no memory"),
    "a node": (pod("p", **placed("True")), ""),
    "another condition": (
        pod("p", status={"conditions": [{"type": "Ready", "status": "False"}]}),
        "",
    ),
    "its image": (pod("p", container(**HELD)), "p waits: ErrImagePull no such image"),
    "no message": (
        pod("p", container(waiting={"reason": "CrashLoopBackOff"})),
        "p waits: CrashLoopBackOff",
    ),
    "is being made": (pod("p", container(**MADE)), ""),
    "its first containers run": (pod("p", container(waiting={"reason": "PodInitializing"})), ""),
    "no reason": (pod("p", container(waiting={"reason": ""})), ""),
    "runs": (pod("p", container(**RUNS)), ""),
}


@pytest.mark.parametrize("row", WAITS)
def test_why_a_worker_does_not_start(row: str) -> None:
    found, words = WAITS[row]
    assert waiting(read(found)) == words
