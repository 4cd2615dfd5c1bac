"""What a database should consist of is worked out once, and again whenever anything changes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from redis_operator.api.metadata import Metadata
from redis_operator.api.redis import Persistence, Redis
from redis_operator.api.validation import load
from redis_operator.manifests.build import build
from redis_operator.manifests.facts import Facts, Passwords
from redis_operator.manifests.pod import RESTARTED_ANNOTATION
from redis_operator.operator.objects.children import Children
from redis_operator.redis.versions import Version

VERSION = Version("valkey", 9, 1)
FACTS = Facts(
    version=VERSION, image="valkey:9.1", passwords=Passwords("a", "b", "c", "d", "e"), accepted={}
)


def database(**spec: Any) -> Redis:
    found = load({"metadata": {"name": "db"}, "spec": {"mode": "Cluster", "shards": 3} | spec})
    assert isinstance(found, Redis), found
    return replace(found, metadata=Metadata(name="db", namespace="default", uid="uid-1"))


def children() -> Children:
    unused: Any = None
    return Children(unused, unused, unused, labels={})


def test_nothing_is_worked_out_twice_while_nothing_changes() -> None:
    found = children()
    first = found._build(database(), FACTS)
    written = replace(database().metadata, resource_version="7", generation=2)
    assert found._build(replace(database(), metadata=written), replace(FACTS)) is first


@pytest.mark.parametrize(
    ("redis", "facts"),
    [
        (database(replicas=2), FACTS),
        (database(config={"maxmemory-policy": "noeviction"}), FACTS),
        (replace(database(), metadata=replace(database().metadata, uid="uid-2")), FACTS),
        (
            replace(
                database(),
                metadata=replace(database().metadata, annotations={RESTARTED_ANNOTATION: "now"}),
            ),
            FACTS,
        ),
        (database(), replace(FACTS, image="other:9.1")),
        (database(), replace(FACTS, passwords=Passwords("new", "b", "c", "d", "e"))),
        (database(), replace(FACTS, pods={0: 2, 1: 2, 2: 2, 3: 2})),
        (database(), replace(FACTS, running=(Version("valkey", 8, 1),))),
        (database(), replace(FACTS, identity="uid-0")),
        (database(), replace(FACTS, persistence=Persistence.RDB)),
    ],
)
def test_whatever_changes_is_in_what_is_worked_out(redis: Redis, facts: Facts) -> None:
    found = children()
    first = found._build(database(), FACTS)
    changed = found._build(redis, facts)
    assert changed == build(redis, facts) != first
    assert found._build(database(), FACTS) == first


def test_a_database_that_is_gone_is_forgotten() -> None:
    found = children()
    first = found._build(database(), FACTS)
    found.forget(("default", "db"))
    assert found._build(database(), FACTS) is not first
