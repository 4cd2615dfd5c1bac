"""The old primary's pod is no door for writes once another server leads, reached or not. SE-11"""

from __future__ import annotations

from msgspec.structs import replace

from planning.failover.test_failover import NOW, WANTED, WHOLE, dead, of, sentinel, server
from redis_operator.planning.actions import LabelRole
from redis_operator.planning.identity import Role
from redis_operator.planning.observed import Evidence, Observed
from redis_operator.planning.plan import plan

SILENT = dead(0, Evidence.SILENT)


def labels(observed: Observed) -> dict[str, Role]:
    steps = plan(WANTED, observed, NOW).steps
    return {step.pod: step.role for step in steps if isinstance(step, LabelRole)}


def test_a_primary_that_does_not_respond_loses_its_label_when_the_sentinels_name_another() -> None:
    """It may be alive and take writes, which nobody would ever see again."""
    observed = replace(
        WHOLE,
        nodes=(SILENT, server(1, pod={"role_label": "replica"}), server(2, of(1))),
        sentinels=tuple(sentinel(n, 1) for n in range(3)),
    )
    assert labels(observed) == {"db-0": Role.REPLICA, "db-1": Role.PRIMARY}


def test_a_primary_that_does_not_respond_keeps_its_label_while_the_sentinels_name_it() -> None:
    observed = replace(WHOLE, nodes=(SILENT, server(1, of(0)), server(2, of(0))))
    assert labels(observed) == {}
