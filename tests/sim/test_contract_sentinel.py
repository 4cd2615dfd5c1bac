"""What simulated sentinels do, real ones do. Every test runs on both."""

from __future__ import annotations

from typing import Any

import pytest

from sim import fleet as f
from sim import sentinel_fleet as s

pytestmark = pytest.mark.servers


async def test_sentinels_find_replicas_and_each_other_through_the_primary(group_of: Any) -> None:
    group = await group_of(3, 3)
    await s.form(group)
    for watcher in group.watchers:
        found = await s.primary(group, watcher)
        assert (found.ip, found.config_epoch, found.quorum) == (group.ip(0), 0, 2)
        assert (found.replicas, found.other_sentinels) == (2, 2)
        assert "3 usable" in await s.say(group, watcher, "SENTINEL", "CKQUORUM", s.NAME)
        assert await s.address(group, watcher) == group.ip(0)


async def test_a_dead_primary_is_replaced_and_comes_back_as_a_replica(group_of: Any) -> None:
    """SE-02, SE-10"""
    group = await group_of(3, 3)
    await s.form(group)
    await group.call(0, "SET", "k", "v")
    await f.until(group, lambda: s.linked(group, 1, 0))
    await f.until(group, lambda: s.linked(group, 2, 0))
    await group.end(0)
    new = await s.elected(group, 1, 2)
    other = 3 - new
    await f.until(group, lambda: s.linked(group, other, new), ticks=700)
    epochs = {(await s.primary(group, w)).config_epoch for w in group.watchers}
    assert len(epochs) == 1
    assert epochs.pop() >= 1
    assert await f.keys(group, new) == 1

    async def missed() -> bool:
        known = await s.replicas(group, group.watchers[0])
        return known[group.ip(0)].is_subjectively_down or known[group.ip(0)].is_disconnected

    await f.until(group, missed)
    await group.start(0)  # as a primary, for all it knows
    await f.until(group, lambda: s.linked(group, 0, new), ticks=700)
    assert await f.keys(group, 0) == 1


async def test_a_frozen_primary_is_replaced_and_follows_when_it_wakes(group_of: Any) -> None:
    """ST-10"""
    group = await group_of(2, 3)
    await s.form(group)
    await group.freeze(0)
    await s.elected(group, 1)
    await group.thaw(0)
    await f.until(group, lambda: s.linked(group, 0, 1), ticks=700)


async def test_a_minority_suspects_and_never_acts(group_of: Any) -> None:
    group = await group_of(2, 3)
    await s.form(group)
    alone, *gone = group.watchers
    for watcher in gone:
        await group.end(watcher)
    await group.end(0)

    async def suspected() -> bool:
        return (await s.primary(group, alone)).is_subjectively_down

    await f.until(group, suspected)

    async def acted() -> bool:
        found = await s.primary(group, alone)
        return found.is_objectively_down or (await s.replication(group, 1)).is_primary

    await f.never(group, acted, ticks=20)
    assert "NOQUORUM" in await s.say(group, alone, "SENTINEL", "CKQUORUM", s.NAME)


async def test_a_quorum_without_a_majority_agrees_and_elects_no_one(group_of: Any) -> None:
    group = await group_of(2, 3)
    await s.form(group, quorum=1)
    alone, *gone = group.watchers
    for watcher in gone:
        await group.end(watcher)
    await group.end(0)

    async def agreed() -> bool:
        return (await s.primary(group, alone)).is_objectively_down

    await f.until(group, agreed)

    async def acted() -> bool:
        return (await s.replication(group, 1)).is_primary

    await f.never(group, acted, ticks=40)


async def test_a_failover_on_request_needs_no_votes_and_demotes_the_old_primary(
    group_of: Any,
) -> None:
    group = await group_of(3, 3)
    await s.form(group)
    first = group.watchers[0]
    assert await s.say(group, first, "SENTINEL", "FAILOVER", s.NAME) == "b'OK'"
    assert "INPROG" in await s.say(group, first, "SENTINEL", "FAILOVER", s.NAME)
    assert (await s.primary(group, first)).failover_in_progress
    new = await s.elected(group, 1, 2)
    await f.until(group, lambda: s.linked(group, 0, new), ticks=700)
    await f.until(group, lambda: s.linked(group, 3 - new, new), ticks=700)
    assert (await s.primary(group, first)).config_epoch >= 1


async def test_no_replica_that_may_lead_is_no_failover(group_of: Any) -> None:
    """SE-21"""
    group = await group_of(2, 1)
    await s.form(group, quorum=1)
    watcher = group.watchers[0]
    await group.call(1, "CONFIG", "SET", "replica-priority", 0)

    async def known() -> bool:
        return (await s.replicas(group, watcher))[group.ip(1)].priority == 0

    await f.until(group, known)
    assert "NOGOODSLAVE" in await s.say(group, watcher, "SENTINEL", "FAILOVER", s.NAME)


async def test_the_replica_with_the_lowest_priority_number_is_promoted(group_of: Any) -> None:
    group = await group_of(3, 1)
    await s.form(group, quorum=1)
    watcher = group.watchers[0]
    await group.call(2, "CONFIG", "SET", "replica-priority", 10)

    async def known() -> bool:
        return (await s.replicas(group, watcher))[group.ip(2)].priority == 10

    await f.until(group, known)
    await group.call(watcher, "SENTINEL", "FAILOVER", s.NAME)
    assert await s.elected(group, 1, 2) == 2


async def test_a_sentinel_keeps_id_epoch_and_acquaintances_in_its_file(group_of: Any) -> None:
    group = await group_of(2, 3)
    await s.form(group)
    await group.call(group.watchers[0], "SENTINEL", "FAILOVER", s.NAME)
    await s.elected(group, 1)
    one = group.watchers[2]
    before = await s.primary(group, one)
    myself, others = await s.say(group, one, "SENTINEL", "MYID"), await s.sentinels(group, one)
    await group.end(one)
    await group.restart_sentinel(one, keep=True)
    after = await s.primary(group, one)
    assert await s.say(group, one, "SENTINEL", "MYID") == myself
    assert (after.ip, after.config_epoch) == (before.ip, before.config_epoch)
    assert set(await s.sentinels(group, one)) == set(others)
    assert group.ip(0) in await s.replicas(group, one)


async def test_a_sentinel_that_lost_its_file_is_another_one_and_leaves_a_ghost(
    group_of: Any,
) -> None:
    """SE-05: the ghost counts for majorities until SENTINEL RESET."""
    group = await group_of(2, 3)
    await s.form(group)
    first, _, one = group.watchers
    before = await s.say(group, one, "SENTINEL", "MYID")
    await group.end(one)
    await group.restart_sentinel(one, keep=False, new_address=True)
    assert await s.say(group, one, "SENTINEL", "MYID") != before

    async def haunted() -> bool:
        return len(await s.sentinels(group, first)) == 3

    await f.until(group, haunted)
    assert (await s.primary(group, first)).other_sentinels == 3
    assert await s.say(group, first, "SENTINEL", "RESET", s.NAME) == "1"

    async def whole() -> bool:
        return len(await s.sentinels(group, first)) == 2 and bool(await s.replicas(group, first))

    await f.until(group, whole)


async def test_a_sentinel_with_another_id_at_the_same_address_replaces_the_old_one(
    group_of: Any,
) -> None:
    """On Redis 7 and Valkey; before, the old one stays, without an address."""
    group = await group_of(2, 2)
    await s.form(group)
    first, one = group.watchers
    before = set(await s.sentinels(group, first))
    await group.end(one)
    await group.restart_sentinel(one, keep=False)

    async def heard() -> bool:
        return bool(set(await s.sentinels(group, first)) - before)

    await f.until(group, heard)
    assert len(await s.sentinels(group, first)) == (2 if group.version.major < 7 else 1)


async def test_a_sentinel_at_a_new_address_is_the_same_when_it_kept_its_file(
    group_of: Any,
) -> None:
    group = await group_of(2, 2)
    await s.form(group)
    first, one = group.watchers
    before, old = set(await s.sentinels(group, first)), group.ip(one)
    await group.end(one)
    await group.restart_sentinel(one, keep=True, new_address=True)

    async def moved() -> bool:
        known = await s.sentinels(group, first)
        return {other.ip for other in known.values()} == {group.ip(one)} != {old}

    await f.until(group, moved)
    assert set(await s.sentinels(group, first)) == before


async def test_a_sentinel_that_lost_its_file_learns_the_new_primary_from_others(
    group_of: Any,
) -> None:
    """SE-07: its file names the old primary, which follows the new one by now."""
    group = await group_of(2, 3)
    await s.form(group)
    await group.call(group.watchers[0], "SENTINEL", "FAILOVER", s.NAME)
    await s.elected(group, 1)
    await f.until(group, lambda: s.linked(group, 0, 1), ticks=700)
    one = group.watchers[2]
    await group.end(one)
    await group.restart_sentinel(one, keep=False)
    await f.until(group, lambda: s.agree(group, 1))


async def test_what_is_monitored_can_be_changed_at_run_time(group_of: Any) -> None:
    group = await group_of(2, 1)
    await s.form(group, quorum=1)
    watcher, words = group.watchers[0], ("SENTINEL", "MONITOR", "other", group.ip(0), 6379)
    assert "No such master" in await s.say(group, watcher, "SENTINEL", "MASTER", "other")
    assert "Duplicate" in await s.say(group, watcher, "SENTINEL", "MONITOR", "db", "1.2.3.4", 1, 1)
    assert "Quorum" in await s.say(group, watcher, *words, 0)
    await group.call(watcher, *words, 2)
    found = await s.primary(group, watcher, "other")
    assert (found.quorum, found.config_epoch, found.down_after_ms) == (2, 0, 30000)
    for option, value in (("quorum", 3), ("parallel-syncs", 5), ("failover-timeout", 900)):
        await group.call(watcher, "SENTINEL", "SET", "other", option, value)
    found = await s.primary(group, watcher, "other")
    assert (found.quorum, found.parallel_syncs, found.failover_timeout_ms) == (3, 5, 900)
    assert "nvalid" in await s.say(group, watcher, "SENTINEL", "SET", "other", "quorum", 0)
    await group.call(watcher, "SENTINEL", "REMOVE", "other")
    assert "No such master" in await s.say(group, watcher, "SENTINEL", "REMOVE", "other")
    assert (await s.primary(group, watcher)).ip == group.ip(0)


async def test_a_sentinel_told_the_old_address_again_is_corrected_by_a_higher_epoch(
    group_of: Any,
) -> None:
    """SENTINEL MONITOR starts at epoch 0: what others know from a failover stands above it."""
    group = await group_of(2, 3)
    await s.form(group)
    first, _, one = group.watchers
    await group.call(first, "SENTINEL", "FAILOVER", s.NAME)
    await s.elected(group, 1)
    await f.until(group, lambda: s.linked(group, 0, 1), ticks=700)
    await group.call(one, "SENTINEL", "REMOVE", s.NAME)
    await group.call(one, "SENTINEL", "MONITOR", s.NAME, group.ip(0), 6379, 2)
    await f.until(group, lambda: s.agree(group, 1))
    assert (await s.primary(group, one)).config_epoch >= 1


async def test_a_replica_promoted_behind_their_back_is_made_a_replica_again(group_of: Any) -> None:
    group = await group_of(2, 1)
    if group.is_slow:
        pytest.skip("takes half a minute, as it cannot be hurried")
    await s.form(group, quorum=1)
    await group.call(1, "REPLICAOF", "NO", "ONE")
    assert (await s.replication(group, 1)).is_primary
    await f.until(group, lambda: s.linked(group, 1, 0))


async def test_a_sentinel_that_stood_still_does_not_trust_its_clock(group_of: Any) -> None:
    """TILT: it goes on to watch, and says of nobody that it is down."""
    group = await group_of(2, 1)
    await s.form(group, quorum=1)
    watcher = group.watchers[0]
    await group.freeze(watcher)
    for _ in range(50):
        await group.tick()
    await group.thaw(watcher)

    async def tilted() -> bool:
        return b"sentinel_tilt:1" in await group.call(watcher, "INFO", "sentinel")

    await f.until(group, tilted, ticks=20)
    if not group.is_slow:

        async def over() -> bool:
            return not await tilted()

        await f.until(group, over, ticks=400)


async def test_a_sentinel_with_a_wrong_password_thinks_that_all_are_down(group_of: Any) -> None:
    """SE-19"""
    group = await group_of(2, 1)
    await s.form(group, quorum=1)
    watcher = group.watchers[0]
    await s.require(group, 0, "watcher", "good")

    async def down() -> bool:
        return (await s.primary(group, watcher)).is_subjectively_down

    await f.until(group, down)
    await group.call(watcher, "SENTINEL", "SET", s.NAME, "auth-user", "watcher")
    await group.call(watcher, "SENTINEL", "SET", s.NAME, "auth-pass", "good")

    async def up() -> bool:
        return not await down()

    await f.until(group, up)


async def test_a_replica_at_a_new_address_is_a_new_one_and_leaves_a_ghost(group_of: Any) -> None:
    """SE-06, SE-09"""
    group = await group_of(2, 1)
    await s.form(group, quorum=1)
    watcher, old = group.watchers[0], group.ip(1)
    await group.end(1)
    await group.start(1, new_address=True)
    await s.follow(group, 1, 0)

    async def both() -> bool:
        known = await s.replicas(group, watcher)
        return group.ip(1) in known and known[old].is_subjectively_down

    await f.until(group, both, ticks=400)
    await group.call(watcher, "SENTINEL", "RESET", s.NAME)

    async def cleared() -> bool:
        return set(await s.replicas(group, watcher)) == {group.ip(1)}

    await f.until(group, cleared, ticks=400)
