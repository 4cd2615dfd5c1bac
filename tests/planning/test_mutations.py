"""Mistakes planted in the rules are found: each by a situation that has a test of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import pytest
from msgspec.structs import replace

from planning.cluster import test_rules_change as change
from planning.cluster import test_rules_heal as heal
from planning.cluster import test_rules_slots as slots
from planning.reporting import test_degradations as degradations
from redis_operator.api.redis import Mode
from redis_operator.planning.actions import Action
from redis_operator.planning.at import at
from redis_operator.planning.cluster import election
from redis_operator.planning.cluster.actions import AssignSlots
from redis_operator.planning.cluster.rules import RULES
from redis_operator.planning.cluster.situation import Situation
from redis_operator.planning.fence import Fence
from redis_operator.planning.modes import MODES
from redis_operator.redis.slots import SlotSet

Patch = tuple[str, str, Any]


def without(*names: str) -> Patch:
    kept = tuple(row for row in RULES if row.name not in names)
    changed = replace(MODES[Mode.CLUSTER], rules=kept)
    return "plan", "MODES", {**MODES, Mode.CLUSTER: changed}


def give_out(situation: Situation, missing: SlotSet) -> Sequence[Action]:
    return (AssignSlots(node=at(situation.voters[0]), slots=missing),)


# What is broken, and the situation that tells.
MUTATIONS: dict[str, tuple[Sequence[Patch], Callable[[], None]]] = {
    "silence is taken for death": (
        [("cluster.assist", "fence_of", lambda _s, _n: Fence.PROCESS_GONE)],
        heal.test_a_silent_primary_is_left_to_the_engine,
    ),
    "a silent sibling is overlooked": (
        [("cluster.election", "_silent_siblings", lambda _s, _p: [])],
        heal.test_a_silent_sibling_stops_the_assisted_failover,
    ),
    "offsets are compared across histories": (
        [("cluster.election", "_of_its_history", lambda s, p: (election.ranked(s, p), ""))],
        heal.test_a_replica_with_another_shards_data_is_never_promoted,
    ),
    "a server with keys is made a replica": (
        [("cluster.follow", "why_not", lambda _s, _n, _l: None), without("rescue", "settle")],
        heal.test_a_server_with_keys_of_its_own_never_becomes_a_replica,
    ),
    "an owner is forgotten before the election": (
        [
            ("cluster.forget", "_is_ghost", lambda *_: True),
            without("assist"),
            ("plan", "breaches", lambda *_: ()),
        ],
        slots.test_a_dead_owner_is_forgotten_only_after_its_replica_took_over,
    ),
    "stray keys are nobody's business": (
        [without("rescue")],
        slots.test_the_target_of_a_move_dies_and_its_replica_holds_stray_keys,
    ),
    "epochs are not looked at": (
        [("cluster.situation", "Situation.unsettled_epochs", None)],
        slots.test_no_slot_changes_hands_while_two_owners_share_an_epoch,
    ),
    "everybody is introduced to everybody": (
        [("cluster.connect", "merge_limitation", lambda _one, _two: None)],
        slots.test_servers_whose_meeting_would_delete_keys_are_not_introduced,
    ),
    "lost slots are given out": (
        [("cluster.cover", "_to_their_holders", give_out)],
        slots.test_deleted_slots_without_keys_are_reported_and_left,
    ),
    "new addresses are not noticed": (
        [("cluster.connect", "_is_wrong", lambda _view, _other: False)],
        heal.test_all_pods_new_at_once_are_introduced_and_nothing_else_is_done,
    ),
    "slots are given out though a pod is silent": (
        [("cluster.bootstrap", "_limitation", lambda _s: ())],
        heal.test_no_slot_is_given_out_while_a_pod_is_silent,
    ),
    "a leaving shard is not looked into": (
        [
            ("cluster.leave", "_limitations", lambda _s, _i: []),
            ("plan", "breaches", lambda *_: ()),
        ],
        change.test_a_leaving_shard_is_drained_forgotten_and_only_then_removed,
    ),
    "a roll does not wait for sync": (
        [
            ("cluster.topology", "unsettled_shard", lambda _s, _i: None),
            ("cluster.topology", "unsettled", lambda _s: None),
        ],
        change.test_a_roll_waits_for_real_sync,
    ),
    "a roll goes on over broken pods": (
        [
            ("common.roll", "_failing", lambda _s: None),
            ("cluster.topology", "unsettled_shard", lambda _s, _i: None),
            ("plan", "breaches", lambda *_: ()),
        ],
        change.test_a_roll_stops_at_the_first_pod_that_does_not_come_up_and_a_revert_recovers,
    ),
    "primaries are deleted as they come": (
        [("common.roll", "is_stuck", lambda _s, _n: True), ("plan", "breaches", lambda *_: ())],
        change.test_a_roll_takes_replicas_first_and_hands_over_before_each_primary,
    ),
    "elections may follow as fast as they like": (
        [
            ("cluster.election", "_too_soon", lambda _s, _c, _p: None),
        ],
        change.test_a_second_failover_to_the_same_node_waits_on_redis,
    ),
    "memory is not reckoned with": (
        [("cluster.rebalance", "_too_big", lambda *_: None)],
        change.test_a_scale_in_that_would_not_fit_is_refused_with_the_numbers,
    ),
    "broken files are thrown away whoever needs them": (
        [
            ("cluster.replace_data", "_data_holder", lambda s, _n: s.voters[0]),
            ("plan", "breaches", lambda *_: ()),
        ],
        degradations.test_files_that_may_be_the_last_copy_are_never_touched,
    ),
    "nobody guards what is thrown away": (
        [("cluster.guards", "_discard", lambda _s, _a: [])],
        degradations.test_the_guard_refuses_to_discard_what_may_be_needed,
    ),
    "a roll goes on over kills for memory": (
        [("common.roll", "memory_kill", lambda _p, _n: None)],
        degradations.test_a_roll_does_not_go_on_when_its_first_new_pod_is_killed_for_memory,
    ),
    "servers that lack memory lead in turn": (
        [("cluster.election", "memory_kill", lambda _p, _n, within: None)],
        degradations.test_servers_that_all_lack_memory_are_not_hurried_from_one_to_the_other,
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patches, situation = MUTATIONS[name]
    for module, attribute, value in patches:
        target: Any = import_module(f"redis_operator.planning.{module}")
        *path, last = attribute.split(".")
        for part in path:
            target = getattr(target, part)
        monkeypatch.setattr(target, last, value)
    with pytest.raises(AssertionError):
        situation()
