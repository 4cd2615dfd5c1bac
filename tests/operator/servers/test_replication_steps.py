"""Steps of mode Failover on scripted servers: what is sent, in which order, and what never is.

Real servers and sentinels are in `test_replication.py`; here every answer can be given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.operator.scripted import Gone, Host, Network, error, in_turn, info, refusal, role

from redis_operator.manifests.facts import Passwords
from redis_operator.operator.servers.actions import Servers
from redis_operator.operator.servers.failover_dialect import FAILOVER
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.replication import replication_effects
from redis_operator.planning.at import At
from redis_operator.planning.failover.actions import (
    Elect,
    Follow,
    Introduce,
    Promote,
    ResetSentinel,
    SwitchOver,
    Unwatch,
    Watch,
)
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import RunId
from redis_operator.redis.connection import Address

NAME = "ns.db"
OLD, NEW, OTHER = "10.0.0.1", "10.0.0.2", "10.0.0.3"
WATCHERS = ("10.0.1.1", "10.0.1.2", "10.0.1.3")
PASSWORDS = Passwords("a", "b", "c", "d", "e", sentinel="watch")
PROMOTE = "REPLICAOF NO ONE"


def at(ip: str) -> At:
    return At(f"pod-{ip}", f"uid-{ip}", ip, RunId(f"run-{ip}"))


def primary(ip: str, offset: int = 100, **fields: Any) -> Host:
    told = info(run_id=f"run-{ip}", master_repl_offset=offset, master_replid="h", **fields)
    return Host({"INFO": told, "DBSIZE": 5, "ROLE": role()})


def replica_info(ip: str, of: str, offset: int, **fields: Any) -> bytes:
    found = {"role": "slave", "run_id": f"run-{ip}", "master_host": of, "master_port": 6379}
    return info(**found, slave_repl_offset=offset, master_replid="h", **fields)


def replica(ip: str, of: str = OLD, offset: int = 100, **fields: Any) -> Host:
    told = replica_info(ip, of, offset, **fields)
    return Host({"INFO": told, "DBSIZE": 5, "ROLE": in_turn(role(of), role())})


def words(**fields: Any) -> list[bytes]:
    found = {"name": NAME, "port": 6379, "runid": "x", "flags": "master", **fields}
    return [
        str(word).replace("_", "-").encode() if n % 2 == 0 else str(word).encode()
        for n, word in enumerate(word for pair in found.items() for word in pair)
    ]


def sentinel(ip: str, names: str = OLD, **fields: Any) -> Host:
    monitored = [words(ip=names, **fields)] if names else []
    return Host(
        {
            "SENTINEL MYID": f"run-{ip}".encode(),
            "SENTINEL MASTERS": monitored,
            "SENTINEL REPLICAS": [],
            "SENTINEL SENTINELS": [],
            "SENTINEL GET-MASTER-ADDR-BY-NAME": [names.encode(), b"6379"] if names else None,
            "SENTINEL RESET": 1,
            "PUBLISH": 1,
            "INFO": info(run_id=f"run-{ip}", sentinel_masters=len(monitored), sentinel_tilt=0),
        }
    )


class Database:
    """A primary, a replica, one more, and three sentinels."""

    def __init__(self) -> None:
        self.old, self.new, self.other = primary(OLD), replica(NEW), replica(OTHER)
        self.watchers = [sentinel(ip) for ip in WATCHERS]
        hosts = dict(zip((OLD, NEW, OTHER), (self.old, self.new, self.other), strict=True))
        hosts |= dict(zip(WATCHERS, self.watchers, strict=True))
        self.network = Network(hosts)
        targets = {f"pod-{ip}": Target(f"uid-{ip}", Address(ip)) for ip in hosts}
        self.links = Links(on_lost=lambda _: None)
        servers = Servers(self.links, targets, None, FAILOVER)  # type: ignore[arg-type]
        self.effects = replication_effects(servers, PASSWORDS)

    def do(self, action: Any) -> str:
        return self.network.do(refusal(self.effects, action))


@pytest.fixture
def database() -> Iterator[Database]:
    found = Database()
    yield found
    found.links.close()
    found.network.close()


# Promotions

PROMOTION = Promote(node=at(NEW), follows=f"{OLD}:6379", fence=Fence.NEVER_LED)


def test_a_replica_is_promoted_once(database: Database) -> None:
    assert database.do(PROMOTION) == ""
    assert database.new.asked("REPLICAOF") == [PROMOTE]


def test_a_primary_is_not_promoted_again(database: Database) -> None:
    database.new.answers["INFO"] = info(run_id=f"run-{NEW}")
    assert database.do(PROMOTION) == ""
    assert database.new.asked("REPLICAOF") == []


def test_a_promotion_whose_fence_fell_is_refused(database: Database) -> None:
    fenced = replace(PROMOTION, fence=Fence.PROCESS_GONE, primary_pod=f"pod-{OLD}")
    assert "responds again" in database.do(fenced)
    assert database.new.asked("REPLICAOF") == []


def test_a_promotion_waits_until_the_server_says_that_it_leads(database: Database) -> None:
    database.new.answers["ROLE"] = in_turn(*([role(OLD)] * 50), role())
    assert database.do(PROMOTION) == ""
    assert len(database.new.asked("ROLE")) == 51
    assert 0.2 < database.network.time() < 0.5


def test_a_promotion_that_is_not_seen_in_time_has_failed(database: Database) -> None:
    database.new.answers["ROLE"] = role(OLD)
    assert f"Failed: pod-{NEW} was asked to take over" in database.do(PROMOTION)
    assert 2.0 <= database.network.time() < 2.1


def test_a_server_that_does_not_respond_costs_two_seconds(database: Database) -> None:
    def hang(_: list[str]) -> bytes:
        database.new.state = "silent"
        return b"OK"

    database.new.answers[PROMOTE] = hang
    assert "DeadlineError" in database.do(PROMOTION)
    assert 2.0 <= database.network.time() < 2.1


def test_all_of_a_source_must_be_asked_for_before_a_promotion(database: Database) -> None:
    assert "elsewhere:6379 cannot be asked" in database.do(
        replace(PROMOTION, source="elsewhere:6379")
    )
    assert database.new.asked("REPLICAOF") == []


# Followers


@pytest.mark.parametrize(
    ("follows", "leads", "source", "sent"),
    [
        (OTHER, OLD, "", [f"REPLICAOF {OLD} 6379"]),
        (OLD, OLD, "", []),
        (OTHER, NEW, "", "no longer a primary"),
        (OTHER, NEW, f"{OLD}:6379", [f"REPLICAOF {NEW} 6379"]),
        (OTHER, NEW, "elsewhere:6379", "no longer a primary"),
    ],
    ids=["told", "follows already", "not a primary", "of a source", "of another source"],
)
def test_a_server_follows_only_who_leads_now(
    database: Database, follows: str, leads: str, source: str, sent: list[str] | str
) -> None:
    database.other.answers["INFO"] = replica_info(OTHER, follows, 100)
    action = Follow(at(OTHER), at(leads), f"{follows}:6379", source=source)
    why = database.do(action)
    if isinstance(sent, str):
        assert sent in why
        sent = []
    else:
        assert why == ""
    assert database.other.asked("REPLICAOF") == sent


# Switchover

SWITCH = SwitchOver(at(NEW), at(OLD), NAME, tuple(map(at, WATCHERS)))


def test_a_switchover_pauses_promotes_demotes_and_releases_in_that_order(
    database: Database,
) -> None:
    assert database.do(SWITCH) == ""
    assert database.old.asked("REPLICAOF", "CLIENT", "MULTI") == [
        "REPLICAOF 127.0.0.1 none",
        *("MULTI", "CLIENT PAUSE 3000 WRITE", "MULTI", "CLIENT PAUSE 3000 WRITE"),
        *(f"REPLICAOF {NEW} 6379", "CLIENT UNPAUSE"),
    ]
    assert database.new.asked("REPLICAOF") == [PROMOTE]


def test_a_switchover_that_was_done_is_not_done_again(database: Database) -> None:
    database.new.answers["INFO"] = info(run_id=f"run-{NEW}")
    assert database.do(SWITCH) == ""
    assert database.old.asked("REPLICAOF", "CLIENT") == []


def test_a_primary_that_does_not_lead_any_more_is_not_paused(database: Database) -> None:
    database.old.answers["INFO"] = replica_info(OLD, OTHER, 100)
    assert "no longer a primary" in database.do(SWITCH)
    assert database.old.asked("CLIENT", "REPLICAOF") == []


@pytest.mark.parametrize(
    ("answer", "goes_on"),
    [
        (error("ERR Invalid master port"), True),
        (error("NOPERM this user has no permissions"), False),
        (error("MISCONF no"), False),
    ],
    ids=["as expected", "not allowed", "another refusal"],
)
def test_a_primary_that_cannot_be_demoted_is_not_replaced(
    database: Database, answer: Exception, *, goes_on: bool
) -> None:
    database.old.answers["REPLICAOF 127.0.0.1 none"] = answer
    assert (database.do(SWITCH) == "") == goes_on
    assert (database.new.asked("REPLICAOF") == [PROMOTE]) == goes_on
    assert bool(database.old.asked("CLIENT PAUSE")) == goes_on


def test_a_pause_that_is_refused_ends_the_switchover(database: Database) -> None:
    database.old.answers["CLIENT PAUSE"] = error("ERR no")
    assert "Refused: writes cannot be paused" in database.do(SWITCH)
    assert database.new.asked("REPLICAOF") == []


@pytest.mark.parametrize(
    ("offsets", "done"),
    [((99, 99, 100), True), ((99,) * 300, False), ((101,), True)],
    ids=["catches up", "does not", "is ahead"],
)
def test_a_replica_without_all_writes_is_not_promoted(
    database: Database, offsets: tuple[int, ...], *, done: bool
) -> None:
    first = replica_info(NEW, OLD, 0)
    database.new.answers["INFO replication"] = in_turn(
        *(replica_info(NEW, OLD, offset) for offset in offsets)
    )
    database.new.answers["INFO"] = first
    why = database.do(SWITCH)
    assert (why == "") == done, why
    assert (database.new.asked("REPLICAOF") == [PROMOTE]) == done
    assert database.old.asked("CLIENT UNPAUSE")
    if done:
        assert database.network.time() < 0.1
    else:
        assert 1.5 <= database.network.time() < 1.55
        assert "is at offset 99 and not yet at 100" in why
        assert database.old.asked("REPLICAOF") == ["REPLICAOF 127.0.0.1 none"]


def test_a_server_that_became_a_primary_meanwhile_does_not_count_as_caught_up(
    database: Database,
) -> None:
    database.new.answers["INFO replication"] = info(run_id=f"run-{NEW}", master_repl_offset=500)
    assert "did not take over" in database.do(SWITCH)
    assert database.new.asked("REPLICAOF") == []


@pytest.mark.parametrize(
    ("later", "done"), [(100, True), (101, False)], ids=["no write", "a write"]
)
def test_a_promotion_is_taken_back_where_the_old_primary_accepted_a_write(
    database: Database, later: int, *, done: bool
) -> None:
    database.old.answers["INFO replication"] = in_turn(
        info(master_repl_offset=100), info(master_repl_offset=later)
    )
    why = database.do(SWITCH)
    assert (why == "") == done, why
    assert database.new.asked("REPLICAOF") == [
        PROMOTE,
        *([] if done else [f"REPLICAOF {OLD} 6379"]),
    ]
    demoted = f"REPLICAOF {NEW} 6379" in database.old.sent
    assert demoted == done
    assert database.old.asked("CLIENT UNPAUSE")


def test_a_promotion_without_an_answer_is_taken_back(database: Database) -> None:
    database.new.answers[PROMOTE] = Gone()
    assert "did not take over" in database.do(SWITCH)
    assert database.new.asked("REPLICAOF") == [PROMOTE, f"REPLICAOF {OLD} 6379"]
    assert f"REPLICAOF {NEW} 6379" not in database.old.sent


def test_a_replica_that_cannot_be_taken_back_is_left_to_the_repair(database: Database) -> None:
    database.new.answers[PROMOTE] = Gone()
    database.new.answers[f"REPLICAOF {OLD}"] = error("ERR no")
    assert "did not take over" in database.do(SWITCH)
    assert database.old.asked("CLIENT UNPAUSE")


def test_a_release_that_fails_does_not_hide_what_was_done(database: Database) -> None:
    database.old.answers["CLIENT UNPAUSE"] = error("ERR no")
    assert database.do(SWITCH) == ""


# Sentinels


def watch(**changes: Any) -> Watch:
    found = Watch(at(WATCHERS[0]), NAME, at(OLD), 2, named=f"{OLD}:6379")
    return replace(found, **changes)


SET = f"SENTINEL SET {NAME} quorum 2 auth-user"
MONITOR = f"SENTINEL MONITOR {NAME} {OLD} 6379 2"
REMOVE = f"SENTINEL REMOVE {NAME}"


@pytest.mark.parametrize(
    ("names", "afresh", "told"),
    [
        (OLD, False, []),
        (OLD, True, [REMOVE, MONITOR]),
        (OTHER, False, [REMOVE, MONITOR]),
        ("", False, [MONITOR]),
        ("", True, [MONITOR]),
    ],
    ids=["known", "afresh", "another", "nothing", "nothing afresh"],
)
def test_a_sentinel_is_told_only_what_it_does_not_know(
    database: Database, names: str, told: list[str], *, afresh: bool
) -> None:
    watcher = sentinel(WATCHERS[0], names)
    database.network.hosts[WATCHERS[0]] = watcher
    action = watch(afresh=afresh, named=f"{names}:6379", others=(at(WATCHERS[1]),))
    assert database.do(action) == ""
    assert watcher.asked("SENTINEL REMOVE", "SENTINEL MONITOR") == told
    assert len(watcher.asked(SET)) == 1
    hello = f"10.0.1.2,26379,run-10.0.1.2,0,{NAME},{OLD},6379,0"
    assert watcher.asked("PUBLISH") == ([f"PUBLISH __sentinel__:hello {hello}"] if told else [])
    assert watcher.sent.index(watcher.asked(SET)[0]) > max(
        (watcher.sent.index(line) for line in told), default=0
    )


def test_no_sentinel_monitors_a_server_that_does_not_lead(database: Database) -> None:
    database.old.answers["INFO"] = replica_info(OLD, OTHER, 1)
    assert "no longer a primary" in database.do(watch(afresh=True))
    assert database.watchers[0].asked("SENTINEL MONITOR", "SENTINEL SET", "SENTINEL REMOVE") == []


@pytest.mark.parametrize(
    ("command", "answer", "fails"),
    [
        ("SENTINEL SET", error("ERR no such option"), True),
        ("SENTINEL REMOVE", error("ERR No such master with that name"), False),
        ("SENTINEL MONITOR", error("ERR Duplicated master name"), True),
        ("PUBLISH", error("NOPERM no permissions"), False),
        ("PUBLISH", error("ERR no"), True),
    ],
    ids=["setting", "removed already", "monitor", "may not introduce", "introduction"],
)
def test_what_a_sentinel_refuses_is_told_unless_it_does_not_matter(
    database: Database, command: str, answer: Exception, *, fails: bool
) -> None:
    database.watchers[0].answers[command] = answer
    why = database.do(watch(afresh=True, others=(at(WATCHERS[1]),)))
    assert bool(why) == fails, why


@pytest.mark.parametrize("names", [OLD, ""], ids=["monitored", "nothing"])
def test_a_sentinel_that_monitors_nothing_is_not_told_to_stop(
    database: Database, names: str
) -> None:
    database.network.hosts[WATCHERS[0]] = watcher = sentinel(WATCHERS[0], names)
    assert database.do(Unwatch(at(WATCHERS[0]), NAME, f"{OLD}:6379")) == ""
    assert watcher.asked("SENTINEL REMOVE") == ([REMOVE] if names else [])


def test_a_sentinel_that_forgets_is_told_of_the_others_in_the_same_write(
    database: Database,
) -> None:
    others = tuple(map(at, WATCHERS[1:]))
    assert database.do(ResetSentinel(at(WATCHERS[0]), NAME, at(OLD), others)) == ""
    sent = database.watchers[0].asked("SENTINEL RESET", "PUBLISH")
    assert sent[0] == f"SENTINEL RESET {NAME}"
    assert len(sent) == 3
    assert database.do(Introduce(at(WATCHERS[1]), NAME, at(OLD), others[1:])) == ""
    assert database.watchers[1].asked("SENTINEL RESET") == []
    assert len(database.watchers[1].asked("PUBLISH")) == 1


def test_another_sentinel_in_the_same_pod_is_told_nothing(database: Database) -> None:
    database.watchers[0].answers["SENTINEL MYID"] = b"somebody"
    assert "Refused" in database.do(watch(afresh=True))
    assert database.watchers[0].asked("SENTINEL MONITOR", "SENTINEL SET") == []


# Votes

ELECTION = Elect(
    node=at(NEW),
    follows=f"{OLD}:6379",
    name=NAME,
    sentinels=tuple(map(at, WATCHERS)),
    needed=2,
    replication_id="h",
)


def votes(seen: int, *, gives: bool = True, down: int = 1) -> Any:
    """A sentinel that has seen an epoch, and votes in each that is higher."""
    known = [seen]

    def answer(asked: list[str]) -> list[Any]:
        epoch, candidate = int(asked[4]), asked[5]
        if gives and epoch > known[0]:
            known[0] = epoch
            return [down, candidate.encode(), epoch]
        return [down, b"another", known[0] if epoch == 0 else 1]

    return answer


def silent_primary(database: Database, *answers: Any) -> None:
    for ip, answer in zip(WATCHERS, answers, strict=True):
        fields = {"flags": "master,s_down", "s_down_time": 9000, "down_after_milliseconds": 5000}
        found = database.network.hosts[ip] = sentinel(ip, OLD, **fields)
        found.answers["SENTINEL IS-MASTER-DOWN-BY-ADDR"] = answer
    database.watchers = [database.network.hosts[ip] for ip in WATCHERS]


def hellos(database: Database) -> list[str]:
    return [line for watcher in database.watchers for line in watcher.asked("PUBLISH")]


def test_sentinels_that_voted_name_the_replica_in_the_epoch_of_the_vote(
    database: Database,
) -> None:
    silent_primary(database, votes(4), votes(4), votes(2))
    assert database.do(ELECTION) == ""
    told = [line.rpartition(" ")[2].split(",") for line in hellos(database)]
    assert [(w[0], *w[3:]) for w in told] == [
        (WATCHERS[1], "5", NAME, NEW, "6379", "5"),
        (WATCHERS[0], "5", NAME, NEW, "6379", "5"),
        (WATCHERS[0], "5", NAME, NEW, "6379", "5"),
    ]
    asked = database.watchers[0].asked("SENTINEL IS-MASTER-DOWN-BY-ADDR")
    assert [line.split()[2:5] for line in asked] == [[OLD, "6379", "0"], [OLD, "6379", "5"]]


def test_a_sentinel_that_saw_a_far_higher_epoch_is_found(database: Database) -> None:
    silent_primary(database, votes(40, gives=True), votes(40, gives=True), votes(1, gives=False))
    for watcher in database.watchers:
        known = watcher.answers["SENTINEL IS-MASTER-DOWN-BY-ADDR"]

        def hides(asked: list[str], known: Any = known) -> Any:
            return [1, b"another", 1] if asked[4] == "0" else known(asked)

        watcher.answers["SENTINEL IS-MASTER-DOWN-BY-ADDR"] = hides
    assert database.do(ELECTION) == ""
    epochs = [
        int(line.split()[4]) for line in database.watchers[0].asked("SENTINEL IS-MASTER-DOWN")
    ]
    assert epochs == [0, 2, 3, 5, 9, 17, 33, 65]


@pytest.mark.parametrize(
    "answers",
    [
        (votes(1), votes(1, gives=False), votes(1, gives=False)),
        (votes(1), votes(1, down=0), votes(1, down=0)),
    ],
    ids=["one vote", "it is not down for two"],
)
def test_without_enough_votes_no_sentinel_is_told_anything(
    database: Database, answers: tuple[Any, ...]
) -> None:
    silent_primary(database, *answers)
    assert "did not vote" in database.do(ELECTION)
    assert hellos(database) == []
    assert len(database.watchers[0].asked("SENTINEL IS-MASTER-DOWN-BY-ADDR")) == 22


def test_sentinels_that_name_the_replica_are_not_asked_for_votes(database: Database) -> None:
    for ip in WATCHERS[:2]:
        database.network.hosts[ip] = sentinel(ip, NEW)
    assert database.do(ELECTION) == ""
    asked = [h for ip in WATCHERS for h in database.network.hosts[ip].asked("SENTINEL IS-MASTER")]
    assert asked == []
