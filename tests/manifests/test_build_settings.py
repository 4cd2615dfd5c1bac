"""What objects say of settings, memory, passwords and places of pods."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.test_build import FACTS, R62, V91, by_kind, database, template
from redis_operator.api.pod_rules import OUR_ENVIRONMENT
from redis_operator.api.redis import Durability, Persistence, Redis
from redis_operator.manifests import names
from redis_operator.manifests.build import build
from redis_operator.manifests.cluster import CLUSTER
from redis_operator.manifests.config import boot_digest, directives, live_directives
from redis_operator.manifests.memory import maxmemory_bytes
from redis_operator.manifests.secrets import password_limitation
from redis_operator.redis.config import parse
from redis_operator.redis.versions import Version

texts = st.text(
    alphabet=st.characters(min_codepoint=0x20, codec="utf-8", exclude_characters="\x7f"),
    max_size=40,
)


@given(st.dictionaries(st.sampled_from(["hz", "timeout", "notify-keyspace-events", "save"]), texts))
def test_no_value_brings_in_another_directive(config: dict[str, str]) -> None:
    durability = Durability(Persistence.RDB)
    spec = msgspec.structs.replace(database().spec, config=config, durability=durability)
    facts = msgspec.structs.replace(FACTS, accepted=config)
    [files] = by_kind(msgspec.structs.replace(database(), spec=spec), "ConfigMap", facts)
    found = {name for name, _ in parse(files["data"]["valkey-9.1.conf"])}
    assert found == set(directives(spec, V91))


@pytest.mark.parametrize("name", ["appendfilename", "appenddirname", "dir", "dbfilename", "save"])
def test_what_decides_where_data_are_reaches_no_file_however_it_came_here(name: str) -> None:
    asked = msgspec.structs.replace(database(storage={"size": "1Gi"}).spec, config={name: "x"})
    assert directives(asked, V91).get(name) != "x"


@pytest.mark.parametrize("version", [V91, R62], ids=str)
def test_names_that_the_template_uses_are_those_that_a_person_may_not(version: Version) -> None:
    facts = msgspec.structs.replace(FACTS, version=version)
    databases = (
        database(config={"tcp-backlog": 600}),
        database(mode="Failover", shards=1, config={"tcp-backlog": 600}),
    )
    names_used = {
        variable["name"]
        for redis in databases
        for found in by_kind(redis, "StatefulSet", facts)
        for variable in found["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert names_used <= OUR_ENVIRONMENT
    assert version is not V91 or names_used == OUR_ENVIRONMENT


def test_what_waits_for_failovers_follows_the_node_timeout() -> None:
    def waits(redis: Redis) -> dict[str, str]:
        env = template(redis)["spec"]["containers"][0]["env"]
        return {v["name"]: v["value"] for v in env if v["name"].endswith("_SECONDS")}

    assert waits(database()) == {"HANDOVER_SECONDS": "25", "FAILOVER_SECONDS": "31"}
    slower = database(config={"cluster-node-timeout": 15000})
    assert waits(slower) == {"HANDOVER_SECONDS": "75", "FAILOVER_SECONDS": "91"}


def test_what_is_live_and_what_is_not_adds_up() -> None:
    spec = database(config={"databases": 4, "hz": 20}).spec
    live = live_directives(spec, V91)
    assert live["hz"] == "20"
    assert "databases" not in live
    assert boot_digest(spec, V91) != boot_digest(database().spec, V91)
    assert boot_digest(database(config={"hz": 5}).spec, V91) == boot_digest(database().spec, V91)


def test_what_only_a_start_applies_is_part_of_the_pod_and_not_of_the_file_of_all_pods() -> None:
    redis = database(config={"databases": 4, "hz": 20, "syslog-ident": "$(POD_NAME)"})
    facts = msgspec.structs.replace(FACTS, accepted={"hz": "20", "databases": "4"})
    [files] = by_kind(redis, "ConfigMap", facts)
    found = {name for name, _ in parse(files["data"]["valkey-9.1.conf"])}
    assert "hz" in found
    assert not {"databases", "syslog-ident"} & found
    for document in by_kind(redis, "StatefulSet"):
        server = document["spec"]["template"]["spec"]["containers"][0]
        [told] = [env["value"] for env in server["env"] if env["name"] == "SETTINGS"]
        assert told == 'databases 4\nsyslog-ident "$$(POD_NAME)"\n'


def test_a_directive_that_was_removed_goes_back_to_its_default() -> None:
    spec = database(config={"hz": 20}).spec
    once = frozenset({"hz", "slowlog-max-len", "databases"})
    live = live_directives(spec, V91, once)
    assert live["hz"] == "20"
    assert live["slowlog-max-len"] == "128"
    assert "databases" not in live  # the pods without it are recreated
    assert boot_digest(spec, V91, once) == boot_digest(spec, V91)


def test_a_directive_whose_default_nobody_knows_goes_with_a_restart() -> None:
    spec, version = database().spec, Version("valkey", 9, 7)
    once = frozenset({"a-directive-of-tomorrow"})
    assert "a-directive-of-tomorrow" not in live_directives(spec, version, once)
    assert boot_digest(spec, version, once) != boot_digest(spec, version)


def test_the_config_map_remembers_what_was_ever_set() -> None:
    [found] = by_kind(database(config={"hz": 5}), "ConfigMap")
    assert found["metadata"]["annotations"][names.SETTINGS_ANNOTATION] == "hz"


def test_a_file_has_only_values_that_a_server_was_seen_to_take() -> None:
    redis = database(config={"maxmemory-policy": "keep-everything", "hz": 20, "timeout": 7})
    tried = msgspec.structs.replace(FACTS, accepted={"hz": "15", "timeout": "7", "maxmemory": "0"})
    [found] = [d for d in build(redis, tried) if d["kind"] == "ConfigMap"]
    lines = found["data"]["valkey-9.1.conf"].splitlines()
    assert {"maxmemory-policy noeviction", "hz 15", "timeout 7"} <= set(lines)
    kept = json.loads(found["metadata"]["annotations"][names.ACCEPTED_ANNOTATION])
    assert kept == {"hz": "15", "timeout": "7", "maxmemory": "0"}


def test_a_new_database_starts_without_settings_that_no_server_was_asked_about() -> None:
    """IN-27: one that servers refuse would keep all of them from starting."""
    [found] = by_kind(database(config={"hz": 20, "timeout": 5}), "ConfigMap")
    lines = found["data"]["valkey-9.1.conf"].splitlines()
    assert not [line for line in lines if line.startswith(("hz", "timeout"))]
    assert "maxmemory 0" in lines
    assert json.loads(found["metadata"]["annotations"][names.ACCEPTED_ANNOTATION]) == {}


def test_old_versions_get_no_directive_they_do_not_know() -> None:
    found = directives(database(config={"maxmemory-clients": "5%"}).spec, R62)
    assert not {"maxmemory-clients", "shutdown-on-sigterm"} & set(found)


@pytest.mark.parametrize(
    ("limit", "storage", "replicas", "expected"),
    [
        ("1Gi", True, 1, 716),
        ("1Gi", False, 0, 819),
        ("128Mi", False, 1, 70),
        ("8Gi", True, 1, 6451),
    ],
)
def test_maxmemory_leaves_room_for_saving(
    limit: str, storage: bool, replicas: int, expected: int
) -> None:
    spec = {"resources": {"limits": {"memory": limit}}, "replicas": replicas}
    redis = database(**spec, **({"storage": {"size": "1Gi"}} if storage else {}))
    assert maxmemory_bytes(redis.spec) == expected * 2**20


def test_without_a_limit_there_is_no_maxmemory() -> None:
    assert maxmemory_bytes(database().spec) == 0


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (None, "has no key"),
        (b"", "has no key"),
        (b"secret\n", "line end"),
        (b"a\x00b", "control character"),
        (b"\xff\xfe", "not text"),
        (b"x" * 600, "longer"),
    ],
)
def test_passwords_that_cannot_be_used_are_told(raw: bytes | None, why: str) -> None:
    assert why in (password_limitation(raw) or "")


def test_ordinary_passwords_are_fine() -> None:
    assert password_limitation("pässword with blanks".encode()) is None


@pytest.mark.parametrize(
    ("pod", "place"),
    [
        ("cache-0-1", names.Place(0, 1)),
        ("cache-12-0", names.Place(12, 0)),
        ("cache-b-0-1", None),
        ("cache-0", None),
        ("other-0-1", None),
        ("cache-0-x", None),
    ],
)
def test_a_pods_place_is_in_its_name(pod: str, place: names.Place | None) -> None:
    assert CLUSTER.place_of("cache", pod) == place
