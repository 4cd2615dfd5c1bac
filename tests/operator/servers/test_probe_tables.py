"""What is read of servers and sentinels, answer by answer, and what their silence is taken for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.operator.scripted import SLOW_SECONDS, Gone, Host, Network, error, in_turn, info

from redis_operator.api.redis import Mode
from redis_operator.operator.servers.dialects import DIALECTS
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.probe import Question, probe, probe_sentinel
from redis_operator.planning.clusters import (
    Counted,
    NotCounted,
    NotWeighed,
    PeerFlag,
    SlotState,
    Weighed,
)
from redis_operator.planning.identity import NodeId, Role, RunId
from redis_operator.planning.observed import (
    Evidence,
    Pod,
    PodPhase,
    Seen,
    SentinelSeen,
    Unreachable,
)
from redis_operator.planning.sentinels import SentinelFlag
from redis_operator.redis.connection import Address, Credentials
from redis_operator.redis.errors import LostError
from redis_operator.redis.slots import SlotSet

IP = "10.0.0.1"
POD = Pod("db-0-0", "uid", 0, 0, IP)
TARGET = Target("uid", Address(IP))
ME, OTHER, THIRD = "a" * 40, "b" * 40, "c" * 40
NODES = (
    f"{ME} {IP}:6379@16379 myself,master - 0 0 7 connected 0-99 [5->-{OTHER}] [200-<-{THIRD}]\n"
    f"{OTHER} 10.0.0.2:6379@16379 slave,fail? {ME} 0 0 3 disconnected\n"
    f"{THIRD} 10.0.0.3:6379@16379 master,noaddr,odd - 0 0 9 connected 100-199\n"
)
CLUSTER_INFO = b"cluster_state:ok\r\ncluster_current_epoch:11\r\ncluster_slots_assigned:200"


def stats(*slots: int, **fields: int) -> list[Any]:
    words = [word for name, value in fields.items() for word in (name.replace("_", "-"), value)]
    told = [word.encode() if isinstance(word, str) else word for word in words]
    return [[slot, told] for slot in slots]


def counted(words: list[str]) -> list[int]:
    """Three keys in each of two slots, as the script that counts tells them."""
    first, last = int(words[-2]), int(words[-1])
    return [word for slot in (5, 150) if first <= slot <= last for word in (slot, 3)]


def cluster_server(version: str = "7.2.4", **answers: Any) -> Host:
    told = info(redis_version=version, db0="keys=4,expires=0", uptime_in_seconds=60)
    return Host(
        {
            "INFO": told,
            "DBSIZE": 4,
            "CLUSTER NODES": NODES.encode(),
            "CLUSTER INFO": CLUSTER_INFO,
            "EVALSHA_RO": counted,
            "CLUSTER GETSLOTMIGRATIONS": [],
            "CLUSTER MIGRATION": [],
            **{name.replace("_", " "): answer for name, answer in answers.items()},
        }
    )


class Place:
    def __init__(self) -> None:
        self.lost: list[str] = []
        self.now = 1000.0
        self.links = Links(on_lost=self.lost.append)
        self.network = Network({})

    def ask(self, host: Host | None = None, **question: Any) -> Any:
        if host is not None:
            self.network.hosts[IP] = host
        asked = Question(**{"pod": POD, "target": TARGET, **question})
        return self.network.do(probe(self.links, asked, timeout=1.0, clock=lambda: self.now))


@pytest.fixture
def place() -> Iterator[Place]:
    found = Place()
    yield found
    found.links.close()
    found.network.close()


# Mode Cluster


def test_a_server_of_a_cluster_is_seen_as_it_says(place: Place) -> None:
    seen = place.ask(cluster_server())
    assert isinstance(seen, Seen)
    assert (seen.id, seen.role, seen.replica_of, seen.keys) == (ME, Role.PRIMARY, None, 4)
    assert (seen.ip, seen.config_epoch, seen.started_at) == (IP, 7, 940.0)
    assert seen.view is not None
    assert (seen.view.current_epoch, seen.state_ok) == (11, True)
    assert seen.slots == SlotSet(range(100))
    assert [(o.slot, o.state, o.peer) for o in seen.open_slots] == [
        (5, SlotState.MIGRATING, OTHER),
        (200, SlotState.IMPORTING, THIRD),
    ]
    replica, primary = seen.peers
    assert (replica.id, replica.ip, replica.role) == (OTHER, "10.0.0.2", Role.REPLICA)
    assert (replica.replica_of, replica.connected) == (ME, False)
    assert (replica.flags, replica.config_epoch) == (frozenset({PeerFlag.PFAIL}), 3)
    assert (primary.role, primary.replica_of, primary.connected) == (Role.PRIMARY, None, True)
    assert (primary.flags, primary.slots) == (
        frozenset({PeerFlag.NOADDR}),
        SlotSet(range(100, 200)),
    )
    assert place.ask().peers[0] is seen.peers[0]  # planning compares them by identity


def test_a_replica_of_a_cluster_names_its_primary_and_has_no_strays(place: Place) -> None:
    nodes = f"{ME} {IP}:6379@16379 myself,slave {OTHER} 0 0 7 connected\n"
    seen = place.ask(cluster_server(CLUSTER_NODES=nodes.encode()), count_strays=True)
    assert (seen.role, seen.replica_of, seen.peers) == (Role.REPLICA, OTHER, ())
    assert (seen.stranded, seen.weighed) == (Counted(), Weighed())


def test_a_server_that_does_not_name_itself_is_not_seen(place: Place) -> None:
    nodes = NODES.replace("myself,", "").encode()
    found = place.ask(cluster_server(CLUSTER_NODES=nodes))
    assert isinstance(found, Unreachable)
    assert "no line about the server itself" in found.error


@pytest.mark.parametrize(
    ("ask", "keys", "counted", "weighed"),
    [
        (True, 4, Counted(((150, 3),)), Weighed(((5, 3),), "key-count")),
        (False, 4, NotCounted(), NotWeighed()),
        (False, 0, Counted(), Weighed()),
        (True, 0, Counted(), Weighed()),
    ],
    ids=["asked", "not asked", "empty", "empty and asked"],
)
def test_keys_are_counted_where_that_is_asked_for(
    place: Place, keys: int, counted: Any, weighed: Any, *, ask: bool
) -> None:
    told = info(db0=f"keys={keys},expires=0") if keys else info()
    seen = place.ask(cluster_server(INFO=told), count_strays=ask)
    assert (seen.stranded, seen.weighed) == (counted, weighed)
    assert bool(place.network.hosts[IP].asked("EVALSHA_RO")) == bool(ask and keys)


def test_a_server_that_cannot_be_counted_is_seen_all_the_same(place: Place) -> None:
    host = cluster_server(CLUSTER_COUNTKEYSINSLOT=error("NOPERM no"))
    host.answers["EVALSHA_RO"] = error("LOADING no")
    seen = place.ask(host, count_strays=True)
    assert (seen.stranded, seen.weighed) == (NotCounted(), NotWeighed())


@pytest.mark.parametrize(
    ("version", "answers", "weighed"),
    [
        (
            "8.2.0",
            [stats(0, memory_bytes=1), [*stats(0, 9, memory_bytes=8), *stats(8)]],
            "memory-bytes",
        ),
        ("8.2.0", [stats(0, key_count=1), stats(0, memory_bytes=8)], "key-count"),
        ("8.2.0", [stats(0, memory_bytes=1), stats(0, memory_bytes=0)], "key-count"),
        ("8.2.0", [error("NOPERM no")], "key-count"),
        ("8.2.0", [stats(0, memory_bytes=1), error("NOPERM no")], "key-count"),
        ("7.2.4", [stats(0, memory_bytes=8)], "key-count"),
        ("odd", [stats(0, memory_bytes=8)], "key-count"),
    ],
    ids=["bytes", "no bytes", "none", "forbidden", "forbidden later", "older", "unknown"],
)
def test_slots_are_weighed_by_bytes_where_the_engine_tells_them(
    place: Place, version: str, answers: list[Any], weighed: str
) -> None:
    host = cluster_server(version)
    host.answers["CLUSTER SLOT-STATS"] = in_turn(*answers)
    seen = place.ask(host, count_strays=True)
    assert isinstance(seen.weighed, Weighed)
    assert seen.weighed.unit == weighed
    if weighed == "memory-bytes":
        assert seen.weighed.by_slot == ((0, 8), (9, 8))
        assert host.asked("CLUSTER SLOT-STATS") == [
            "CLUSTER SLOT-STATS SLOTSRANGE 0 0",
            "CLUSTER SLOT-STATS SLOTSRANGE 0 99",
        ]


def job(state: str, **fields: str) -> list[bytes]:
    found = {"name": "j", "slot_ranges": "0-9", "state": state, **fields}
    return [word.encode() for pair in found.items() for word in pair]


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        ({"valkey_version": "9.0.0"}, "CLUSTER GETSLOTMIGRATIONS"),
        ({"redis_version": "8.4.0"}, "CLUSTER MIGRATION STATUS"),
        ({"redis_version": "7.2.4"}, ""),
        ({"redis_version": "odd"}, ""),
    ],
)
def test_migrations_that_are_not_finished_are_told(
    place: Place, fields: dict[str, str], command: str
) -> None:
    jobs = [job("running", source_node=OTHER), job("success"), job("running", target_node=THIRD)]
    host = cluster_server(INFO=info(**fields))
    host.answers |= {"CLUSTER GETSLOTMIGRATIONS": jobs, "CLUSTER MIGRATION STATUS": jobs}
    seen = place.ask(host)
    told = [(found.source, found.target) for found in seen.jobs]
    assert told == ([(OTHER, ME), (ME, THIRD)] if command else [])
    sent = host.asked("CLUSTER GETSLOTMIGRATIONS", "CLUSTER MIGRATION")
    assert [line[: len(command)] for line in sent] == ([command] if command else [])
    host.answers |= dict.fromkeys(host.answers.keys() & {command}, error("ERR unknown"))
    assert place.ask().jobs == ()


# What every server tells


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"master_repl_offset": 9}, {"offset": 9, "link_up": True, "follows": ""}),
        ({"role": "slave", "master_link_status": "up", "master_host": "h", "master_port": 1},
         {"link_up": True, "follows": "h:1", "down_seconds": 0.0, "unlinked": False}),
        ({"role": "slave", "master_link_status": "down", "master_link_down_since_seconds": 0},
         {"link_up": False, "down_seconds": 0.5, "unlinked": False}),
        ({"role": "slave", "master_link_status": "down", "master_link_down_since_seconds": 7},
         {"link_up": False, "down_seconds": 7.0, "unlinked": False}),
        ({"role": "slave", "master_link_status": "down", "master_link_down_since_seconds": -1},
         {"link_up": False, "down_seconds": 0.0, "unlinked": True}),
        ({"role": "slave", "master_link_status": "up", "master_link_down_since_seconds": 0},
         {"link_up": True, "down_seconds": 0.0, "unlinked": False}),
        ({"master_replid": "x", "master_replid2": "y", "second_repl_offset": 4,
          "slave_priority": 0, "master_sync_in_progress": 1},
         {"id": "x", "id2": "y", "id2_offset": 4, "priority": 0, "syncing": True}),
    ],
)  # fmt: skip
def test_replication_is_read_as_planning_knows_it(
    place: Place, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    seen = place.ask(Host({"INFO": info(**fields), "DBSIZE": 1}), mode=Mode.STANDALONE)
    found = {name: getattr(seen.replication, name) for name in expected}
    assert found == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"loading": 1}, {"loading": True}),
        ({"loading": 0}, {"loading": False, "aof_failed": False, "snapshot_failed": False}),
        ({"aof_enabled": 1, "aof_last_write_status": "err"}, {"aof_failed": True}),
        ({"aof_enabled": 0, "aof_last_write_status": "err"}, {"aof_failed": False}),
        ({"rdb_last_bgsave_status": "err"}, {"snapshot_failed": True}),
        ({"sync_full": 3, "unexpected_error_replies": 2},
         {"full_syncs": 3, "refused_commands": 2}),
        ({"used_memory": 5, "maxmemory": 6}, {"used_memory": 5, "max_memory": 6}),
        ({"valkey_version": "8.1.4"}, {"engine": "valkey", "version": "8.1.4"}),
        ({"uptime_in_seconds": 30}, {"started_at": 970.0, "id": "run", "keys": 1}),
    ],
)  # fmt: skip
def test_what_a_server_tells_of_itself(
    place: Place, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    seen = place.ask(Host({"INFO": info(**fields), "DBSIZE": 1}), mode=Mode.STANDALONE)
    assert {name: getattr(seen, name) for name in expected} == expected


def test_keys_are_read_from_info_where_they_cannot_be_asked_for(place: Place) -> None:
    host = Host({"INFO": info(db0="keys=7,expires=0"), "DBSIZE": error("NOPERM no")})
    assert place.ask(host, mode=Mode.STANDALONE).keys == 7


@pytest.mark.parametrize(
    ("version", "together"), [("7.0.0", True), ("6.2.0", False), ("odd", False)]
)
def test_directives_are_asked_for_together_where_that_is_understood(
    place: Place, version: str, *, together: bool
) -> None:
    host = Host({"INFO": info(redis_version=version), "DBSIZE": 1})
    host.answers["CONFIG GET"] = lambda words: [
        word.encode() for name in words[2:] for word in (name, "1")
    ]
    host.answers["CONFIG GET unknown"] = error("ERR no")
    for first in (True, False):
        host.sent.clear()
        seen = place.ask(host, directives=("hz", "appendonly"), mode=Mode.STANDALONE)
        assert seen.config == (("appendonly", "1"), ("hz", "1"))
        assert len(host.asked("CONFIG GET")) == (1 if together and not first else 2)
    if not together:
        found = place.ask(host, directives=("hz", "unknown"), mode=Mode.STANDALONE)
        assert found.config == (("hz", "1"),)
    host.sent.clear()
    assert place.ask(host, mode=Mode.STANDALONE).config == ()
    assert host.asked("CONFIG") == []


# Mode Failover


def test_replicas_of_one_group_name_their_primary_by_the_address_of_its_pod() -> None:
    def server(number: int, follows: str = "") -> Seen:
        pod = Pod(f"db-{number}", f"u{number}", 0, number, f"10.0.0.{number}" if number else "")
        role = Role.REPLICA if follows else Role.PRIMARY
        seen = Seen(pod, RunId(f"r{number}"), role)
        return replace(seen, replication=replace(seen.replication, follows=follows))

    silent = Unreachable(replace(POD, name="db-4", ip="10.0.0.4"), "", 0.0, last_id=RunId("r4"))
    nodes = (
        server(1),
        server(2, "10.0.0.1:6379"),
        server(3, "10.0.0.9:6379"),
        silent,
        server(5, "10.0.0.4:6379"),
        server(6, ":6379"),
        server(0),
    )
    related = DIALECTS[Mode.FAILOVER].related(nodes)
    found = [getattr(node, "replica_of", "none") for node in related]
    assert found == [None, "r1", None, "none", "r4", None, None]
    assert related[3] is silent


def fields(**found: Any) -> list[bytes]:
    found = {"port": 6379, "runid": "r", **found}
    pairs = ((name.replace("_", "-"), value) for name, value in found.items())
    return [str(word).encode() for pair in pairs for word in pair]


def watcher(**changes: Any) -> Host:
    masters = [
        fields(
            name="a",
            ip=IP,
            flags="master,s_down,new",
            role_reported="slave",
            role_reported_time=5,
            s_down_time=6,
            config_epoch=7,
            quorum=2,
            down_after_milliseconds=8,
            failover_timeout=9,
            parallel_syncs=3,
            failover_state="wait",
            last_ok_ping_reply=changes.pop("ping", 10),
        ),
        fields(name="b", ip="10.0.0.2", flags="master"),
    ]
    replica = fields(
        ip="10.0.0.3",
        flags="slave,disconnected",
        master_host=IP,
        master_port=6379,
        master_link_status="ok",
        slave_priority=0,
        slave_repl_offset=77,
    )
    other = fields(ip="10.0.1.2", flags="sentinel", voted_leader="x", voted_leader_epoch=4)
    return Host(
        {
            "SENTINEL MYID": b"me",
            "INFO": info(uptime_in_seconds=40, sentinel_masters=2, sentinel_tilt=1),
            "SENTINEL MASTERS": masters,
            "SENTINEL REPLICAS": [],
            "SENTINEL REPLICAS a": [replica],
            "SENTINEL SENTINELS b": [other],
            "SENTINEL SENTINELS a": [other],
            **changes,
        }
    )


def ask_sentinel(place: Place, host: Host) -> Any:
    place.network.hosts[IP] = host
    question = Question(POD, TARGET, mode=Mode.FAILOVER)
    return place.network.do(
        probe_sentinel(place.links, question, timeout=1.0, clock=lambda: place.now)
    )


def test_a_sentinel_is_seen_with_what_it_monitors(place: Place) -> None:
    seen = ask_sentinel(place, watcher())
    assert isinstance(seen, SentinelSeen)
    view = seen.view
    assert (seen.id, view.id, view.run_id, view.tilt) == ("me", "me", "run", True)
    assert (view.engine, view.version, view.started_at) == ("redis", "7.2.4", 960.0)
    first, second = view.monitored
    assert (first.name, first.ip, first.port, first.run_id) == ("a", IP, 6379, "r")
    assert first.flags == frozenset({SentinelFlag.S_DOWN})
    assert (first.role_reported, first.known_ms, first.down_ms) == ("slave", 5, 6)
    assert (first.config_epoch, first.quorum, first.down_after_ms) == (7, 2, 8)
    assert (first.failover_timeout_ms, first.parallel_syncs) == (9, 3)
    assert (first.failover_state, first.in_the_past) == ("wait", False)
    (replica,), (other,) = first.replicas, first.sentinels
    assert (replica.ip, replica.primary_ip, replica.primary_port) == ("10.0.0.3", IP, 6379)
    assert (replica.link_up, replica.priority, replica.offset) == (True, 0, 77)
    assert replica.flags == frozenset({SentinelFlag.DISCONNECTED})
    assert (other.id, other.ip, other.voted_leader, other.voted_leader_epoch) == (
        *("r", "10.0.1.2"),
        *("x", 4),
    )
    assert (second.name, second.replicas, len(second.sentinels)) == ("b", (), 1)


@pytest.mark.parametrize(("ping", "past"), [(-60_000, False), (-60_001, True), (60_001, False)])
def test_a_clock_that_was_set_back_is_told(place: Place, ping: int, *, past: bool) -> None:
    seen = ask_sentinel(place, watcher(ping=ping))
    assert seen.view.monitored[0].in_the_past == past


def test_a_name_that_is_removed_between_two_questions_is_left_out(place: Place) -> None:
    gone = error("ERR No such master with that name")
    host = watcher(**{"SENTINEL REPLICAS a": gone, "SENTINEL SENTINELS a": gone})
    assert [m.name for m in ask_sentinel(place, host).view.monitored] == ["b"]


# Silence


@pytest.mark.parametrize(
    ("state", "known", "question", "evidence"),
    [
        ("refuses", True, {}, Evidence.REFUSED),
        ("refuses", False, {}, Evidence.SILENT),
        ("silent", True, {}, Evidence.SILENT),
        ("silent", True, {"ended": True}, Evidence.TERMINATED),
        ("refuses", True, {"ended": True}, Evidence.TERMINATED),
        ("refuses", True, {"pod": replace(POD, phase=PodPhase.PENDING)}, Evidence.NOT_STARTED),
        ("refuses", True, {"pod": replace(POD, ip="")}, Evidence.NOT_STARTED),
    ],
)
def test_what_silence_is_taken_for(
    place: Place, state: str, question: dict[str, Any], evidence: Evidence, *, known: bool
) -> None:
    host = Host({"INFO": info(), "DBSIZE": 1})
    if known:
        place.ask(host, mode=Mode.STANDALONE)
        place.network.end(IP)
    host.state = state
    found = place.ask(host, mode=Mode.STANDALONE, **question)
    assert isinstance(found, Unreachable)
    assert (found.evidence, found.last_id) == (evidence, "run" if known else None)


def test_silence_is_counted_from_its_beginning_until_the_server_answers(place: Place) -> None:
    host = Host({"INFO": info(), "DBSIZE": 1})
    host.state = "refuses"
    assert place.ask(host, mode=Mode.STANDALONE).since == 1000.0
    place.now = 1005.0
    assert place.ask(mode=Mode.STANDALONE).since == 1000.0
    host.state = "up"
    assert isinstance(place.ask(mode=Mode.STANDALONE), Seen)
    host.answers["INFO"] = error("LOADING no")
    place.now = 1010.0
    assert place.ask(mode=Mode.STANDALONE).since == 1010.0
    assert isinstance(place.ask(mode=Mode.STANDALONE), Unreachable)
    assert host.opened == 1  # an answer that is a refusal does not end the connection
    host.state = "silent"
    place.ask(mode=Mode.STANDALONE)
    host.state = "up"
    place.ask(mode=Mode.STANDALONE)
    assert host.opened == 2  # what may still come would be taken for another answer
    assert place.links.failed("unknown", 7.0) == 7.0


def test_a_connection_that_had_ended_is_opened_again_at_once(place: Place) -> None:
    host = Host({"INFO": info(), "DBSIZE": 1})
    place.ask(host, mode=Mode.STANDALONE)
    host.answers["INFO"] = in_turn(Gone(), info())
    assert isinstance(place.ask(mode=Mode.STANDALONE), Seen)
    assert host.opened == 2
    host.answers["INFO"] = Gone()
    assert isinstance(place.ask(mode=Mode.STANDALONE), Unreachable)
    assert host.opened == 3


# Links


def test_a_lost_connection_is_told_with_its_pod_and_one_that_we_closed_is_not(
    place: Place,
) -> None:
    place.ask(Host({"INFO": info(), "DBSIZE": 1}), mode=Mode.STANDALONE)
    place.links.drop("uid")
    place.network.do(asyncio.sleep(0))
    assert place.lost == []
    place.ask(mode=Mode.STANDALONE)
    place.network.end(IP)
    place.network.do(asyncio.sleep(0))
    assert place.lost == ["uid"]


@pytest.mark.parametrize(
    ("target", "opened", "knows"),
    [
        (TARGET, 1, "x"),
        (replace(TARGET, credentials=Credentials("u", "p")), 2, "x"),
        (replace(TARGET, address=Address("10.0.0.2")), 1, None),
    ],
    ids=["same", "other login", "other address"],
)
def test_who_a_server_is_stays_known_with_its_address(
    place: Place, target: Target, opened: int, knows: str | None
) -> None:
    hosts = place.network.hosts
    hosts |= {IP: Host(), "10.0.0.2": Host()}

    async def both() -> None:
        first = await place.links.open(TARGET, timeout=1.0)
        place.links.answered("uid", NodeId("x"))
        second = await place.links.open(target, timeout=1.0)
        assert (first is second) == first.is_open == (target == TARGET)
        assert await place.links.open(target, timeout=1.0) is second

    place.network.do(both())
    assert hosts[target.address.host].opened == opened
    assert place.links.last_id("uid") == knows
    assert place.links.last_id("other") is None


def test_connections_to_pods_that_are_gone_are_closed(place: Place) -> None:
    targets = [Target(f"uid-{n}", Address(f"10.0.0.{n}")) for n in range(1, 4)]
    place.network.hosts |= {target.address.host: Host() for target in targets}

    async def all_of_them() -> None:
        links = [await place.links.open(target, timeout=1.0) for target in targets]
        for target in targets:
            place.links.answered(target.uid, NodeId(target.uid))
        place.links.keep_only(["uid-1"], of=["uid-1", "uid-2"])
        assert [link.is_open for link in links] == [True, False, True]
        known = [place.links.last_id(target.uid) for target in targets]
        assert known == ["uid-1", None, "uid-3"]
        place.links.close()
        assert not any(link.is_open for link in links)
        assert place.links.last_id("uid-1") is None
        place.links.drop("uid-1")

    place.network.do(all_of_them())


@pytest.mark.parametrize("all_of_them", [False, True], ids=["one pod", "the operator ends"])
def test_a_connection_to_a_pod_that_went_meanwhile_is_closed_once_it_is_open(
    place: Place, all_of_them: bool
) -> None:
    """It would stay open as long as the server runs: no one knows of it."""
    host = place.network.hosts[IP] = Host()
    host.state = "slow"

    async def opened() -> None:
        opening = asyncio.create_task(place.links.open(TARGET, timeout=SLOW_SECONDS * 2))
        await asyncio.sleep(SLOW_SECONDS / 2)
        if all_of_them:
            place.links.close()
        else:
            place.links.keep_only([], of=["uid"])
        with pytest.raises(LostError, match="not needed any more"):
            await opening
        await asyncio.sleep(0)

    place.network.do(opened())
    assert (host.opened, host.closed) == (1, 1)
    assert place.lost == []
