"""Answers become values, and garbage becomes one typed error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_operator.redis.errors import MalformedReplyError
from redis_operator.redis.info import parse_info, parse_replication
from redis_operator.redis.parsing import (
    as_integer,
    as_list,
    as_mapping,
    as_ok,
    as_text,
    parse_cluster_info,
    parse_cluster_links,
    parse_cluster_nodes,
    parse_cluster_shards,
    parse_migrations,
    parse_role,
)
from redis_operator.redis.replies import PrimaryRole, ReplicaRole
from redis_operator.redis.resp import Reply
from redis_operator.redis.slots import SlotSet

PARSERS: list[Callable[[Reply], object]] = [
    as_integer,
    as_list,
    as_mapping,
    as_ok,
    as_text,
    parse_cluster_info,
    parse_cluster_links,
    parse_cluster_nodes,
    parse_cluster_shards,
    parse_info,
    parse_migrations,
    parse_replication,
    parse_role,
]

NODES = (
    b"07c3 127.0.0.1:30004@31004,host-4 slave e7d1 0 1426238317239 4 connected\n"
    b"67ed 127.0.0.1:30002@31002,,shard-id=69bc master - 0 1426238316232 2 connected 5461-10922\n"
    b"e7d1 127.0.0.1:30001@31001 myself,master - 0 0 1 connected 0-5459 5460 "
    b"[5459->-67ed] [5461-<-67ed]\n"
    b"6ec2 :0@0 master,noaddr,fail - 1426238316232 1426238315232 3 disconnected\n"
    b"aaaa [::1]:30005@31005 handshake - 0 0 0 disconnected\n"
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.binary(max_size=40),
    st.sampled_from([b"master", b"slave", b"sentinel", b"slots", b"nodes", b"id", b"OK"]),
    st.builds(lambda t: t.encode(), st.text(max_size=40)),
)
replies = st.recursive(scalars, lambda inner: st.lists(inner, max_size=5), max_leaves=12)
lines = st.lists(
    st.text(alphabet="abc role:master0-9@,.<>[]\n\r# =_", max_size=60), max_size=6
).map(lambda parts: "\n".join(parts).encode())


@pytest.mark.parametrize("parse", PARSERS, ids=lambda p: p.__name__)
@given(reply=st.one_of(replies, lines))
def test_any_answer_gives_a_value_or_the_typed_error_and_raises_nothing_else(
    parse: Callable[[Reply], object], reply: Reply
) -> None:
    with contextlib.suppress(MalformedReplyError):
        parse(reply)


@given(
    cut=st.integers(0, len(NODES)), flip=st.integers(0, len(NODES) - 1), byte=st.integers(0, 255)
)
def test_damaged_cluster_nodes_give_a_value_or_the_typed_error_and_raise_nothing_else(
    cut: int, flip: int, byte: int
) -> None:
    damaged = bytearray(NODES)
    damaged[flip] = byte
    with contextlib.suppress(MalformedReplyError):
        parse_cluster_nodes(bytes(damaged[:cut]))


def test_cluster_nodes_are_read_whole() -> None:
    replica, other, myself, gone, greeting = parse_cluster_nodes(NODES)
    assert replica.is_replica
    assert (replica.primary, replica.hostname, replica.config_epoch) == ("e7d1", "host-4", 4)
    assert other.is_primary
    assert (other.shard_id, other.hostname) == ("69bc", "")
    assert myself.is_myself
    assert myself.slots == SlotSet.span(0, 5460)
    assert myself.slot_count == 5461
    assert myself.migrating == ((5459, "67ed"),)
    assert myself.importing == ((5461, "67ed"),)
    assert (myself.ip, myself.port, myself.bus_port) == ("127.0.0.1", 30001, 31001)
    assert gone.is_failed
    assert gone.has_no_address
    assert not gone.is_suspected
    assert not gone.link_connected
    assert greeting.is_in_handshake
    assert greeting.ip == "[::1]"


@pytest.mark.parametrize(
    "line",
    [
        b"07c3 127.0.0.1:x@1 master - 0 0 0 connected",
        b"07c3 127.0.0.1:1@1 master - 0 0 0 connected 16384",
        b"07c3 127.0.0.1:1@1 master - 0 0 0 connected 9-3",
        b"07c3 127.0.0.1:1@1 master - 0 0 0 connected [9",
        b"07c3 127.0.0.1:1@1 master",
        b"",
    ],
)
def test_broken_lines_of_cluster_nodes_are_refused(line: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        parse_cluster_nodes(line)


def test_roles_are_told_apart() -> None:
    primary = parse_role([b"master", 3129659, [[b"127.0.0.1", b"9001", b"3129242"]]])
    assert primary == PrimaryRole(3129659, (("127.0.0.1", 9001, 3129242),))
    replica = parse_role([b"slave", b"127.0.0.1", 9000, b"connected", 3167038])
    assert isinstance(replica, ReplicaRole)
    assert replica.link_up


def test_a_replicas_info_tells_its_link_and_offset() -> None:
    text = (
        b"# Replication\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\n"
        b"master_link_status:down\r\nmaster_last_io_seconds_ago:-1\r\nmaster_sync_in_progress:1\r\n"
        b"slave_repl_offset:77\r\nmaster_repl_offset:70\r\nmaster_replid:abc\r\n"
        b"master_link_down_since_seconds:9\r\nslave_read_only:1\r\n"
    )
    found = parse_replication(text)
    assert (found.role, found.offset, found.link_up) == ("slave", 77, False)
    assert found.sync_in_progress
    assert found.link_down_seconds == 9


def test_a_primarys_info_lists_its_replicas() -> None:
    text = (
        b"role:master\r\nconnected_slaves:2\r\n"
        b"slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=0\r\n"
        b"slave1:ip=10.0.0.3,port=6379,state=wait_bgsave,offset=0,lag=0,type=replica\r\n"
        b"master_repl_offset:15\r\n"
    )
    first, second = parse_replication(text).replicas
    assert (first.ip, first.offset, first.state) == ("10.0.0.2", 14, "online")
    assert second.state == "wait_bgsave"


def test_valkey_is_known_by_its_own_version() -> None:
    text = b"redis_version:7.2.4\r\nvalkey_version:9.1.2\r\nrole:master\r\ndb0:keys=5,expires=0\r\n"
    found = parse_info(text)
    assert (found.server.engine, found.server.version, found.keys) == ("valkey", "9.1.2", 5)


def test_both_ways_to_tell_of_slot_migrations_are_read() -> None:
    valkey = [b"name", b"j1", b"operation", b"EXPORT", b"slot_ranges", b"0-1 5-5"]
    valkey += [b"target_node", b"t", b"source_node", b"s", b"state", b"success", b"message", b""]
    redis = [b"id", b"j2", b"slots", b"7-9", b"source", b"s", b"dest", b"t"]
    redis += [b"operation", b"import", b"state", b"failed", b"last_error", b"no luck"]
    one, two = parse_migrations([valkey, redis])
    assert one.is_successful
    assert one.slots == SlotSet([0, 1, 5])
    assert two.is_finished
    assert not two.is_successful
    assert (two.message, two.target) == ("no luck", "t")
