"""What a RedisFailover says that cannot be followed: refused with its path and the reason."""

from __future__ import annotations

from typing import Any

import pytest

from redis_operator.api.redisfailover_rules import REFUSED
from redis_operator.translation.translate import translate
from translation.test_translate import (
    claim,
    problems,
)

ROOTED = {"capabilities": {"add": ["SYS_ADMIN"]}}
PING = {"exec": {"command": ["redis-cli", "ping"]}, "periodSeconds": 20}
CLAIM = "spec.redis.storage.persistentVolumeClaim"

# What is said, the path that is named, and a word of the reason.
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "replicas": ({"redis": {"replicas": 0}}, "spec.redis.replicas", "fail over"),
    "one server": ({"redis": {"replicas": 1}}, "spec.redis.replicas", "Standalone"),
    "sentinels": ({"sentinel": {"replicas": 2}}, "spec.sentinel.replicas", "use 3"),
    "even": ({"sentinel": {"replicas": 4, "quorum": 2}}, "spec.sentinel.quorum", "both halves"),
    "quorum": ({"sentinel": {"quorum": 4}}, "spec.sentinel.quorum", "spec.sentinel.replicas"),
    "image": ({"redis": {"image": "redis:latest"}}, "spec.redis.version", "redis:latest"),
    "engine": ({"redis": {"image": "acme:7.2"}}, "spec.redis.engine", "acme:7.2"),
    "old image": ({"redis": {"image": "redis:5.0.4"}}, "spec.redis.image", "5.0"),
    "sentinels of another image": (
        {"redis": {"image": "redis:7.2.1"}, "sentinel": {"image": "redis:6.2.6"}},
        "spec.sentinel.image",
        "spec.redis",
    ),
    "directive that is ours": (
        {"redis": {"customConfig": ["hz 50", "requirepass x"]}},
        "spec.redis.customConfig[1]",
        "requirepass is set by the operator; use spec.auth",
    ),
    "directive that is dangerous": (
        {"redis": {"customConfig": ["rename-command FLUSHALL x"]}},
        "spec.redis.customConfig[0]",
        "rename-command is refused",
    ),
    "directive that does not exist": (
        {"redis": {"customConfig": ["maxmemory-polcy x"], "image": "redis:6.2.14"}},
        "spec.redis.customConfig[0]",
        "maxmemory-polcy is not a directive of redis 6.2",
    ),
    "directive twice": (
        {"redis": {"customConfig": ["hz 10", "hz 20"]}},
        "spec.redis.customConfig[1]",
        "hz is set in spec.redis.customConfig[0] too",
    ),
    "directive without a value": (
        {"redis": {"customConfig": ["hz"]}},
        "spec.redis.customConfig[0]",
        "no value",
    ),
    "more replicas to write than there are": (
        {"redis": {"customConfig": ["min-replicas-to-write 3"]}},
        "spec.redis.customConfig[0]",
        "no write would ever be accepted",
    ),
    "append-only file in memory": (
        {"redis": {"customConfig": ["appendonly yes"]}},
        "spec.redis.customConfig[0]",
        "persistentVolumeClaim",
    ),
    "sentinel setting that is ours": (
        {"sentinel": {"customConfig": ["auth-pass x"]}},
        "spec.sentinel.customConfig[0]",
        "down-after-milliseconds",
    ),
    "sentinel setting out of range": (
        {"sentinel": {"customConfig": ["failover-timeout 3000", "down-after-milliseconds 1"]}},
        "spec.sentinel.customConfig[1]",
        "from 1000",
    ),
    "memory": (
        {"redis": {"resources": {"limits": {"memory": "1Mi"}}}},
        "spec.redis.resources.limits.memory",
        "at least",
    ),
    "no size": (
        {"redis": {"storage": {"persistentVolumeClaim": {}}}},
        f"{CLAIM}.spec.resources.requests.storage",
        "required",
    ),
    "size": (
        {"redis": {"storage": claim(resources={"requests": {"storage": "0"}})}},
        f"{CLAIM}.spec.resources.requests.storage",
        "above zero",
    ),
    "access mode": (
        {"redis": {"storage": claim(accessModes=["Mine"])}},
        f"{CLAIM}.spec.accessModes[0]",
        "ReadWriteOnce",
    ),
    "block volume": (
        {"redis": {"storage": claim(volumeMode="Block")}},
        f"{CLAIM}.spec.volumeMode",
        "Filesystem",
    ),
    "emptyDir in memory": (
        {"redis": {"storage": {"emptyDir": {"medium": "Memory"}}}},
        "spec.redis.storage.emptyDir.medium",
        "in memory",
    ),
    "probe": (
        {"redis": {"customLivenessProbe": PING}},
        "spec.redis.customLivenessProbe.exec",
        "timings",
    ),
    "probe that kills": (
        {"redis": {"customLivenessProbe": {"periodSeconds": 1, "failureThreshold": 1}}},
        "spec.redis.customLivenessProbe",
        "would be killed",
    ),
    "rights": (
        {"redis": {"containerSecurityContext": ROOTED}},
        "spec.redis.containerSecurityContext.capabilities",
        "least rights",
    ),
    "user of the container": (
        {"redis": {"containerSecurityContext": {"runAsUser": 1000}}},
        "spec.redis.containerSecurityContext.runAsUser",
        "securityContext",
    ),
    "sidecar": (
        {"redis": {"extraContainers": [{"name": "server", "image": "x"}]}},
        "spec.redis.extraContainers[0].name",
        "reserved for the operator",
    ),
    "grace": (
        {"redis": {"terminationGracePeriod": 5}},
        "spec.redis.terminationGracePeriod",
        "from 30",
    ),
    "annotations of the Service of sentinels": (
        {"sentinel": {"serviceAnnotations": {"a": "b"}}},
        "spec.sentinel.serviceAnnotations.a",
        "remove it",
    ),
}


WRONG |= {
    "a port that is none": (
        {"bootstrapNode": {"host": "old", "port": "70000"}},
        "spec.bootstrapNode.port",
        "65535",
    ),
    "the pod itself": (
        {"bootstrapNode": {"host": "127.0.0.1"}},
        "spec.bootstrapNode.host",
        "names the pod itself",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_followed_is_refused_with_its_path(case: str) -> None:
    spec, path, reason = WRONG[case]
    found = problems(spec)
    assert list(found) == [path]
    assert reason in found[path]


SAID: dict[str, Any] = {
    "hostNetwork": True,
    "enabled": True,
    "disablePodDisruptionBudget": True,
    "port": 7000,
    "dnsPolicy": "Default",
    "startupConfigMap": "mine",
    "shutdownConfigMap": "mine",
    "command": ["redis-server"],
    "customCommandRenames": [{"from": "KEYS", "to": ""}],
    "allowSentinels": True,
}


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.path)
def test_every_field_of_the_table_is_refused_with_its_reason(row: Any) -> None:
    *above, name = row.path.split(".")
    many = name in ("initContainers", "extraContainers", "extraVolumes", "extraVolumeMounts")
    value = [{"name": "x"}] if many else SAID.get(name, {"x": 1})
    spec: dict[str, Any] = {name: value}
    for part in reversed(above):
        spec = {part: spec}
    if above == ["bootstrapNode"]:
        spec["bootstrapNode"]["host"] = "other"  # it needs one
    assert problems(spec) == {f"spec.{row.path}": row.message}


@pytest.mark.parametrize("name", ["cache-sentinel", "cache-0", "cache-conn", "Cache", "x" * 41])
def test_a_name_that_could_meet_objects_of_others_is_refused(name: str) -> None:
    found = translate({"metadata": {"name": name, "namespace": "shop"}, "spec": {}})
    assert not isinstance(found, dict)
    assert [problem.path for problem in found] == ["metadata.name"]
