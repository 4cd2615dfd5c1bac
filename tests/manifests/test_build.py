"""The objects of a database: complete, stable, least privileged, without secrets in the open."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from redis_operator.api.metadata import Metadata
from redis_operator.api.redis import Mode, Redis
from redis_operator.api.validation import load
from redis_operator.manifests import names
from redis_operator.manifests.build import MANAGED_KINDS, build
from redis_operator.manifests.facts import Facts, Passwords
from redis_operator.redis.versions import Version

V91, V81, R62 = Version("valkey", 9, 1), Version("valkey", 8, 1), Version("redis", 6, 2)
PASSWORDS = Passwords(
    "canary-app", "canary-operator", "canary-replication", "canary-exporter", "canary-admin"
)
FACTS = Facts(version=V91, image="valkey:9.1", passwords=PASSWORDS, exporter_image="exporter:1")


def database(name: str = "cache", **spec: Any) -> Redis:
    raw = {"metadata": {"name": name}, "spec": {"mode": "Cluster", "shards": 3} | spec}
    redis = load(raw)
    assert isinstance(redis, Redis), redis
    metadata = Metadata(name=name, namespace="prod", uid="uid-1")
    return msgspec.structs.replace(redis, metadata=metadata)


def by_kind(redis: Redis, kind: str, facts: Facts = FACTS) -> list[dict[str, Any]]:
    return [found for found in build(redis, facts) if found["kind"] == kind]


def template(redis: Redis, facts: Facts = FACTS) -> dict[str, Any]:
    found: dict[str, Any] = by_kind(redis, "StatefulSet", facts)[0]["spec"]["template"]
    return found


def test_a_cluster_of_three_has_what_people_were_promised() -> None:
    found = [f"{o['kind']}/{o['metadata']['name']}" for o in build(database(), FACTS)]
    assert found == [
        "ServiceAccount/cache",
        "Role/cache",
        "RoleBinding/cache",
        "Secret/cache-recovery",
        "Secret/cache-users",
        "Secret/cache-admin",
        "Secret/cache-conn",
        "Secret/cache-auth",
        "ConfigMap/cache-config",
        "Service/cache-nodes",
        "Service/cache",
        "Service/cache-primaries",
        "Service/cache-replicas",
        "NetworkPolicy/cache",
        *(f"PodDisruptionBudget/cache-{n}" for n in range(3)),
        *(f"StatefulSet/cache-{n}" for n in range(3)),
    ]


def test_every_object_is_owned_stamped_and_of_a_managed_kind() -> None:
    for document in build(database(monitoring={"exporter": True}), FACTS):
        [owner] = document["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Redis", "uid-1", True)
        assert document["metadata"]["annotations"][names.INTENT_ANNOTATION]
        assert (document["apiVersion"], document["kind"]) in MANAGED_KINDS
        assert document["metadata"]["namespace"] == "prod"


def test_the_same_wish_gives_the_same_bytes() -> None:
    spec = {"storage": {"size": "1Gi"}, "config": {"hz": 20}}
    first = msgspec.json.encode(build(database(**spec), FACTS))
    assert first == msgspec.json.encode(build(database(**spec), FACTS))


def stamps(redis: Redis, facts: Facts = FACTS) -> dict[str, str]:
    return {
        f"{o['kind']}/{o['metadata']['name']}": o["metadata"]["annotations"][
            names.INTENT_ANNOTATION
        ]
        for o in build(redis, facts)
    }


def test_only_what_changed_has_another_stamp() -> None:
    before, after = stamps(database()), stamps(database(service={"annotations": {"a": "b"}}))
    assert {name for name in before if before[name] != after[name]} == {
        "Service/cache",
        "ConfigMap/cache-config",  # which keeps the spec
    }


def test_live_configuration_does_not_touch_the_pods() -> None:
    before, after = stamps(database()), stamps(database(config={"maxmemory-policy": "allkeys-lru"}))
    assert {n for n in before if before[n] != after[n]} == {"ConfigMap/cache-config"}


def test_configuration_that_needs_a_restart_changes_the_template() -> None:
    before, after = template(database()), template(database(config={"databases": 2}))
    assert before != after


def test_a_restart_on_request_reaches_the_template() -> None:
    redis = database()
    annotations = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
    asked = msgspec.structs.replace(
        redis, metadata=msgspec.structs.replace(redis.metadata, annotations=annotations)
    )
    assert template(redis)["metadata"]["annotations"] != template(asked)["metadata"]["annotations"]


def strings(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for name, member in value.items():
                yield name
                yield from strings(member)
        case list() | tuple():
            for member in value:
                yield from strings(member)
        case str():
            yield value


def test_passwords_are_in_secrets_and_nowhere_else() -> None:
    for document in build(database(monitoring={"exporter": True}), FACTS):
        if document["kind"] != "Secret":
            assert not [text for text in strings(document) if "canary" in text]
    assert "canary" not in repr(PASSWORDS) + repr(FACTS)


def test_pods_do_not_see_the_operators_password() -> None:
    volumes = template(database())["spec"]["volumes"]
    [users] = [volume for volume in volumes if volume["name"] == "users"]
    keys = {item["key"] for item in users["secret"]["items"]}
    assert keys == {"valkey-9.1.acl", "replication.conf", "exporter"}


def test_the_exporter_has_its_own_password_and_no_file_of_the_servers() -> None:
    exporter = template(database(monitoring={"exporter": True}))["spec"]["containers"][1]
    assert "volumeMounts" not in exporter
    [password] = [v for v in exporter["env"] if v["name"] == "REDIS_PASSWORD"]
    assert password["valueFrom"] == {"secretKeyRef": {"name": "cache-users", "key": "exporter"}}


@pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.value)
def test_every_exporter_is_behind_the_stats_service_and_no_sentinel_is(mode: Mode) -> None:
    shape = {Mode.STANDALONE: {"shards": 1, "replicas": 0}, Mode.FAILOVER: {"shards": 1}}
    asked = database(mode=mode.value, monitoring={"exporter": True}, **shape.get(mode, {}))
    [stats] = [o for o in by_kind(asked, "Service") if o["metadata"]["name"] == "cache-stats"]
    assert stats["spec"]["publishNotReadyAddresses"], "a server in trouble is looked at as well"
    [port] = stats["spec"]["ports"]
    picked = stats["spec"]["selector"].items()
    for workload in by_kind(asked, "StatefulSet"):
        pod = workload["spec"]["template"]
        named = [p["name"] for c in pod["spec"]["containers"] for p in c["ports"]]
        assert (port["targetPort"] in named) == (picked <= pod["metadata"]["labels"].items())


def _with_sentinel_exporter(**exporter: Any) -> Redis:
    sentinel = {"exporter": {"enabled": True} | exporter}
    return database(mode="Failover", shards=1, sentinel=sentinel)


def _sentinel_containers(redis: Redis) -> list[Any]:
    [found] = [
        o for o in by_kind(redis, "StatefulSet") if o["metadata"]["name"] == "cache-sentinel"
    ]
    containers: list[Any] = found["spec"]["template"]["spec"]["containers"]
    return containers


def test_an_exporter_beside_each_sentinel_queries_it_and_has_a_service_of_its_own() -> None:
    redis = _with_sentinel_exporter()
    _, exporter = _sentinel_containers(redis)
    assert exporter["image"] == FACTS.exporter_image
    variables = {variable["name"]: variable for variable in exporter["env"]}
    assert variables["REDIS_ADDR"]["value"] == "redis://localhost:26379"
    password = variables["REDIS_PASSWORD"]["valueFrom"]
    assert password == {"secretKeyRef": {"name": "cache-users", "key": "exporter"}}
    assert "volumeMounts" not in exporter
    services = {s["metadata"]["name"]: s["spec"] for s in by_kind(redis, "Service")}
    assert "cache-stats" not in services, "no exporter runs beside servers"
    stats = services["cache-sentinel-stats"]
    assert stats["selector"]["redisoperator.dev/component"] == "sentinel"
    assert [port["name"] for port in stats["ports"]] == ["metrics"]
    [policy] = by_kind(redis, "NetworkPolicy")
    open_ports = [p["port"] for rule in policy["spec"]["ingress"] for p in rule["ports"]]
    assert names.EXPORTER_PORT in open_ports


def test_the_exporter_of_sentinels_is_the_one_that_was_asked_for() -> None:
    asked = {
        "image": "mine:2",
        "resources": {"limits": {"memory": "64Mi"}},
        "args": ["--debug"],
        "env": [{"name": "A", "value": "1"}],
    }
    _, exporter = _sentinel_containers(_with_sentinel_exporter(**asked))
    assert exporter["image"] == "mine:2"
    assert exporter["resources"] == {"limits": {"memory": "64Mi"}}
    assert exporter["args"] == ["--debug"]
    assert exporter["env"][-1] == {"name": "A", "value": "1"}
    as_servers = database(
        mode="Failover",
        shards=1,
        monitoring={"exporterImage": "theirs:3"},
        sentinel={"exporter": {"enabled": True}},
    )
    _, exporter = _sentinel_containers(as_servers)
    assert exporter["image"] == "theirs:3"


def test_the_service_of_sentinels_leads_to_those_whose_exporter_is_broken() -> None:
    """IN-25"""
    redis = _with_sentinel_exporter()
    usual = {"cache-nodes", "cache-sentinel-stats"}
    broken = msgspec.structs.replace(FACTS, sentinel_sidecar_broken=True)
    for facts, others in ((FACTS, set()), (broken, {"cache-sentinel"})):
        services = by_kind(redis, "Service", facts)
        found = {s["metadata"]["name"] for s in services if "publishNotReadyAddresses" in s["spec"]}
        assert found == usual | others


@pytest.mark.parametrize(
    ("broken", "kept"),
    [
        ({}, set()),
        ({"sidecar_broken": True}, {"cache"}),
        ({"sentinel_sidecar_broken": True}, {"cache-sentinel"}),
    ],
    ids=["none", "of a server", "of a sentinel"],
)
def test_a_drain_does_not_take_all_pods_whose_sidecar_is_broken(
    broken: dict[str, bool], kept: set[str]
) -> None:
    """They are not ready and serve: with AlwaysAllow they would all be evicted at once. IN-25"""
    facts = msgspec.structs.replace(FACTS, **broken)
    budgets = by_kind(_with_sentinel_exporter(), "PodDisruptionBudget", facts)
    policies = {b["metadata"]["name"]: b["spec"]["unhealthyPodEvictionPolicy"] for b in budgets}
    assert {name for name, policy in policies.items() if policy == "IfHealthyBudget"} == kept
    assert {*policies.values()} <= {"IfHealthyBudget", "AlwaysAllow"}
    assert len(policies) == 2


@pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.value)
def test_services_lead_to_servers_whose_sidecar_is_broken(mode: Mode) -> None:
    """IN-25"""
    shape = {Mode.STANDALONE: {"shards": 1, "replicas": 0}, Mode.FAILOVER: {"shards": 1}}
    asked = database(mode=mode.value, **shape.get(mode, {}))
    usual = {"cache-nodes"}  # servers find each other before they are ready
    broken = msgspec.structs.replace(FACTS, sidecar_broken=True)
    for facts, others in ((FACTS, set()), (broken, {"cache", "cache-primaries", "cache-replicas"})):
        services = by_kind(asked, "Service", facts)
        found = {s["metadata"]["name"] for s in services if "publishNotReadyAddresses" in s["spec"]}
        assert found == (usual | others) & {s["metadata"]["name"] for s in services}


def test_a_given_password_needs_no_secret_to_be_written_in() -> None:
    found = [
        o["metadata"]["name"] for o in by_kind(database(auth={"secretName": "mine"}), "Secret")
    ]
    assert found == ["cache-recovery", "cache-users", "cache-admin", "cache-conn"]


def test_a_binding_names_an_address_where_there_is_no_dns() -> None:
    facts = msgspec.structs.replace(FACTS, client_address="127.9.0.7")
    [secret] = [
        o for o in by_kind(database(), "Secret", facts) if o["metadata"]["name"] == "cache-conn"
    ]
    values = {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
    assert values["host"] == "127.9.0.7"
    assert values["uri"].endswith("@127.9.0.7:6379")


def test_the_connection_secret_has_the_service_binding_layout() -> None:
    facts = msgspec.structs.replace(FACTS, passwords=Passwords("p@ss/w:rd", "b", "c", "d", "e"))
    [secret] = [
        o for o in by_kind(database(), "Secret", facts) if o["metadata"]["name"] == "cache-conn"
    ]
    values = {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
    assert values["uri"] == "redis://default:p%40ss%2Fw%3Ard@cache.prod.svc:6379"
    assert {"type", "provider", "host", "port", "username", "password", "uri"} <= set(values)


def test_pods_are_restricted() -> None:
    pod = template(database(monitoring={"exporter": True}))["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["readOnlyRootFilesystem"] is True


def test_files_are_named_only_where_they_are_mounted() -> None:
    [server] = template(database())["spec"]["containers"]
    mounts = [mount["mountPath"] for mount in server["volumeMounts"]]
    for text in strings([server["command"], [e.get("value", "") for e in server["env"]]]):
        assert not text.startswith("/") or any(text.startswith(mount) for mount in mounts), text
    [files] = by_kind(database(), "ConfigMap")
    assert "/data" not in str(files["data"])
    assert "/redis/" not in str(files["data"])


def test_only_listening_decides_life_and_death() -> None:
    [server] = template(database())["spec"]["containers"]
    for probe in ("startupProbe", "livenessProbe"):
        assert server[probe]["tcpSocket"] == {"port": "redis"}
    assert (
        server["startupProbe"]["periodSeconds"] * server["startupProbe"]["failureThreshold"] > 3600
    )


def test_copies_of_one_shard_stay_apart() -> None:
    pod = template(database())["spec"]
    first = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
    labels = first["podAffinityTerm"]["labelSelector"]["matchLabels"]
    assert labels == {"redisoperator.dev/database": "cache", "redisoperator.dev/shard": "0"}
    [spread] = pod["topologySpreadConstraints"]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"


def test_a_person_may_replace_affinity_and_add_to_the_pod() -> None:
    pod = {
        "affinity": {"nodeAffinity": {}},
        "sidecars": [{"name": "log", "image": "log:1"}],
        "initContainers": [{"name": "first", "image": "a:1"}],
        "volumes": [{"name": "extra", "emptyDir": {}}],
        "env": [{"name": "TZ", "value": "UTC"}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a"}],
        "priorityClassName": "high",
        "serviceAccountName": "mine",
        "securityContext": {"runAsUser": 1234},
        "labels": {"team": "a"},
        "annotations": {"note": "b"},
    }
    found = template(database(pod=pod))
    spec = found["spec"]
    assert spec["affinity"] == {"nodeAffinity": {}}
    assert [c["name"] for c in spec["containers"]] == ["server", "log"]
    assert spec["initContainers"][0]["name"] == "first"
    assert spec["volumes"][-1]["name"] == "extra"
    assert spec["containers"][0]["env"][-1] == {"name": "TZ", "value": "UTC"}
    assert (spec["nodeSelector"], spec["priorityClassName"]) == ({"disk": "ssd"}, "high")
    assert (spec["serviceAccountName"], spec["securityContext"]["runAsUser"]) == ("mine", 1234)
    assert found["metadata"]["labels"]["team"] == "a"
    assert found["metadata"]["annotations"]["note"] == "b"


def test_volumes_are_claimed_and_never_deleted_with_their_statefulset() -> None:
    storage = {"size": "10Gi", "className": "fast"}
    spec = by_kind(database(storage=storage), "StatefulSet")[0]["spec"]
    [claim] = spec["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["metadata"]["annotations"] == {"redisoperator.dev/identity": "uid-1"}
    assert spec["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }
    memory_only = by_kind(database(), "StatefulSet")[0]["spec"]
    assert "volumeClaimTemplates" not in memory_only
    assert {"name": "data", "emptyDir": {}} in memory_only["template"]["spec"]["volumes"]


def test_a_shard_that_is_being_drained_keeps_its_objects() -> None:
    facts = msgspec.structs.replace(FACTS, pods={4: 2, 0: 3})
    found = {
        o["metadata"]["name"]: o["spec"]["replicas"]
        for o in by_kind(database(), "StatefulSet", facts)
    }
    assert found == {"cache-0": 3, "cache-1": 2, "cache-2": 2, "cache-4": 2}


def test_a_sleeping_database_has_no_pods_and_keeps_the_rest() -> None:
    redis = database(storage={"size": "1Gi"}, hibernate=True)
    assert {o["spec"]["replicas"] for o in by_kind(redis, "StatefulSet")} == {0}
    awake = [o["kind"] for o in build(database(storage={"size": "1Gi"}), FACTS)]
    assert [o["kind"] for o in build(redis, FACTS)] == awake


def test_hostnames_are_announced_only_when_every_server_can_hear_them() -> None:
    """A server of redis 7.0 that has a hostname is not understood by one of 6.2."""
    r70 = Version("redis", 7, 0)
    for running, mark in (((R62,), True), ((r70,), False), ((), False)):
        facts = msgspec.structs.replace(FACTS, version=r70, running=running)
        [files] = by_kind(database(engine="redis"), "ConfigMap", facts)
        assert ("without-hostnames" in files["data"]) is mark


def test_a_database_goes_to_sleep_only_when_the_plan_says_so() -> None:
    """Slots may be on their way: the plan scales, the intent follows."""
    redis = database(storage={"size": "1Gi"}, hibernate=True)
    facts = msgspec.structs.replace(FACTS, pods={0: 2, 1: 2, 2: 0})
    found = [o["spec"]["replicas"] for o in by_kind(redis, "StatefulSet", facts)]
    assert found == [2, 2, 0]


def test_files_of_the_version_that_still_runs_are_kept() -> None:
    facts = msgspec.structs.replace(FACTS, running=(V81, V91))
    [files] = by_kind(database(), "ConfigMap", facts)
    assert {"valkey-8.1.conf", "valkey-9.1.conf"} <= set(files["data"])
    assert "shutdown-on-sigterm" in files["data"]["valkey-9.1.conf"]
    assert "shutdown-on-sigterm" not in files["data"]["valkey-8.1.conf"]
    users = by_kind(database(), "Secret", facts)[1]["data"]
    assert {"valkey-8.1.acl", "valkey-9.1.acl"} <= set(users)


def test_optional_parts_go_when_they_are_switched_off() -> None:
    spec = {"networkPolicy": {"enabled": False}, "disruptionBudget": {"enabled": False}}
    kinds = {o["kind"] for o in build(database(**spec), FACTS)}
    assert not kinds & {"NetworkPolicy", "PodDisruptionBudget"}
    assert "Service/cache-stats" in stamps(database(monitoring={"exporter": True}))


def test_only_servers_of_the_same_database_reach_the_bus() -> None:
    [policy] = by_kind(database(), "NetworkPolicy")
    reach = [
        rule["from"]
        for rule in policy["spec"]["ingress"]
        if {"port": 16379, "protocol": "TCP"} in rule["ports"]
    ]
    assert reach == [[{"podSelector": {"matchLabels": {"redisoperator.dev/database": "cache"}}}]]
