"""Every guard of the executor: the world as planned, how it moved on, the refusal, and no effect.

The real `Servers`, `ClusterObjects` and movers act on simulated servers and on an API server in
this process. A guard is a reason that a precondition returns, a `raise Refused` or a `require`; the
last test and `test_guards_counted.py` count them in the source, so that none is without a row.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.operator.guards_in_code import ELSEWHERE, INDIRECT, find_guards, guards_of_failover

from redis_operator.planning.actions import (
    Action,
    DeletePod,
    DeleteWorkload,
    DiscardData,
    GrowVolume,
    LabelRole,
    ResizePod,
    ScaleWorkload,
)
from redis_operator.planning.at import At
from redis_operator.planning.cluster.actions import (
    AssignSlots,
    Failover,
    FailoverMode,
    Forget,
    InheritSlots,
    MoveSlots,
    RaiseEpoch,
    Replicate,
    RescueKeys,
    ResetEmptyNode,
    SetConfigEpoch,
    TuneForBootstrap,
    UnassignSlots,
)
from redis_operator.planning.clusters import Moving
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import Pod
from redis_operator.planning.preconditions import ActionFacts, precondition
from redis_operator.redis.slots import SlotSet
from redis_testing.cluster import verbs
from redis_testing.cluster.api import NAMESPACE
from redis_testing.cluster.database import SimulatedDatabase
from support.situations import WANTED, new_database, whole_database

Move = Callable[[], object]
Row = Callable[[SimulatedDatabase], tuple[Action, Move]]
ROWS: dict[str, tuple[Row, str]] = {}


def row(guard: str, words: str) -> Callable[[Row], Row]:
    """Note a row: the guard it makes fire, and what the refusal says."""

    def note(build: Row) -> Row:
        assert guard not in ROWS, guard
        ROWS[guard] = (build, words)
        return build

    return note


def place(database: SimulatedDatabase, shard: int, ordinal: int) -> At:
    pod = pod_of(database, shard, ordinal)
    return At(pod.name, pod.uid, pod.ip, NodeId(database.server(shard, ordinal).id))


def pod_of(database: SimulatedDatabase, shard: int, ordinal: int) -> Pod:
    return next(p for p in database.pods if (p.shard, p.ordinal) == (shard, ordinal))


def recreated(database: SimulatedDatabase, shard: int, ordinal: int) -> None:
    """Another pod has the name."""
    database.remove_pod(shard, ordinal, comes_back_after=0.0)
    database.run_controllers()


def failover(database: SimulatedDatabase, fence: Fence, **changes: object) -> Failover:
    """The promotion of db-0-1 over db-0-0."""
    primary = pod_of(database, 0, 0)
    found = Failover(
        node=place(database, 0, 1),
        primary=NodeId(database.server(0, 0).id),
        mode=FailoverMode.PLAIN if fence is Fence.HANDSHAKE else FailoverMode.FORCE,
        fence=fence,
        primary_pod=primary.name,
        primary_uid=primary.uid,
    )
    return replace(found, **changes)


# Servers


@row("preconditions.identity_limitation#1", "db-0-1 is node ")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    action = ResetEmptyNode(node=place(database, 0, 1))
    return action, lambda: verbs.reset(database.world, database.server(0, 1), hard=True)


@row("preconditions._tune#1", "db-0-0 holds data now")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    return TuneForBootstrap(node=place(database, 0, 0), values=(("hz", "1"),)), lambda: None


@row("preconditions._assign#1", "slots 0-9 belong to node ")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    return AssignSlots(node=place(database, 1, 0), slots=SlotSet(range(10))), lambda: None


@row("preconditions._assign#2", "db-1-0 holds ")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    def disowned() -> None:
        for server in database.servers:
            for record in server.table.values():
                record.slots &= ~1

    return AssignSlots(node=place(database, 1, 0), slots=SlotSet([0])), disowned


@row("preconditions._unassign#1", "db-1-0 believes in another owner of slots 0-9 now")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    owner = NodeId(database.server(2, 0).id)
    return UnassignSlots(place(database, 1, 0), SlotSet(range(10)), owner), lambda: None


@row("preconditions._inherit#1", "db-0-1 is no longer a primary")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    dead = NodeId(database.server(2, 0).id)
    return InheritSlots(place(database, 0, 1), SlotSet([1]), dead), lambda: None


@row("preconditions._inherit#2", "is alive according to db-0-0")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    dead = NodeId(database.server(2, 0).id)
    return InheritSlots(place(database, 0, 0), SlotSet([16000]), dead), lambda: None


@row("preconditions._replicate#1", "db-0-0 owns slots 0-5460 now")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    return Replicate(place(database, 0, 0), place(database, 1, 0)), lambda: None


@row("preconditions._replicate#2", "db-0-1 holds 1 keys that no other server may have")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    verbs.reset(database.world, database.server(0, 1), hard=True)

    def written() -> None:
        database.server(0, 1).keys = {1: {"only": "1"}}

    return Replicate(place(database, 0, 1), place(database, 0, 0)), written


@row("preconditions._replicate#3", "db-0-1 follows another primary now")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    action = Replicate(
        place(database, 0, 1), place(database, 2, 0), NodeId(database.server(0, 0).id)
    )
    other = database.server(1, 0).id
    return action, lambda: verbs.replicate(database.world, database.server(0, 1), other)


@row("preconditions._forget#1", "db-0-0 says node ")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    owner = database.server(1, 0)
    given_up = SlotSet(range(5461, 5470))
    return Forget(place(database, 0, 0), NodeId(owner.id), given_up), lambda: None


@row("preconditions._forget#2", "db-0-1 follows node ")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    primary = database.server(0, 0)
    return Forget(place(database, 0, 1), NodeId(primary.id), primary.slots), lambda: None


@row("preconditions._reset#1", "db-0-0 holds ")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    return ResetEmptyNode(node=place(database, 0, 0)), lambda: None


@row("servers.open#1", "db-0-1 was recreated")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    action = ResetEmptyNode(node=replace(place(database, 0, 1), uid="of another day"))
    return action, lambda: None


@row("servers.reach#1", "db-0-1 is not where it was: it moved to ")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    return ResetEmptyNode(place(database, 0, 1)), lambda: recreated(database, 0, 1)


@row("servers._set_epoch#1", "db-0-0 has an epoch already")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    return SetConfigEpoch(place(database, 0, 0), 77), lambda: None


@row("preconditions._raise_epoch#1", "db-0-0 owns other slots now")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    server = database.server(0, 0)
    action = RaiseEpoch(place(database, 0, 0), server.me.epoch, server.slots)
    return action, lambda: verbs.delete_slots(server, SlotSet([1]))


@row("servers._until_known#1", "db-0-1 does not know its primary yet")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    verbs.reset(database.world, database.server(0, 1), hard=True)
    return Replicate(place(database, 0, 1), place(database, 1, 0)), lambda: None


# Promotion


@row("preconditions._failover#1", "db-0-1 follows another primary now")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    other = database.server(1, 0).id
    action = failover(database, Fence.HANDSHAKE)
    return action, lambda: verbs.replicate(database.world, database.server(0, 1), other)


@row("preconditions._failover#2", "db-0-1 is at offset ")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    return failover(database, Fence.HANDSHAKE, min_offset=10**9), lambda: None


@row("preconditions._listening#1", "db-0-0 responds again")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    database.world.kill("db-0-0")
    return failover(database, Fence.PROCESS_GONE), lambda: database.world.start("db-0-0")


@row("preconditions._listening#2", "db-0-0 may be alive")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    return failover(database, Fence.PROCESS_GONE), lambda: database.remove_pod(0, 0)


@row("preconditions.fence_limitation#1", "pod db-0-0 was recreated meanwhile")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    database.world.kill("db-0-0")
    return failover(database, Fence.CONTAINER_ENDED), lambda: recreated(database, 0, 0)


@row("preconditions.fence_limitation#2", "pod db-0-0 exists and was not observed")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    action = failover(database, Fence.POD_GONE, primary_pod="", unseen=("db-0-0",))
    return action, lambda: None


@row("live.read#1", "pod db-0-0 cannot be read, so it may be alive")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    def down() -> None:
        database.operator.api.is_down = True

    return failover(database, Fence.POD_GONE, unseen=("db-0-0",)), down


@row("preconditions._not_empty#1", "db-0-0 does not respond: its writes cannot be paused")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    return failover(database, Fence.EMPTY_AND_PAUSED), lambda: database.remove_pod(0, 0)


@row("preconditions._not_empty#2", "db-1-0 is another node now")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    return failover(database, Fence.EMPTY_AND_PAUSED, primary_pod="db-1-0"), lambda: None


@row("preconditions._not_empty#3", "db-0-0 holds ")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    return failover(database, Fence.EMPTY_AND_PAUSED), lambda: None


# Pods


@row("preconditions._delete_pod#1", "db-0-1 was recreated meanwhile")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    action = DeletePod("db-0-1", pod_of(database, 0, 1).uid, "a roll")
    return action, lambda: recreated(database, 0, 1)


def _deleted(database: SimulatedDatabase) -> DeletePod:
    pod, server = pod_of(database, 0, 1), database.server(0, 1)
    return DeletePod(pod.name, pod.uid, "a roll", NodeId(server.id), Role.REPLICA)


@row("preconditions._delete_pod#2", "db-0-1 responded when it was observed and does not now")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    def frozen() -> None:
        database.server(0, 1).stopped = True

    return _deleted(database), frozen


@row("preconditions._delete_pod#3", "db-0-1 is another node now")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    server = database.server(0, 1)
    return _deleted(database), lambda: verbs.reset(database.world, server, hard=True)


@row("preconditions._delete_pod#4", "db-0-1 became a primary meanwhile")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    server = database.server(0, 1)
    return _deleted(database), lambda: verbs.failover(database.world, server, "TAKEOVER")


def _discarded(database: SimulatedDatabase) -> DiscardData:
    pod = pod_of(database, 0, 1)
    claim = database.volumes[f"data-{pod.name}"]
    return DiscardData(pod.name, pod.uid, place(database, 0, 0), claim.name, claim.uid)


@row("preconditions._discard#1", "db-0-1 was recreated meanwhile")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    database.corrupt(0, 1)
    return _discarded(database), lambda: recreated(database, 0, 1)


@row("preconditions._discard#2", "db-0-1 is up again")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    return _discarded(database), lambda: None


@row("preconditions._discard#3", "db-0-0 is not a primary with keys any more")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    database.corrupt(0, 1)

    def emptied() -> None:
        database.server(0, 0).keys = {}

    return _discarded(database), emptied


@row("preconditions.claim_limitation#1", "claim data-db-0-1 was recreated meanwhile")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    database.corrupt(0, 1)
    return replace(_discarded(database), claim_uid="of another day"), lambda: None


@row("preconditions.claim_limitation#2", "claim data-db-2-1 does not carry the database label")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    action = ScaleWorkload(2, database.workloads[2].uid, 2, 1, discard=True)

    def unlabelled() -> None:
        database.operator.api.unlabelled.add("data-db-2-1")

    return action, unlabelled


@row("objects._patch_pod#1", "db-0-1 was replaced meanwhile")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    action = LabelRole("db-0-1", pod_of(database, 0, 1).uid, Role.PRIMARY)
    return action, lambda: recreated(database, 0, 1)


@row("objects._delete#1", "Pod db-0-1 changed meanwhile")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    """It changes after it was read, and before it is deleted."""

    def between() -> None:
        database.operator.api.before_write = lambda: recreated(database, 0, 1)

    return _deleted(database), between


@row("objects._resize#1", "db-0-1 is gone, or cannot be resized")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    action = ResizePod("db-0-1", pod_of(database, 0, 1).uid, (("limits.memory", "1Gi"),))
    return action, lambda: recreated(database, 0, 1)


# Workloads and claims


@row("preconditions._scale#1", "the StatefulSet of shard 2 is gone")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    action = ScaleWorkload(2, database.workloads[2].uid, 2, 1, discard=True)
    return action, lambda: database.workloads.pop(2)


@row("preconditions._scale#2", "the StatefulSet of shard 2 changed meanwhile")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    action = ScaleWorkload(2, database.workloads[2].uid, 2, 1, discard=True)
    grown = replace(database.workloads[2], pods=3)
    return action, lambda: database.workloads.update({2: grown})


@row("objects._scale#1", "StatefulSet db-2 changed meanwhile")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    """It changes after it was read, and before it is patched."""
    grown = replace(database.workloads[2], pods=3)

    def between() -> None:
        database.operator.api.before_write = lambda: database.workloads.update({2: grown})

    return ScaleWorkload(2, database.workloads[2].uid, 2, 1), between


@row("preconditions._delete_workload#1", "the StatefulSet of shard 2 was recreated meanwhile")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    action = DeleteWorkload(2, database.workloads[2].uid)
    other = replace(database.workloads[2], uid="of another day")
    return action, lambda: database.workloads.update({2: other})


@row("objects._patch_claim#1", "claim data-db-0-0 changed meanwhile")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    claim = database.volumes["data-db-0-0"]
    other = replace(claim, uid="of another day")
    action = GrowVolume(claim.name, claim.uid, 200)
    return action, lambda: database.volumes.update({claim.name: other})


# Moves


@row("movers.move#1", "the last attempt failed")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    slot = next(iter(database.server(0, 0).keys))
    action = MoveSlots(place(database, 0, 0), place(database, 1, 0), SlotSet([slot]))

    def failed() -> None:
        refused = database.operator.network.refused
        refused.update(dict.fromkeys(("EVALSHA", "MIGRATE"), "ERR not today"))
        database.execute(action)
        refused.clear()

    return action, failed


@row("movers.rescue#1", "are being migrated")
def _(database: SimulatedDatabase) -> tuple[Action, Move]:
    """Who imports slots for a rescue would take them when their owner gives them away."""
    slots = SlotSet([next(iter(database.server(0, 0).slots))])
    owner, target, holder = (place(database, shard, 0) for shard in range(3))
    operator = database.operator

    async def begin() -> None:
        moving = Moving(owner.id, target.id, slots)
        operator.movers.start((NAMESPACE, "db"), moving, lambda _: asyncio.sleep(1000))

    return RescueKeys(holder, owner, slots), lambda: operator.run(begin)


@pytest.mark.parametrize("guard", ROWS)
def test_action_is_refused_when_the_world_moved_on_and_nothing_is_sent(guard: str) -> None:
    build, words = ROWS[guard]
    database = whole_database(replace(WANTED, replicas=1))
    action, moved_on = build(database)
    moved_on()
    journal = database.operator.journal
    sent = len(journal.effects)
    refusal = database.execute(action)
    assert words in refusal
    assert re.search(find_guards()[guard].pattern, refusal), (guard, refusal)
    done = [effect for effect in journal.effects[sent:] if not _is_harmless(effect.kind, guard)]
    assert not done, [str(effect) for effect in done]


def _is_harmless(kind: str, guard: str) -> bool:
    """What a refused action may have sent: requests that the other side itself refused."""
    by_the_other_side = {
        "servers._set_epoch#1": "CLUSTER SET-CONFIG-EPOCH",
        "servers._until_known#1": "CLUSTER REPLICATE",
        "objects._patch_pod#1": "PATCH pods",
        "objects._delete#1": "DELETE pods",
        "objects._resize#1": "PATCH pods",
        "objects._scale#1": "PATCH statefulsets",
        "objects._patch_claim#1": "PATCH persistentvolumeclaims",
    }
    return guard in by_the_other_side and by_the_other_side[guard] in kind


def test_every_action_on_a_server_that_does_not_answer_is_refused() -> None:
    """No answer is never taken for an empty server."""
    database = new_database()
    at = place(database, 0, 0)
    other = place(database, 1, 0)
    for action in (
        TuneForBootstrap(at, ()),
        AssignSlots(at, SlotSet([1])),
        UnassignSlots(at, SlotSet([1]), other.id),
        InheritSlots(at, SlotSet([1]), other.id),
        Replicate(at, other),
        Forget(at, other.id),
        ResetEmptyNode(at),
        Failover(at, other.id, FailoverMode.FORCE, Fence.POD_GONE),
        DiscardData("db-0-1", "uid", at),
    ):
        assert "db-0-0 does not respond" in (precondition(action, ActionFacts()) or ""), action


# Counting


def test_every_guard_has_a_row_and_every_row_a_guard() -> None:
    assert set(find_guards()) - INDIRECT - guards_of_failover() - set(ELSEWHERE) == set(ROWS)
    assert len(ROWS) > 40
