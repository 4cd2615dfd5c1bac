"""What the simulated Redis Cluster does, real servers do. Every test runs on both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from redis_operator.redis.errors import ReplyError
from redis_operator.redis.slots import even_shares, key_slot
from redis_operator.redis.versions import heals_maps
from sim import fleet as f

pytestmark = pytest.mark.servers


async def test_a_mesh_of_introductions_makes_everybody_known(fleet_of: Any) -> None:
    fleet = await fleet_of(3)
    await f.mesh(fleet, 3)
    ids = {await f.my_id(fleet, index) for index in range(3)}

    async def known() -> bool:
        return all([set(await f.nodes(fleet, index)) == ids for index in range(3)])

    await f.until(fleet, known)  # a handshake that lost a race has a name of its own


async def test_slots_of_somebody_are_refused_and_epochs_are_set_only_alone(fleet_of: Any) -> None:
    fleet = await fleet_of(2)
    await fleet.call(0, "CLUSTER", "ADDSLOTS", 1, 2, 3)
    assert "busy" in await f.refusal(fleet, 0, "CLUSTER", "ADDSLOTS", 3, 4)
    assert 4 not in await f.owned(fleet, 0)
    await fleet.call(0, "CLUSTER", "SET-CONFIG-EPOCH", 7)
    assert "non-zero" in await f.refusal(fleet, 0, "CLUSTER", "SET-CONFIG-EPOCH", 8)
    await f.mesh(fleet, 2)
    assert "does not know any other" in await f.refusal(fleet, 1, "CLUSTER", "SET-CONFIG-EPOCH", 9)
    assert (await f.myself(fleet, 0)).config_epoch == 7


async def test_only_an_empty_primary_becomes_a_replica_and_then_has_the_data(fleet_of: Any) -> None:
    fleet = await fleet_of(3)
    unknown = "0123456789abcdef0123456789abcdef01234567"
    assert "nknown node" in await f.refusal(fleet, 0, "CLUSTER", "REPLICATE", unknown)
    ids = await f.form(fleet, primaries=2, count=3)
    assert "empty" in await f.refusal(fleet, 1, "CLUSTER", "REPLICATE", ids[0])
    key = f.key_of(0, 2)
    await fleet.call(0, "SET", key, "v")

    async def copied() -> bool:
        return await f.keys(fleet, 2) == 1

    await f.until(fleet, copied)
    mine, theirs = await f.replication(fleet, 2), await f.replication(fleet, 0)
    assert mine.replication_id == theirs.replication_id
    assert (await f.myself(fleet, 2)).primary == ids[0]


async def test_a_planned_failover_swaps_the_roles_under_a_higher_epoch(fleet_of: Any) -> None:
    fleet = await fleet_of(6)
    ids = await f.form(fleet, primaries=3, count=6)
    await fleet.call(0, "SET", f.key_of(0, 3), "v")
    before = (await f.myself(fleet, 0)).config_epoch
    await fleet.call(3, "CLUSTER", "FAILOVER")

    async def swapped() -> bool:
        new, old = await f.myself(fleet, 3), await f.myself(fleet, 0)
        return new.is_primary and old.primary == ids[3] and await f.link_up(fleet, 0)

    await f.until(fleet, swapped)
    new = await f.myself(fleet, 3)
    assert new.slots == even_shares(3)[0]
    assert new.config_epoch > max(before, 3)
    assert await f.keys(fleet, 3) == 1
    assert "replica" in (await f.refusal(fleet, 3, "CLUSTER", "FAILOVER")).lower()


async def test_a_planned_failover_stops_writes_until_the_replica_leads(fleet_of: Any) -> None:
    """None is acknowledged by the old primary that the new one does not have. CL-22"""
    fleet = await fleet_of(6)
    ids = await f.form(fleet, primaries=3, count=6)
    keys = [key for _, key in zip(range(40), f.keys_of(0, 3), strict=False)]
    acknowledged = []
    for number, key in enumerate(keys):
        if number == 20:
            await fleet.call(3, "CLUSTER", "FAILOVER")
        try:
            await fleet.call(0, "SET", key, "v")
        except ReplyError:
            break
        acknowledged.append(key)

    async def swapped() -> bool:
        new, old = await f.myself(fleet, 3), await f.myself(fleet, 0)
        return new.is_primary and old.primary == ids[3] and await f.link_up(fleet, 0)

    await f.until(fleet, swapped)
    assert len(acknowledged) >= 20
    assert await f.keys(fleet, 3) == len(acknowledged)


async def test_a_dead_primary_is_replaced_by_force_at_once(fleet_of: Any) -> None:
    """By itself the cluster would wait for its node timeout of twenty seconds."""
    fleet = await fleet_of(6, **{"cluster-node-timeout": "20000"})
    await f.form(fleet, primaries=3, count=6)
    await fleet.kill(0)
    await fleet.call(3, "CLUSTER", "FAILOVER", "FORCE")

    async def promoted() -> bool:
        node = await f.myself(fleet, 3)
        return node.is_primary and node.slots == even_shares(3)[0]

    await f.until(fleet, promoted)

    async def known() -> bool:
        views = [(await f.nodes(fleet, i))[await f.my_id(fleet, 3)] for i in (1, 2)]
        return all(view.slots == even_shares(3)[0] for view in views)

    await f.until(fleet, known)


async def test_a_candidate_counts_no_votes_of_those_whom_it_does_not_know_to_own_slots(
    fleet_of: Any,
) -> None:
    """The voters give their votes, and it asks no more of them for four node timeouts."""
    fleet = await fleet_of(6, **{"cluster-node-timeout": "20000"})
    await f.form(fleet, primaries=3, count=6)
    await fleet.kill(0)
    slots = [slot for share in even_shares(3)[1:] for slot in share]
    await fleet.pipe(3, ("CLUSTER", "DELSLOTS", *slots), ("CLUSTER", "FAILOVER", "FORCE"))

    async def promoted() -> bool:
        return bool(await f.owned(fleet, 3))

    await f.never(fleet, promoted, ticks=6)
    if fleet.version.engine == "redis":
        await fleet.call(3, "CLUSTER", "FAILOVER", "FORCE")
        await f.never(fleet, promoted, ticks=6)


async def test_a_candidate_that_the_voters_do_not_know_is_not_elected(fleet_of: Any) -> None:
    fleet = await fleet_of(6)
    ids = await f.form(fleet, primaries=3, count=6)
    await fleet.kill(0)
    for voter in (1, 2):
        await fleet.call(voter, "CLUSTER", "FORGET", ids[3])
    await fleet.call(3, "CLUSTER", "FAILOVER", "FORCE")

    async def promoted() -> bool:
        return bool(await f.owned(fleet, 3))

    await f.never(fleet, promoted, ticks=6)


async def test_a_dead_primary_is_replaced_without_anybody_asking(fleet_of: Any) -> None:
    fleet = await fleet_of(6)
    await f.form(fleet, primaries=3, count=6)
    await fleet.kill(1)

    async def promoted() -> bool:
        return bool(await f.owned(fleet, 4))

    await f.until(fleet, promoted)


@pytest.mark.parametrize("empty", [False, True], ids=["with its data", "empty"])
async def test_a_replica_that_restarted_is_elected_only_when_it_is_forced(
    fleet_of: Any, empty: bool
) -> None:
    """No engine compares what candidates hold: FORCE promotes an empty replica as well."""
    fleet = await fleet_of(6)
    await f.form(fleet, primaries=3, count=6)
    await fleet.call(0, "SET", f.key_of(0, 3), "v")

    async def copied() -> bool:
        return await f.keys(fleet, 3) == 1

    await f.until(fleet, copied)
    await fleet.kill(3)
    await fleet.kill(0)
    await fleet.start(3, empty=empty)
    dead = next(n for n in (await f.nodes(fleet, 1)).values() if n.ip == fleet.ip(0)).id

    async def failed() -> bool:
        return all([(await f.nodes(fleet, i))[dead].is_failed for i in (1, 2, 3)])

    async def promoted() -> bool:
        return bool(await f.owned(fleet, 3))

    await f.until(fleet, failed)
    await f.never(fleet, promoted, ticks=40)
    assert await f.keys(fleet, 3) == (0 if empty else 1)
    told = await fleet.call(3, "INFO", "replication")
    assert "master_link_down_since_seconds:-1" in told.decode()  # by this the operator knows it
    await fleet.call(3, "CLUSTER", "FAILOVER", "FORCE")
    await f.until(fleet, promoted)


async def test_without_a_majority_force_never_wins_and_takeover_does(fleet_of: Any) -> None:
    fleet = await fleet_of(6)
    await f.form(fleet, primaries=3, count=6)
    await fleet.kill(0)
    await fleet.kill(1)
    await fleet.call(3, "CLUSTER", "FAILOVER", "FORCE")

    async def promoted() -> bool:
        return bool(await f.owned(fleet, 3))

    await f.never(fleet, promoted, ticks=20)
    await fleet.call(3, "CLUSTER", "FAILOVER", "TAKEOVER")
    await f.until(fleet, promoted)
    assert (await f.myself(fleet, 3)).config_epoch > 3


async def test_the_higher_epoch_takes_the_slot_and_the_loser_deletes_its_key(fleet_of: Any) -> None:
    """Why ADDSLOTS and BUMPEPOCH are weapons. I3"""
    fleet = await fleet_of(3)
    await f.form(fleet, primaries=3, count=3)
    key = f.key_of(0, 3)
    slot = key_slot(key)
    await fleet.call(0, "SET", key, "v")
    await fleet.call(2, "CLUSTER", "DELSLOTS", slot)
    await fleet.call(2, "CLUSTER", "ADDSLOTS", slot)
    assert (await f.myself(fleet, 2)).config_epoch == 3

    async def taken() -> bool:
        return slot not in await f.owned(fleet, 0)

    await f.until(fleet, taken)
    assert await f.keys(fleet, 0) == 0


async def test_who_missed_a_move_believes_the_old_owner_if_that_ones_epoch_is_higher(
    fleet_of: Any,
) -> None:
    """Redis 6.2 for ever; later ones note that it does not claim the slot any more. CL-29"""
    fleet = await fleet_of(4)
    ids = await f.form(fleet, primaries=4, count=4)
    old, new, deaf, _ = range(4)
    slot = next(iter(even_shares(4)[old]))
    await fleet.end(deaf)  # frozen it would find the news in its sockets
    await fleet.call(new, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[old])
    await fleet.call(new, "CLUSTER", "SETSLOT", slot, "NODE", ids[new])
    await fleet.call(old, "CLUSTER", "SETSLOT", slot, "NODE", ids[new])

    def knows(one: int, other: int, epoch: int) -> Callable[[], Awaitable[bool]]:
        async def known() -> bool:
            return (await f.nodes(fleet, one))[ids[other]].config_epoch == epoch

        return known

    high = (await f.myself(fleet, new)).config_epoch
    await f.until(fleet, knows(old, new, high))
    await fleet.call(old, "CLUSTER", "BUMPEPOCH")
    rise = (await f.myself(fleet, old)).config_epoch
    assert rise > high
    await f.until(fleet, knows(new, old, rise))
    await fleet.freeze(new)
    await fleet.start(deaf)
    await f.until(fleet, knows(deaf, old, rise))
    await fleet.thaw(new)

    async def right() -> bool:
        return slot in (await f.nodes(fleet, deaf))[ids[new]].slots

    if not heals_maps(fleet.version):
        await f.never(fleet, right, ticks=60)
        await fleet.call(new, "CLUSTER", "BUMPEPOCH")
    await f.until(fleet, right)
    assert slot in await f.owned(fleet, new)


async def test_a_server_that_others_called_failed_never_calls_itself_so(fleet_of: Any) -> None:
    fleet = await fleet_of(3)
    ids = await f.form(fleet, primaries=3, count=3)
    await fleet.freeze(0)

    async def failed() -> bool:
        return "fail" in (await f.nodes(fleet, 1))[ids[0]].flags

    async def serves() -> bool:
        return b"cluster_state:ok" in await fleet.call(0, "CLUSTER", "INFO")

    await f.until(fleet, failed)
    await fleet.thaw(0)
    await f.until(fleet, serves)
    assert "fail" not in (await f.myself(fleet, 0)).flags


async def test_nobody_forgets_itself_or_its_primary_and_the_dead_stay_forgotten(
    fleet_of: Any,
) -> None:
    fleet = await fleet_of(4)
    ids = await f.form(fleet, primaries=3, count=4)
    assert "forget myself" in await f.refusal(fleet, 0, "CLUSTER", "FORGET", ids[0])
    assert "forget my master" in await f.refusal(fleet, 3, "CLUSTER", "FORGET", ids[0])
    await fleet.kill(3)
    for index in (0, 1, 2):
        await fleet.call(index, "CLUSTER", "FORGET", ids[3])

    async def back() -> bool:
        return any([ids[3] in await f.nodes(fleet, index) for index in (0, 1, 2)])

    await f.never(fleet, back, ticks=20)


async def test_a_slot_moves_with_its_key_and_the_target_takes_an_epoch(fleet_of: Any) -> None:
    fleet = await fleet_of(3)
    ids = await f.form(fleet, primaries=3, count=3)
    key = f.key_of(0, 3)
    slot = key_slot(key)
    await fleet.call(0, "SET", key, "v")
    await fleet.call(1, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
    await fleet.call(0, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
    assert (await f.myself(fleet, 1)).importing == ((slot, ids[0]),)
    assert (await f.myself(fleet, 0)).migrating == ((slot, ids[1]),)
    assert "keys" in await f.refusal(fleet, 0, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])
    before = (await f.myself(fleet, 1)).config_epoch
    assert await fleet.call(0, "MIGRATE", fleet.ip(1), 6379, "", 0, 1000, "KEYS", key) == b"OK"
    await fleet.call(1, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])
    assert (await f.myself(fleet, 1)).config_epoch > before
    await fleet.call(0, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])

    async def agreed() -> bool:
        views = [(await f.nodes(fleet, i))[ids[1]].slots for i in range(3)]
        return all(slot in view for view in views)

    await f.until(fleet, agreed)
    assert await fleet.call(1, "GET", key) == b"v"
    assert "MOVED" in await f.refusal(fleet, 0, "GET", key)


async def test_who_imports_a_slot_takes_it_on_valkey_when_its_owner_gives_it_to_another(
    fleet_of: Any,
) -> None:
    fleet = await fleet_of(3)
    ids = await f.form(fleet, primaries=3, count=3)
    slot = key_slot(f.key_of(2, 3))
    before = (await f.myself(fleet, 0)).config_epoch
    await fleet.call(0, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[2])
    await fleet.call(2, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])

    async def taken() -> bool:
        return slot in (await f.myself(fleet, 0)).slots

    if fleet.version.engine == "redis":
        await f.never(fleet, taken, ticks=20)
        return
    await f.until(fleet, taken)
    third = await f.myself(fleet, 0)
    assert third.importing == ()
    assert third.config_epoch > before


async def test_who_imports_a_slot_lets_it_be_on_valkey_when_another_claims_it(
    fleet_of: Any,
) -> None:
    fleet = await fleet_of(3)
    ids = await f.form(fleet, primaries=3, count=3)
    slot = key_slot(f.key_of(0, 3))
    for index in (1, 2):
        await fleet.call(index, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
    await fleet.call(1, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])

    async def closed() -> bool:
        return (await f.myself(fleet, 2)).importing == ()

    if fleet.version.engine == "redis":
        await f.never(fleet, closed, ticks=20)
    else:
        await f.until(fleet, closed)


async def test_a_key_goes_only_where_its_slot_is_open_and_never_over_another(fleet_of: Any) -> None:
    fleet = await fleet_of(3)
    ids = await f.form(fleet, primaries=3, count=3)
    key = f.key_of(0, 3)
    slot = key_slot(key)
    await fleet.call(0, "SET", key, "v")
    words = ("MIGRATE", fleet.ip(1), 6379, "", 0, 1000)
    assert "MOVED" in await f.refusal(fleet, 0, *words, "KEYS", key)
    assert await fleet.call(0, "GET", key) == b"v"
    await fleet.call(1, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
    await fleet.call(0, *words, "COPY", "KEYS", key)
    assert "BUSYKEY" in await f.refusal(fleet, 0, *words, "KEYS", key)
    await fleet.call(1, "CLUSTER", "SETSLOT", slot, "STABLE")
    assert (await f.myself(fleet, 1)).importing == ()
    assert await fleet.call(1, "CLUSTER", "COUNTKEYSINSLOT", slot) == 1
    assert b"cluster_state:ok" in await fleet.call(1, "CLUSTER", "INFO")


async def test_a_primary_with_keys_is_not_reset_and_a_hard_reset_makes_another_node(
    fleet_of: Any,
) -> None:
    fleet = await fleet_of(1)
    await fleet.call(0, "CLUSTER", "ADDSLOTS", *even_shares(1)[0])

    async def serves() -> bool:
        return b"cluster_state:ok" in await fleet.call(0, "CLUSTER", "INFO")

    await f.until(fleet, serves)
    await fleet.call(0, "SET", "k", "v")
    assert "keys" in await f.refusal(fleet, 0, "CLUSTER", "RESET", "HARD")


async def test_a_hard_reset_of_an_empty_server_makes_it_another_node(fleet_of: Any) -> None:
    fleet = await fleet_of(2)
    await f.mesh(fleet, 2)
    before = await f.my_id(fleet, 0)
    await fleet.call(0, "CLUSTER", "RESET", "HARD")
    assert await f.my_id(fleet, 0) != before
    assert len(await f.nodes(fleet, 0)) == 1


async def test_a_primary_that_restarts_empty_empties_its_replica(fleet_of: Any) -> None:
    """Why a pod without its data must never boot with the identity of a primary. I9"""
    fleet = await fleet_of(4)
    await f.form(fleet, primaries=3, count=4)
    await fleet.call(0, "SET", f.key_of(0, 3), "v")

    async def copied() -> bool:
        return await f.keys(fleet, 3) == 1

    await f.until(fleet, copied)
    await fleet.kill(0)
    await fleet.start(0, empty=True)

    async def emptied() -> bool:
        return await f.keys(fleet, 3) == 0

    await f.until(fleet, emptied)


async def test_two_primaries_with_one_epoch_part_by_themselves(fleet_of: Any) -> None:
    fleet = await fleet_of(2)
    for index, share in enumerate(even_shares(2)):
        await fleet.call(index, "CLUSTER", "SET-CONFIG-EPOCH", 5)
        await fleet.call(index, "CLUSTER", "ADDSLOTS", *share)
    await f.mesh(fleet, 2)

    async def parted() -> bool:
        return (await f.myself(fleet, 0)).config_epoch != (await f.myself(fleet, 1)).config_epoch

    await f.until(fleet, parted)
    assert {str(await f.owned(fleet, i)) for i in range(2)} == {str(s) for s in even_shares(2)}
