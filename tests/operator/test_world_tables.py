"""What is read out of the caches, as tables: which objects are whose, and which are in use."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operator.cached import Cached, labelled

from kubecontroller.client.meta import ObjectMeta
from kubecontroller.client.objects import Pod, PodStatus
from kubecontroller.runtime.changes import Added, Deleted, Updated
from redis_operator.api.crd import crds
from redis_operator.api.metadata import Metadata
from redis_operator.operator.backups.restores import newest_of
from redis_operator.operator.world import (
    CHILD_KINDS,
    REDIS_BACKUP_SCHEDULES,
    REDIS_BACKUPS,
    REDIS_FAILOVERS,
    REDIS_RESTORES,
    REDIS_VERSIONS,
    REDISES,
    backed_up_by,
    hold_changed,
    origin_of,
)
from redis_operator.planning.backups.schedules import OWNER_LABEL, SCHEDULE_LABEL

KEY = ("default", "db")
KINDS = (
    *(REDISES, REDIS_FAILOVERS, REDIS_BACKUPS, REDIS_BACKUP_SCHEDULES),
    *(REDIS_RESTORES, REDIS_VERSIONS),
)
S3 = {"s3": {"bucket": "b", "endpoint": "https://s", "credentialsSecretName": "c"}}
VOLUME = {"claim": {"name": "v"}}


@pytest.fixture
def here() -> Cached:
    return Cached()


def raw(name: str, spec: Any = None, status: Any = None, **meta: Any) -> dict[str, Any]:
    found = {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **meta}}
    if spec is not None:
        found["spec"] = spec
    if status is not None:
        found["status"] = status
    return found


# Backups and schedules


@pytest.mark.parametrize(
    ("backups", "schedules", "needs"),
    [
        ([], [], False),
        ([raw("b", {"redis": "db"})], [], True),
        ([], [raw("s", {"redis": "db"})], True),
        ([raw("b", {"redis": "other"})], [raw("s", {"redis": "other"})], False),
        (None, [], None),
        ([], None, None),
        (None, [raw("s", {"redis": "db"})], True),
    ],
)
def test_a_database_needs_a_user_for_backups_once_something_backs_it_up(
    here: Cached, backups: Any, schedules: Any, *, needs: bool | None
) -> None:
    if backups is not None:
        here.show(here.world.backups, *backups)
    if schedules is not None:
        here.show(here.world.schedules, *schedules)
    assert here.world.needs_backup_user(KEY) is needs


def test_schedules_that_archive_a_database(here: Cached) -> None:
    here.show(
        here.world.schedules,
        raw("a", {"redis": "db", "continuous": True}),
        raw("b", {"redis": "db", "continuous": False}),
        raw("c", {"redis": "db"}),
        raw("d", {"redis": "other", "continuous": True}),
    )
    assert here.world.archives_of(KEY) == [("default", "a")]


def test_backups_of_a_schedule_are_those_of_this_very_one(here: Cached) -> None:
    def backup(name: str, uid: str, **meta: Any) -> Any:
        return raw(name, {"redis": "db"}, labels={OWNER_LABEL: uid}, **meta)

    here.show(
        here.world.backups,
        backup("a", "u1"),
        backup("b", "u2"),
        backup("c", "u1", namespace="elsewhere"),
        raw("d", {"redis": "db"}),
        raw("e", {"redis": "before"}, labels={OWNER_LABEL: "u1"}),  # spec.redis was changed since
    )

    class Spec:
        redis = "db"

    class Schedule:
        metadata = Metadata(name="s", namespace="default", uid="u1")
        spec = Spec

    found = here.world.backups_of_schedule(Schedule())  # type: ignore[arg-type]
    assert [one["metadata"]["name"] for one in found] == ["a"]
    Schedule.metadata = Metadata(name="s", namespace="default", uid="None")
    assert here.world.backups_of_schedule(Schedule()) == []  # type: ignore[arg-type]


HELD = {"holdsSlots": True}


@pytest.mark.parametrize(
    ("backups", "name"),
    [
        ([], ""),
        ([raw("a", {"redis": "db"}, HELD)], "a"),
        ([raw("a", {"redis": "db"}), raw("b", {"redis": "db"}, HELD)], "b"),
        ([raw("a", {"redis": "other"}, HELD)], ""),
        ([raw("a", {"redis": "db"}, {"holdsSlots": False})], ""),
        ([raw("a", {"redis": "db"}, HELD, deletionTimestamp="2026-01-01T00:00:00Z")], ""),
    ],
)
def test_a_backup_that_holds_slots(here: Cached, backups: Any, name: str) -> None:
    here.show(here.world.backups, *backups)
    assert here.world.backup_that_holds(KEY) == name


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (Updated(raw("a"), raw("a", status=HELD)), True),
        (Updated(raw("a", status=HELD), raw("a", status=HELD)), False),
        (Updated(raw("a"), raw("a", status={})), False),
        (Added(raw("a")), True),
        (Deleted(raw("a")), True),
    ],
)
def test_a_change_of_what_holds_slots_counts(change: Any, *, counts: bool) -> None:
    assert hold_changed(change) == counts


@pytest.mark.parametrize(
    ("found", "key"),
    [
        (raw("a", {"redis": "db"}), KEY),
        (raw("a"), ("default", "")),
        ({"spec": {"redis": "db"}}, ("", "db")),
        ({}, ("", "")),
    ],
)
def test_the_database_of_a_backup(found: Any, key: Any) -> None:
    assert backed_up_by(found) == (key,)


@pytest.mark.parametrize(
    ("begins", "told", "name"),
    [
        ({}, None, ""),
        ({"name": "b"}, None, "b"),
        ({"schedule": "s"}, {"restore": {"backup": "c"}}, "c"),
        ({"schedule": "s"}, None, ""),
        ({}, {"restore": {"backup": "c"}}, ""),
        ({"name": "b"}, {"restore": {"backup": "c"}}, "b"),
    ],
)
def test_the_backup_that_a_database_begins_with(begins: Any, told: Any, name: str) -> None:
    assert origin_of(raw("db", {"bootstrap": {"fromBackup": begins}}, told)) == name
    assert origin_of(raw("db")) == origin_of(raw("db", {"bootstrap": None})) == ""


def begins(name: str, origin: Any, status: Any = None, **meta: Any) -> Any:
    return raw(name, {"bootstrap": {"fromBackup": origin}}, status, **meta)


def kept(name: str, path: str, storage: Any = S3, **meta: Any) -> Any:
    return raw(name, {"redis": "db", "storage": storage}, {"path": path}, **meta)


@pytest.mark.parametrize(
    ("redises", "backups", "restores", "names"),
    [
        ([begins("a", {"name": "b"})], [], [], {"b"}),
        ([begins("a", {"name": "b"}, {"binding": {"name": "x"}})], [], [], set()),
        ([begins("a", {"name": "b"}, {"binding": None})], [], [], {"b"}),
        ([begins("a", {"name": "b"}, namespace="else")], [], [], set()),
        ([begins("a", {})], [], [], set()),
        ([begins("a", {"storage": S3, "path": "/p/"})], [kept("k", "p")], [], {"k"}),
        (
            [begins("a", {"storage": S3, "path": "p"}, namespace="else")],
            [kept("k", "p")],
            [],
            {"k"},
        ),
        ([begins("a", {"storage": S3, "path": "p"})], [kept("k", "q")], [], set()),
        ([begins("a", {"storage": S3, "path": "p"})], [kept("k", "p", VOLUME)], [], set()),
        ([begins("a", {"storage": S3, "path": "p"})], [kept("k", "p", {"s3": 7})], [], set()),
        ([begins("a", {"storage": {"s3": 7}, "path": "p"})], [kept("k", "p")], [], set()),
        ([begins("a", {"storage": S3})], [kept("k", "")], [], set()),
        (
            [begins("a", {"storage": S3, "path": "p"})],
            [kept("k", "p", namespace="else")],
            [],
            set(),
        ),
        ([begins("a", {"storage": VOLUME, "path": "p"})], [kept("k", "p", VOLUME)], [], {"k"}),
        (
            [begins("a", {"storage": VOLUME, "path": "p"}, namespace="else")],
            [kept("k", "p", VOLUME)],
            [],
            set(),
        ),
        ([], [], [raw("r", status={"phase": "Filling", "backup": "x", "kept": "y"})], {"x", "y"}),
        ([], [], [raw("r", status={"phase": "Filling", "kept": "y"})], {"y"}),
        ([], [], [raw("r", {"from": {"name": "x"}})], {"x"}),
        ([], [], [raw("r", {"from": {"name": "x"}}, status={"phase": "Failed"})], set()),
        ([], [], [raw("r")], set()),
        ([], [], [raw("r", status={"phase": "Completed", "backup": "x"})], set()),
        ([], [], [raw("r", status={"phase": "Failed", "backup": "x"})], set()),
        ([], [], [raw("r", status={"backup": "x"}, namespace="else")], set()),
    ],
)
def test_backups_that_are_in_use_are_named(
    here: Cached, redises: Any, backups: Any, restores: Any, names: set[str]
) -> None:
    here.show(here.world.redises, *redises)
    here.show(here.world.backups, *backups)
    here.show(here.world.restores, *restores)
    assert here.world.backups_in_use("default") == names


SCHEDULE = {"redis": "db", "schedule": "@daily", "template": {"storage": VOLUME}}


@pytest.mark.parametrize(
    ("begun", "schedules", "found"),
    [
        ("", [raw("s", SCHEDULE)], "mine"),
        ("theirs", [raw("s", SCHEDULE)], "theirs"),
        ("", [], "theirs"),
    ],
    ids=["of its database", "one that a restore began with", "a schedule that is gone"],
)
def test_the_newest_backup_of_a_schedule_is_of_its_database(
    here: Cached, begun: str, schedules: list[Any], found: str
) -> None:
    """After spec.redis was changed the newest one may be of another database."""

    def backup(name: str, redis: str, ended: str) -> Any:
        spec = {"redis": redis, "storage": VOLUME}
        status = {"phase": "Completed", "completionTime": ended}
        return raw(name, spec, status=status, labels={SCHEDULE_LABEL: "s"})

    here.show(here.world.schedules, *schedules)
    here.show(
        here.world.backups,
        backup("mine", "db", "2026-01-01T00:00:00Z"),
        backup("theirs", "other", "2026-01-02T00:00:00Z"),
    )
    assert newest_of(here.world, "default", "s", begun=begun) == found


# Pods


def pod(name: str = "db-0", version: str = "5", uid: str = "u", **changes: Any) -> Pod:
    fields = {"phase": "Running", "pod_ip": "10.0.0.1", **changes}
    deleting = fields.pop("deleting", None)
    meta = ObjectMeta(
        name=name,
        namespace="default",
        uid=uid,
        resource_version=version,
        labels={"redisoperator.dev/database": "db"},
        deletion_timestamp=deleting,
    )
    return Pod(metadata=meta, status=PodStatus(**fields))


def test_addresses_are_those_of_pods_that_run(here: Cached) -> None:
    here.show(
        here.world.pods,
        pod("a"),
        pod("b", phase="Pending"),
        pod("c", pod_ip=""),
        pod("d", deleting="2026-01-01T00:00:00Z"),
    )
    assert here.world.addresses(KEY) == {"a": "10.0.0.1"}


@pytest.mark.parametrize(
    ("written", "cached", "shown"),
    [("7", "5", "7"), ("7", "7", "7"), ("7", "9", "9")],
    ids=["newer", "the same", "older"],
)
async def test_a_pod_is_as_we_wrote_it_until_the_cache_has_it(
    here: Cached, written: str, cached: str, shown: str
) -> None:
    here.show(here.world.pods, pod())
    here.world.wrote(pod(version=written, phase="Odd"))
    here.show(here.world.pods, pod(version=cached))
    (found,) = here.world.pods_of(KEY)
    assert found.metadata.resource_version == shown
    assert (found.status.phase == "Odd") == (cached == "5")
    here.show(here.world.pods, pod(version="6"))
    (found,) = here.world.pods_of(KEY)
    assert found.metadata.resource_version == ("7" if cached == "5" else "6")


async def test_a_pod_of_that_name_that_is_another_one_is_shown(here: Cached) -> None:
    here.show(here.world.pods, pod())
    here.world.wrote(pod(version="7"))
    here.show(here.world.pods, pod(version="6", uid="new"))
    assert here.world.pods_of(KEY)[0].metadata.uid == "new"


async def test_what_was_written_is_forgotten_with_its_database(here: Cached) -> None:
    here.show(here.world.pods, pod(), pod("x"))
    here.world.wrote(pod(version="7"))
    here.world.forget(("default", "other"))
    assert [p.metadata.resource_version for p in here.world.pods_of(KEY)] == ["7", "5"]
    here.world.forget(KEY)
    assert [p.metadata.resource_version for p in here.world.pods_of(KEY)] == ["5", "5"]


async def test_a_pod_that_no_cache_has_is_not_remembered(here: Cached) -> None:
    here.show(here.world.pods)
    here.world.wrote(pod(version="7"))
    here.show(here.world.pods, pod(version="5"))
    assert here.world.pods_of(KEY)[0].metadata.resource_version == "5"


# Others


def test_storage_classes_are_unknown_until_they_are_listed(here: Cached) -> None:
    assert here.world.class_map() is None
    here.show(here.world.classes, {"metadata": {"name": "fast"}, "provisioner": "p"})
    assert list(here.world.class_map() or ()) == ["fast"]
    here.show(here.world.nodes, {"metadata": {"name": "n"}})
    assert list(here.world.node_map()) == ["n"]


def test_children_are_found_by_their_database(here: Cached) -> None:
    services = here.world.children["v1", "Service"]
    here.show(
        services, {"metadata": labelled("db"), "spec": {}}, {"metadata": labelled("o", "other")}
    )
    assert [s.metadata.name for s in here.world.children_of(("v1", "Service"), KEY)] == ["db"]
    assert here.world.child(("v1", "Service"), ("default", "o")) is not None
    assert here.world.child(("v1", "Service"), ("default", "none")) is None
    here.show(here.world.redises, raw("db"))
    assert here.world.redis(KEY) in here.world.all_redises()


def test_kinds_are_namespaced_as_their_definitions_say(here: Cached) -> None:
    scopes = {found["spec"]["names"]["kind"]: found["spec"]["scope"] for found in crds().values()}
    for kind in KINDS:
        assert kind.namespaced == (scopes[kind.kind] == "Namespaced"), kind.kind
    assert all(kind.namespaced for kind in CHILD_KINDS.values())
    world = here.world
    for caches in (world.backups, world.schedules, world.restores):
        assert caches.informers[0].optional  # definitions may come later
    assert not world.versions.optional
    assert world.claims_of(KEY) == []
    assert world.workers is not None
