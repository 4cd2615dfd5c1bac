"""Answers of sentinels become values: as measured, as damaged, and as real ones give them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_operator.operator.servers.sentinels import view_sentinel
from redis_operator.planning.sentinels import Monitored, OtherSentinel, SentinelFlag
from redis_operator.redis import commands, sentinel
from redis_operator.redis import sentinel_parsing as parsing
from redis_operator.redis.errors import (
    MalformedReplyError,
    NoGoodReplicaError,
    NoQuorumError,
    UnknownPrimaryError,
    reply_error,
)
from redis_operator.redis.replies import SentinelRole
from redis_operator.redis.resp import Reply
from redis_operator.redis.sentinel_replies import PrimaryLine
from redis_testing.servers import EngineBinary, Server, Servers

PARSERS: list[Callable[[Reply], object]] = [
    parsing.parse_address,
    parsing.parse_info_sentinel,
    parsing.parse_known_replicas,
    parsing.parse_known_sentinels,
    parsing.parse_monitored,
    parsing.parse_monitored_primaries,
    parsing.parse_quorum,
]
PRIMARY: list[Reply] = [
    *(b"name", b"db", b"ip", b"10.0.0.1", b"port", b"6379", b"runid", b"cf3d"),
    *(b"flags", b"s_down,o_down,master,failover_in_progress", b"last-ok-ping-reply", b"105"),
    *(b"down-after-milliseconds", b"200", b"info-refresh", b"3005", b"role-reported", b"master"),
    *(b"config-epoch", b"4", b"num-slaves", b"1", b"num-other-sentinels", b"2", b"quorum", b"2"),
    *(b"failover-timeout", b"2000", b"parallel-syncs", b"1", b"failover-state", b"wait_start"),
]
REPLICA: list[Reply] = [
    *(b"name", b"10.0.0.2:6379", b"ip", b"10.0.0.2", b"port", b"6379", b"runid", b""),
    *(b"flags", b"s_down,slave,disconnected", b"master-link-status", b"err"),
    *(b"master-host", b"?", b"master-port", b"0", b"slave-priority", b"10"),
    *(b"slave-repl-offset", b"77", b"replica-announced", b"0"),
]
INFO = (
    b"# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\nrun_id:5d85\r\n"
    b"uptime_in_seconds:3\r\n\r\n# Sentinel\r\nsentinel_masters:1\r\nsentinel_tilt:1\r\n"
    b"sentinel_tilt_since_seconds:7\r\n"
    b"master0:name=db,status=odown,address=10.0.0.1:6379,slaves=1,sentinels=3\r\n"
)

words = st.one_of(
    st.none(),
    st.integers(),
    st.binary(max_size=20),
    st.sampled_from([b"ip", b"port", b"6379", b"flags", b"quorum", b"OK 3 usable", b"x"]),
)
replies = st.recursive(words, lambda inner: st.lists(inner, max_size=6), max_leaves=16)


@pytest.mark.parametrize("parse", PARSERS, ids=lambda p: p.__name__)
@given(reply=replies)
def test_any_answer_gives_a_value_or_the_typed_error_and_raises_nothing_else(
    parse: Callable[[Reply], object], reply: Reply
) -> None:
    with contextlib.suppress(MalformedReplyError):
        parse(reply)


@given(at=st.integers(0, len(PRIMARY) - 1), word=words)
def test_a_damaged_description_gives_a_value_or_the_typed_error_and_raises_nothing_else(
    at: int, word: Reply
) -> None:
    damaged = [*PRIMARY[:at], word, *PRIMARY[at + 1 :]]
    for parse in PARSERS:
        with contextlib.suppress(MalformedReplyError):
            parse(damaged)
        with contextlib.suppress(MalformedReplyError):
            parse([damaged])


def test_a_monitored_primary_is_read_whole() -> None:
    found = parsing.parse_monitored(PRIMARY)
    assert (found.name, found.ip, found.port, found.run_id) == ("db", "10.0.0.1", 6379, "cf3d")
    assert found.is_subjectively_down
    assert found.is_objectively_down
    assert found.failover_in_progress
    assert not found.is_up
    assert (found.config_epoch, found.quorum, found.failover_state) == (4, 2, "wait_start")
    assert (found.replicas, found.other_sentinels, found.parallel_syncs) == (1, 2, 1)
    assert (found.down_after_ms, found.failover_timeout_ms, found.last_ok_ping_ms) == (
        *(200, 2000),
        105,
    )


def test_a_replica_that_never_answered_is_known_by_its_address_alone() -> None:
    (found,) = parsing.parse_known_replicas([REPLICA])
    assert (found.ip, found.run_id, found.primary_host, found.link_up) == (
        *("10.0.0.2", ""),
        *("", False),
    )
    assert (found.priority, found.offset, found.is_announced) == (10, 77, False)
    assert found.is_disconnected


def test_info_of_a_sentinel_tells_tilt_and_every_primary() -> None:
    found = parsing.parse_info_sentinel(INFO)
    assert (found.engine, found.version, found.tilt, found.tilt_seconds) == (
        *("valkey", "9.1.2"),
        *(True, 7),
    )
    assert found.primaries == (PrimaryLine("db", "odown", "10.0.0.1", 6379, 1, 3),)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("NOQUORUM 1 usable Sentinels. Not enough", NoQuorumError),
        ("NOGOODSLAVE No suitable replica to promote", NoGoodReplicaError),
        ("ERR No such master with that name", UnknownPrimaryError),
    ],
)
def test_refusals_of_sentinels_have_their_types(line: str, kind: type) -> None:
    assert type(reply_error(line)) is kind


@pytest.mark.parametrize(
    ("others", "quorum", "able"),
    [("", 1, True), ("u", 2, True), ("d", 1, False), ("ud", 2, True), ("ud", 3, False)],
)
def test_dead_sentinels_count_for_the_majority_and_not_for_the_votes(
    others: str, quorum: int, able: bool
) -> None:
    down = frozenset({SentinelFlag.S_DOWN})
    known = tuple(
        OtherSentinel(str(n), f"10.0.1.{n}", 26379, frozenset() if kind == "u" else down)
        for n, kind in enumerate(others)
    )
    assert Monitored("db", "10.0.0.1", 6379, quorum=quorum, sentinels=known).can_fail_over is able


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.02)


async def _sentinels(servers: Servers, primary: Server, count: int) -> list[Server]:
    text = (
        f"sentinel monitor db {primary.address.host} {primary.address.port} 2\n"
        "sentinel down-after-milliseconds db 300\nsentinel failover-timeout db 2000\n"
    )
    found = [(await servers.start_sentinels(1, config=text))[0] for _ in range(count)]
    for one in found:
        await one.ask(sentinel.config_set("announce-ip", one.address.host))
    return found


@pytest.mark.servers
async def test_real_sentinels_are_read_and_told(binary: EngineBinary) -> None:
    async with Servers(binary) as servers:
        (primary,) = await servers.start(cluster=False)
        (replica,) = await servers.start(cluster=False)
        await replica.ask(commands.config_set({"replica-announce-ip": replica.address.host}))
        assert await replica.ask(
            commands.replica_of(primary.address.host, 6379),
            commands.replica_of(primary.address.host, 6379),  # "OK Already connected"
        ) == [None, None]
        first, second = await _sentinels(servers, primary, 2)

        async def complete() -> bool:
            async with await first.connect() as link:
                view = await view_sentinel(link, timeout=5, now=time.time())
            db = view.named("db")
            known = db is not None and {r.ip for r in db.replicas if r.up and r.primary_ip}
            others = db is not None and {s.ip for s in db.sentinels if s.up}
            return known == {replica.address.host} and others == {second.address.host}

        await _until(complete)
        async with await first.connect() as link:
            view = await view_sentinel(link, timeout=5, now=time.time())
            assert await link.run(sentinel.check_quorum("db"), timeout=5)
        db = view.named("db")
        assert db is not None
        assert (db.ip, db.port, db.quorum, db.config_epoch) == (primary.address.host, 6379, 2, 0)
        assert (db.down_after_ms, db.failover_timeout_ms, db.parallel_syncs) == (300, 2000, 1)
        assert not view.tilt
        assert db.up
        assert db.can_fail_over
        assert view.version == ".".join(map(str, binary.version.number))
        assert [view.id] == await first.ask(sentinel.my_id())
        assert db.sentinels[0].id == (await second.ask(sentinel.my_id()))[0]
        assert await first.ask(commands.role()) == [SentinelRole(("db",))]
        await _told(first, primary)


async def _told(first: Server, primary: Server) -> None:
    host = primary.address.host
    answers = await first.ask(
        sentinel.address_of("db"),
        sentinel.address_of("other"),
        sentinel.primary("other"),
        sentinel.set_options("db", {"quorum": "1", "parallel-syncs": "3"}),
        sentinel.monitor("other", host, 6379, 5),
        sentinel.check_quorum("other"),
        sentinel.failover("other"),
        sentinel.set_option("other", "down-after-milliseconds", "900"),
        sentinel.remove("other"),
        sentinel.flush_config(),
        sentinel.config_get("announce-ip"),
        sentinel.reset("d*"),
    )
    assert answers[:2] == [(host, 6379), None]
    assert isinstance(answers[2], UnknownPrimaryError)
    assert answers[3:5] == [None, None]
    assert isinstance(answers[5], NoQuorumError)
    assert isinstance(answers[6], NoGoodReplicaError)
    assert answers[7:] == [None, None, None, {"announce-ip": first.address.host}, 1]
    async with await first.connect() as link:
        view = await view_sentinel(link, timeout=5, now=time.time())
    (db,) = view.monitored
    assert (db.quorum, db.parallel_syncs, db.replicas, db.sentinels) == (1, 3, (), ())
