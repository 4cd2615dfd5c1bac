"""Steps on servers of a cluster: what is sent, how often, and what never is. Scripted servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.operator.scripted import Host, Network, error, in_turn, info, refusal, role

from redis_operator.operator.errors import Refused
from redis_operator.operator.live import LivePod
from redis_operator.operator.servers.actions import Servers
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.movers import SlotMovers
from redis_operator.planning.actions import ConfigSet
from redis_operator.planning.at import At
from redis_operator.planning.cluster.actions import (
    AssignSlots,
    CancelJob,
    CloseSlots,
    Failover,
    FailoverMode,
    Forget,
    InheritSlots,
    Meet,
    MoveSlots,
    RaiseEpoch,
    Replicate,
    ResetEmptyNode,
    SetConfigEpoch,
    TuneForBootstrap,
    UnassignSlots,
)
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import NodeId
from redis_operator.redis.connection import Address, Credentials
from redis_operator.redis.slots import SlotSet

PRIMARY, REPLICA, NEW = "10.0.0.1", "10.0.0.2", "10.0.0.3"
IDS = {PRIMARY: "a" * 40, REPLICA: "b" * 40, NEW: "c" * 40}
DEAD = "d" * 40


def at(ip: str) -> At:
    return At(f"pod-{ip}", f"uid-{ip}", ip, NodeId(IDS[ip]))


def line(ip: str, flags: str, of: str = "-", epoch: int = 1, slots: str = "") -> str:
    return f"{IDS[ip]} {ip}:6379@16379 {flags} {of} 0 0 {epoch} connected {slots}".strip() + "\n"


def nodes(me: str, *, led_by: str = PRIMARY) -> bytes:
    """CLUSTER NODES of one of them: a primary with slots, its replica, and an empty one."""
    told = ""
    for ip in (REPLICA, NEW, PRIMARY):
        mine = "myself," if ip == me else ""
        if ip == led_by:
            told += line(ip, f"{mine}master", slots="0-99", epoch=5)
        elif ip == NEW:
            told += line(ip, f"{mine}master")
        else:
            told += line(ip, f"{mine}slave", IDS[led_by], epoch=8)
    return told.encode()


def server(ip: str, keys: int = 0, **fields: Any) -> Host:
    return Host(
        {
            "CLUSTER MYID": IDS[ip].encode(),
            "CLUSTER NODES": nodes(ip),
            "DBSIZE": keys,
            "INFO": info(**{"slave_repl_offset": 100, "master_repl_offset": 100, **fields}),
            "ROLE": in_turn(role(PRIMARY), role()),
            "CLUSTER BUMPEPOCH": b"BUMPED 6",
        }
    )


class Database:
    def __init__(self) -> None:
        self.primary, self.replica, self.new = server(PRIMARY, 9), server(REPLICA, 9), server(NEW)
        hosts = {PRIMARY: self.primary, REPLICA: self.replica, NEW: self.new}
        self.network = Network(hosts)
        self.pods: dict[str, LivePod | None] = {}
        self.targets = {f"pod-{ip}": Target(f"uid-{ip}", Address(ip)) for ip in hosts}
        self.links = Links(on_lost=lambda _: None)
        self.servers = Servers(self.links, self.targets, self)

    async def read(self, pod: str) -> LivePod | None:
        """Be the API."""
        return self.pods.get(pod)

    def do(self, action: Any) -> str:
        return self.network.do(refusal(self.servers.effects(), action))


@pytest.fixture
def database() -> Iterator[Database]:
    found = Database()
    yield found
    found.links.close()
    found.network.close()


# Reaching


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (at(PRIMARY), ""),
        (replace(at(PRIMARY), uid="another"), "was recreated"),
        (replace(at(PRIMARY), pod="unknown"), "was recreated"),
        (replace(at(PRIMARY), ip=NEW), "is not where it was: it moved to 10.0.0.1"),
        (replace(at(PRIMARY), id=NodeId(DEAD)), "is node aaaaaaaa now, not dddddddd"),
    ],
    ids=["itself", "another pod", "no pod", "another address", "another node"],
)
def test_only_the_server_that_was_seen_is_reached(
    database: Database, where: At, words: str
) -> None:
    assert words in database.do(CloseSlots(where, SlotSet([1])))
    assert bool(database.primary.asked("CLUSTER SETSLOT")) == (not words)


def test_a_connection_of_its_own_is_another_one(database: Database) -> None:
    async def both() -> bool:
        shared = await database.servers.reach(at(PRIMARY))
        own = await database.servers.own_connection(at(PRIMARY))
        own.close()
        return shared is not own and shared.is_open

    assert database.network.do(both())
    assert database.primary.opened == 2
    database.primary.answers["CLUSTER MYID"] = DEAD.encode()
    with pytest.raises(Refused):
        database.network.do(database.servers.own_connection(at(PRIMARY)))
    assert database.primary.opened == 2


def test_a_move_that_cannot_open_all_its_connections_leaves_none_open(database: Database) -> None:
    """From Valkey 8 on a move has many connections, and a server may be replaced meanwhile."""
    for host in (database.primary, database.new):
        host.answers["INFO"] = info(valkey_version="8.1.1", server_name="valkey")
    known = [IDS[NEW].encode()] * 6
    database.new.answers["CLUSTER MYID"] = in_turn(*known, DEAD.encode())

    async def move() -> str:
        ended = asyncio.Event()
        movers = SlotMovers(on_end=lambda _: ended.set())
        slots = SlotSet([1])
        action = MoveSlots(source=at(PRIMARY), target=at(NEW), slots=slots)
        await movers.of(("default", "db"), Credentials("", "")).move(database.servers, action)
        await ended.wait()
        return movers.failure(("default", "db"))

    assert "is node dddddddd now" in database.network.do(move())
    assert database.new.opened > 2, "it had begun"
    for host in (database.primary, database.new):
        assert host.opened - host.closed == 1, "the one of the observations"


def test_a_server_that_hangs_costs_two_seconds(database: Database) -> None:
    database.primary.state = "silent"
    assert "DeadlineError" in database.do(CloseSlots(at(PRIMARY), SlotSet([1])))
    assert 2.0 <= database.network.time() < 2.1


@pytest.mark.parametrize("strict", [False, True])
def test_servers_at_addresses_are_those_that_answer(database: Database, *, strict: bool) -> None:
    database.replica.state = "refuses"

    async def find(*addresses: str) -> int:
        asked = {"all_of_them": True} if strict else {}
        return len(await database.servers.at_addresses(addresses, **asked))

    assert database.network.do(find(PRIMARY, NEW, "10.9.9.9")) == 2
    if strict:
        with pytest.raises(Exception, match="refused"):
            database.network.do(find(REPLICA, PRIMARY))
    else:
        assert database.network.do(find(REPLICA, PRIMARY)) == 1


# Introductions and epochs


def test_both_ends_of_an_introduction_are_asked_who_they_are_together(
    database: Database,
) -> None:
    async def all_at_once() -> list[str]:
        pairs = ((PRIMARY, REPLICA), (PRIMARY, NEW), (REPLICA, NEW))
        effects = database.servers.effects()
        meets = (refusal(effects, Meet(at(one), at(other))) for one, other in pairs)
        return list(await asyncio.gather(*meets))

    assert database.network.do(all_at_once()) == ["", "", ""]
    assert database.primary.sent == [
        "CLUSTER MYID",
        f"CLUSTER MEET {REPLICA} 6379 16379",
        f"CLUSTER MEET {NEW} 6379 16379",
    ]
    assert database.new.sent == ["CLUSTER MYID"]
    assert database.do(Meet(at(PRIMARY), at(NEW))) == ""
    assert len(database.new.asked("CLUSTER MYID")) == 2  # what was asked before is not believed
    database.new.answers["CLUSTER MYID"] = DEAD.encode()
    assert "Refused" in database.do(Meet(at(PRIMARY), at(NEW)))
    assert len(database.primary.asked("CLUSTER MEET")) == 3


@pytest.mark.parametrize(
    ("epoch", "answer", "words"),
    [(1, b"OK", ""), (1, error("ERR has one"), ""), (2, error("ERR has one"), "has an epoch")],
    ids=["fresh", "it has this one", "it has another"],
)
def test_a_fresh_server_gets_its_epoch_once(
    database: Database, epoch: int, answer: Any, words: str
) -> None:
    database.new.answers["CLUSTER SET-CONFIG-EPOCH"] = answer
    why = database.do(SetConfigEpoch(at(NEW), epoch))
    assert words in why
    assert bool(words) == bool(why)


@pytest.mark.parametrize(("epoch", "raised"), [(5, True), (4, False), (6, False)])
def test_an_epoch_is_raised_only_from_the_one_that_was_seen(
    database: Database, epoch: int, *, raised: bool
) -> None:
    assert database.do(RaiseEpoch(at(PRIMARY), epoch, SlotSet(range(100)))) == ""
    assert bool(database.primary.asked("CLUSTER BUMPEPOCH")) == raised


# Slots


@pytest.mark.parametrize(
    ("version", "slots", "sent"),
    [
        ("7.0.0", range(100, 103), ["CLUSTER ADDSLOTSRANGE 100 102"]),
        ("6.2.0", range(100, 103), ["CLUSTER ADDSLOTS 100 101 102"]),
        ("7.0.0", range(98, 102), ["CLUSTER ADDSLOTSRANGE 100 101"]),
        ("7.0.0", range(3), []),
    ],
    ids=["range", "older", "the rest", "it has them"],
)
def test_only_slots_that_a_server_lacks_are_assigned(
    database: Database, version: str, slots: range, sent: list[str]
) -> None:
    database.primary.answers["INFO"] = info(redis_version=version)
    action = AssignSlots(at(PRIMARY), SlotSet(slots), expect_keys=9)
    assert database.do(action) == ""
    assert database.primary.asked("CLUSTER ADDSLOTS") == sent


def test_a_version_that_is_not_one_is_told(database: Database) -> None:
    database.primary.answers["INFO"] = info(redis_version="odd")
    action = AssignSlots(at(PRIMARY), SlotSet([100]), expect_keys=9)
    assert "runs odd, which is not a version" in database.do(action)


def test_slots_without_an_owner_are_unassigned(database: Database) -> None:
    action = UnassignSlots(at(NEW), SlotSet([1, 2]), NodeId(IDS[PRIMARY]))
    assert database.do(action) == ""
    assert database.new.asked("CLUSTER DELSLOTS") == ["CLUSTER DELSLOTS 1 2"]


def test_inherited_slots_come_from_a_primary_one_by_one(database: Database) -> None:
    database.replica.answers["CLUSTER NODES"] = nodes(REPLICA, led_by=REPLICA)
    action = InheritSlots(at(REPLICA), SlotSet([99, 100, 101]), NodeId(DEAD))
    assert database.do(action) == ""
    sent = database.replica.asked("CLUSTER SETSLOT")
    assert sent == [
        f"CLUSTER SETSLOT {slot} {word}"
        for slot in (100, 101)
        for word in (f"IMPORTING {IDS[NEW]}", f"NODE {IDS[REPLICA]}")
    ]


def test_moves_that_lead_nowhere_are_closed_and_a_refusal_is_told(database: Database) -> None:
    assert database.do(CloseSlots(at(PRIMARY), SlotSet([1, 2]))) == ""
    assert database.primary.asked("CLUSTER SETSLOT") == [
        "CLUSTER SETSLOT 1 STABLE",
        "CLUSTER SETSLOT 2 STABLE",
    ]
    database.primary.answers["CLUSTER SETSLOT 2"] = error("ERR no")
    assert "ERR no" in database.do(CloseSlots(at(PRIMARY), SlotSet([1, 2])))


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"valkey_version": "9.0.0"}, "CLUSTER CANCELSLOTMIGRATIONS"),
        ({"redis_version": "8.4.0"}, "CLUSTER MIGRATION CANCEL ALL"),
    ],
)
def test_migrations_are_cancelled_in_the_words_of_the_engine(
    database: Database, fields: dict[str, str], sent: str
) -> None:
    database.primary.answers |= {"INFO": info(**fields), "CLUSTER MIGRATION": 1}
    assert database.do(CancelJob(at(PRIMARY), "job")) == ""
    assert database.primary.asked("CLUSTER CANCEL", "CLUSTER MIGRATION") == [sent]


# Followers and settings


@pytest.mark.parametrize(
    ("node", "sent"), [(NEW, [f"CLUSTER REPLICATE {IDS[PRIMARY]}"]), (REPLICA, [])]
)
def test_a_server_follows_unless_it_does_already(
    database: Database, node: str, sent: list[str]
) -> None:
    assert database.do(Replicate(at(node), at(PRIMARY))) == ""
    assert database.network.hosts[node].asked("CLUSTER REPLICATE") == sent


def test_nobody_follows_a_server_that_is_another_one(database: Database) -> None:
    database.primary.answers["CLUSTER MYID"] = DEAD.encode()
    assert "Refused" in database.do(Replicate(at(NEW), at(PRIMARY)))
    assert database.new.asked("CLUSTER REPLICATE") == []


@pytest.mark.parametrize(
    ("answers", "tries", "words"),
    [
        ([error("ERR Unknown node x")] * 3 + [b"OK"], 4, ""),
        ([error("ERR Unknown node x")], 100, "Refused: pod-10.0.0.3 does not know its primary yet"),
        ([error("ERR no")], 1, "ERR no"),
    ],
    ids=["later", "never", "another refusal"],
)
def test_servers_that_still_shake_hands_are_waited_for(
    database: Database, answers: list[Any], tries: int, words: str
) -> None:
    database.new.answers["CLUSTER REPLICATE"] = in_turn(*answers)
    assert words in database.do(Replicate(at(NEW), at(PRIMARY)))
    assert len(database.new.asked("CLUSTER REPLICATE")) == tries
    assert (tries - 1) * 0.01 - 0.001 <= database.network.time() < 1.5


@pytest.mark.parametrize(("id_", "sent"), [(IDS[NEW], True), (DEAD, False)])
def test_only_who_is_known_is_forgotten(database: Database, id_: str, *, sent: bool) -> None:
    assert database.do(Forget(at(PRIMARY), NodeId(id_))) == ""
    assert bool(database.primary.asked(f"CLUSTER FORGET {id_}")) == sent


def test_directives_are_set_one_by_one_and_a_refused_one_is_named(database: Database) -> None:
    values = (("hz", "5"), ("maxmemory", "1"), ("timeout", "2"))
    assert database.do(ConfigSet(at(PRIMARY), values)) == ""
    assert database.primary.asked("CONFIG SET") == [
        "CONFIG SET hz 5",
        "CONFIG SET maxmemory 1",
        "CONFIG SET timeout 2",
    ]
    database.primary.sent.clear()
    database.primary.answers["CONFIG SET maxmemory"] = error("ERR no")
    assert "Failed: pod-10.0.0.1 refuses maxmemory '1'" in database.do(
        ConfigSet(at(PRIMARY), values)
    )
    assert len(database.primary.asked("CONFIG SET")) == 2
    tuning = TuneForBootstrap(at(NEW), values)
    assert database.do(tuning) == ""
    database.new.answers["CONFIG SET timeout"] = error("ERR no")
    assert "ERR no" in database.do(tuning)


def test_an_empty_server_is_reset_hard(database: Database) -> None:
    assert database.do(ResetEmptyNode(at(NEW))) == ""
    assert database.new.asked("CLUSTER RESET") == ["CLUSTER RESET HARD"]


# Promotion


def failover(fence: Fence, **changes: Any) -> Failover:
    mode = FailoverMode.PLAIN if fence is Fence.HANDSHAKE else FailoverMode.FORCE
    found = Failover(at(REPLICA), NodeId(IDS[PRIMARY]), mode, fence)
    return replace(
        found, **{"primary_pod": f"pod-{PRIMARY}", "primary_uid": f"uid-{PRIMARY}", **changes}
    )


@pytest.mark.parametrize(
    ("mode", "sent"),
    [
        (FailoverMode.PLAIN, "CLUSTER FAILOVER"),
        (FailoverMode.FORCE, "CLUSTER FAILOVER FORCE"),
        (FailoverMode.TAKEOVER, "CLUSTER FAILOVER TAKEOVER"),
    ],
)
def test_a_replica_is_asked_in_the_mode_of_the_plan(
    database: Database, mode: FailoverMode, sent: str
) -> None:
    assert database.do(failover(Fence.NEVER_LED, mode=mode)) == ""
    assert database.replica.asked("CLUSTER FAILOVER") == [sent]


def test_who_leads_already_is_not_asked_again(database: Database) -> None:
    database.replica.answers["CLUSTER NODES"] = nodes(REPLICA, led_by=REPLICA)
    assert database.do(failover(Fence.PROCESS_GONE)) == ""
    assert database.replica.asked("CLUSTER FAILOVER") == []


@pytest.mark.parametrize("leads", [True, False])
def test_a_refusal_by_who_was_promoted_meanwhile_is_success(
    database: Database, *, leads: bool
) -> None:
    database.replica.answers["CLUSTER FAILOVER"] = error("ERR You should send to a replica")
    later = nodes(REPLICA, led_by=REPLICA if leads else PRIMARY)
    database.replica.answers["CLUSTER NODES"] = in_turn(nodes(REPLICA), later)
    assert (database.do(failover(Fence.NEVER_LED)) == "") == leads


GONE = LivePod(f"uid-{PRIMARY}", PRIMARY)
REFUSING = "10.0.0.9"


@pytest.mark.parametrize(
    ("fence", "state", "pod", "changes", "words"),
    [
        (Fence.PROCESS_GONE, "refuses", None, {}, ""),
        (Fence.PROCESS_GONE, "up", None, {}, "responds again"),
        (Fence.PROCESS_GONE, "silent", None, {}, "may be alive"),
        (Fence.PROCESS_GONE, "refuses", None, {"primary_pod": "x"}, "may run elsewhere"),
        (Fence.CONTAINER_ENDED, "refuses", GONE, {}, ""),
        (Fence.CONTAINER_ENDED, "up", GONE, {}, "responds again"),
        (Fence.CONTAINER_ENDED, "up", None, {}, ""),
        (Fence.CONTAINER_ENDED, "up", replace(GONE, ip=""), {}, ""),
        (Fence.CONTAINER_ENDED, "refuses", replace(GONE, uid="x"), {}, "was recreated"),
        (Fence.CONTAINER_ENDED, "refuses", replace(GONE, ip=NEW), {}, "responds again"),
        (Fence.CONTAINER_ENDED, "up", replace(GONE, ip=REFUSING), {}, ""),
        (Fence.POD_GONE, "up", None, {"unseen": ("p",)}, ""),
        (Fence.POD_GONE, "up", GONE, {"unseen": ("q", f"pod-{PRIMARY}")}, "exists and was not"),
        (Fence.IS_REPLICA, "up", None, {}, "is a primary now"),
        (Fence.IS_REPLICA, "refuses", None, {}, "does not respond"),
        (Fence.HANDSHAKE, "up", None, {}, ""),
        (Fence.DEPOSED, "up", None, {}, ""),
    ],
)
def test_a_fence_is_checked_again_right_before(
    database: Database,
    fence: Fence,
    state: str,
    pod: LivePod | None,
    changes: dict[str, Any],
    words: str,
) -> None:
    database.primary.state = state
    database.pods[f"pod-{PRIMARY}"] = pod
    database.network.hosts[REFUSING] = refusing = Host()
    refusing.state = "refuses"
    why = database.do(failover(fence, **changes))
    assert words in why
    assert bool(words) == bool(why)
    assert bool(database.replica.asked("CLUSTER FAILOVER")) == (not words)
    if words == "responds again":
        assert database.primary.closed == database.primary.opened


def test_a_restarted_replica_is_a_fence(database: Database) -> None:
    database.primary.answers["CLUSTER NODES"] = nodes(PRIMARY, led_by=REPLICA)
    assert database.do(failover(Fence.IS_REPLICA)) == ""


# The pause of an empty primary

EMPTY = failover(Fence.EMPTY_AND_PAUSED)


def test_an_empty_primary_is_paused_before_it_is_replaced(database: Database) -> None:
    database.primary.answers["DBSIZE"] = 0
    paused: list[list[str]] = []

    def promote(_: list[str]) -> bytes:
        paused.append(database.primary.asked("CLIENT"))
        return b"OK"

    database.replica.answers["CLUSTER FAILOVER FORCE"] = promote
    assert database.do(EMPTY) == ""
    assert paused == [["CLIENT PAUSE 3000 WRITE"]]
    assert database.primary.asked("CLIENT") == ["CLIENT PAUSE 3000 WRITE"]


@pytest.mark.parametrize(
    ("keys", "sent"),
    [((1,), []), ((0, 1), ["CLIENT PAUSE 3000 WRITE", "CLIENT UNPAUSE"])],
    ids=["before", "meanwhile"],
)
def test_a_primary_that_holds_keys_is_not_replaced_and_not_left_paused(
    database: Database, keys: tuple[int, ...], sent: list[str]
) -> None:
    database.primary.answers["DBSIZE"] = in_turn(*keys)
    assert "it is not empty" in database.do(EMPTY)
    assert database.primary.asked("CLIENT") == sent
    assert database.replica.asked("CLUSTER FAILOVER") == []


def test_an_empty_primary_without_a_pod_is_not_replaced(database: Database) -> None:
    assert "cannot be paused" in database.do(replace(EMPTY, primary_pod="x"))


# Verification


def test_a_promotion_is_waited_for(database: Database) -> None:
    database.replica.answers["ROLE"] = in_turn(*([role(PRIMARY)] * 40), role())
    assert database.do(failover(Fence.NEVER_LED)) == ""
    assert len(database.replica.asked("ROLE")) == 41
    assert 1.0 < database.network.time() < 2.5


@pytest.mark.parametrize("fence", [Fence.NEVER_LED, Fence.HANDSHAKE])
def test_a_promotion_that_does_not_come_has_failed_after_six_seconds(
    database: Database, fence: Fence
) -> None:
    database.replica.answers["ROLE"] = role(PRIMARY)
    assert "did not within 6 s" in database.do(failover(fence))
    assert 6.0 <= database.network.time() < 6.1


@pytest.mark.parametrize(
    ("fence", "words", "seconds"),
    [(Fence.HANDSHAKE, "ended before", 1.5), (Fence.NEVER_LED, "did not within", 6.0)],
)
def test_a_primary_that_ends_while_it_hands_over_is_not_waited_for(
    database: Database, fence: Fence, words: str, seconds: float
) -> None:
    database.replica.answers["ROLE"] = role(PRIMARY)
    database.network.call_later(1.0, database.network.end, PRIMARY)
    assert words in database.do(failover(fence))
    assert seconds <= database.network.time() < seconds + 0.1


def test_a_primary_that_had_ended_before_is_not_a_handover(database: Database) -> None:
    database.replica.answers["ROLE"] = role(PRIMARY)
    database.primary.state = "refuses"
    assert "did not within 6 s" in database.do(failover(Fence.HANDSHAKE))


def test_a_refused_step_is_a_refusal(database: Database) -> None:
    async def reach() -> None:
        await database.servers.reach(replace(at(PRIMARY), uid="x"))

    with pytest.raises(Refused):
        database.network.do(reach())
