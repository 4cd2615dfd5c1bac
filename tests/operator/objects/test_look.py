"""What is read off pods: how a server ended, in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubecontroller.client.objects import PODS
from redis_operator.manifests.cluster import CLUSTER
from redis_operator.operator.objects.look import is_left_out, pod_seen
from redis_operator.planning.observed import Pod

ENDED_AT = "2026-01-02T03:04:05Z"


def seen(*, ready: bool = False, limits: dict[str, str] | None = None, **state: Any) -> Pod:
    """Return a pod as planning sees it, by the state of its server's container."""
    server = {"name": "server", "ready": ready, "restartCount": 3, **state}
    other = {"name": "exporter", "ready": True, "restartCount": 1}
    container = {"name": "server", "resources": {"limits": limits or {}}}
    raw = {
        "metadata": {"name": "db-0-1", "namespace": "n", "uid": "u"},
        "spec": {"containers": [container, {"name": "exporter"}]},
        "status": {"phase": "Running", "containerStatuses": [server, other]},
    }
    found = pod_seen(CLUSTER, "db", msgspec.convert(raw, PODS.model), {})
    assert found is not None
    return found


def ended(message: str = "", reason: str = "Error") -> dict[str, Any]:
    return {
        "terminated": {
            "exitCode": 1,
            "reason": reason,
            "message": message,
            "finishedAt": ENDED_AT,
        }
    }


WAITING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}}

# What the servers said that were given broken files: redis 6.2 and 7.0, valkey 9.1.
LAST_WORDS = {
    "aof": "7:M 01 Jan 2026 00:00:00.000 # Bad file format reading the append only file "
    "appendonly.aof.2.incr.aof: make a backup of your AOF file, then use ./valkey-check-aof",
    "old aof": "# Bad file format reading the append only file: make a backup of your AOF file",
    "manifest": "\n*** FATAL AOF MANIFEST ERROR ***\n>>> 'x'\nInvalid AOF manifest file format",
    "long manifest": "The AOF manifest file contains too long line",
    "checksum": "# Wrong RDB checksum expected: (86407) but got (fffff). Aborting now.\n"
    "# Internal error in RDB reading offset 0, function at rdb.c:3225 -> RDB CRC error",
    "signature": "# Wrong signature trying to load DB from file\n"
    "# Fatal error loading the DB: Invalid argument. Exiting.",
    "short": "--- RDB ERROR DETECTED ---\n[offset 2999] Unexpected EOF reading RDB file\n"
    "[additional info] While doing: read-object-value",
    "lzf": "# Internal error in RDB reading offset 0, function at rdb.c:474 -> Invalid LZF",
}


@pytest.mark.parametrize("words", LAST_WORDS.values(), ids=LAST_WORDS)
def test_a_server_that_gave_up_on_its_files_is_known_by_its_last_words(words: str) -> None:
    """ST-07"""
    pod = seen(state=WAITING, lastState=ended(words))
    assert pod.unloadable
    assert pod.unloadable in words
    assert not pod.unloadable.startswith("#")


@pytest.mark.parametrize(
    "words",
    [
        "",
        "# Can't handle RDB format version 80",
        "*** FATAL CONFIG FILE ERROR *** unknown directive",
        "# Could not create server TCP listening socket *:6379: bind: Address already in use",
        "# Failed opening the RDB file: Permission denied",
        "# Short read or OOM loading DB. Unrecoverable error, aborting now.",
        (
            "# Internal error in RDB reading offset 0, function at rdb.c:536 -> "
            "rdbGenericLoadStringObject failed allocating 104857600 bytes"
        ),
    ],
)
def test_other_ends_are_no_broken_files(words: str) -> None:
    """ST-07: nothing is thrown away because of a wrong version or a wrong configuration."""
    assert seen(state=WAITING, lastState=ended(words)).unloadable == ""


def test_a_server_that_is_up_again_has_good_files() -> None:
    words = LAST_WORDS["aof"]
    assert seen(ready=True, state={"running": {}}, lastState=ended(words)).unloadable == ""
    assert seen(state={"running": {}}, lastState=ended(words)).unloadable


def test_a_kill_for_memory_is_known_with_its_time_and_the_limit() -> None:
    """ST-09"""
    limits = {"memory": "96Mi"}
    pod = seen(limits=limits, state={"running": {}}, lastState=ended(reason="OOMKilled"))
    assert pod.killed_for_memory_at == pytest.approx(1767323045.0)
    assert pod.memory_limit == 96 * 2**20
    assert seen(limits=limits, state={"running": {}}, lastState=ended()).killed_for_memory_at == 0


def test_why_a_server_does_not_run_ends_with_what_it_said_last() -> None:
    """IN-07, IN-17"""
    pod = seen(state=WAITING, lastState=ended("first\nBad directive or wrong number\n\n"))
    assert pod.waiting == (
        "CrashLoopBackOff: back-off 10s restarting (container server), "
        "which ended with: Bad directive or wrong number"
    )


def test_restarts_are_those_of_the_server_and_not_of_what_runs_beside_it() -> None:
    assert seen(ready=True).restarts == 3


@pytest.mark.parametrize(
    ("given", "limit"),
    [({}, 2 << 30), ({"resources": {"limits": {"memory": "1Gi"}}}, 1 << 30)],
    ids=["not told", "not in force yet"],
)
def test_memory_counts_when_the_node_has_given_it(given: dict[str, Any], limit: int) -> None:
    """maxmemory must not rise before the container may use it."""
    assert seen(ready=True, limits={"memory": "2Gi"}, **given).memory_limit == limit


def test_the_setting_that_a_server_refuses_is_part_of_its_last_words() -> None:
    """IN-27"""
    said = "*** FATAL CONFIG FILE ERROR ***\nReading the configuration file, at line 1\n"
    said += ">>> 'rdma-rx-size 1'\nargument must be between 65536 and 16777216 inclusive\n"
    pod = seen(state=WAITING, lastState=ended(said))
    assert pod.waiting.endswith(
        "which ended with: 'rdma-rx-size 1': argument must be between 65536 and 16777216 inclusive"
    )


RUNNING = {"running": {"startedAt": ENDED_AT}}


@pytest.mark.parametrize(
    ("ready", "beside", "left_out"),
    [
        pytest.param(True, WAITING, True, id="crashes"),
        pytest.param(True, {"waiting": {"reason": "ErrImagePull"}}, True, id="no image"),
        pytest.param(True, ended(), True, id="ended"),
        pytest.param(True, RUNNING, False, id="runs"),
        pytest.param(True, {"waiting": {"reason": "ContainerCreating"}}, False, id="starts"),
        pytest.param(False, WAITING, False, id="the server itself is not ready"),
    ],
)
def test_a_server_is_left_out_of_services_by_a_container_that_does_not_run(
    ready: bool, beside: dict[str, Any], left_out: bool
) -> None:
    """IN-25"""
    statuses = [
        {"name": "server", "ready": ready, "state": RUNNING},
        {"name": "exporter", "ready": beside == RUNNING, "state": beside},
    ]
    raw = {"metadata": {"name": "db-0-1"}, "status": {"containerStatuses": statuses}}
    assert is_left_out(msgspec.convert(raw, PODS.model)) == left_out
