"""A RedisFailover as a Redis: field by field, and what is refused with the path of its field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_operator.api.redis import Redis
from redis_operator.api.redisfailover_rules import REFUSED
from redis_operator.api.validation import load
from redis_operator.translation.translate import in_their_words, origins_of, translate


def failover(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "cache", "namespace": "shop", **metadata}, "spec": spec}


def translated(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    found = translate(failover(spec, **metadata))
    assert isinstance(found, dict), found
    assert isinstance(load(found), Redis), load(found)
    return found


def problems(spec: dict[str, Any], **metadata: Any) -> dict[str, str]:
    found = translate(failover(spec, **metadata))
    assert not isinstance(found, dict), found["spec"]
    return {problem.path: problem.message for problem in found}


def claim(**spec: Any) -> dict[str, Any]:
    size = {"resources": {"requests": {"storage": "1Gi"}}}
    return {"persistentVolumeClaim": {"metadata": {"name": "data"}, "spec": size | spec}}


def test_nothing_said_is_three_servers_and_three_sentinels() -> None:
    assert translated({}) == {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "Redis",
        "metadata": {
            "name": "cache",
            "namespace": "shop",
            "labels": {"redisoperator.dev/redisfailover": "cache"},
        },
        "spec": {"mode": "Failover", "replicas": 2, "sentinel": {"replicas": 3, "quorum": 2}},
    }


LIMITS = {"requests": {"cpu": "100m"}, "limits": {"memory": "200Mi"}}
TOLERATION = {"key": "redis", "operator": "Exists"}
SIDECAR = {"name": "logs", "image": "busybox"}
VOLUME = {"name": "scratch", "emptyDir": {}}
MOUNT = {"name": "scratch", "mountPath": "/scratch"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}
IMAGE_62 = {"engine": "redis", "version": "6.2", "image": "redis:6.2.6-alpine"}

# What spec.redis says, and the fields of the Redis that it becomes.
SERVERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "replicas": ({"replicas": 5}, {"replicas": 4}),
    "image": ({"image": "redis:6.2.6-alpine"}, IMAGE_62),
    "image of a registry with a port": (
        {"image": "registry:5000/team/valkey:v8.1.1"},
        {"engine": "valkey", "version": "8.1", "image": "registry:5000/team/valkey:v8.1.1"},
    ),
    "image by digest": (
        {"image": "acme/cache@sha256:ab", "engine": "redis", "version": "7.2"},
        {"engine": "redis", "version": "7.2", "image": "acme/cache@sha256:ab"},
    ),
    "version": ({"engine": "redis", "version": "7.0"}, {"engine": "redis", "version": "7.0"}),
    "resources": ({"resources": LIMITS}, {"resources": LIMITS}),
    "imagePullPolicy": (
        {"imagePullPolicy": "Always"},
        {"pod": {"imagePullPolicy": "Always"}},
    ),
    "imagePullSecrets": (
        {"imagePullSecrets": [{"name": "registry"}]},
        {"pod": {"imagePullSecrets": [{"name": "registry"}]}},
    ),
    "customConfig": (
        {"customConfig": ["maxmemory-policy allkeys-lru", "# a comment", "", "hz 50"]},
        {"config": {"maxmemory-policy": "allkeys-lru", "hz": "50"}},
    ),
    "customConfig, quoted": (
        {"customConfig": ['notify-keyspace-events "KEA"']},
        {"config": {"notify-keyspace-events": "KEA"}},
    ),
    "customConfig, several lines of one directive": (
        {
            "customConfig": [
                "client-output-buffer-limit normal 0 0 0",
                "client-output-buffer-limit slave 256mb 64mb 60",
            ]
        },
        {"config": {"client-output-buffer-limit": "normal 0 0 0 slave 256mb 64mb 60"}},
    ),
    "customConfig, replicas to write": (
        {"customConfig": ["min-slaves-to-write 1", "min-replicas-max-lag 5"]},
        {"durability": {"minReplicasToWrite": 1, "maxLagSeconds": 5}},
    ),
    "customConfig, nothing on disk": (
        {"customConfig": ['save ""', "appendonly no"]},
        {},
    ),
    "storage in memory": ({"storage": {"emptyDir": {}}}, {}),
    "storage": (
        {
            "storage": {
                "keepAfterDeletion": True,
                **claim(accessModes=["ReadWriteOnce"], storageClassName="fast"),
            }
        },
        {
            "storage": {"size": "1Gi", "className": "fast", "accessModes": ["ReadWriteOnce"]},
            "deletion": {"policy": "Retain"},
        },
    ),
    "append-only file": (
        {"storage": claim(), "customConfig": ["appendonly yes"]},
        {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}},
    ),
    "snapshots": (
        {"storage": claim(), "customConfig": ["save 900 1", "save 300 10"]},
        {
            "storage": {"size": "1Gi"},
            "durability": {"persistence": "rdb"},
            "config": {"save": "900 1 300 10"},
        },
    ),
    "both": (
        {"storage": claim(), "customConfig": ["appendonly yes", "save 900 1"]},
        {
            "storage": {"size": "1Gi"},
            "durability": {"persistence": "both"},
            "config": {"save": "900 1"},
        },
    ),
    "a volume that nothing is written to": (
        {"storage": claim(), "customConfig": ['save ""']},
        {"storage": {"size": "1Gi"}, "durability": {"persistence": "none"}},
    ),
    "exporter": (
        {
            "exporter": {
                "enabled": True,
                "image": "oliver006/redis_exporter:v1.43.0",
                "args": ["--check-keys=a"],
                "env": [{"name": "REDIS_EXPORTER_LOG_FORMAT", "value": "txt"}],
                "resources": LIMITS,
            }
        },
        {
            "monitoring": {
                "exporter": True,
                "exporterImage": "oliver006/redis_exporter:v1.43.0",
                "exporterArgs": ["--check-keys=a"],
                "exporterEnv": [{"name": "REDIS_EXPORTER_LOG_FORMAT", "value": "txt"}],
                "exporterResources": LIMITS,
            }
        },
    ),
    "no exporter": ({"exporter": {"enabled": False, "image": "x"}}, {}),
    "affinity": ({"affinity": AFFINITY}, {"pod": {"affinity": AFFINITY}}),
    "securityContext": (
        {"securityContext": {"runAsUser": 1000}},
        {"pod": {"securityContext": {"runAsUser": 1000}}},
    ),
    "containerSecurityContext": (
        {
            "containerSecurityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "runAsNonRoot": True,
                "capabilities": {"drop": ["ALL"]},
            }
        },
        {},
    ),
    "podAnnotations": ({"podAnnotations": {"a": "b"}}, {"pod": {"annotations": {"a": "b"}}}),
    "serviceAnnotations": (
        {"serviceAnnotations": {"a": "b"}},
        {"service": {"annotations": {"a": "b"}}},
    ),
    "priorityClassName": ({"priorityClassName": "high"}, {"pod": {"priorityClassName": "high"}}),
    "serviceAccountName": ({"serviceAccountName": "me"}, {"pod": {"serviceAccountName": "me"}}),
    "terminationGracePeriod": (
        {"terminationGracePeriod": 60},
        {"pod": {"terminationGracePeriodSeconds": 60}},
    ),
    "extraContainers": ({"extraContainers": [SIDECAR]}, {"pod": {"sidecars": [SIDECAR]}}),
    "initContainers": ({"initContainers": [SIDECAR]}, {"pod": {"initContainers": [SIDECAR]}}),
    "extraVolumes": (
        {"extraVolumes": [VOLUME], "extraVolumeMounts": [MOUNT]},
        {"pod": {"volumes": [VOLUME], "volumeMounts": [MOUNT]}},
    ),
    "probes": (
        {"customLivenessProbe": {"periodSeconds": 20, "successThreshold": 1}},
        {"pod": {"probes": {"liveness": {"periodSeconds": 20}}}},
    ),
    "disablePodDisruptionBudget": (
        {"disablePodDisruptionBudget": True},
        {"disruptionBudget": {"enabled": False}},
    ),
    "what is said and changes nothing": (
        {"port": 6379, "hostNetwork": False, "dnsPolicy": "ClusterFirst", "command": []},
        {},
    ),
}
USUAL: dict[str, Any] = {
    "mode": "Failover",
    "replicas": 2,
    "sentinel": {"replicas": 3, "quorum": 2},
}
PLACED = frozenset({"affinity", "securityContext", "podAnnotations", "priorityClassName"})


@pytest.mark.parametrize("case", SERVERS)
def test_what_is_said_of_servers(case: str) -> None:
    said, wanted = SERVERS[case]
    spec = {"redis": said}
    if case in PLACED:  # else sentinels would be placed otherwise than the servers
        spec["sentinel"] = said
    assert translated(spec)["spec"] == USUAL | wanted


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"replicas": 5}, {"replicas": 5, "quorum": 3}),
        ({"replicas": 4}, {"replicas": 4, "quorum": 3}),
        ({"replicas": 5, "quorum": 2}, {"replicas": 5, "quorum": 2}),
        ({"resources": LIMITS}, {"resources": LIMITS}),
        (
            {"customConfig": ["down-after-milliseconds 2000", "failover-timeout 3000"]},
            {"downAfterMilliseconds": 2000, "failoverTimeoutMilliseconds": 3000},
        ),
        (
            {
                "exporter": {
                    "enabled": True,
                    "image": "oliver006/redis_exporter:v1.43.0",
                    "args": ["--debug"],
                    "env": [{"name": "REDIS_EXPORTER_LOG_FORMAT", "value": "txt"}],
                    "resources": LIMITS,
                }
            },
            {
                "exporter": {
                    "enabled": True,
                    "image": "oliver006/redis_exporter:v1.43.0",
                    "args": ["--debug"],
                    "env": [{"name": "REDIS_EXPORTER_LOG_FORMAT", "value": "txt"}],
                    "resources": LIMITS,
                }
            },
        ),
        ({"exporter": {"enabled": False, "image": "x"}}, {}),
        ({"tolerations": [TOLERATION]}, {"pod": {"tolerations": [TOLERATION]}}),
        (
            {"podAnnotations": {"a": "b"}, "nodeSelector": {"disk": "ssd"}},
            {"pod": {"annotations": {"a": "b"}, "nodeSelector": {"disk": "ssd"}}},
        ),
        ({"topologySpreadConstraints": [SPREAD]}, {"pod": {"topologySpreadConstraints": [SPREAD]}}),
    ],
    ids=",".join,
)
def test_what_is_said_of_sentinels(said: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert translated({"sentinel": said})["spec"]["sentinel"] == USUAL["sentinel"] | wanted


def test_sentinels_without_tolerations_do_not_get_those_of_the_servers() -> None:
    spec = translated({"redis": {"tolerations": [TOLERATION]}})["spec"]
    assert spec["pod"] == {"tolerations": [TOLERATION]}
    assert spec["sentinel"]["pod"] == {}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, {"host": "old.shop.svc", "port": 6379}),
        (
            {"auth": {"secretPath": "mine"}},
            {
                "host": "old.shop.svc",
                "port": 6379,
                "passwordSecret": {"name": "mine", "key": "password"},
            },
        ),
        (
            {
                "auth": {"secretPath": "mine"},
                "bootstrapNode": {
                    "host": "old.shop.svc",
                    "port": "7000",
                    "username": "mover",
                    "passwordSecret": {"name": "theirs", "key": "word"},
                },
            },
            {
                "host": "old.shop.svc",
                "port": 7000,
                "username": "mover",
                "passwordSecret": {"name": "theirs", "key": "word"},
            },
        ),
    ],
    ids=["no password", "the same password", "its own login"],
)
def test_a_redis_elsewhere_is_followed_first(spec: dict[str, Any], wanted: dict[str, Any]) -> None:
    said = {"bootstrapNode": {"host": "old.shop.svc", "allowSentinels": False}} | spec
    assert translated(said)["spec"]["bootstrap"] == {"fromRedis": wanted}


def test_the_password_is_that_of_the_secret() -> None:
    assert translated({"auth": {"secretPath": "mine"}})["spec"]["auth"] == {"secretName": "mine"}


@pytest.mark.parametrize(
    ("whitelist", "names"),
    [
        ([], ["team", "helm.sh/chart", "app.kubernetes.io/part-of"]),
        (["team"], ["team"]),
        (["^te.*"], ["team"]),
        (["^helm.sh/.*$", "^team$"], ["team", "helm.sh/chart"]),
        (["part"], ["app.kubernetes.io/part-of"]),
        (["^eam"], []),
        (["^tea$"], []),
        (["t..m"], ["team"]),
        (["h.*m.*t$"], ["helm.sh/chart"]),
        ([r"helm\.sh"], ["helm.sh/chart"]),
    ],
    ids=",".join,
)
def test_labels_that_a_pattern_fits_are_copied(whitelist: list[str], names: list[str]) -> None:
    labels = {"team": "shop", "helm.sh/chart": "cache-1", "app.kubernetes.io/part-of": "shop"}
    ours = {"redisoperator.dev/database": "other"}
    found = translated({"labelWhitelist": whitelist}, labels=labels | ours)
    marked = found["metadata"]["labels"]
    assert {n: v for n, v in marked.items() if not n.startswith("redisoperator.dev/")} == {
        name: labels[name] for name in names
    }
    assert "redisoperator.dev/database" not in marked
    on_pods = found["spec"].get("pod", {}).get("labels", {})
    assert on_pods == {n: labels[n] for n in names if not n.startswith("app.kubernetes.io/")}


@pytest.mark.parametrize("pattern", ["(a+)+$", "a{1,9}", "[a-z]", "a|b", "a*", "\n"])
def test_patterns_that_could_take_for_ever_are_refused(pattern: str) -> None:
    assert list(problems({"labelWhitelist": ["team", pattern]})) == ["spec.labelWhitelist[1]"]


def test_a_restart_that_is_asked_for_reaches_the_redis() -> None:
    asked = {"kubectl.kubernetes.io/restartedAt": "now", "other": "x"}
    found = translated({}, annotations=asked)
    assert found["metadata"]["annotations"] == {"kubectl.kubernetes.io/restartedAt": "now"}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below),
    max_leaves=8,
)
FIELDS = st.sampled_from([path.split(" ")[0] for path in SERVERS] + [row.path for row in REFUSED])


@given(st.dictionaries(FIELDS, ANYTHING, max_size=4), st.sampled_from(["redis", "sentinel"]))
def test_whatever_is_said_becomes_a_redis_or_problems_with_paths(
    said: dict[str, Any], part: str
) -> None:
    found = translate(failover({part: said}))
    if isinstance(found, dict):
        assert isinstance(load(found), Redis)
    else:
        assert all(p.path.startswith(("spec", "metadata")) and p.message for p in found)


_APART = "podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector"


def apart(**labels: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize(
    "labels",
    [
        {"app.kubernetes.io/part-of": "redis-failover"},
        {"app.kubernetes.io/name": "cache", "app.kubernetes.io/component": "redis"},
        {"redisfailovers.databases.spotahome.com/name": "cache"},
        {"app.kubernetes.io/component": "redis"},
    ],
    ids=lambda labels: next(iter(labels)),
)
def test_servers_that_would_not_be_kept_apart_are_refused(labels: dict[str, str]) -> None:
    """The selector is of the older operator: no pod of ours has these labels."""
    found = problems({"redis": {"affinity": apart(**labels)}})
    assert list(found) == [f"spec.redis.affinity.{_APART}"]
    assert "redisoperator.dev/component=server" in found[f"spec.redis.affinity.{_APART}"]


@pytest.mark.parametrize(
    "labels",
    [
        {"app.kubernetes.io/name": "another"},
        {"app.kubernetes.io/component": "redis", "app.kubernetes.io/instance": "shop"},
        {"redisoperator.dev/database": "cache", "redisoperator.dev/component": "server"},
    ],
)
def test_selectors_of_other_pods_are_followed(labels: dict[str, str]) -> None:
    assert translated({"redis": {"affinity": apart(**labels)}})


def test_everything_that_is_wrong_is_told_at_once() -> None:
    found = problems(
        {"redis": {"customConfig": ["loadmodule /x.so", "save 1 1"]}, "labelWhitelist": ["("]}
    )
    assert sorted(found) == [
        "spec.labelWhitelist[0]",
        "spec.redis.customConfig[0]",
        "spec.redis.customConfig[1]",
    ]


def test_one_setting_under_two_names_is_refused() -> None:
    lines = ["min-slaves-to-write 1", "min-replicas-to-write 0"]
    assert list(problems({"redis": {"customConfig": lines}})) == ["spec.redis.customConfig[1]"]


def test_volumes_that_there_are_not_cannot_be_kept() -> None:
    found = problems({"redis": {"storage": {"keepAfterDeletion": True}}})
    assert list(found) == ["spec.redis.storage.keepAfterDeletion"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("spec.auth.secretName: there is none", "spec.auth.secretPath: there is none"),
        ("spec.config.foo: is unknown", "spec.redis.customConfig[1]: foo is unknown"),
        ("make room or raise spec.storage.size. Now", "make room or raise {claim}. Now"),
        ("spec.update.paused is set", "spec.update.paused is set"),
    ],
)
def test_what_is_told_of_the_redis_has_the_paths_of_this_kind(said: str, told: str) -> None:
    claim = "spec.redis.storage.persistentVolumeClaim.spec.resources.requests.storage"
    origins = origins_of(failover({"redis": {"customConfig": ["hz 50", "foo bar"]}}))
    assert in_their_words(said, origins) == told.format(claim=claim)
