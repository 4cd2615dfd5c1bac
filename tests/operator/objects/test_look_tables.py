"""Pods, StatefulSets and volumes as planning sees them, as tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubecontroller.client.objects import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from redis_operator.manifests import names
from redis_operator.manifests.cluster import CLUSTER
from redis_operator.manifests.pod import RESTARTED_ANNOTATION
from redis_operator.manifests.standalone_scripts import DATA_MISSING
from redis_operator.operator.objects.look import (
    has_ended,
    is_left_out,
    lacking_labels,
    memory_limit,
    pod_seen,
    volume_seen,
    workload_seen,
)
from redis_operator.planning.observed import Pod, PodPhase

TIME = "2026-01-02T03:04:05Z"
SECONDS = 1767323045.0


def raw_pod(*statuses: dict[str, Any], **more: Any) -> dict[str, Any]:
    status = {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": list(statuses)}
    return {
        "metadata": {"name": "db-0-1", "namespace": "n", "uid": "u", **more.pop("meta", {})},
        "spec": {"nodeName": "node", **more.pop("spec", {})},
        "status": status | more.pop("status", {}),
    }


def model(raw: dict[str, Any]) -> Any:
    return msgspec.convert(raw, PODS.model)


def seen(raw: dict[str, Any], **nodes: Any) -> Pod:
    found = pod_seen(CLUSTER, "db", model(raw), nodes)
    assert found is not None
    return found


def server(*, ready: bool = True, **fields: Any) -> dict[str, Any]:
    return {"name": "server", "ready": ready, "restartCount": 3, **fields}


def beside(**fields: Any) -> dict[str, Any]:
    return {"name": "exporter", "restartCount": 9, **fields}


def ended(message: str = "", reason: str = "Error", **fields: Any) -> dict[str, Any]:
    told = {"exitCode": 1, "reason": reason, "message": message, "finishedAt": TIME}
    return {"terminated": told | fields}


WAITING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
STARTS = {"waiting": {"reason": "ContainerCreating"}}
RUNS: dict[str, Any] = {"running": {}}


def test_a_pod_is_seen_with_its_place_its_node_and_its_marks() -> None:
    node = msgspec.convert(
        {"metadata": {"name": "node", "labels": {"topology.kubernetes.io/zone": "a"}}}, NODES.model
    )
    labels = {"controller-revision-hash": "r1", names.ROLE_LABEL: "primary"}
    notes = {RESTARTED_ANNOTATION: "now", names.SHAPE_ANNOTATION: "shape"}
    meta = {"labels": labels, "annotations": notes, "creationTimestamp": TIME}
    found = seen(raw_pod(beside(), server(), meta=meta), node=node)
    assert (found.name, found.uid, found.shard, found.ordinal) == ("db-0-1", "u", 0, 1)
    assert (found.ip, found.phase, found.node, found.zone) == (
        *("10.0.0.1", PodPhase.RUNNING, "node", "a"),
    )
    assert (found.revision, found.role_label, found.since) == ("r1", "primary", SECONDS)
    assert (found.restarted_at, found.shape, found.restarts) == ("now", "shape", 3)
    assert (found.deleting, found.draining, found.data_missing) == (False, False, False)


def test_a_pod_without_a_node_a_server_and_a_birth_is_seen_all_the_same() -> None:
    found = seen(raw_pod(status={"phase": ""}))
    assert (found.phase, found.zone, found.restarts, found.since) == (PodPhase.PENDING, "", 0, 0.0)
    assert seen(raw_pod(status={"phase": "Odd"})).phase is PodPhase.UNKNOWN
    assert seen(raw_pod(meta={"deletionTimestamp": TIME})).deleting
    other = raw_pod(meta={"name": "other-0-1"})
    assert pod_seen(CLUSTER, "db", model(other), {}) is None


@pytest.mark.parametrize(
    ("spec", "draining"),
    [
        ({}, False),
        ({"unschedulable": True}, True),
        ({"taints": [{"key": "node.kubernetes.io/unschedulable"}]}, True),
        ({"taints": [{"key": "node.kubernetes.io/not-ready"}]}, False),
    ],
    ids=["open", "cordoned", "drained", "another taint"],
)
def test_a_node_that_is_cordoned_is_being_drained(spec: Any, *, draining: bool) -> None:
    node = msgspec.convert({"metadata": {"name": "node"}, "spec": spec}, NODES.model)
    assert seen(raw_pod(server()), node=node).draining is draining
    assert not seen(raw_pod(server()), elsewhere=node).draining


READY = {"conditions": [{"type": "Ready", "status": "True"}]}


@pytest.mark.parametrize(
    ("raw", "ready"),
    [
        (raw_pod(server(), beside(ready=False)), True),
        (raw_pod(server(ready=False), beside(ready=True), status=READY), False),
        (raw_pod(status=READY), True),
        (raw_pod(status={"conditions": [{"type": "Ready", "status": "False"}]}), False),
        (raw_pod(status={"conditions": [{"type": "PodScheduled", "status": "True"}]}), False),
        (raw_pod(), False),
    ],
    ids=["server", "beside it", "condition", "not ready", "another condition", "nothing"],
)
def test_a_pod_is_ready_when_its_server_is(raw: dict[str, Any], *, ready: bool) -> None:
    assert seen(raw).ready is ready


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (raw_pod(server()), ""),
        (raw_pod(server(state=STARTS)), ""),
        (raw_pod(server(state={"waiting": {"reason": "PodInitializing"}})), ""),
        (raw_pod(server(state=WAITING)), "CrashLoopBackOff: back-off (container server)"),
        (
            raw_pod(beside(state={"waiting": {"reason": "ErrImagePull"}})),
            "ErrImagePull (container exporter)",
        ),
        (
            raw_pod(
                server(state=WAITING),
                status={"initContainerStatuses": [beside(state=WAITING)]},
            ),
            "CrashLoopBackOff: back-off (container exporter)",
        ),
        (
            raw_pod(
                server(state=WAITING),
                status={
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "no memory",
                        }
                    ]
                },
            ),
            "Unschedulable: no memory",
        ),
        (raw_pod(status={"conditions": [{"type": "PodScheduled", "status": "True"}]}), ""),
        (raw_pod(status={"conditions": [{"type": "Ready", "status": "False"}]}), ""),
    ],
)
def test_why_a_pod_does_not_run(raw: dict[str, Any], words: str) -> None:
    assert seen(raw).waiting == words


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("one\n two \n\n", "two"),
        (">>> 'a b'\nwrong", "'a b': wrong"),
        (">>> 'a b'\n", ">>> 'a b'"),
        ("x" * 300, "x" * 200),
        ("", ""),
    ],
    ids=["last line", "setting", "setting alone", "long", "nothing"],
)
def test_the_last_line_of_a_container_that_failed_is_told(message: str, words: str) -> None:
    found = seen(raw_pod(server(state=WAITING, lastState=ended(message)))).waiting
    assert found.partition(", which ended with: ")[2] == words
    assert ("ended with" in found) is bool(words)


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"lastState": ended(reason="OOMKilled")}, SECONDS),
        ({"state": ended(reason="OOMKilled")}, SECONDS),
        ({"state": ended(), "lastState": ended(reason="OOMKilled")}, 0.0),
        ({"lastState": ended(reason="OOMKilled", finishedAt=None)}, SECONDS - 60),
        ({"state": RUNS}, 0.0),
    ],
    ids=["before", "now", "another end since", "undated", "runs"],
)
def test_when_a_server_was_last_killed_for_memory(fields: Any, at: float) -> None:
    born = {"creationTimestamp": "2026-01-02T03:03:05Z"}
    assert seen(raw_pod(server(**fields), meta=born)).killed_for_memory_at == at


def test_a_kill_without_any_date_is_not_counted() -> None:
    killed = server(lastState=ended(reason="OOMKilled", finishedAt=None))
    assert seen(raw_pod(killed)).killed_for_memory_at == 0.0


def limited(limits: Any = None, requests: Any = None, **status: Any) -> dict[str, Any]:
    resources = {"limits": limits, "requests": requests}
    containers = [{"name": "exporter"}, {"name": "server", "resources": resources}]
    return raw_pod(server(**status), spec={"containers": containers})


def given(**limits: str) -> dict[str, Any]:
    return {"resources": {"limits": limits}}


@pytest.mark.parametrize(
    ("raw", "asked", "in_force"),
    [
        (limited(), 0, 0),
        (limited({"memory": "2Ki"}), 2048, 2048),
        (limited({"memory": "2Ki"}, **given(memory="1Ki")), 2048, 1024),
        (limited({"memory": "1Ki"}, **given(memory="2Ki")), 1024, 1024),
        (limited({"memory": "2Ki"}, **given(cpu="1")), 2048, 2048),
        (limited(None, **given(memory="1Ki")), 0, 0),
        (raw_pod(server()), 0, 0),
    ],
    ids=["none", "asked", "grows", "shrinks", "not told", "not asked", "no container"],
)
def test_the_memory_of_a_server_is_what_is_in_force(
    raw: dict[str, Any], asked: int, in_force: int
) -> None:
    assert memory_limit(model(raw)) == asked
    assert seen(raw).memory_limit == in_force


def test_a_request_is_the_limit_where_it_is_not_given() -> None:
    found = seen(limited({"memory": "2Ki", "cpu": "2"}, {"cpu": "1"})).resources
    assert found == (
        ("limits.cpu", "2"),
        ("limits.memory", "2Ki"),
        ("requests.cpu", "1"),
        ("requests.memory", "2Ki"),
    )
    assert seen(raw_pod(server())).resources == ()


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"type": "PodResizePending", "status": "True", "reason": "Deferred"}, "Deferred"),
        ({"type": "PodResizeInProgress", "status": "True", "message": "soon"}, "InProgress: soon"),
        ({"type": "PodResizePending", "status": "False", "reason": "Deferred"}, ""),
        ({"type": "Ready", "status": "True", "reason": "Deferred"}, ""),
    ],
    ids=["pending", "in progress", "over", "another condition"],
)
def test_a_resize_that_is_not_in_force_is_told(condition: Any, words: str) -> None:
    assert seen(raw_pod(server(), status={"conditions": [condition]})).resizing == words


WRONG = "Wrong RDB checksum expected"
FILES: dict[str, tuple[dict[str, Any], str]] = {
    "no end": (server(ready=False), ""),
    "said so": (server(ready=False, lastState=ended(f"# {WRONG} ")), WRONG),
    "ready again": (server(lastState=ended(WRONG)), ""),
    "killed": (server(ready=False, lastState=ended(WRONG, "OOMKilled")), ""),
    "no memory": (server(ready=False, lastState=ended(f"{WRONG}\nOut Of Memory")), ""),
    "the second line": (server(ready=False, lastState=ended(f"one\n{WRONG}")), WRONG),
    "the first words of two": (
        server(ready=False, lastState=ended(f"{WRONG} Internal error in RDB reading")),
        f"{WRONG} Internal error in RDB reading",
    ),
    "long": (server(ready=False, lastState=ended(WRONG + "x" * 300)), (WRONG + "x" * 300)[:200]),
    "beside": (beside(ready=False, lastState=ended(WRONG)), ""),
}


@pytest.mark.parametrize("row", FILES)
def test_what_a_server_said_of_its_files(row: str) -> None:
    status, words = FILES[row]
    assert seen(raw_pod(status)).unloadable == words


def test_files_that_are_gone_are_known_until_the_server_is_ready() -> None:
    said = ended(f"x {DATA_MISSING} y")
    assert seen(raw_pod(server(ready=False, lastState=said))).data_missing
    assert not seen(raw_pod(server(lastState=said))).data_missing
    assert not seen(raw_pod(server(ready=False, lastState=ended("other")))).data_missing
    assert not seen(raw_pod(server(ready=False))).data_missing
    assert not seen(raw_pod()).data_missing


@pytest.mark.parametrize(
    ("fields", "over"),
    [
        ({"state": RUNS}, False),
        ({"state": ended()}, True),
        ({"state": WAITING, "lastState": ended()}, True),
        ({"state": WAITING}, False),
        ({"state": RUNS, "lastState": ended()}, False),
    ],
    ids=["runs", "ended", "between", "never ran", "runs again"],
)
def test_a_server_has_ended_by_the_word_of_the_kubelet(fields: Any, *, over: bool) -> None:
    assert has_ended(model(raw_pod(beside(state=ended()), server(**fields)))) is over
    assert not has_ended(model(raw_pod(beside(state=ended()))))


def test_a_pod_that_goes_or_has_no_server_is_not_left_out() -> None:
    crashes = beside(state=WAITING)
    assert is_left_out(model(raw_pod(server(), crashes)))
    gone = raw_pod(server(), crashes, meta={"deletionTimestamp": TIME})
    assert not is_left_out(model(gone))
    assert not is_left_out(model(raw_pod(crashes)))
    assert not is_left_out(model(raw_pod(server(state=WAITING))))


def test_labels_that_a_pod_lacks_are_those_of_its_place() -> None:
    wanted = names.common_labels("db") | CLUSTER.selector("db", 0)
    bare = model(raw_pod(server()))
    assert dict(lacking_labels(CLUSTER, "db", bare)) == wanted
    assert list(lacking_labels(CLUSTER, "db", bare)) == sorted(wanted.items())
    assert lacking_labels(CLUSTER, "db", model(raw_pod(meta={"labels": wanted}))) == ()
    assert lacking_labels(CLUSTER, "other", bare) == ()
    first = min(wanted)
    other = wanted | {first: "another"}
    found = lacking_labels(CLUSTER, "db", model(raw_pod(meta={"labels": other})))
    assert found == ((first, wanted[first]),)


# StatefulSets and volumes


def workload(**more: Any) -> Any:
    labels = names.common_labels("db") | CLUSTER.selector("db", 0)
    meta = {"name": CLUSTER.workload("db", 0), "uid": "w", "labels": labels, "generation": 3}
    raw = {
        "metadata": meta | more.pop("meta", {}),
        "spec": {"replicas": 2, **more.pop("spec", {})},
        "status": {"observedGeneration": 3, "updateRevision": "r1"} | more.pop("status", {}),
    }
    return workload_seen(CLUSTER, "db", msgspec.convert(raw, STATEFUL_SETS.model))


def test_a_statefulset_is_seen_with_the_revision_that_its_controller_knows() -> None:
    found = workload()
    assert (found.shard, found.pods, found.revision, found.current) == (0, 2, "r1", True)
    assert not found.deleting
    stale = workload(status={"observedGeneration": 2})
    assert (stale.revision, stale.current) == ("", False)
    assert workload(status={"observedGeneration": 4}).current
    assert workload(spec={"replicas": None}).pods == 0
    assert workload(meta={"deletionTimestamp": TIME}).deleting
    assert workload(meta={"name": "other"}) is None
    assert workload(meta={"labels": {}}) is None


def claim(classes: Any = None, **more: Any) -> Any:
    raw = {
        "metadata": {"name": "data-db-0-1", "uid": "v", **more.pop("meta", {})},
        "spec": {
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "2Ki"}},
            **more.pop("spec", {}),
        },
        "status": {"capacity": {"storage": "1Ki"}, **more.pop("status", {})},
    }
    return volume_seen(CLUSTER, "db", msgspec.convert(raw, PERSISTENT_VOLUME_CLAIMS.model), classes)


def storage_class(**fields: Any) -> Any:
    return msgspec.convert({"metadata": {"name": "fast"}, **fields}, STORAGE_CLASSES.model)


@pytest.mark.parametrize(
    ("classes", "expandable"),
    [
        (None, None),
        ({}, False),
        ({"fast": storage_class()}, False),
        ({"fast": storage_class(allowVolumeExpansion=True)}, True),
        ({"other": storage_class(allowVolumeExpansion=True)}, False),
    ],
    ids=["not known", "no class", "fixed", "grows", "another class"],
)
def test_a_volume_is_seen_with_whether_it_can_grow(
    classes: Any, *, expandable: bool | None
) -> None:
    found = claim(classes)
    assert (found.pod, found.requested, found.capacity) == ("db-0-1", 2048, 1024)
    assert found.expandable is expandable
    assert (found.deleting, found.needs_restart) == (False, False)


def test_a_volume_that_waits_for_a_restart_or_goes_is_seen_so() -> None:
    pending = {"type": "FileSystemResizePending", "status": "True"}
    assert claim(status={"conditions": [pending]}).needs_restart
    assert not claim(status={"conditions": [pending | {"status": "False"}]}).needs_restart
    assert not claim(status={"conditions": [pending | {"type": "Resizing"}]}).needs_restart
    assert claim(meta={"deletionTimestamp": TIME}).deleting
    assert claim(meta={"name": "data-other-0-1"}) is None
    empty = claim(spec={"resources": {}}, status={"capacity": None})
    assert (empty.requested, empty.capacity) == (0, 0)
