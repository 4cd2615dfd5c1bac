"""What admission says of a write, by the same rules as the controller."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from redis_operator.api.shape import Problem
from redis_operator.api.version import RedisVersionSpec, read_entry
from redis_operator.operator.admission.verdicts import (
    Database,
    Verdict,
    judge_catalog,
    judge_redis,
    judge_redis_failover,
    judge_schedule,
)

SAFE = {"resources": {"limits": {"memory": "256Mi"}}}
NINE: dict[str, Any] = {"engine": "valkey", "version": "9.1"}


def redis(*, status: Any = None, meta: Any = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "cache", "namespace": "default", **(meta or {})}
    whole = {"mode": "Cluster", "shards": 3, "replicas": 1, **NINE, **SAFE, **spec}
    whole = {name: value for name, value in whole.items() if value is not None}
    found: dict[str, Any] = {"metadata": metadata, "spec": whole}
    return found if status is None else {**found, "status": status}


def version(name: str, number: str, image: str = "", **more: Any) -> dict[str, Any]:
    spec = {"engine": "valkey", "version": number, "image": image or f"valkey:{number}", **more}
    return {"metadata": {"name": name}, "spec": spec}


def refused(verdict: Verdict) -> list[str]:
    return [problem.path for problem in verdict.problems]


REFUSED = {
    "a setting that the engine does not have": (
        {"config": {"maxmemory-polcy": "noeviction"}},
        "spec.config.maxmemory-polcy",
        "is not a directive of valkey 9.1",
    ),
    "a value that the server would not take": (
        {"config": {"maxmemory-policy": "sometimes"}},
        "spec.config.maxmemory-policy",
        "",
    ),
    "too little memory": (
        {"resources": {"limits": {"memory": "16Mi"}}},
        "spec.resources.limits.memory",
        "at least 96Mi",
    ),
    "a version that is too old": ({"version": "6.0"}, "spec.version", "too old"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cel_cannot_say_is_refused_with_the_path_of_the_field(name: str) -> None:
    spec, path, text = REFUSED[name]
    verdict = judge_redis(redis(**spec), None, [])
    assert refused(verdict) == [path]
    assert text in verdict.problems[0].message


def test_a_setting_is_judged_by_the_version_that_would_run() -> None:
    asked = redis(version=None, config={"slot-migration-max-failover-repl-bytes": "0"})
    assert refused(judge_redis(asked, None, [])) == []
    [problem] = judge_redis(asked, None, [], chosen="8.1").problems
    assert "is not a directive of valkey 8.1" in problem.message


RUNNING = {
    "engine": "valkey",
    "version": "9.1.2",
    "pods": [{"name": "cache-0-0", "version": "9.1.2"}],
}
STEPS = [
    ({"version": "8.1"}, "spec.version", "cannot read its data"),
    ({"engine": "redis", "version": "8.0"}, "spec.engine", "import it key by key"),
    ({"version": "9.2", "image": "mine:9.2"}, "", ""),
]


@pytest.mark.parametrize(("change", "path", "text"), STEPS, ids=["down", "engine", "up"])
def test_a_version_that_cannot_follow_what_runs_is_refused(
    change: dict[str, Any], path: str, text: str
) -> None:
    before = redis(status=RUNNING)
    verdict = judge_redis(redis(status=RUNNING, **change), before, [])
    assert refused(verdict) == ([path] if path else [])
    assert all("cache-0-0 runs valkey 9.1.2" in p.message for p in verdict.problems)
    assert all(text in p.message for p in verdict.problems)


def test_a_version_that_nobody_runs_yet_may_be_taken_back() -> None:
    before = redis(version="9.1", status={"version": "", "pods": []})
    assert refused(judge_redis(redis(version="8.1"), before, [])) == []
    failed = redis(version="9.1", status={"engine": "valkey", "version": "8.1.1"})
    assert refused(judge_redis(redis(version="8.1"), failed, [])) == []


def test_volumes_that_would_shrink_are_refused_though_cel_was_not_asked() -> None:
    before = redis(storage={"size": "2Gi"})
    verdict = judge_redis(redis(storage={"size": "1Gi"}), before, [])
    assert refused(verdict) == ["spec.storage.size"]


def test_what_was_wrong_before_is_told_and_does_not_hold_up_another_change() -> None:
    """An object of an older operator may be unprotected, paused and deleted."""
    wrong = {"config": {"no-such-setting": "1"}}
    before = redis(deletion={"protected": True}, **wrong)
    verdict = judge_redis(redis(deletion={"protected": False}, **wrong), before, [])
    assert verdict.problems == ()
    assert any("spec.config.no-such-setting" in text for text in verdict.warnings)
    worse = judge_redis(redis(config={"no-such-setting": "1", "nor-this": "1"}), before, [])
    assert refused(worse) == ["spec.config.nor-this"]


@pytest.mark.parametrize("how", ["labels", "ending"])
def test_who_changes_no_spec_is_never_refused(how: str) -> None:
    wrong = redis(config={"no-such-setting": "1"}, resources={})
    after = copy.deepcopy(wrong)
    if how == "labels":
        after["metadata"]["labels"] = {"team": "blue"}
    else:
        after["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        after["spec"]["config"] = {"another": "2"}
    assert judge_redis(after, wrong, []) == Verdict()


def test_a_version_that_nobody_describes_is_warned_of_and_let_in() -> None:
    verdict = judge_redis(redis(version="9.9"), None, [])
    assert verdict.problems == ()
    assert any("no RedisVersion describes valkey 9.9" in text for text in verdict.warnings)
    described = [RedisVersionSpec(read_entry(version("x", "9.9")).engine, "9.9", "valkey:9.9")]
    assert judge_redis(redis(version="9.9"), None, described) == Verdict()


RISKS = {
    "memory": ({"resources": {}}, "spec.resources.limits.memory"),
    "no replicas": ({"replicas": 0}, "spec.replicas"),
    "starts empty": ({"durability": {"onDataLoss": "StartEmpty"}}, "spec.durability.onDataLoss"),
    "every replica": (
        {"durability": {"minReplicasToWrite": 1}},
        "spec.durability.minReplicasToWrite",
    ),
    "even": (
        {"mode": "Failover", "shards": 1, "sentinel": {"replicas": 4, "quorum": 3}},
        "spec.sentinel.replicas",
    ),
}


@pytest.mark.parametrize("name", RISKS)
def test_what_is_risky_is_warned_of_once(name: str) -> None:
    change, path = RISKS[name]
    verdict = judge_redis(redis(**change), None, [])
    assert verdict.problems == ()
    assert any(text.startswith(f"{path}: ") for text in verdict.warnings)
    later = judge_redis(redis(paused=True, **change), redis(**change), [])
    assert later == Verdict(), "it was told when it was chosen"


def test_a_database_without_any_risk_is_let_in_without_a_word() -> None:
    assert judge_redis(redis(), None, []) == Verdict()


def test_a_deprecated_version_is_warned_of() -> None:
    entry = read_entry(version("old", "9.1", deprecated=True))
    assert entry is not None
    [told] = judge_redis(redis(), None, [entry]).warnings
    assert "deprecated" in told


def test_what_is_given_up_is_said_when_it_is_given_up() -> None:
    before = redis()
    for text, said in (("0-100", "is accepted"), ("rubbish", "is not followed")):
        meta = {"annotations": {"redisoperator.dev/accept-data-loss": text}}
        after = redis(meta=meta)
        [told] = judge_redis(after, before, []).warnings
        assert said in told
        assert judge_redis(after, after, []) == Verdict()


# RedisFailover


def failover(**parts: Any) -> dict[str, Any]:
    spec = {"redis": {"image": "valkey/valkey:8.1.1", **SAFE}, **parts}
    return {"metadata": {"name": "queue", "namespace": "default"}, "spec": spec}


def test_a_redisfailover_is_refused_with_its_own_paths() -> None:
    wrong = failover(redis={"image": "valkey/valkey:8.1.1", "customConfig": ["no-such-thing 1"]})
    verdict = judge_redis_failover(wrong, None, None, [])
    assert len(verdict.problems) == 1
    assert verdict.problems[0].path.startswith("spec.redis.customConfig")
    assert "no-such-thing" in verdict.problems[0].message
    assert judge_redis_failover(failover(), None, None, []) == Verdict()
    risky = failover(redis={"image": "valkey/valkey:8.1.1"})
    [warning] = judge_redis_failover(risky, None, None, []).warnings
    assert warning.startswith("spec.redis.resources.limits.memory: ")
    assert "spec.config" not in warning, "it is told in the words of this kind"


def test_a_redisfailover_whose_version_cannot_follow_is_refused() -> None:
    running = {"engine": "valkey", "version": "9.1.2"}
    spec = {"mode": "Failover", "replicas": 2, **NINE, **SAFE}
    found = {**redis(), "spec": spec, "status": running}
    before = failover(redis={"image": "valkey/valkey:9.1.2", **SAFE})
    verdict = judge_redis_failover(failover(), before, found, [])
    assert len(verdict.problems) == 1
    assert "cannot read its data" in verdict.problems[0].message


# The catalog


def of(*raws: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {raw["metadata"]["name"]: raw for raw in raws}


OURS = version("house", "9.7")


def test_a_version_in_use_is_not_deleted_and_whoever_uses_it_is_named() -> None:
    users = [Database(redis(version="9.7")), Database(redis(version="9.1"))]
    [problem] = judge_catalog("house", None, of(OURS), users).problems
    assert problem == Problem(
        "RedisVersion house", "is in use by default/cache: give them another spec.version first"
    )
    assert judge_catalog("house", None, of(OURS), users[1:]) == Verdict()


def test_a_version_that_a_database_was_made_with_is_in_use() -> None:
    users = [Database(redis(version=None), chosen="9.7")]
    assert judge_catalog("house", None, of(OURS), users).problems


def test_a_version_in_use_by_a_spec_that_cannot_be_read_is_in_use() -> None:
    users = [Database(redis(version="9.7", shards=1))]
    assert judge_catalog("house", None, of(OURS), users).problems
    status = {"engine": "valkey", "version": "9.7.3"}
    users = [Database(redis(version=None, shards=1, status=status))]
    assert judge_catalog("house", None, of(OURS), users).problems


def test_an_entry_whose_end_would_replace_servers_is_in_use_too() -> None:
    mirror = version("mirror", "9.1", "mirror/valkey:9.1.7")
    users = [Database(redis(version="9.1"))]
    assert judge_catalog("mirror", None, of(mirror), users).problems
    same = version("same", "9.1", "valkey/valkey:9.1")
    same["spec"]["exporterImage"] = "other"
    assert judge_catalog("same", None, of(same), users) == Verdict()
    own = [Database(redis(version="9.1", image="mine:9.1"))]
    assert judge_catalog("mirror", None, of(mirror), own) == Verdict()


def test_another_image_is_let_in_with_the_databases_that_get_it() -> None:
    users = [Database(redis(version="9.7"))]
    newer = version("house", "9.7", "valkey:9.7.2")
    verdict = judge_catalog("house", newer, of(OURS), users)
    assert verdict.problems == ()
    assert verdict.warnings == ("servers of default/cache are replaced by the new image",)
    other = version("house", "9.8")
    assert judge_catalog("house", other, of(OURS), users).problems
    labelled = {**OURS, "metadata": {"name": "house", "labels": {"a": "b"}}}
    assert judge_catalog("house", labelled, of(OURS), users) == Verdict()


def test_many_users_are_counted() -> None:
    users = [Database(redis(version="9.7", meta={"name": f"db-{number}"})) for number in range(20)]
    [problem] = judge_catalog("house", None, of(OURS), users).problems
    assert "and 15 more" in problem.message


def test_an_archive_on_a_volume_is_allowed_with_a_warning_once() -> None:
    def schedule(storage: dict[str, Any], **spec: Any) -> dict[str, Any]:
        template = {"storage": storage}
        common = {"redis": "cache", "schedule": "@daily", "template": template}
        return {"metadata": {"namespace": "n", "name": "s"}, "spec": {**common, **spec}}

    volume: dict[str, Any] = {"claim": {"name": "backups"}}
    archive = schedule(volume, continuous=True)
    [warning] = judge_schedule(archive, None).warnings
    assert "ReadWriteMany" in warning
    assert judge_schedule(schedule(volume), None) == Verdict()
    assert judge_schedule(schedule({"s3": {"bucket": "b-1"}}, continuous=True), None) == Verdict()
    changed = schedule(volume, continuous=True, suspend=True)
    assert judge_schedule(changed, archive) == Verdict()
    broken = schedule(volume, continuous=True, archive={"spoolSize": "1Ki"})
    assert refused(judge_schedule(broken, archive)) == ["spec.archive.spoolSize"]
