"""The CRDs: made from the types, checked in, structural, and complete."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubelocal.apiserver.custom.cel.rules import compile_rules, evaluate
from redis_operator.api import (
    metadata,
    redis,
    redisbackup,
    redisbackupschedule,
    redisfailover,
    redisoperator,
    redisrestore,
    status,
    version,
)
from redis_operator.api.crd import crds, redis_crd
from redis_operator.api.describe import PLAIN_TEXT
from redis_operator.api.schema import ALL_FIELDS

ROOT = Path(__file__).parents[2]
KINDS = (
    "Redis",
    "RedisVersion",
    "RedisFailover",
    "RedisBackup",
    "RedisBackupSchedule",
    "RedisRestore",
    "RedisOperator",
)
MODULES = (
    redis,
    redisbackup,
    redisbackupschedule,
    redisfailover,
    redisoperator,
    redisrestore,
    status,
    version,
    metadata,
)
FREE_OBJECT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def structs() -> Iterator[type[msgspec.Struct]]:
    for module in MODULES:
        for name in module.__all__:
            member = getattr(module, name)
            if isinstance(member, type) and issubclass(member, msgspec.Struct):
                yield member


def test_generated_files_are_fresh() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "tools" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stale = [str(p) for p, text in module.generated().items() if p.read_text() != text]
    assert stale == [], "run `make generate`"


def test_every_field_is_described_and_nothing_else_is() -> None:
    own = {s.__name__: vars(s).get("__annotations__", ()) for s in structs()}
    known = {f"{struct}.{name}" for struct, names in own.items() for name in names}
    bare = {f"{kind}.{name}" for kind in KINDS for name in ("api_version", "kind", "metadata")}
    bare |= {name for name in known if name.startswith("Metadata.")} - {"Metadata.name"}
    assert known - bare == set(ALL_FIELDS)


def walk(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from walk(below, f"{path}.{name}")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from walk(schema["additionalProperties"], f"{path}.*")
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")


@pytest.mark.parametrize("name", sorted(crds()))
def test_schemas_are_structural(name: str) -> None:
    [entry] = crds()[name]["spec"]["versions"]
    for path, schema in walk(entry["schema"]["openAPIV3Schema"], ""):
        typed = "type" in schema or schema.get("x-kubernetes-int-or-string") is True
        assert typed, path
        assert not ("properties" in schema and "additionalProperties" in schema), path
        assert schema.get("default", 0) is not None, path


@pytest.mark.parametrize("name", ["redis.yaml", "redisfailovers.yaml"])
def test_every_string_of_the_spec_is_bounded_and_free_of_control_characters(name: str) -> None:
    [entry] = crds()[name]["spec"]["versions"]
    spec = entry["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for path, schema in walk(spec, "spec"):
        if schema.get("type") == "string" or schema.get("x-kubernetes-int-or-string"):
            assert "enum" in schema or ("pattern" in schema and "maxLength" in schema), path


def test_values_of_directives_are_free_of_control_characters() -> None:
    [entry] = redis_crd()["spec"]["versions"]
    spec = entry["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["properties"]["config"]["additionalProperties"]["pattern"] == PLAIN_TEXT


def test_columns_are_those_that_people_were_promised() -> None:
    [entry] = redis_crd()["spec"]["versions"]
    columns = entry["additionalPrinterColumns"]
    usual = [column["name"].upper() for column in columns if not column.get("priority")]
    wide = [column["name"].upper() for column in columns if column.get("priority")]
    assert usual == ["MODE", "ENGINE", "VERSION", "SHARDS", "REPLICAS", "READY", "PHASE", "AGE"]
    assert wide == ["PRIMARY", "SLOTS", "MEMORY", "MESSAGE"]


def test_column_and_scale_paths_lead_to_fields() -> None:
    for crd in crds().values():
        [entry] = crd["spec"]["versions"]
        schema = entry["schema"]["openAPIV3Schema"]
        paths = [column["jsonPath"] for column in entry["additionalPrinterColumns"]]
        paths += entry.get("subresources", {}).get("scale", {}).values()
        for path in paths:
            if path == ".metadata.creationTimestamp":
                continue  # of every object
            found = schema
            for name in path.strip(".").split("."):
                assert name in found["properties"], path
                found = found["properties"][name]


def admission(spec: dict[str, Any]) -> list[str]:
    """What an API server says of a spec by the rules of the CRD alone."""
    [entry] = redis_crd()["spec"]["versions"]
    document = {"metadata": {"name": "cache"}, "spec": {"mode": "Cluster", "shards": 3} | spec}
    causes = evaluate(entry["schema"]["openAPIV3Schema"], document, None)
    said = [f"{cause.field}: {cause.message}" for cause in causes]
    return [text.replace('Invalid value: "object": ', "") for text in said]


RDB = {"storage": {"size": "1Gi"}, "durability": {"persistence": "rdb"}}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"config": {"maxmemory-policy": "allkeys-lru", "hz": 20}}, ""),
        (RDB | {"config": {"save": "900 1 300 10"}}, ""),
        (
            RDB | {"config": {"save": ""}},
            "spec.config[save]: must be pairs",
        ),
        (
            RDB | {"config": {"save": 60}},
            "spec.config[save]: must be pairs",
        ),
        (
            {"config": {"save": "900 1"}},
            "spec.config[save]: needs spec.durability.persistence",
        ),
        (
            {"config": {"appenddirname": "x"}},
            "spec.config[appenddirname]: may not be set: the operator sets it",
        ),
        ({"config": {"appendonly": "no"}}, "use spec.durability.persistence"),
        (
            {"config": {"loadmodule": "/x.so"}},
            "spec.config[loadmodule]: may not be set: it endangers",
        ),
    ],
)
def test_directives_that_are_not_the_owners_are_refused_at_admission(
    spec: dict[str, Any], said: str
) -> None:
    causes = admission(spec)
    assert len(causes) == bool(said), causes
    assert all(said in cause and cause.startswith("spec.config[") for cause in causes)


@pytest.mark.parametrize("name", sorted(crds()))
def test_no_rule_says_the_path_that_the_api_server_says_before_it(name: str) -> None:
    [entry] = crds()[name]["spec"]["versions"]
    for path, schema in walk(entry["schema"]["openAPIV3Schema"], ""):
        for rule in schema.get("x-kubernetes-validations", ()):
            place = f"{path.lstrip('.')}{rule.get('fieldPath', '')}"
            plain = re.sub(r"\['([^']*)'\]", r".\1", place)
            assert not re.match(r"(spec|metadata|status)\b[^ ]*: ", rule["message"]), rule
            assert not re.search(re.escape(plain) + r"(?![\w.-])", rule["message"]), rule


def test_the_field_that_is_wrong_is_named_once() -> None:
    spec = {"mode": "Standalone", "shards": 4, "replicas": 0}
    assert admission(spec) == ["spec.shards: only mode Cluster has shards"]


def test_every_rule_of_the_crds_compiles() -> None:
    for crd in crds().values():
        [entry] = crd["spec"]["versions"]
        assert compile_rules(entry["schema"]["openAPIV3Schema"], at="schema") == []


def test_rules_hold_for_the_defaults_of_what_they_are_on() -> None:
    """A real API server refuses a definition whose own default breaks a rule, or lacks its field.

    Defaults are checked as they are written: nothing is filled in.
    """
    for crd in crds().values():
        [entry] = crd["spec"]["versions"]
        for path, schema in walk(entry["schema"]["openAPIV3Schema"], crd["spec"]["names"]["kind"]):
            if schema.get("default") != {}:
                continue
            for row in schema.get("x-kubernetes-validations", ()):
                told = "oldSelf" in row["rule"] or row["rule"].startswith("!has(self.")
                assert told, f"{path}: {row['rule']} needs a field that the default {{}} lacks"
