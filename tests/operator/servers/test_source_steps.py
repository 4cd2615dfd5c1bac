"""External servers: how their login is found, what they are asked, and when nothing follows them.

Real servers are in `test_sources.py`; here every answer of the API and of servers can be given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.operator.scripted import Host, Network, error, info, refusal, role

from kubecontroller.client.errors import ConnectionFailed, NotFound
from kubecontroller.client.meta import ObjectMeta
from kubecontroller.client.objects import Secret
from redis_operator.api.redis import Redis
from redis_operator.api.validation import load
from redis_operator.manifests.facts import Facts, Passwords, Restore, SourceLogin
from redis_operator.operator.servers.actions import Servers
from redis_operator.operator.servers.failover_dialect import FAILOVER
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.replication import replication_effects
from redis_operator.operator.servers.sources import LiveSource, Sources
from redis_operator.planning.at import At
from redis_operator.planning.failover.actions import FollowSource, Promote
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import Role, RunId
from redis_operator.planning.observed import Observed, Pod, Replication, Seen
from redis_operator.planning.sources import SourceSeen, SourceSilent
from redis_operator.redis.connection import Address
from redis_operator.redis.versions import parse_version

IP, SOURCE = "10.0.0.1", "db.elsewhere.example"
PASSWORDS = Passwords("d", "o", "r", "e", "a", sentinel="s")
LOGIN = SourceLogin("u", "p")
VERSION = parse_version("valkey", "8.1.4")
assert VERSION is not None
FACTS = Facts(VERSION, "image", PASSWORDS)
KEY = ("ns", "db")


def redis(**begins: Any) -> Redis:
    found = load(
        {
            "apiVersion": "redisoperator.dev/v1",
            "kind": "Redis",
            "metadata": {"name": "db", "namespace": "ns", "uid": "u"},
            "spec": {"mode": "Failover", "version": "8.1", "bootstrap": begins},
        }
    )
    assert isinstance(found, Redis), found
    return found


COPY = {"fromRedis": {"host": SOURCE}}
SECRET = {"fromRedis": {"host": SOURCE, "passwordSecret": {"name": "s", "key": "k"}}}


def replica(offset: int, **fields: Any) -> bytes:
    found = {"role": "slave", "run_id": "run", "master_host": "x", "master_port": 1}
    return info(**found, master_replid="h", slave_repl_offset=offset, **fields)


class Place:
    """A server of ours, one elsewhere, and what the API says."""

    def __init__(self) -> None:
        self.now = 100.0
        self.found: Any = {}
        self.reads = 0
        replica = info(
            role="slave", run_id="run", master_host="x", master_port=1, master_replid="h"
        )
        self.server = Host({"INFO": replica, "DBSIZE": 0, "ROLE": role()})
        self.server.answers["CONFIG GET masteruser"] = [b"masteruser", b"u"]
        self.server.answers["CONFIG GET masterauth"] = [b"masterauth", b"p"]
        self.source = Host({"INFO": info(master_replid="h", master_repl_offset=50)})
        self.network = Network({IP: self.server, SOURCE: self.source})
        self.links = Links(on_lost=lambda _: None)
        self.sources = Sources(self, self.links, clock=lambda: self.now)  # type: ignore[arg-type]
        self.targets = {"db-0": Target("uid", Address(IP))}

    async def get(self, _: object, key: object, **__: object) -> Any:
        """Be the API."""
        self.reads += 1
        assert key in (("ns", "s"), KEY)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def look(self, of: Redis, facts: Facts = FACTS, **observed: Any) -> Any:
        return self.network.do(self.sources.look(of, facts, Observed(**observed), self.targets))

    def facts(self, of: Redis) -> Facts:
        return self.network.do(self.sources.facts(of, FACTS))

    def effects(self, login: SourceLogin | None = LOGIN, restore: Restore | None = None) -> Any:
        live = LiveSource(self, KEY, self.links, login, restore)  # type: ignore[arg-type]
        servers = Servers(self.links, self.targets, None, FAILOVER)  # type: ignore[arg-type]
        return replication_effects(servers, PASSWORDS, live)

    def do(self, action: Any, **live: Any) -> str:
        return self.network.do(refusal(self.effects(**live), action))


@pytest.fixture
def place() -> Iterator[Place]:
    found = Place()
    yield found
    found.links.close()
    found.network.close()


# Logins


def secret(**data: bytes) -> Secret:
    return Secret(metadata=ObjectMeta(name="s", namespace="ns"), data=data)


@pytest.mark.parametrize(
    ("begins", "found", "login", "problem"),
    [
        ({}, {}, None, ""),
        (COPY, {}, SourceLogin("", ""), ""),
        (SECRET, secret(k=b"word"), SourceLogin("", "word"), ""),
        (SECRET, secret(other=b"word"), None, "has no key k"),
        (SECRET, secret(k=b"word\n"), None, "line end"),
        (SECRET, NotFound("no", status=404), None, "Secret s does not exist in namespace ns"),
        (SECRET, ConnectionFailed("no"), None, "cannot be read"),
    ],
    ids=["none", "no password", "password", "no key", "control", "no secret", "no answer"],
)
def test_a_login_comes_from_the_secret_that_the_spec_names(
    place: Place, begins: Any, found: Any, login: SourceLogin | None, problem: str
) -> None:
    place.found = found
    facts = place.facts(redis(**begins))
    assert facts.source == login
    assert problem in facts.source_problem
    assert bool(problem) == bool(facts.source_problem)


def test_a_secret_is_read_again_after_five_seconds_and_for_another_source(place: Place) -> None:
    place.found = secret(k=b"word")
    for seconds, reads in ((0.0, 1), (4.9, 1), (5.0, 2), (5.1, 2)):
        place.now = 100.0 + seconds
        place.facts(redis(**SECRET))
        assert place.reads == reads
    other = {"fromRedis": {**SECRET["fromRedis"], "username": "v"}}
    assert place.facts(redis(**other)).source == SourceLogin("v", "word")
    assert place.reads == 3
    place.facts(redis())
    place.facts(redis(**other))
    assert place.reads == 4


# Asking


def test_the_server_that_the_spec_names_is_asked_with_its_login(place: Place) -> None:
    seen = place.look(redis(**COPY), replace(FACTS, source=LOGIN))
    assert isinstance(seen, SourceSeen)
    assert (seen.is_primary, seen.follows, seen.linked) == (True, "", True)
    assert (seen.replication_id, seen.offset, seen.cluster) == ("h", 50, False)
    assert (seen.engine, seen.version, seen.loading) == ("redis", "7.2.4", False)
    assert place.source.asked("AUTH") == ["AUTH u p"]


def test_a_source_without_a_password_is_not_logged_in_to(place: Place) -> None:
    place.look(redis(**COPY), replace(FACTS, source=SourceLogin("u", "")))
    assert place.source.asked("AUTH") == []


@pytest.mark.parametrize(
    ("status", "linked"), [("up", True), ("down", False)], ids=["linked", "not linked"]
)
def test_a_source_that_is_a_replica_says_whom_it_follows(
    place: Place, status: str, *, linked: bool
) -> None:
    fields = {"role": "slave", "master_host": "x", "master_port": 7, "cluster_enabled": 1}
    place.source.answers["INFO"] = info(**fields, master_link_status=status, loading=1)
    seen = place.look(redis(**COPY), replace(FACTS, source=LOGIN))
    assert (seen.is_primary, seen.follows, seen.linked) == (False, "x:7", linked)
    assert (seen.cluster, seen.loading) == (True, True)


@pytest.mark.parametrize(
    ("answer", "login", "reason", "words", "hopeless"),
    [
        (error("NOPERM no"), LOGIN, "SourceNotAsked", "user u may not run INFO", False),
        (error("NOPERM no"), SourceLogin("", "p"), "SourceNotAsked", "user default", False),
        (error("NOAUTH no"), LOGIN, "SourceLogin", "its password is refused", True),
        (error("NOAUTH no"), SourceLogin("", ""), "SourceLogin", "asks for a password", True),
        (error("WRONGPASS no"), LOGIN, "SourceLogin", "its password is refused", True),
        (error("LOADING no"), LOGIN, "SourceUnreachable", "cannot reach it", False),
    ],
)
def test_why_a_source_does_not_say_what_it_is(
    place: Place, answer: Any, login: SourceLogin, reason: str, words: str, *, hopeless: bool
) -> None:
    place.source.answers["INFO"] = answer
    seen = place.look(redis(**COPY), replace(FACTS, source=login))
    assert isinstance(seen, SourceSilent)
    assert (seen.reason, seen.hopeless) == (reason, hopeless)
    assert words in seen.error
    place.look(redis(**COPY), replace(FACTS, source=login))
    assert place.source.opened == 2


@pytest.mark.parametrize(
    ("begins", "facts", "observed", "reason"),
    [
        ({}, FACTS, {}, None),
        (COPY, FACTS, {"formed": True}, None),
        (COPY, replace(FACTS, source_problem="no"), {}, "SourceSecret"),
        ({}, replace(FACTS, restore=Restore("b", problem="no")), {}, "RestoreWaits"),
        ({}, replace(FACTS, restore=Restore("b", coming=True)), {}, "Copying"),
        ({}, replace(FACTS, restore=Restore("b", host=SOURCE)), {}, "RestoreWaits"),
        ({}, replace(FACTS, restore=Restore("b"), source=LOGIN), {}, "RestoreWaits"),
        ({}, replace(FACTS, restore=Restore("b", host=SOURCE), source=LOGIN), {}, "seen"),
        ({}, FACTS, {"copied": f"{SOURCE}:6379"}, "SourceUnreachable"),
    ],
)
def test_what_is_known_of_a_source_without_asking_it(
    place: Place, begins: Any, facts: Facts, observed: Any, reason: str | None
) -> None:
    found = place.look(redis(**begins), facts, **observed)
    if reason == "seen":
        assert isinstance(found, SourceSeen)
        return
    assert (found.reason if found is not None else None) == reason
    assert place.source.sent == []
    if found is not None and reason != "SourceUnreachable":
        assert found.hopeless


@pytest.mark.parametrize(
    ("copied", "seen"), [(f"{SOURCE}:6379", True), (SOURCE, False), ("other:6379", False)]
)
def test_a_source_that_the_spec_does_not_name_any_more_is_asked_with_the_login_of_its_copy(
    place: Place, copied: str, *, seen: bool
) -> None:
    head = Seen(Pod("db-0", "uid", 0, 0, IP), RunId("run"), Role.REPLICA)
    follows = copied if copied != "other:6379" else f"{SOURCE}:6379"
    head = replace(head, replication=Replication(follows=follows))
    found = place.look(redis(), nodes=(head,), copied=copied)
    assert isinstance(found, SourceSeen) == seen
    if not seen:
        assert found.error == "no server follows it"
    assert place.source.asked("AUTH") == (["AUTH u p"] if seen else [])


def test_a_copy_that_does_not_tell_its_login_is_no_help(place: Place) -> None:
    place.server.state = "refuses"
    head = Seen(Pod("db-0", "uid", 0, 0, IP), RunId("run"), Role.REPLICA)
    head = replace(head, replication=Replication(follows=f"{SOURCE}:6379"))
    found = place.look(redis(), nodes=(head,), copied=f"{SOURCE}:6379")
    assert "its login is not known" in found.error


def test_the_connection_to_a_source_ends_when_it_is_followed_no_more(place: Place) -> None:
    place.look(redis(**COPY), replace(FACTS, source=LOGIN))
    assert place.links.last_id("source of u") is None
    place.look(redis(**COPY), replace(FACTS, source=LOGIN))
    assert place.source.opened == 1
    place.look(redis())
    place.look(redis(**COPY), replace(FACTS, source=LOGIN))
    assert place.source.opened == 2


@pytest.mark.parametrize(
    ("host", "known", "asked"),
    [
        ("name", ["name.ns.svc"], ["name.ns.svc"]),
        ("name", ["name"], ["name"]),
        ("na.me", ["na.me", "na.me.ns.svc"], ["na.me"]),
    ],
    ids=["service", "bare", "dotted"],
)
def test_a_bare_name_is_one_of_the_namespace_of_the_database(
    place: Place, host: str, known: list[str], asked: list[str]
) -> None:
    hosts = {name: Host({"INFO": info()}) for name in known}
    place.network.hosts |= hosts
    seen = place.look(redis(fromRedis={"host": host}), replace(FACTS, source=LOGIN))
    assert isinstance(seen, SourceSeen)
    assert [name for name, found in hosts.items() if found.sent] == asked


def test_a_source_that_is_silent_costs_a_second_for_each_of_its_names(place: Place) -> None:
    seen = place.look(redis(fromRedis={"host": "name"}), replace(FACTS, source=LOGIN))
    assert seen.reason == "SourceUnreachable"
    assert 2.0 <= place.network.time() < 2.1


# Following

WANTED = {"spec": {"bootstrap": COPY}, "status": {"source": {"a": 1}}, "metadata": {}}
AT = At("db-0", "uid", IP, RunId("run"))
FOLLOW = FollowSource(AT, SOURCE, 6379, "x:1")


def wanted(**changes: Any) -> dict[str, Any]:
    return {**WANTED, **changes}


@pytest.mark.parametrize(
    ("found", "live", "words"),
    [
        (WANTED, {}, ""),
        (WANTED, {"login": None}, "login of db.elsewhere.example:6379 is not known"),
        (wanted(spec={}), {}, "is not wanted any more"),
        (wanted(spec=None), {}, "is not wanted any more"),
        (wanted(spec={"bootstrap": {"fromRedis": {"host": SOURCE, "port": 7}}}), {}, "not wanted"),
        (wanted(metadata={"deletionTimestamp": "x"}), {}, "is not wanted any more"),
        (wanted(status={"source": {"a": 1}, "binding": {"name": "b"}}), {}, "data of its own"),
        (wanted(status={}), {}, "data of its own"),
        (wanted(status=None), {}, "data of its own"),
        (ConnectionFailed("no"), {}, "db cannot be read"),
        (
            wanted(spec={"bootstrap": {"fromBackup": {"name": "b"}}}),
            {"restore": Restore("b", host=SOURCE)},
            "",
        ),
        (
            wanted(spec={"bootstrap": {"fromBackup": {"name": "c"}}}),
            {"restore": Restore("b", host=SOURCE)},
            "not wanted",
        ),
        (
            wanted(spec={"bootstrap": {"fromBackup": {"name": 7}}}),
            {"restore": Restore("b", host=SOURCE)},
            "not wanted",
        ),
        (
            wanted(spec={"bootstrap": {"fromBackup": {"name": "b"}}}),
            {"restore": Restore("b", host="other")},
            "not wanted",
        ),
    ],
)
def test_a_source_is_followed_only_while_the_api_says_that_it_is_wanted(
    place: Place, found: Any, live: dict[str, Any], words: str
) -> None:
    place.found = found
    why = place.do(FOLLOW, **live)
    assert words in why
    assert bool(words) == bool(why)
    sent = place.server.asked("CONFIG SET", "REPLICAOF")
    told = ["CONFIG SET masteruser u", "CONFIG SET masterauth p", f"REPLICAOF {SOURCE} 6379"]
    assert sent == ([] if words else told)


def test_a_login_without_a_password_has_no_user_either(place: Place) -> None:
    place.found = WANTED
    assert place.do(FOLLOW, login=SourceLogin("u", "")) == ""
    assert place.server.asked("CONFIG SET") == [
        "CONFIG SET masteruser ",
        "CONFIG SET masterauth ",
    ]


def test_a_login_that_is_refused_is_told(place: Place) -> None:
    place.found = WANTED
    place.server.answers["CONFIG SET masterauth"] = error("ERR no")
    assert "ERR no" in place.do(FOLLOW)


# Promotion with everything that a source has

COPIED = Promote(AT, "x:1", Fence.NEVER_LED, replication_id="h", source=f"{SOURCE}:6379")


@pytest.mark.parametrize(
    ("fields", "offset", "refused", "whole", "words"),
    [
        ({}, 50, 0, True, ""),
        ({}, 49, 0, False, "is at offset 49 and not yet at 50"),
        ({"master_replid": "other"}, 50, 0, False, "has another history now"),
        ({"role": "slave"}, 50, 0, False, "is a replica now"),
        ({}, 50, 3, True, "refused 3 commands"),
        ({}, 50, 3, False, ""),
    ],
    ids=["all", "behind", "history", "replica", "refused", "refused, and given up"],
)
def test_a_copy_is_promoted_only_with_everything_that_its_source_has(
    place: Place, fields: Any, offset: int, refused: int, words: str, *, whole: bool
) -> None:
    told = {"master_replid": "h", "master_repl_offset": 50, "slave_repl_offset": 50, **fields}
    place.source.answers["INFO"] = info(**told)
    place.server.answers["INFO"] = replica(offset, unexpected_error_replies=refused)
    why = place.do(replace(COPIED, whole=whole))
    assert words in why
    assert bool(words) == bool(why)
    assert place.server.asked("REPLICAOF") == ([] if words else ["REPLICAOF NO ONE"])
    assert place.source.opened == 1
    place.do(COPIED)
    assert place.source.opened == 2  # no connection is kept


def test_a_bare_name_is_asked_in_the_namespace_of_the_database_before_a_promotion(
    place: Place,
) -> None:
    place.network.hosts["name.ns.svc"] = place.source
    place.server.answers["INFO"] = replica(50)
    assert place.do(replace(COPIED, source="name:6379")) == ""


def test_a_forgotten_source_is_read_again(place: Place) -> None:
    place.found = secret(k=b"word")
    place.facts(redis(**SECRET))
    place.sources.forget(KEY)
    place.facts(redis(**SECRET))
    assert place.reads == 2
