"""Where commands end, whom to follow, what is rewritten: decisions as tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_operator.backup.stream.follow import (
    Bridge,
    Continue,
    Head,
    Restart,
    View,
    Wait,
    choose,
)
from redis_operator.backup.stream.patience import Patience
from redis_operator.backup.stream.proof import OffsetVerdict, judge
from redis_operator.backup.stream.rewrite import absolute
from redis_operator.backup.stream.scan import Scanner, StreamDamaged
from redis_operator.backup.stream.sealing import Growing
from redis_operator.backup.task import Source
from redis_operator.redis.replies import InfoReplication, ReplicaLine
from redis_operator.redis.resp import encode

COMMANDS = st.lists(
    st.one_of(
        st.just([b"MULTI"]),
        st.just([b"EXEC"]),
        st.just([b"PING"]),
        st.builds(lambda n: [b"SELECT", b"%d" % n], st.integers(0, 15)),
        st.lists(st.binary(max_size=40), min_size=3, max_size=12).map(lambda w: [b"RPUSH", *w]),
    ),
    max_size=30,
)


@given(COMMANDS, st.integers(1, 50))
def test_a_scan_finds_the_same_ends_however_the_stream_is_cut(
    commands: list[list[bytes]], step: int
) -> None:
    stream, clean, inside, selected, at_clean = b"", 0, False, -1, -1
    for words in commands:
        stream += encode(words)
        inside = {b"MULTI": True, b"EXEC": False}.get(words[0], inside)
        if words[0] == b"SELECT":
            selected = int(words[1])
        if not inside:
            clean, at_clean = len(stream), selected
    scanner = Scanner()
    for at in range(0, len(stream), step):
        scanner.feed(stream[at : at + step])
    assert (scanner.position, scanner.clean, scanner.database) == (len(stream), clean, at_clean)
    half = Scanner()
    half.feed(stream + b"*3\r\n$3\r\nSET\r\n$1")
    assert half.clean == clean


@pytest.mark.parametrize("stream", [b"+OK\r\n", b"*1\r\n+PING\r\n", b"*x\r\n", b"#" * 40])
def test_something_else_than_commands_is_refused(stream: bytes) -> None:
    with pytest.raises(StreamDamaged):
        Scanner().feed(stream)


NOW = 1_000_000
REWRITTEN = [
    ("SET k v PX 2000", "SET k v PXAT 1002000"),
    ("set k v ex 2 NX", "set k v PXAT 1002000 NX"),
    ("SET PX PX", "SET PX PX"),
    ("SET k v PXAT 5", "SET k v PXAT 5"),
    ("SETEX k 2 v", "SET k v PXAT 1002000"),
    ("PSETEX k 2 v", "SET k v PXAT 1000002"),
    ("PEXPIRE k 7", "PEXPIREAT k 1000007"),
    ("EXPIRE k 7 GT", "PEXPIREAT k 1007000 GT"),
    ("GETEX k EX 1", "GETEX k PXAT 1001000"),
    ("RESTORE k 5 x REPLACE", "RESTORE k 1000005 x REPLACE ABSTTL"),
    ("RESTORE k 0 x", "RESTORE k 0 x"),
    ("RESTORE k 5 x ABSTTL", "RESTORE k 5 x ABSTTL"),
    ("HSET k EX 5", "HSET k EX 5"),
]


@pytest.mark.parametrize(("said", "kept"), REWRITTEN, ids=[said for said, _ in REWRITTEN])
def test_a_time_to_live_becomes_a_moment(said: str, kept: str) -> None:
    assert absolute(said.encode().split(), NOW) == kept.encode().split()


def replica(pod: str, **more: object) -> View:
    told = {"role": "slave", "replication_id": "a", "offset": 100, "backlog_first": 1}
    told |= {"link_up": True, **more}
    return View(Source(pod, pod), InfoReplication(**told))  # type: ignore[arg-type]


def primary(pod: str, *replicas: int, **more: object) -> View:
    lines = tuple(ReplicaLine("x", port, "online", 0) for port in replicas)
    return replica(pod, role="master", link_up=False, replicas=lines, **more)


HEAD = Head("a", 80)
ON = Continue(Source("r", "r"), "a", 81)
FOLLOWED = [
    ("the same history goes on", HEAD, [primary("p", 1), replica("r")], ON),
    ("a primary is left alone", HEAD, [primary("p", 1)], "p is the primary"),
    ("nothing responds", HEAD, [], "no server responds"),
    ("a replica without its primary", HEAD, [replica("r", link_up=False)], "not in sync"),
    ("a replica that is behind is waited for", HEAD, [replica("r", offset=70)], "not yet come"),
    ("a byte that is no longer kept", HEAD, [replica("r", backlog_first=90)], Restart),
    ("no backlog at all", HEAD, [replica("r", backlog_first=0)], Restart),
    ("another history", HEAD, [replica("r", replication_id="z")], Restart),
    ("nothing archived yet", None, [replica("r")], Restart),
    (
        "promoted, and we have no more than it",
        HEAD,
        [replica("r", replication_id="b", replication_id2="a", second_offset=90)],
        Continue(Source("r", "r"), "a", 81, is_promoted=True),
    ),
    (
        "promoted, and we have more than it had",
        HEAD,
        [replica("r", replication_id="b", replication_id2="a", second_offset=61)],
        Continue(Source("r", "r"), "a", 61, is_promoted=True),
    ),
    (
        "a promotion is preferred to a history that goes on elsewhere",
        HEAD,
        [
            replica("old"),
            replica("r", replication_id="b", replication_id2="a", second_offset=81),
        ],
        Continue(Source("r", "r"), "a", 81, is_promoted=True),
    ),
]


@pytest.mark.parametrize(
    ("head", "views", "wanted"), [row[1:] for row in FOLLOWED], ids=[row[0] for row in FOLLOWED]
)
def test_whom_an_archiver_follows(head: Head | None, views: list[View], wanted: object) -> None:
    found = choose(head, views, allow_primary=False)
    if isinstance(wanted, str):
        assert isinstance(found, Wait)
        assert wanted in found.reason
    elif wanted is Restart:
        assert isinstance(found, Restart)
    else:
        assert found == wanted


STARTED_OVER = replica("r", backlog_first=90)
BRIDGED = [
    (
        "a replica that started over, and the primary has what it lacks",
        [primary("p", 6379), STARTED_OVER],
        Bridge(Continue(Source("p", "p"), "a", 81), upto=100),
    ),
    (
        "after a promotion",
        [
            primary("p", 6379, replication_id="b", replication_id2="a", second_offset=61),
            replica("r", replication_id="b", backlog_first=90),
        ],
        Bridge(Continue(Source("p", "p"), "a", 61, is_promoted=True), upto=100),
    ),
    ("the primary does not keep it either", [primary("p", 6379, backlog_first=85), STARTED_OVER]),
    ("the primary does not have the replica yet", [primary("p"), STARTED_OVER]),
    ("another worker is not a replica", [primary("p", 0), STARTED_OVER]),
    ("a replica of another history", [primary("p", 6379, replication_id="z"), STARTED_OVER]),
]


@pytest.mark.parametrize("row", BRIDGED, ids=[str(row[0]) for row in BRIDGED])
def test_what_a_replica_lacks_is_read_from_its_primary(row: tuple[object, ...]) -> None:
    views: list[View] = row[1]  # type: ignore[assignment]
    found = choose(HEAD, views, allow_primary=False, bridge=True)
    if len(row) > 2:
        assert found == row[2]
    else:
        assert isinstance(found, Restart)
    assert isinstance(choose(HEAD, views, allow_primary=False), Restart)


def test_a_lone_primary_is_attached_to_only_where_that_is_allowed() -> None:
    lone = primary("p")
    assert choose(HEAD, [lone], allow_primary=True) == Continue(lone.source, "a", 81)
    assert isinstance(choose(HEAD, [primary("p", 6379)], allow_primary=True), Wait)
    ours = primary("p", 0)  # an archiver has no port
    assert choose(HEAD, [ours], allow_primary=True) == Continue(ours.source, "a", 81)


def test_each_failure_that_cost_a_fork_is_followed_by_a_longer_pause() -> None:
    patience, now, pauses = Patience(first=1, most=10), 100.0, []
    assert patience.is_over(now)
    for _ in range(6):
        patience.failed(now)
        pause = next(n for n in range(100) if patience.is_over(now + n))
        pauses.append(pause)
        now += pause
    assert pauses == [1, 2, 4, 8, 10, 10]
    patience.succeeded()
    assert patience.is_over(now)


@pytest.mark.parametrize(
    ("before", "received", "after", "verdict"),
    [
        pytest.param(10, 10, 10, OffsetVerdict.EQUAL, id="all has arrived"),
        pytest.param(10, 8, 10, OffsetVerdict.LATE, id="some is on the way, or lost"),
        pytest.param(10, 10, 12, OffsetVerdict.BUSY, id="written meanwhile"),
        pytest.param(10, 11, 12, OffsetVerdict.BUSY, id="written meanwhile, and some of it here"),
        pytest.param(10, 11, 10, OffsetVerdict.DIFFERENT, id="more than was sent"),
        pytest.param(10, 13, 12, OffsetVerdict.DIFFERENT, id="more than was sent meanwhile"),
    ],
)
def test_what_has_arrived_is_compared_with_the_offset_of_the_server(
    before: int, received: int, after: int, verdict: OffsetVerdict
) -> None:
    assert judge(before, received, after) is verdict


@given(st.lists(st.binary(min_size=1, max_size=5), max_size=8), st.data())
def test_what_grows_gives_any_part_of_itself_and_forgets_what_is_not_proven(
    pieces: list[bytes], data: st.DataObject
) -> None:
    growing = Growing("a", 101, parent="", now=0)
    for number, piece in enumerate(pieces):
        growing.add(piece, number)
    whole = b"".join(pieces)
    first = data.draw(st.integers(0, len(whole)))
    last = data.draw(st.integers(first, len(whole)))
    assert growing.between(101 + first, 100 + last) == whole[first:last]
    growing.proven = 100 + last
    growing.drop_unproven()
    assert b"".join(growing.pieces) == whole[:last]
    assert growing.last == growing.proven == 100 + last
