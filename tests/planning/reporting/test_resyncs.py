"""Replicas that fall behind and copy everything repeatedly are told, and no pod is rolled."""

from __future__ import annotations

from msgspec.structs import replace

from planning import moments as m
from redis_operator.api.status import RedisStatus
from redis_operator.planning.actions import DeletePod
from redis_operator.planning.observed import Observed
from redis_operator.planning.plan import plan
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.resyncs import Resyncs, after_look
from redis_operator.planning.reporting.status import status

W = m.whole()
P0 = m.server(W, "0-0")


def looks(*counts: int, restarts: int = 0, seconds: float = 10.0) -> Resyncs:
    """What is known after looks that found these counts on one primary."""
    known = Resyncs()
    for number, count in enumerate(counts):
        seen = m.but(W, "0-0", full_syncs=count)
        seen = m.but(seen, "0-1", pod_restarts=restarts * number)
        known = after_look(known, seen, m.NOW + seconds * number)
    return known


def times(known: Resyncs) -> int:
    return dict(known.times).get(P0.id, 0)


def test_full_syncs_to_replicas_that_stayed_are_counted_for_five_minutes() -> None:
    assert times(looks(1, 1, 1)) == 0, "what was before the first look is not known"
    assert times(looks(1, 2, 3, 5)) == 4
    assert times(looks(1, 2, 3, 5, restarts=1)) == 0, "a replica that restarts may copy all"
    assert times(looks(5, 1, 2)) == 1, "it restarted and counts from zero"
    new = after_look(Resyncs(), m.without(W, "0-1"), m.NOW)
    copying = m.replicating(m.but(W, "0-0", full_syncs=1), "0-1", link_up=False)
    assert times(after_look(new, copying, m.NOW)) == 0, "a new replica copies everything once"
    assert times(looks(1, 9, 9, seconds=301.0)) == 0


def test_a_primary_that_nobody_follows_is_copied_by_workers_of_backups() -> None:
    alone, known = m.without(W, "0-1"), Resyncs()
    for number, count in enumerate((1, 2, 3)):
        known = after_look(known, m.but(alone, "0-0", full_syncs=count), m.NOW + number)
    assert times(known) == 0


def degraded(observed: Observed, before: RedisStatus | None = None) -> tuple[str, str, str]:
    context = Context(previous=before or RedisStatus(), generation=1, now="2026-01-01T00:00:00Z")
    found = status(m.WANTED, observed, plan(m.WANTED, observed, m.NOW), context)
    (one,) = [c for c in found.conditions if c.type == "Degraded"]
    return one.status, one.reason, one.message


def copied(count: int) -> Observed:
    return replace(W, resyncs=((P0.id, count),))


def test_replicas_that_copy_everything_again_and_again_are_told_with_what_to_raise() -> None:
    """ST-06"""
    assert degraded(copied(3))[0] == "False"
    state, reason, message = degraded(copied(4))
    assert (state, reason) == ("True", "ReplicaOutOfSync")
    for word in ("db-0-0", "repl-backlog-size", "client-output-buffer-limit"):
        assert word in message
    assert degraded(copied(40))[2] == message, "what changes all the time is not told exactly"


def test_no_pod_is_rolled_while_replicas_fall_behind_again_and_again() -> None:
    """ST-06"""
    workloads = tuple(replace(w, revision="new") for w in W.workloads)

    def steps(observed: Observed) -> bool:
        advice = plan(m.WANTED, replace(observed, workloads=workloads), m.NOW)
        return any(isinstance(step, DeletePod) for step in advice.steps)

    assert steps(W)
    assert not steps(copied(4))
