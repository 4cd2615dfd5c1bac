"""The objects of a database: what is known from them, what is written, and what is deleted.

The caches are filled by hand, over an API server in this process; the same under the whole operator
is in `test_children.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.operator.cached import Cached, labelled

from kubecontroller.client.objects import SECRETS, SERVICES, STATEFUL_SETS
from kubecontroller.client.patches import MergePatch
from kubecontroller.runtime.applier import Applier
from redis_operator.api.metadata import Metadata
from redis_operator.api.redis import Mode, Persistence, Redis
from redis_operator.api.status import Binding, PodStatus, RedisStatus
from redis_operator.api.validation import load
from redis_operator.api.version import RedisVersionSpec
from redis_operator.manifests import names
from redis_operator.manifests.facts import Facts, Passwords
from redis_operator.operator.mode_change import as_run
from redis_operator.operator.objects.children import ChildError, Children
from redis_operator.operator.world import CHILD_KINDS
from redis_operator.planning.advice import ACCEPT_LOSS
from redis_operator.redis.versions import Version

KEY = ("default", "db")
PASSWORDS = Passwords("a", "b", "c", "d", "e", sentinel="s")
ENTRY = RedisVersionSpec(engine="valkey", version="9.1", image="valkey:9.1")
FACTS = Facts(Version("valkey", 9, 1), "valkey:9.1", PASSWORDS)
CONFIG_MAP = CHILD_KINDS["v1", "ConfigMap"].plain()
BUDGETS = CHILD_KINDS["policy/v1", "PodDisruptionBudget"].plain()
HOLD = {"durability": {"onDataLoss": "Hold"}}
START_EMPTY = {"durability": {"onDataLoss": "StartEmpty"}}
BOUND = RedisStatus(binding=Binding(name="db-conn"))


def redis(mode: str = "Cluster", status: RedisStatus | None = None, **spec: Any) -> Redis:
    shape = {"shards": 3} if mode == "Cluster" else {}
    found = load({"metadata": {"name": "db"}, "spec": {"mode": mode, **shape, **spec}})
    assert isinstance(found, Redis), found
    meta = Metadata(name="db", namespace="default", uid="uid-db")
    return replace(found, metadata=meta, status=status or RedisStatus())


class Room(Cached):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        applier = Applier(self.client, annotation=names.INTENT_ANNOTATION)
        self.children = Children(
            self.client, self.world, applier, namespace="ops", labels={"a": "b"}, **options
        )

    def facts(self, of: Redis | None = None, **more: Any) -> Facts:
        return self.children.facts(of or redis(), ENTRY, PASSWORDS, **more)

    def config_map(self, owner: str = "uid-db", **annotations: str) -> None:
        reference = {"apiVersion": "v1", "kind": "Redis", "name": "db", "uid": owner}
        meta = labelled(
            names.config_map("db"), annotations=annotations, ownerReferences=[reference]
        )
        self.show(self.world.children["v1", "ConfigMap"], {"metadata": meta})

    async def read_all(self) -> None:
        for caches in self.world.children.values():
            await self.read(caches)

    async def ensure(self, of: Redis, facts: Facts = FACTS) -> str:
        """Write the objects of a database; return what is wrong with them."""
        try:
            await self.children.ensure(of, facts)
        except ChildError as error:
            return str(error)
        finally:
            await self.read_all()
        return ""

    async def names_of(self, kind: Any) -> set[str]:
        page = await self.client.list(kind, namespace="default")
        return {found["metadata"]["name"] for found in page.items}


@pytest.fixture
def room() -> Room:
    return Room()


# What is known from what is there


def workload(shard: int, pods: int | None, **meta: Any) -> dict[str, Any]:
    labels = {names.SHARD_LABEL: str(shard)}
    return {"metadata": labelled(f"db-{shard}", labels=labels, **meta), "spec": {"replicas": pods}}


GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("found", "pods"),
    [
        ([], {}),
        ([workload(0, 2), workload(3, 1)], {0: 2, 3: 1}),
        ([workload(0, 2), workload(1, 2, **GOING)], {0: 2}),
        ([workload(0, 0), workload(1, 0)], {}),
        ([workload(0, 0), workload(1, 1)], {0: 0, 1: 1}),
        ([workload(0, None)], {}),
        ([{"metadata": labelled("x"), "spec": {"replicas": 2}}], {}),
    ],
    ids=["none", "two", "one goes", "asleep", "half asleep", "unset", "no shard"],
)
def test_shards_have_as_many_pods_as_their_workloads_say(
    room: Room, found: list[Any], pods: dict[int, int]
) -> None:
    room.show(room.world.children["apps/v1", "StatefulSet"], *found)
    assert room.facts().pods == pods


def test_pods_without_a_workload_are_adopted_and_workloads_say_more(room: Room) -> None:
    def pod(shard: int, ordinal: int) -> dict[str, Any]:
        labels = {names.SHARD_LABEL: str(shard)}
        return {"metadata": labelled(f"db-{shard}-{ordinal}", labels=labels)}

    room.show(room.world.pods, pod(0, 0), pod(0, 1), pod(1, 2))
    room.show(room.world.children["apps/v1", "StatefulSet"], workload(1, 5))
    assert room.facts().pods == {0: 2, 1: 5}


@pytest.mark.parametrize(
    ("group", "exporter", "broken"),
    [
        (0, {"terminated": {"exitCode": 1}}, (True, False)),
        (1, {"terminated": {"exitCode": 1}}, (False, True)),
        (1, {"waiting": {"reason": "ImagePullBackOff"}}, (False, True)),
        (1, {"waiting": {"reason": "ContainerCreating"}}, (False, False)),
        (1, {"running": {}}, (False, False)),
    ],
    ids=["of a server", "of a sentinel", "no image", "starting", "running"],
)
def test_a_broken_sidecar_is_that_of_servers_or_of_sentinels(
    room: Room, group: int, exporter: dict[str, Any], broken: tuple[bool, bool]
) -> None:
    """IN-25"""
    statuses = [
        {"name": "server", "ready": True, "state": {"running": {}}},
        {"name": "exporter", "ready": "running" in exporter, "state": exporter},
    ]
    meta = labelled("db-pod-0", labels={names.GROUP_LABEL: str(group)})
    room.show(room.world.pods, {"metadata": meta, "status": {"containerStatuses": statuses}})
    found = room.facts(redis(mode="Failover"))
    assert (found.sidecar_broken, found.sentinel_sidecar_broken) == broken


def test_facts_name_versions_images_and_who_operates(room: Room) -> None:
    status = RedisStatus(
        engine="redis",
        version="7.2.4",
        pods=(PodStatus(name="a", version="9.1.2"), PodStatus(name="b", version="9.1.0")),
    )
    found = room.facts(redis(status=status, engine="valkey", version="9.1"))
    assert found.version == Version("valkey", 9, 1)
    assert set(found.running) == {Version("redis", 7, 2), Version("valkey", 9, 1)}
    assert len(found.running) == 2
    assert (found.image, found.operator_namespace) == ("valkey:9.1", "ops")
    assert found.operator_labels == {"a": "b"}
    assert room.facts(redis(image="mine:1", version="9.1")).image == "mine:1"
    assert room.facts().running == ()
    odd = RedisStatus(version="odd", pods=(PodStatus(name="a"),))
    assert room.facts(redis(status=odd)).running == ()
    entry = replace(ENTRY, version="odd")
    with pytest.raises(ChildError, match="'odd' is not a version"):
        room.children.facts(redis(), entry, PASSWORDS)


def claim(name: str, marked: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": labelled(name, annotations={names.IDENTITY_ANNOTATION: marked}, **meta)}


@pytest.mark.parametrize(
    ("claims", "identity"),
    [
        ([], ""),
        ([claim("a", ""), claim("b", "x")], "x"),
        ([claim("a", "gone", **GOING), claim("b", "x")], "x"),
        ([claim("a", "gone", **GOING)], ""),
    ],
)
def test_retained_volumes_tell_what_new_ones_are_marked_with(
    room: Room, claims: list[Any], identity: str
) -> None:
    room.show(room.world.claims, *claims)
    assert room.facts().identity == identity


def test_what_the_config_map_is_marked_with(room: Room) -> None:
    bound = redis(status=BOUND)
    found = room.facts(bound)
    assert (found.once_set, found.accepted, found.persistence) == (frozenset(), None, None)
    room.config_map(
        **{
            names.SETTINGS_ANNOTATION: "hz timeout",
            names.ACCEPTED_ANNOTATION: '{"hz": "5"}',
            names.PERSISTENCE_ANNOTATION: "rdb",
        }
    )
    found = room.facts(bound)
    assert found.once_set == {"hz", "timeout"}
    assert (found.accepted, found.persistence) == ({"hz": "5"}, Persistence.RDB)
    assert room.facts().accepted is None  # of a database that was never in use
    room.config_map(**{names.ACCEPTED_ANNOTATION: "odd", names.PERSISTENCE_ANNOTATION: "odd"})
    found = room.facts(bound)
    assert (found.accepted, found.persistence) == (None, None)


RAW = {"metadata": {"name": "db", "namespace": "default", "uid": "uid-db"}, "spec": {"x": 1}}


@pytest.mark.parametrize(
    ("owner", "text", "spec", "mode"),
    [
        ("uid-db", '{"mode": "Failover"}', {"mode": "Failover"}, Mode.FAILOVER),
        ("other", '{"mode": "Failover"}', None, None),
        ("uid-db", "odd", None, None),
        ("uid-db", '{"mode": "Odd"}', {"mode": "Odd"}, None),
    ],
    ids=["ours", "of another", "odd", "odd mode"],
)
def test_the_spec_that_was_last_followed_is_that_of_this_very_object(
    room: Room, owner: str, text: str, spec: Any, mode: Mode | None
) -> None:
    assert room.children.recorded(RAW) == {**RAW, "spec": None}
    assert room.children.recorded_mode(RAW) is None
    room.config_map(owner, **{names.SPEC_ANNOTATION: text})
    assert room.children.recorded(RAW) == {**RAW, "spec": spec}
    assert room.children.recorded_mode(RAW) is mode


@pytest.mark.parametrize(("marked", "chosen"), [("valkey 9.1", "9.1"), ("redis 7.2", ""), ("", "")])
def test_the_version_that_a_database_was_made_with(room: Room, marked: str, chosen: str) -> None:
    assert room.children.chosen(redis()) == ""
    room.config_map(**{names.VERSION_ANNOTATION: marked})
    assert room.children.chosen(redis()) == chosen


@pytest.mark.parametrize(
    ("status", "spec", "accepted", "holds"),
    [
        (BOUND, HOLD, "", True),
        (BOUND, HOLD, "0-16383", False),
        (BOUND, HOLD, "0-99", True),
        (RedisStatus(), HOLD, "", False),
        (BOUND, START_EMPTY, "", False),
    ],
)
def test_data_in_use_are_not_replaced_by_nothing(
    room: Room, status: RedisStatus, spec: Any, accepted: str, *, holds: bool
) -> None:
    found = redis(status=status, **spec)
    annotated = replace(found.metadata, annotations={ACCEPT_LOSS: accepted})
    assert room.facts(replace(found, metadata=annotated)).holds_losses == holds


# Where clients go


@pytest.mark.parametrize("addresses", [False, True])
@pytest.mark.parametrize("ip", ["10.0.0.9", "None"])
def test_endpoints_are_names_or_addresses_where_nothing_resolves(
    ip: str, *, addresses: bool
) -> None:
    room = Room(binding_addresses=addresses)
    services = [
        {"metadata": labelled(name), "spec": {"clusterIP": ip}}
        for name in (names.client_service("db"), names.sentinel_service("db"))
    ]
    room.show(room.world.children["v1", "Service"], *services)
    known = ip if addresses and ip != "None" else ""
    found = room.children.endpoints(redis("Failover"))
    client = names.client_service("db")
    assert found.primary_name == names.primary_name(*KEY)
    assert f"{known or f'{client}.default.svc'}:6379" in (found.clients, found.primaries)
    assert found.sentinels == f"{known or names.sentinel_service('db') + '.default.svc'}:26379"
    assert room.children.endpoints(redis()).primary_name == ""
    facts = room.facts(redis("Failover"))
    assert (facts.client_address, facts.sentinel_address) == (known, known)


# Writing


async def test_all_objects_are_written_once_and_counted(room: Room) -> None:
    assert await room.ensure(redis()) == ""
    assert await room.names_of(STATEFUL_SETS.plain()) == {"db-0", "db-1", "db-2"}
    written = room.children.writes(redis())
    assert written > 10
    assert await room.ensure(redis()) == ""
    assert room.children.writes(redis()) == written
    found = await room.client.get(STATEFUL_SETS.plain(), ("default", "db-0"))
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == ["uid-db"]
    assert room.children.forget(KEY) == "uid-db"
    assert room.children.writes(redis()) == 0
    assert room.children.forget(KEY) == ""
    await room.client.delete(SERVICES, ("default", names.client_service("db")))
    assert await room.ensure(redis()) == ""
    assert names.client_service("db") in await room.names_of(SERVICES.plain())


async def test_how_many_pods_there_are_is_left_to_plans(room: Room) -> None:
    await room.ensure(redis())
    scaled = MergePatch({"spec": {"replicas": 7}})
    await room.client.patch(STATEFUL_SETS, ("default", "db-0"), scaled)
    await room.read_all()
    other = replace(FACTS, image="valkey:9.2")
    assert await room.ensure(redis(), other) == ""
    found = await room.client.get(STATEFUL_SETS.plain(), ("default", "db-0"))
    assert found["spec"]["replicas"] == 7
    images = [c["image"] for c in found["spec"]["template"]["spec"]["containers"]]
    assert "valkey:9.2" in images


async def test_a_stale_cache_overwrites_no_number_of_pods(room: Room) -> None:
    await room.ensure(redis())
    scaled = MergePatch({"spec": {"replicas": 7}})
    await room.client.patch(STATEFUL_SETS, ("default", "db-0"), scaled)
    assert await room.ensure(redis(), replace(FACTS, image="valkey:9.2")) == ""
    found = await room.client.get(STATEFUL_SETS.plain(), ("default", "db-0"))
    assert found["spec"]["replicas"] == 7


def foreign(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": [{"port": 80}]},
    }


async def test_an_object_of_another_is_named_and_holds_back_workloads_alone(room: Room) -> None:
    await room.client.create(SERVICES.plain(), foreign(names.client_service("db")))
    why = await room.ensure(redis())
    assert f"Service {names.client_service('db')} already exists" in why
    assert await room.names_of(STATEFUL_SETS.plain()) == set()
    assert await room.names_of(CONFIG_MAP) == {names.config_map("db")}
    assert await room.names_of(BUDGETS) != set()


async def test_what_is_not_wanted_any_more_is_deleted_where_it_is_ours(room: Room) -> None:
    await room.ensure(redis())
    ours = await room.client.get(SERVICES.plain(), ("default", names.client_service("db")))
    owners = ours["metadata"]["ownerReferences"]

    async def more(kind: Any, name: str, owned_by: Any, **body: Any) -> None:
        meta = {"ownerReferences": owned_by, "namespace": "default", "name": name}
        labels = {names.DATABASE_LABEL: "db"}
        await room.client.create(kind, {"metadata": {**meta, "labels": labels}, **body})

    port = {"spec": {"ports": [{"port": 80}]}}
    stranger = [{**owners[0], "uid": "another"}]
    await more(SERVICES.plain(), "old", owners, **port)
    await more(SERVICES.plain(), "theirs", stranger, **port)
    await more(SERVICES.plain(), "nobodys", [], **port)
    await more(SECRETS.plain(), "old", owners)
    await more(CONFIG_MAP, "kept", owners)
    await room.read_all()
    before = await room.names_of(SERVICES.plain())
    assert await room.ensure(redis()) == ""
    assert before - await room.names_of(SERVICES.plain()) == {"old"}
    assert "old" not in await room.names_of(SECRETS.plain())
    assert "kept" in await room.names_of(CONFIG_MAP)
    assert await room.ensure(redis()) == ""  # the cache may show it still


async def test_surroundings_are_neither_files_nor_workloads(room: Room) -> None:
    await room.children.ensure_surroundings(redis(), FACTS)
    assert await room.names_of(STATEFUL_SETS.plain()) == set()
    assert await room.names_of(CONFIG_MAP) == set()
    assert names.client_service("db") in await room.names_of(SERVICES.plain())


async def test_secrets_alone_can_be_written(room: Room) -> None:
    await room.children.ensure_secrets(redis(), FACTS)
    assert await room.names_of(SECRETS.plain())
    assert await room.names_of(SERVICES.plain()) == set()


@pytest.mark.parametrize("protected", [False, True], ids=["stays", "goes"])
async def test_objects_that_lost_their_owner_are_not_adopted_by_a_database_that_goes(
    room: Room, *, protected: bool
) -> None:
    await room.ensure(redis())
    name = ("default", names.client_service("db"))
    await room.client.patch(SERVICES, name, MergePatch({"metadata": {"ownerReferences": None}}))
    await room.read_all()
    found = redis()
    if protected:
        found = replace(found, metadata=replace(found.metadata, deletion_timestamp="2026"))
    assert await room.ensure(found, replace(FACTS, image="x:1")) == ""
    after = await room.client.get(SERVICES.plain(), name)
    owners = after["metadata"].get("ownerReferences") or []
    assert [owner["uid"] for owner in owners] == ([] if protected else ["uid-db"])


async def test_a_workload_whose_claims_have_another_size_is_made_again_around_its_pods(
    room: Room,
) -> None:
    small = redis(storage={"size": "1Gi"})
    await room.ensure(small)
    before = await room.client.get(STATEFUL_SETS, ("default", "db-0"))
    large = redis(storage={"size": "2Gi"})
    assert await room.ensure(large) == ""
    left = await room.client.list(STATEFUL_SETS.plain(), namespace="default")
    assert all(found["metadata"]["finalizers"] == ["orphan"] for found in left.items)
    for found in left.items:  # as the garbage collector does once no pod names it
        meta = found["metadata"]
        done = MergePatch({"metadata": {"finalizers": None}})
        await room.client.patch(STATEFUL_SETS, (meta["namespace"], meta["name"]), done)
    await room.read_all()
    assert await room.ensure(large) == ""
    after = await room.client.get(STATEFUL_SETS.plain(), ("default", "db-0"))
    (template,) = after["spec"]["volumeClaimTemplates"]
    assert template["spec"]["resources"]["requests"]["storage"] in ("2Gi", "2147483648")
    assert before.metadata.uid != after["metadata"]["uid"]


# Settings that servers have taken


@pytest.mark.parametrize(
    ("accepted", "taken", "after"),
    [
        (None, {"hz": "5"}, None),
        ({}, {"hz": "5"}, {"hz": "5"}),
        ({}, {"hz": "6"}, {}),
        ({}, {}, {}),
        ({"hz": "4"}, {"hz": "5"}, {"hz": "5"}),
        ({"timeout": "1"}, {"hz": "5"}, {"timeout": "1", "hz": "5"}),
    ],
)
async def test_pods_start_with_what_servers_have_taken(
    room: Room, accepted: Any, taken: Any, after: Any
) -> None:
    found = redis(config={"hz": "5"})
    facts = replace(FACTS, accepted=accepted)
    told = await room.children.accept(found, facts, taken)
    assert told.accepted == after
    written = await room.names_of(CONFIG_MAP)
    assert bool(written) == (after not in (None, accepted))
    assert await room.names_of(SERVICES.plain()) == set()


@pytest.mark.parametrize(
    ("before", "persisted", "after"),
    [
        (Persistence.RDB, True, Persistence.AOF),
        (Persistence.RDB, False, Persistence.RDB),
        (Persistence.AOF, True, Persistence.AOF),
        (None, True, None),
    ],
)
async def test_pods_start_with_a_kind_of_persistence_once_all_have_its_files(
    room: Room, before: Any, after: Any, *, persisted: bool
) -> None:
    found = redis(storage={"size": "1Gi"}, durability={"persistence": "aof"})
    facts = replace(FACTS, persistence=before)
    told = await room.children.accept(found, facts, {}, persisted=persisted)
    assert told.persistence == after
    assert bool(await room.names_of(STATEFUL_SETS.plain())) == (before != after)


# Modes


@pytest.mark.parametrize(
    ("mode", "servers", "sentinels", "claims", "runs", "replicas"),
    [
        ("Standalone", 1, None, 1, Mode.STANDALONE, 0),
        ("Standalone", 2, None, 2, Mode.FAILOVER, 0),
        ("Standalone", 1, 3, 1, Mode.FAILOVER, 0),
        ("Standalone", 0, 0, 3, Mode.FAILOVER, 2),
        ("Standalone", 0, None, 3, Mode.STANDALONE, 0),
        ("Standalone", 1, 5, 1, Mode.FAILOVER, 0),
        ("Failover", 2, 3, 5, Mode.FAILOVER, 1),
        ("Failover", 0, 0, 4, Mode.FAILOVER, 3),
        ("Failover", 0, 0, 2, Mode.FAILOVER, 1),
        ("Failover", 0, 0, 0, Mode.FAILOVER, 1),
    ],
)
def test_a_database_is_run_in_the_mode_of_what_is_there(
    room: Room,
    mode: str,
    servers: int,
    sentinels: int | None,
    claims: int,
    runs: Mode,
    replicas: int,
) -> None:
    found = redis(mode, storage={"size": "1Gi"}, replicas=0 if mode == "Standalone" else 1)
    sets = [{"metadata": labelled("db"), "spec": {"replicas": servers}}]
    if sentinels is not None:
        sets.append({"metadata": labelled("db-sentinel"), "spec": {"replicas": sentinels}})
    room.show(room.world.children["apps/v1", "StatefulSet"], *sets)
    room.show(room.world.claims, *(claim(f"data-db-{n}", "") for n in range(claims)))
    run, becomes = room.children.as_run(found)
    assert (run.spec.mode, run.spec.replicas) == (runs, replicas)
    assert (becomes is not None) == (runs is not found.spec.mode)
    if becomes is not None:
        watchers = sentinels or 3
        assert run.spec.sentinel is not None
        assert (run.spec.sentinel.replicas, run.spec.sentinel.quorum) == (
            watchers,
            watchers // 2 + 1,
        )
    assert as_run(found, (), ()) == (found, None)


def test_what_is_being_deleted_does_not_count_for_the_mode(room: Room) -> None:
    found = redis("Standalone", storage={"size": "1Gi"}, replicas=0)
    going = {"metadata": labelled("db-sentinel", **GOING), "spec": {"replicas": 3}}
    alone = {"metadata": labelled("db"), "spec": {"replicas": 1}}
    room.show(room.world.children["apps/v1", "StatefulSet"], alone, going)
    assert room.children.as_run(found) == (found, None)
    asleep = redis("Failover", storage={"size": "1Gi"}, replicas=1)
    room.show(room.world.children["apps/v1", "StatefulSet"])
    claims = [claim(f"data-db-{n}", "") for n in range(3)]
    room.show(room.world.claims, *claims)
    assert room.children.as_run(asleep)[0].spec.replicas == 2
    room.show(room.world.claims, *claims[:2], claim("data-db-2", "", **GOING))
    assert room.children.as_run(asleep) == (asleep, None)
    room.show(room.world.claims, *claims[1:])
    assert room.children.as_run(asleep) == (asleep, None)


async def test_objects_with_their_owner_keep_it_while_a_protected_database_goes(
    room: Room,
) -> None:
    await room.ensure(redis())
    found = redis()
    goes = replace(found, metadata=replace(found.metadata, deletion_timestamp="2026"))
    assert await room.ensure(goes, replace(FACTS, image="x:1")) == ""
    after = await room.client.get(STATEFUL_SETS.plain(), ("default", "db-0"))
    assert [owner["uid"] for owner in after["metadata"]["ownerReferences"]] == ["uid-db"]
