"""What running servers and sentinels are told of users and passwords, on scripted servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.operator.scripted import Host, Network, error, role

from redis_operator.api.redis import Redis
from redis_operator.api.validation import load
from redis_operator.manifests.facts import Facts, FillingFacts, Passwords, SourceLogin
from redis_operator.manifests.users import FAILOVER_USERS, SENTINEL_USERS, password_hash, rules_of
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.logins import SERVER_PASSWORD, Logins
from redis_operator.planning.identity import Role, RunId
from redis_operator.planning.observed import Observed, Pod, Replication, Seen, SentinelSeen
from redis_operator.planning.sentinels import Monitored, SentinelView
from redis_operator.redis.connection import Address
from redis_operator.redis.versions import Version, parse_version

SERVER, SENTINEL, SOURCE = "10.0.0.1", "10.0.1.1", "elsewhere:6379"
PASSWORDS = Passwords("d", "o", "r", "e", "a", sentinel="s")
VERSION = parse_version("valkey", "8.1.4")
assert VERSION is not None
FACTS = Facts(VERSION, "image", PASSWORDS)


def redis(**spec: Any) -> Redis:
    found = load(
        {
            "apiVersion": "redisoperator.dev/v1",
            "kind": "Redis",
            "metadata": {"name": "db", "namespace": "ns", "uid": "u"},
            "spec": {"mode": "Failover", "version": "8.1", **spec},
        }
    )
    assert isinstance(found, Redis), found
    return found


def users(passwords: Passwords = PASSWORDS, table: Any = FAILOVER_USERS, **rules: Any) -> list[Any]:
    """ACL LIST of a server that has exactly what it should."""
    assert isinstance(VERSION, Version)
    return [
        f"user {user} {rules_of(user, VERSION, passwords, table, **rules)}".encode()
        for user in table
        if passwords.has(user)
    ]


def server() -> Host:
    settings = {"masteruser": "replication", "masterauth": "r"}
    found = Host({"ACL LIST": users(), "ROLE": role(), "CLIENT KILL": 0, "ACL DELUSER": 1})
    for name, value in settings.items():
        found.answers[f"CONFIG GET {name}"] = [name.encode(), value.encode()]
    return found


class Place:
    def __init__(self) -> None:
        self.server = server()
        self.sentinel = Host({"ACL LIST": users(table=SENTINEL_USERS)})
        self.network = Network({SERVER: self.server, SENTINEL: self.sentinel})
        self.lead = True
        self.links = Links(on_lost=lambda _: None)
        self.logins = Logins(self.links, may_act=lambda: self.lead)
        self.targets = {
            "db-0": Target("uid-0", Address(SERVER)),
            "db-sentinel-0": Target("uid-s", Address(SENTINEL)),
        }
        self.node = Seen(
            Pod("db-0", "uid-0", 0, 0, SERVER), RunId("x"), Role.PRIMARY, version="8.1.4"
        )
        view = SentinelView("s", engine="valkey", version="8.1.4")
        self.watcher = SentinelSeen(Pod("db-sentinel-0", "uid-s", 1, 0, SENTINEL), RunId("s"), view)

    def monitoring(self) -> SentinelSeen:
        named = (Monitored("ns.db", SERVER, 6379),)
        return replace(self.watcher, view=replace(self.watcher.view, monitored=named))

    def apply(self, facts: Facts = FACTS, *, of: Redis | None = None, **seen: Any) -> Any:
        observed = Observed(**{"nodes": (self.node,), **seen})
        return self.network.do(self.logins.apply(of or redis(), observed, self.targets, facts))

    def changes(self) -> list[str]:
        """What a server was told since this was asked for."""
        found = self.server.asked("ACL SETUSER", "ACL DELUSER", "CONFIG SET", "CLIENT", "ACL LOAD")
        self.server.sent.clear()
        return found


@pytest.fixture
def place() -> Iterator[Place]:
    found = Place()
    yield found
    found.links.close()
    found.network.close()


def named(lines: list[str]) -> list[str]:
    return [" ".join(line.split()[:3]) for line in lines]


def test_a_server_that_has_everything_is_told_nothing_and_asked_once(place: Place) -> None:
    assert place.apply() == ()
    assert place.changes() == []
    assert place.apply() == ()
    assert place.server.sent == []


def test_a_server_is_asked_again_when_passwords_change_and_told_what_changed(
    place: Place,
) -> None:
    place.apply()
    place.changes()
    other = replace(FACTS, passwords=replace(PASSWORDS, admin="new"))
    assert place.apply(other) == ()
    assert place.changes() == [f"ACL SETUSER admin resetpass {password_hash('new')}"]


def test_users_of_ours_that_are_not_needed_go_and_strangers_stay(place: Place) -> None:
    place.server.answers["ACL LIST"] = [
        *users(),
        b"user backup on #x -@all",
        b"user stranger on #x +@all",
        b"broken",
    ]
    place.apply()
    assert place.changes() == ["ACL DELUSER backup"]
    place.links.drop("uid-0")
    with_backups = replace(FACTS, passwords=replace(PASSWORDS, backup="b"))
    place.apply(with_backups)
    assert named(place.changes()) == ["ACL SETUSER backup"] * 2  # rights of ours, and a password


def test_a_user_that_is_missing_is_made_with_its_rights(place: Place) -> None:
    place.server.answers["ACL LIST"] = users()[1:]
    place.apply()
    (made,) = place.changes()
    assert made.startswith("ACL SETUSER default ")
    assert password_hash("d") in made


@pytest.mark.parametrize(
    ("user", "before", "after", "told"),
    [
        ("operator", "+replicaof", "", True),
        ("operator", "+bgsave", "", False),
        ("sentinel", "+publish", "", True),
        ("replication", "+ping", "+ping +info", True),
        ("replication", "+ping", "+ping +flushall", True),
        ("replication", "+ping", "+ping +set", False),
        ("default", "on ", "off ", True),
        ("exporter", "+info", "", False),
    ],
)
def test_rights_are_changed_only_where_they_matter(
    place: Place, user: str, before: str, after: str, *, told: bool
) -> None:
    lines = [line.decode() for line in users()]
    number = next(n for n, line in enumerate(lines) if line.startswith(f"user {user} "))
    assert before in lines[number]
    lines[number] = lines[number].replace(before, after, 1)
    place.server.answers["ACL LIST"] = [line.encode() for line in lines]
    place.apply()
    assert named(place.changes()) == ([f"ACL SETUSER {user}"] if told else [])


def test_rights_of_the_backup_user_are_exactly_those_of_this_version(place: Place) -> None:
    facts = replace(FACTS, passwords=replace(PASSWORDS, backup="b"))
    has = [line.decode() for line in users(facts.passwords)]
    for line, told in (
        (has[-2], False),
        (has[-2].replace("+time", ""), True),
        (has[-2] + " +get", True),
        (has[-2].replace("+time", "-time"), True),
    ):
        assert line.startswith("user backup ")
        place.links.drop("uid-0")
        place.server.answers["ACL LIST"] = [
            *(u.encode() for u in has if u != has[-2]),
            line.encode(),
        ]
        place.apply(facts)
        assert named(place.changes()) == (["ACL SETUSER backup"] if told else [])
    other = replace(facts, passwords=replace(facts.passwords, backup="new"))
    place.server.answers["ACL LIST"] = [line.encode() for line in has]
    place.apply(other)
    assert place.changes() == [f"ACL SETUSER backup resetpass {password_hash('new')}"]


def test_whom_a_server_follows_does_not_matter_where_all_is_our_own(place: Place) -> None:
    place.apply()
    place.node = replace(place.node, replication=Replication(follows="10.0.0.9:6379"))
    place.apply()
    assert len(place.server.asked("ACL LIST")) == 1


def test_a_server_that_hangs_costs_five_seconds(place: Place) -> None:
    place.server.state = "silent"
    (why,) = place.apply()
    assert "could not be given its passwords" in why
    assert 5.0 <= place.network.time() < 5.1


# While a database is filled

FILLED = replace(FACTS, filling=FillingFacts("backup"))


def test_clients_are_shut_out_before_a_worker_may_do_more(place: Place) -> None:
    place.apply(FILLED)
    sent = place.changes()
    shut, more = [named(sent).index(f"ACL SETUSER {user}") for user in ("default", "replication")]
    assert shut < more
    assert sent[-2:] == ["CLIENT KILL USER default", "CLIENT KILL USER admin"]


def test_clients_are_let_in_after_a_worker_may_do_less(place: Place) -> None:
    place.server.answers["ACL LIST"] = users(filling=True)
    place.apply()
    sent = named(place.changes())
    assert sent.index("ACL SETUSER replication") < sent.index("ACL SETUSER default")
    assert not [line for line in sent if line.startswith("CLIENT")]


def test_a_worker_may_empty_a_database_only_where_its_data_are_replaced(place: Place) -> None:
    place.apply(FILLED)
    assert not [line for line in place.changes() if "flushall" in line and "replication" in line]
    place.apply(replace(FACTS, filling=FillingFacts("backup", empties=True)))
    assert [line for line in place.changes() if "+flushall" in line and "replication" in line]


PROVEN = replace(FACTS, filling=FillingFacts("backup", closing=True))


def shutting(place: Place, *, loads: bool) -> None:
    """A server that reads its file of users again, with clients shut out or not yet."""

    def load_file(_: list[str]) -> bytes:
        place.server.answers["ACL LIST"] = users(filling=loads)
        return b"OK"

    place.server.answers["ACL LOAD"] = load_file


def test_a_server_shuts_clients_out_by_its_file_and_is_known_to_have_it(place: Place) -> None:
    shutting(place, loads=True)
    assert place.apply(PROVEN) == ()
    assert place.server.asked("ACL LOAD") == ["ACL LOAD"]
    assert place.server.opened == 2


def test_a_server_with_an_old_file_is_named_and_asked_again_after_ten_seconds(
    place: Place,
) -> None:
    shutting(place, loads=False)
    place.network.do(asyncio.sleep(100.0))
    for _ in range(2):
        (why,) = place.apply(PROVEN)
        assert "does not have the file of users yet" in why
    assert place.server.asked("ACL LOAD", "ACL SETUSER") == ["ACL LOAD"]
    assert (place.server.opened, len(place.server.asked("ACL LIST"))) == (2, 3)
    place.network.do(asyncio.sleep(9.9))
    place.apply(PROVEN)
    assert len(place.server.asked("ACL LOAD")) == 1
    place.network.do(asyncio.sleep(0.2))
    place.apply(PROVEN)
    assert len(place.server.asked("ACL LOAD")) == 2


def test_a_server_that_is_shut_does_not_load_its_file(place: Place) -> None:
    place.server.answers["ACL LIST"] = users(filling=True)
    assert place.apply(PROVEN) == ()
    assert place.server.asked("ACL LOAD", "ACL SETUSER") == []


def test_who_does_not_lead_changes_nothing(place: Place) -> None:
    place.lead = False
    shutting(place, loads=True)
    place.apply(PROVEN)
    (why,) = place.apply(replace(FACTS, passwords=replace(PASSWORDS, admin="new")))
    assert "not the leader" in why
    assert place.changes() == []


# How servers log in elsewhere


@pytest.mark.parametrize(
    ("user", "word", "told"),
    [
        ("replication", "r", []),
        ("replication", "old", ["CONFIG SET masterauth r"]),
        ("", "r", ["CONFIG SET masteruser replication"]),
    ],
)
def test_servers_log_in_to_their_primary_with_the_password_of_now(
    place: Place, user: str, word: str, told: list[str]
) -> None:
    place.server.answers["CONFIG GET masteruser"] = [b"masteruser", user.encode()]
    place.server.answers["CONFIG GET masterauth"] = [b"masterauth", word.encode()]
    place.apply()
    assert place.changes() == told


def test_a_server_without_the_setting_is_not_told_it(place: Place) -> None:
    place.server.answers["CONFIG GET masteruser"] = []
    place.server.answers["CONFIG GET masterauth"] = []
    place.apply()
    assert place.changes() == []


COPY = {"bootstrap": {"fromRedis": {"host": "elsewhere"}}}


@pytest.mark.parametrize(
    ("follows", "login", "told"),
    [
        ("elsewhere", SourceLogin("u", "p"), ["masteruser u", "masterauth p"]),
        ("elsewhere", SourceLogin("u", ""), ["masteruser ", "masterauth "]),
        ("elsewhere", None, []),
        ("10.0.0.9", SourceLogin("u", "p"), []),
        ("", SourceLogin("u", "p"), []),
    ],
    ids=["its login", "without a password", "not known", "our own primary", "a primary"],
)
def test_our_password_is_not_sent_to_a_server_elsewhere(
    place: Place, follows: str, login: SourceLogin | None, told: list[str]
) -> None:
    place.server.answers["ROLE"] = role(follows)
    place.apply(replace(FACTS, source=login), of=redis(**COPY))
    assert place.changes() == [f"CONFIG SET {line}" for line in told]


def test_a_copy_that_the_spec_does_not_name_any_more_keeps_its_login(place: Place) -> None:
    place.server.answers["ROLE"] = role("elsewhere")
    place.server.answers["CONFIG GET masterauth"] = [b"masterauth", b"other"]
    place.apply(copied=SOURCE)
    assert place.changes() == []
    place.server.answers["ROLE"] = role("10.0.0.9")
    place.node = replace(place.node, replication=Replication(follows="10.0.0.9:6379"))
    place.apply(copied=SOURCE)
    assert place.changes() == ["CONFIG SET masterauth r"]


@pytest.mark.parametrize("login", [SourceLogin("u", "q"), SourceLogin("v", "p"), None])
def test_another_login_elsewhere_is_told(place: Place, login: SourceLogin | None) -> None:
    place.server.answers["ROLE"] = role("elsewhere")
    copy = redis(**COPY)
    place.apply(replace(FACTS, source=SourceLogin("u", "p")), of=copy)
    place.changes()
    place.apply(replace(FACTS, source=login), of=copy)
    assert bool(place.changes()) == (login is not None)


# Sentinels


def test_a_sentinel_is_told_its_passwords_once_for_each_connection(place: Place) -> None:
    watcher = place.monitoring()
    for _ in range(2):
        assert place.apply(nodes=(), sentinels=(watcher,)) == ()
    assert place.sentinel.asked("SENTINEL CONFIG", "SENTINEL SET") == [
        "SENTINEL CONFIG SET sentinel-pass s",
        "SENTINEL SET ns.db auth-pass s",
    ]


def test_a_sentinel_that_begins_to_monitor_is_told_only_how_to_log_in_to_servers(
    place: Place,
) -> None:
    place.apply(nodes=(), sentinels=(place.watcher,))
    assert place.sentinel.asked("SENTINEL SET") == []
    place.sentinel.sent.clear()
    place.apply(nodes=(), sentinels=(place.monitoring(),))
    assert place.sentinel.asked("SENTINEL") == ["SENTINEL SET ns.db auth-pass s"]


@pytest.mark.parametrize(("word", "told"), [("s", []), ("old", ["SENTINEL SET ns.db auth-pass s"])])
def test_what_a_sentinel_was_told_when_it_began_to_monitor_is_not_repeated(
    place: Place, word: str, told: list[str]
) -> None:
    async def note() -> None:
        link = await place.links.open(place.targets["db-sentinel-0"], timeout=1.0)
        link.notes[SERVER_PASSWORD] = password_hash(word)

    place.network.do(note())
    place.apply(nodes=(), sentinels=(place.monitoring(),))
    assert place.sentinel.asked("SENTINEL SET") == told


# What cannot be told


def test_what_cannot_be_told_is_named_and_hides_no_other(place: Place) -> None:
    unknown = replace(place.node, version="next")
    why = place.apply(nodes=(unknown,), sentinels=(place.watcher,))
    assert why == ("db-0 runs valkey next, which is not known",)
    assert place.sentinel.asked("ACL LIST") == ["ACL LIST"]
    place.server.answers["ACL LIST"] = error("NOPERM no")
    (why,) = place.apply()
    assert why.startswith("db-0 could not be given its passwords: ")
    place.server.answers["ACL LIST"] = users()
    assert place.apply() == ()
    assert place.server.asked("ACL LIST") == ["ACL LIST"] * 2


def test_a_server_without_an_address_is_left_out(place: Place) -> None:
    place.targets.clear()
    assert place.apply(sentinels=(place.watcher,)) == ()
    assert place.server.sent == place.sentinel.sent == []
