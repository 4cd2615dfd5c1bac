"""Whatever an object contains, it becomes a value or a list of everything that is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from redis_operator.api.redis import Mode, Persistence, Redis
from redis_operator.api.rules import RULES
from redis_operator.api.status import RedisStatus
from redis_operator.api.unbuilt import UNBUILT
from redis_operator.api.validation import change_problems, load, load_status
from redis_operator.api.version import CATALOG, RedisVersionSpec, find_version
from redis_operator.redis.versions import parse_version, support_limitation
from redis_operator.translation.translate import translate

EXAMPLES = Path(__file__).parents[2] / "examples"


def raw(name: str = "cache", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"mode": "Cluster", "shards": 3} | spec}


def paths(document: dict[str, Any]) -> list[str]:
    found = load(document)
    return [] if isinstance(found, Redis) else [problem.path for problem in found]


@pytest.mark.parametrize(
    "path",
    sorted(
        p
        for p in EXAMPLES.glob("*.yaml")
        if not p.stem.startswith(("version", "backup", "restore"))
    ),
    ids=lambda p: p.stem,
)
def test_every_example_is_valid(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    if document["kind"] == "RedisFailover":
        document = translate(document)
    assert isinstance(load(document), Redis), load(document)


def test_ten_lines_are_enough() -> None:
    redis = load(raw())
    assert isinstance(redis, Redis)
    assert (redis.spec.shards, redis.spec.replicas) == (3, 1)
    assert redis.spec.persistence is Persistence.NONE


@pytest.mark.parametrize(("replicas", "agree"), [(3, 2), (4, 3), (5, 3), (6, 4)])
def test_more_than_half_of_the_sentinels_must_agree_if_nothing_else_is_said(
    replicas: int, agree: int
) -> None:
    spec = {"mode": "Failover", "replicas": 2, "sentinel": {"replicas": replicas}}
    redis = load({"metadata": {"name": "cache"}, "spec": spec})
    assert isinstance(redis, Redis), redis
    assert redis.spec.sentinel is not None
    assert redis.spec.sentinel.agreeing == agree


def test_storage_means_that_data_are_written_to_it() -> None:
    redis = load(raw(storage={"size": "1Gi"}))
    assert isinstance(redis, Redis)
    assert redis.spec.persistence is Persistence.AOF


STORED: dict[str, Any] = {"storage": {"size": "1Gi"}}
TWO_NAMES = {"replica-priority": 1, "slave-priority": 2}
MOUNTED: dict[str, Any] = {"volumes": [{"name": "x", "emptyDir": {}}]}
LIMITED: dict[str, Any] = {"resources": {"limits": {"memory": "1Gi"}}}
PERSISTENT = STORED | {"durability": {"persistence": "rdb"}}
BAD: list[tuple[str, dict[str, Any], list[str]]] = [
    ("IN-14 no shards", raw(shards=0), ["spec.shards"]),
    ("IN-14 two shards", raw(shards=2), ["spec.shards"]),
    ("IN-14 negative", raw(shards=-1), ["spec.shards"]),
    ("IN-14 too many", raw(shards=10000), ["spec.shards"]),
    ("IN-14 as text", raw(shards="3"), ["spec.shards"]),
    ("IN-14 as truth", raw(shards=True), ["spec.shards"]),
    ("IN-15 sentinel elsewhere", raw(sentinel={}), ["spec.sentinel"]),
    (
        "IN-17 managed",
        raw(config={"port": 1, "requirepass": "x"}),
        ["spec.config.port", "spec.config.requirepass"],
    ),
    ("IN-17 unknown", raw(version="9.1", config={"no-such": "x"}), ["spec.config.no-such"]),
    *(
        (f"IN-17 {name} decides where the data are", raw(**PERSISTENT, config={name: "x"}), [path])
        for name in ("appendfilename", "appenddirname", "dbfilename", "dir", "rdb-del-sync-files")
        for path in (f"spec.config.{name}",)
    ),
    ("IN-17 save nothing", raw(**PERSISTENT, config={"save": ""}), ["spec.config.save"]),
    ("IN-17 save never", raw(**PERSISTENT, config={"save": "  "}), ["spec.config.save"]),
    ("IN-17 save without rdb", raw(**STORED, config={"save": "60 1"}), ["spec.config.save"]),
    ("IN-17 save in memory", raw(config={"save": "60 1"}), ["spec.config.save"]),
    *(
        (f"IN-27 {name} of the wrong kind", raw(config={name: value}), [f"spec.config.{name}"])
        for name, value in {
            "hz": "banana",
            "maxmemory": "much",
            "activerehashing": 1,
            "tcp-backlog": "many",
            "databases": 0,
            "io-threads": 1000,
            "client-output-buffer-limit": "normal 1",
        }.items()
    ),
    (
        "IN-27 word unknown to a measured version",
        raw(version="9.1", config={"maxmemory-policy": "lru"}),
        ["spec.config.maxmemory-policy"],
    ),
    ("IN-26 two names", raw(config=TWO_NAMES), ["spec.config.slave-priority"]),
    ("IN-17 huge", raw(config={"hz": "1" * 2**20}), ["spec.config.hz"]),
    ("IN-17 dangerous", raw(config={"loadmodule": "/x.so"}), ["spec.config.loadmodule"]),
    ("IN-18 newline in value", raw(config={"hz": "10\nport 1"}), ["spec.config.hz"]),
    ("IN-18 trailing newline", raw(config={"hz": "10\n"}), ["spec.config.hz"]),
    ("IN-18 nul in name", raw(config={"h\x00z": "10"}), ["spec.config.h\x00z"]),
    ("IN-18 image", raw(image="a\nb", version="9.1"), ["spec.image"]),
    ("IN-29 image without a version", raw(image="mine:1"), ["spec.version"]),
    ("IN-18 annotation", raw(pod={"annotations": {"a": "x\r\ny"}}), ["spec.pod.annotations.a"]),
    ("IN-19 too long", raw("a" * 41), ["metadata.name"]),
    ("IN-19 like a child", raw("cache-nodes"), ["metadata.name"]),
    ("IN-19 like a shard", raw("cache-12"), ["metadata.name"]),
    ("IN-19 digit first", raw("1cache"), ["metadata.name"]),
    (
        "IN-13 root",
        raw(pod={"securityContext": {"runAsUser": 0}}),
        ["spec.pod.securityContext.runAsUser"],
    ),
    (
        "IN-13 sidecar root",
        raw(
            pod={"sidecars": [{"name": "a", "image": "b", "securityContext": {"privileged": True}}]}
        ),
        ["spec.pod.sidecars[0].securityContext.privileged"],
    ),
    ("X-01 other namespace", raw(auth={"secretName": "b/secret"}), ["spec.auth.secretName"]),
    ("X-01 path", raw(auth={"secretName": "../secret"}), ["spec.auth.secretName"]),
    (
        "X-02 host path",
        raw(pod={"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}),
        ["spec.pod.volumes[0].hostPath"],
    ),
    (
        "X-02 host port",
        raw(pod={"sidecars": [{"name": "a", "image": "b", "ports": [{"hostPort": 1}]}]}),
        ["spec.pod.sidecars[0].ports[0].hostPort"],
    ),
    (
        "names that are there twice",
        raw(
            pod={
                "sidecars": [{"name": "a", "image": "b"}],
                "initContainers": [{"name": "c", "image": "b"}, {"name": "a", "image": "b"}],
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}],
                "env": [{"name": "E", "value": "1"}, {"name": "E", "value": "2"}],
            }
        ),
        ["spec.pod.env[1].name", "spec.pod.initContainers[1].name", "spec.pod.volumes[1].name"],
    ),
    (
        "our container",
        raw(pod={"sidecars": [{"name": "server", "image": "b"}]}),
        ["spec.pod.sidecars[0].name"],
    ),
    (
        "our variable",
        raw(pod={"env": [{"name": "POD_IP", "value": "x"}]}),
        ["spec.pod.env[0].name"],
    ),
    (
        "our label",
        raw(pod={"labels": {"redisoperator.dev/role": "primary"}}),
        ["spec.pod.labels.redisoperator.dev/role"],
    ),
    ("no such mode", raw(mode="Sharded"), ["spec.mode"]),
    ("pull policy", raw(pod={"imagePullPolicy": "Sometimes"}), ["spec.pod.imagePullPolicy"]),
    (
        "pull secret of another namespace",
        raw(pod={"imagePullSecrets": [{"name": "a/b"}]}),
        ["spec.pod.imagePullSecrets[0].name"],
    ),
    *(
        (f"mount at {target}", raw(pod=MOUNTED | {"volumeMounts": [mount]}), [path])
        for target in (
            *("/data", "/data/sub", "/redis/config", "/x/../redis", "/", "rel", "/a:b"),
            *("//data", "//redis/config", "//"),
        )
        for mount in ({"name": "x", "mountPath": target},)
        for path in ("spec.pod.volumeMounts[0].mountPath",)
    ),
    (
        "mount of nothing",
        raw(pod={"volumeMounts": [{"name": "x", "mountPath": "/x"}]}),
        ["spec.pod.volumeMounts[0].name"],
    ),
    (
        "no time to end",
        raw(pod={"terminationGracePeriodSeconds": 5}),
        ["spec.pod.terminationGracePeriodSeconds"],
    ),
    (
        "a server that may not wait for its failover",
        raw(pod={"probes": {"startup": {"failureThreshold": 30}}}),
        ["spec.pod.probes.startup"],
    ),
    *(
        (
            f"{name} of a sidecar",
            raw(pod={"sidecars": [{"name": "a", "image": "b", "securityContext": {name: value}}]}),
            [f"spec.pod.sidecars[0].securityContext.{name}"],
        )
        for name, value in (
            ("procMount", "Unmasked"),
            ("windowsOptions", {"hostProcess": True}),
            ("appArmorProfile", {"type": "Unconfined"}),
            ("seLinuxOptions", {"user": "root"}),
        )
    ),
    (
        "settings of the kernel",
        raw(pod={"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
        ["spec.pod.securityContext.sysctls"],
    ),
    (
        "a probe that kills at once",
        raw(pod={"probes": {"liveness": {"periodSeconds": 1}}}),
        ["spec.pod.probes.liveness"],
    ),
    (
        "a probe without time",
        raw(pod={"probes": {"readiness": {"timeoutSeconds": 0}}}),
        ["spec.pod.probes.readiness.timeoutSeconds"],
    ),
    (
        "two kinds of affinity",
        raw(pod={"antiAffinity": "Required", "affinity": {"nodeAffinity": {}}}),
        ["spec.pod.antiAffinity"],
    ),
    ("runtime class", raw(pod={"runtimeClassName": "A B"}), ["spec.pod.runtimeClassName"]),
    (
        "access mode",
        raw(storage={"size": "1Gi", "accessModes": ["ReadOnlyMany"]}),
        ["spec.storage.accessModes[0]"],
    ),
    (
        "our label on a claim",
        raw(storage={"size": "1Gi", "labels": {"redisoperator.dev/shard": "1"}}),
        ["spec.storage.labels.redisoperator.dev/shard"],
    ),
    ("share of nothing", raw(maxmemoryPercent=50), ["spec.maxmemoryPercent"]),
    (
        "share and size",
        raw(**LIMITED, maxmemoryPercent=50, config={"maxmemory": "100mb"}),
        ["spec.maxmemoryPercent"],
    ),
    ("all of it", raw(**LIMITED, maxmemoryPercent=100), ["spec.maxmemoryPercent"]),
    ("no shard at a time", raw(update={"parallelShards": 0}), ["spec.update.parallelShards"]),
    (
        "two budgets",
        raw(disruptionBudget={"maxUnavailable": 1, "minAvailable": 1}),
        ["spec.disruptionBudget.minAvailable"],
    ),
    (
        "exporter asks for more than it may have",
        raw(
            monitoring={"exporterResources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}},
        ),
        ["spec.monitoring.exporterResources.requests.cpu"],
    ),
    (
        "exporter of another server",
        raw(monitoring={"exporterArgs": ["--check-keys=a*", "-redis.addr=redis://elsewhere:1"]}),
        ["spec.monitoring.exporterArgs[1]"],
    ),
    (
        "exporter of another sentinel",
        raw(
            mode="Failover",
            shards=1,
            sentinel={"exporter": {"args": ["--redis.addr=redis://elsewhere:1"]}},
        ),
        ["spec.sentinel.exporter.args[0]"],
    ),
    (
        "exporter of sentinels with a user of its own, and more than it may have",
        raw(
            mode="Failover",
            shards=1,
            sentinel={
                "exporter": {
                    "env": [{"name": "REDIS_USER", "value": "default"}],
                    "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}},
                }
            },
        ),
        ["spec.sentinel.exporter.env[0].name", "spec.sentinel.exporter.resources.requests.cpu"],
    ),
    (
        "password of the exporter in its arguments",
        raw(monitoring={"exporterArgs": ["--redis.password", "secret"]}),
        ["spec.monitoring.exporterArgs[0]"],
    ),
    *(
        (f"exporter variable {env}", raw(monitoring={"exporterEnv": env}), [path])
        for path, env in (
            ("spec.monitoring.exporterEnv[0].name", [{"name": "REDIS_USER", "value": "default"}]),
            ("spec.monitoring.exporterEnv[0].name", [{"value": "nameless"}]),
            ("spec.monitoring.exporterEnv[1].name", [{"name": "A", "value": "1"}] * 2),
        )
    ),
    (
        "persistence without disk",
        raw(durability={"persistence": "aof"}),
        ["spec.durability.persistence"],
    ),
    (
        "more in sync than there are",
        raw(durability={"minReplicasToWrite": 2}),
        ["spec.durability.minReplicasToWrite"],
    ),
    ("sleep without disk", raw(hibernate=True), ["spec.hibernate"]),
    ("empty disk", raw(storage={"size": "0"}), ["spec.storage.size"]),
    ("no size", raw(storage={}), ["spec.storage.size"]),
    ("odd size", raw(storage={"size": "10 GB"}), ["spec.storage.size"]),
    (
        "tiny memory",
        raw(resources={"limits": {"memory": "10Mi"}}),
        ["spec.resources.limits.memory"],
    ),
    (
        "request over limit",
        raw(resources={"requests": {"cpu": 2}, "limits": {"cpu": "1"}}),
        ["spec.resources.requests.cpu"],
    ),
    ("unknown resource", raw(resources={"limits": {"ram": "1Gi"}}), ["spec.resources.limits.ram"]),
    ("too old", raw(engine="redis", version="5.0"), ["spec.version"]),
    ("no version", raw(version="latest"), ["spec.version"]),
    ("empty peer", raw(networkPolicy={"clients": [{}]}), ["spec.networkPolicy.clients[0]"]),
    ("half a character", raw(config={"hz": "\ud800"}), ["spec"]),
    ("half a character in a pod", raw(pod={"env": [{"name": "\udfff"}]}), ["spec"]),
    ("no spec", {"metadata": {"name": "a"}}, ["spec"]),
    ("spec is a list", {"metadata": {"name": "a"}, "spec": []}, ["spec"]),
    ("spec of nothing", {"metadata": {"name": "a"}, "spec": {}}, ["spec.mode"]),
]


@pytest.mark.parametrize(
    ("document", "expected"), [row[1:] for row in BAD], ids=[r[0] for r in BAD]
)
def test_bad_input_is_refused_with_the_path_of_the_field(
    document: dict[str, Any], expected: list[str]
) -> None:
    assert paths(document) == expected


def test_every_problem_is_told_at_once() -> None:
    found = paths(raw("cache-0", shards=2, tls={"selfSigned": True}, config={"dir": "/"}))
    assert found == ["metadata.name", "spec.config.dir", "spec.shards", "spec.tls"]


UNBUILT_SPECS: dict[str, dict[str, Any]] = {
    "mode": {"mode": "Failover", "shards": 1},
    "tls": {"tls": {"secretName": "a"}},
    "auth.users": {
        "auth": {"users": [{"name": "a", "rules": "b", "passwordSecret": {"name": "c"}}]}
    },
    "monitoring.serviceMonitor": {"monitoring": {"serviceMonitor": True}},
    "monitoring.prometheusRule": {"monitoring": {"prometheusRule": True}},
    "monitoring.dashboard": {"monitoring": {"dashboard": True}},
}


@pytest.mark.parametrize("row", UNBUILT, ids=lambda row: row.path)
def test_what_is_not_built_yet_is_refused_and_never_ignored(row: Any) -> None:
    found = load(raw(**UNBUILT_SPECS[row.path]))
    assert not isinstance(found, Redis)
    assert [(p.path, p.message) for p in found] == [(f"spec.{row.path}", row.message)]


def test_the_neutral_values_of_what_is_not_built_are_fine() -> None:
    spec: dict[str, Any] = {
        "auth": {"users": []},
        "bootstrap": {},
        "deletion": {"policy": "Retain"},
        "monitoring": {"serviceMonitor": False, "exporter": True},
    }
    assert paths(raw(**spec)) == []


@pytest.mark.parametrize(
    ("mode", "host", "path"),
    [
        ("Cluster", "old.example", "spec.bootstrap.fromRedis"),
        ("Failover", "localhost", "spec.bootstrap.fromRedis.host"),
        ("Standalone", "::1", "spec.bootstrap.fromRedis.host"),
        ("Standalone", "not a host", "spec.bootstrap.fromRedis.host"),
        ("Failover", "old.example", ""),
        ("Standalone", "10.0.0.1", ""),
        ("Standalone", "fd00::1", ""),
    ],
)
def test_a_server_elsewhere_is_followed_in_modes_that_can(mode: str, host: str, path: str) -> None:
    few = {"Standalone": {"shards": 1, "replicas": 0}, "Failover": {"shards": 1, "replicas": 2}}
    spec = {"bootstrap": {"fromRedis": {"host": host}}, **few.get(mode, {"shards": 3})}
    assert paths(raw(mode=mode, **spec)) == ([path] if path else [])


STORED: dict[str, Any] = {"storage": {"claim": {"name": "backups"}}, "path": "ns/archive"}


@pytest.mark.parametrize(
    ("begins", "path"),
    [
        ({**STORED, "at": "2026-01-31T12:00:00.25Z"}, ""),
        ({**STORED, "at": "2026-01-31T12:00:00+02:00", "bound": "Include"}, ""),
        ({"schedule": "nightly", "at": "2026-01-31T12:00:00Z"}, ""),
        ({"schedule": "nightly", "restorePoint": "before-release-7"}, ""),
        ({"name": "monday", "at": "2026-01-31T12:00:00Z"}, ".at"),
        ({"name": "monday", "restorePoint": "x"}, ".restorePoint"),
        ({**STORED, "at": "2026-01-31T12:00:00Z", "restorePoint": "x"}, ".restorePoint"),
        ({**STORED, "at": "2026-02-30T12:00:00Z"}, ".at"),
        ({**STORED, "at": "2026-01-31T12:00:00"}, ".at"),
        ({**STORED, "at": "yesterday"}, ".at"),
        ({**STORED, "at": "2026-01-31T12:00:00Z", "bound": "about"}, ".bound"),
        ({**STORED, "restorePoint": "../x"}, ".restorePoint"),
        ({"storage": STORED["storage"], "at": "2026-01-31T12:00:00Z"}, ".path"),
    ],
)
def test_a_moment_is_of_an_archive_and_one_alone(begins: dict[str, Any], path: str) -> None:
    spec = {"shards": 1, "replicas": 0, "bootstrap": {"fromBackup": begins}}
    expected = [f"spec.bootstrap.fromBackup{path}"] if path else []
    assert paths(raw(mode="Standalone", **spec)) == expected


def test_null_means_absent() -> None:
    redis = load(raw(storage=None, tls=None, pod={"affinity": None}))
    assert isinstance(redis, Redis)
    assert redis.spec.storage is None


def test_unknown_fields_do_no_harm() -> None:
    document = raw(surprise={"a": [1]}) | {"status": {"phase": "Odd", "plan": 3}, "extra": 1}
    assert isinstance(load(document), Redis)


def test_a_status_that_can_be_read_is_kept() -> None:
    document = raw() | {"status": {"observedGeneration": 4, "phase": "Ready", "plan": ["nothing"]}}
    redis = load(document)
    assert isinstance(redis, Redis)
    assert redis.status.observed_generation == 4


words = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.floats(allow_nan=False)
)
FIELDS = """
mode shards replicas storage size config pod auth users name resources limits memory sidecars
volumes networkPolicy clients tls durability persistence monitoring version engine bootstrap env
"""
fields = st.sampled_from(FIELDS.split())
values = st.recursive(
    words,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(fields, inner, max_size=4)
    ),
    max_leaves=20,
)


@given(spec=st.dictionaries(fields, values, max_size=8), whole=st.booleans())
def test_no_content_makes_loading_fail(spec: dict[str, Any], whole: bool) -> None:
    base = {"mode": "Cluster", "shards": 3} if whole else {}
    found = load({"metadata": {"name": "a"}, "spec": base | spec})
    assert isinstance(found, Redis) or all(problem.path and problem.message for problem in found)


def test_what_cannot_change_is_told() -> None:
    def spec(**storage: Any) -> Any:
        redis = load(raw(storage=storage) if storage else raw())
        assert isinstance(redis, Redis)
        return redis.spec

    assert change_problems(spec(size="1Gi"), spec(size="2Gi")) == ()
    assert [p.path for p in change_problems(spec(size="2Gi"), spec(size="2G"))] == [
        "spec.storage.size"
    ]
    changed = change_problems(spec(size="2Gi", className="a"), spec(size="2Gi", className="b"))
    assert [p.path for p in changed] == ["spec.storage.className"]
    changed = change_problems(spec(size="2Gi"), spec(size="2Gi", accessModes=["ReadWriteMany"]))
    assert [p.path for p in changed] == ["spec.storage.accessModes"]
    assert [p.path for p in change_problems(spec(), spec(size="1Gi"))] == ["spec.storage"]


def test_every_rule_tells_the_field_it_is_about() -> None:
    for rule in RULES:
        assert rule.message
        if rule.type == "RedisSpec":
            assert rule.field


def test_the_catalog_holds_versions_that_are_run() -> None:
    for entry in CATALOG:
        version = parse_version(entry.engine.value, entry.version)
        assert version is not None
        assert support_limitation(version) is None


def test_the_clusters_own_entries_win_over_the_built_in_ones() -> None:
    redis = load(raw(version="9.1"))
    assert isinstance(redis, Redis)
    mine = RedisVersionSpec(redis.spec.engine, "9.1", "mine:9.1")
    assert find_version(redis.spec, [mine]) == mine
    unknown = load(raw(version="9.9"))
    assert isinstance(unknown, Redis)
    assert "use one of 9.1" in str(find_version(unknown.spec))
    assert redis.spec.mode is Mode.CLUSTER


@pytest.mark.parametrize("spec", [None, {}, {"shards": -1}, {"config": {"port": "1"}}])
def test_the_status_is_read_whatever_the_spec_is_like(spec: Any) -> None:
    """That it was whole once stands there: forgotten, lost data would look like a new database."""
    raw = {"metadata": {"name": "a"}, "spec": spec, "status": {"binding": {"name": "a-conn"}}}
    found = load_status(raw)
    assert found.binding is not None
    assert found.binding.name == "a-conn"


@pytest.mark.parametrize("status", [None, 5, {"binding": 5}, {"shards": "x"}])
def test_a_status_that_cannot_be_read_is_blank(status: Any) -> None:
    assert load_status({"status": status}) == RedisStatus()
