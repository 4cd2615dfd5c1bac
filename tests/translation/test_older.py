"""Manifests of the older kinds as ours: what is carried over, what is not, and how it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from redis_operator.api.redis import Redis
from redis_operator.api.validation import load
from redis_operator.cli.app import app
from redis_operator.translation.older import Converted, convert
from redis_operator.translation.translate import translate


def older(spec: dict[str, Any], version: str = "databases.spotahome.com/v1") -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": "RedisFailover",
        "metadata": {"name": "cache", "namespace": "shop"},
        "spec": spec,
    }


def left_out(found: Converted) -> list[str]:
    return [problem.path for problem in found.left_out]


USUAL: dict[str, Any] = {
    "sentinel": {
        "replicas": 3,
        "customConfig": ["down-after-milliseconds 2000", "failover-timeout 3000"],
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "100Mi"}},
    },
    "redis": {
        "replicas": 3,
        "image": "redis:6.2.14-alpine",
        "customConfig": ["maxmemory-policy allkeys-lru", "hz 50"],
        "storage": {
            "keepAfterDeletion": True,
            "persistentVolumeClaim": {
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        },
        "exporter": {"enabled": True, "image": "oliver006/redis_exporter:v1.43.0"},
    },
    "auth": {"secretPath": "redis-auth"},
}


def test_the_usual_manifest_is_carried_over_whole() -> None:
    found = convert(older(USUAL))
    assert found.is_whole
    assert found.document["apiVersion"] == "redisoperator.dev/v1"
    assert found.document["metadata"] == {"name": "cache", "namespace": "shop"}
    assert found.document["spec"] == USUAL
    assert len(found.notes) == 1


def test_what_the_oldest_said_otherwise_is_said_in_the_newest_words() -> None:
    redis = {
        "replicas": 3,
        "exporter": True,
        "exporterImage": "oliver006/redis_exporter",
        "exporterVersion": "v1.43.0",
        "image": "redis",
        "version": "6.2-alpine",
        "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
        "storage": {"emptyDir": {}},
    }
    found = convert(older({"redis": redis, "hardAntiAffinity": False}, "spotahome.com/v1alpha1"))
    assert found.is_whole
    said = found.document["spec"]["redis"]
    assert said["image"] == "redis:6.2-alpine"
    assert said["exporter"] == {"enabled": True, "image": "oliver006/redis_exporter:v1.43.0"}
    assert "version" not in said


def test_what_is_refused_is_left_out_and_named_with_its_old_place() -> None:
    found = convert(
        older(
            {
                "redis": {
                    "image": "redis:7.0.15",
                    "port": 6380,
                    "hostNetwork": True,
                    "shutdownConfigMap": "mine",
                    "command": ["redis-server", "/redis/redis.conf"],
                    "customCommandRenames": [{"from": "monitor", "to": ""}],
                    "customConfig": ["hz 50", "requirepass x", "timeout 9", "maxmemory-polcy x"],
                    "customLivenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 30},
                    "containerSecurityContext": {"capabilities": {"add": ["SYS_NICE"]}},
                },
                "sentinel": {
                    "image": "redis:6.2.6",
                    "customConfig": ["notification-script /x"],
                    "serviceAnnotations": {"example.com/a": "b"},
                    "configCopy": {"containerSecurityContext": {"runAsUser": 1}},
                    "exproter": {"enabled": True},
                },
            }
        )
    )
    assert sorted(left_out(found)) == [
        "spec.redis.command",
        "spec.redis.containerSecurityContext.capabilities",
        "spec.redis.customCommandRenames",
        "spec.redis.customConfig[1]",
        "spec.redis.customConfig[3]",
        "spec.redis.customLivenessProbe.exec",
        "spec.redis.hostNetwork",
        "spec.redis.port",
        "spec.redis.shutdownConfigMap",
        "spec.sentinel.configCopy",
        "spec.sentinel.customConfig[0]",
        "spec.sentinel.exproter",
        "spec.sentinel.image",
        "spec.sentinel.serviceAnnotations.example.com/a",
    ]
    assert found.wrong == ()
    redis = found.document["spec"]["redis"]
    assert redis["customConfig"] == ["hz 50", "timeout 9"]
    assert redis["customLivenessProbe"] == {"periodSeconds": 30}
    assert isinstance(translate(found.document), dict)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"redis": {"replicas": 1}}, "spec.redis.replicas"),
        ({"sentinel": {"replicas": 2}}, "spec.sentinel.replicas"),
        ({"redis": {"image": "redis:latest"}}, "spec.redis.version"),
        ({"redis": {"image": "redis:5.0.4-alpine"}}, "spec.redis.image"),
        ({"labelWhitelist": ["[a-z]+"]}, "spec.labelWhitelist[0]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_would_change_what_runs_is_left_to_a_person(spec: dict[str, Any], path: str) -> None:
    found = convert(older(spec))
    assert [problem.path for problem in found.wrong] == [path]
    assert found.document["spec"] == spec
    assert left_out(found) == []


def test_people_are_told_of_the_password_and_the_image_they_did_not_have() -> None:
    notes = " ".join(convert(older({})).notes)
    assert "cache-auth" in notes
    assert "redis:6.2.6-alpine" in notes
    assert "rfs-cache" in notes


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["redis", "sentinel", "storage", "x", ""]), below)
    ),
    max_leaves=10,
)


@given(ANYTHING)
def test_whatever_it_holds_there_is_an_answer(spec: Any) -> None:
    found = convert(older({"redis": spec} if not isinstance(spec, dict) else spec))
    if found.is_whole:
        redis = translate(found.document)
        assert isinstance(redis, dict)
        assert isinstance(load(redis), Redis)


# The command


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["convert", *words], input=stdin)


def test_a_file_of_several_documents_keeps_what_is_not_ours(tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "redis-auth"}}
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([secret, older(USUAL)]))
    told = run(str(file))
    assert told.exit_code == 0
    first, second = yaml.safe_load_all(told.stdout)
    assert first == secret
    assert second == convert(older(USUAL)).document
    assert "note: clients connect to the Service cache" in told.stderr
    assert "left out" not in told.stderr


def test_a_list_from_kubectl_is_read_from_standard_input() -> None:
    found = older(USUAL | {"bootstrapNode": {"host": "old", "allowSentinels": True}})
    found["metadata"] |= {"uid": "x", "resourceVersion": "1", "creationTimestamp": None}
    listed = {"apiVersion": "v1", "kind": "List", "items": [found]}
    told = run("-", stdin=yaml.safe_dump(listed))
    assert told.exit_code == 1
    [document] = yaml.safe_load_all(told.stdout)
    assert document["metadata"] == {"name": "cache", "namespace": "shop"}
    assert document["spec"]["bootstrapNode"] == {"host": "old"}
    assert "shop/cache: left out: spec.bootstrapNode.allowSentinels:" in told.stderr


def test_it_can_be_written_as_a_redis() -> None:
    told = run("-", "--to", "Redis", stdin=yaml.safe_dump(older(USUAL)))
    assert told.exit_code == 0
    [document] = yaml.safe_load_all(told.stdout)
    assert document["kind"] == "Redis"
    assert document["metadata"] == {"name": "cache", "namespace": "shop"}
    assert isinstance(load(document), Redis)


@pytest.mark.parametrize("text", ["a: [", "", "kind: Redis\n", "- 1\n- 2\n"])
def test_a_file_without_one_is_refused(text: str) -> None:
    told = run("-", stdin=text)
    assert told.exit_code == 2
    assert told.stdout == ""
    assert told.stderr


def test_selectors_of_the_older_pods_pick_ours() -> None:
    """Else servers that have to be apart would not be, and nobody would hear of it."""
    term = {
        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "cache"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {
            "matchExpressions": [
                {"key": "app.kubernetes.io/component", "operator": "In", "values": ["sentinel"]}
            ]
        },
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    found = convert(
        older(
            {
                "redis": {"affinity": {"podAntiAffinity": rule}},
                "sentinel": {"topologySpreadConstraints": [spread]},
            }
        )
    )
    assert found.is_whole
    spec = found.document["spec"]
    (kept,) = spec["redis"]["affinity"]["podAntiAffinity"].popitem()[1]
    labels = {"redisoperator.dev/component": "server", "redisoperator.dev/database": "cache"}
    assert kept["labelSelector"] == {"matchLabels": labels}
    (spread,) = spec["sentinel"]["topologySpreadConstraints"]
    labels = {"redisoperator.dev/component": "sentinel"}
    assert spread["labelSelector"] == {"matchLabels": labels}
    assert sum("by the labels that they have now" in note for note in found.notes) == 2


def test_what_older_versions_said_of_all_pods_is_said_of_servers_and_sentinels() -> None:
    said = {"tolerations": [{"key": "a", "operator": "Exists"}], "securityContext": {"fsGroup": 7}}
    found = convert(older(dict(said), "storage.spotahome.com/v1alpha2"))
    assert found.is_whole
    assert found.document["spec"] == {"redis": said, "sentinel": said}


def test_names_that_are_numbers_are_told_and_do_not_end_the_program() -> None:
    """YAML reads `name: 123` as a number."""
    text = yaml.safe_dump({**older({}), "metadata": {"name": 123, "namespace": 7}})
    told = CliRunner().invoke(app, ["convert", "-"], input=text)
    assert told.exit_code == 1, told.exception
    assert "7/123: change by hand: metadata.name" in told.stderr
