"""A request to switch over is met when the sentinels know it as well: else it would be forgotten
when the operator dies between the promotion and the demotion."""

from __future__ import annotations

from msgspec.structs import replace

from planning.failover.test_failover import WANTED, WHOLE, of, sentinel, server
from redis_operator.operator.requests import met
from redis_operator.operator.wanted import PRIMARY_ANNOTATION
from redis_operator.planning.advice import Switchover

ASKED = replace(WANTED, switchover=Switchover(pod="db-1"))
REQUEST = {PRIMARY_ANNOTATION: "db-1"}
HALF = replace(WHOLE, nodes=(server(0), server(1), server(2, of(0))))


def test_a_second_primary_that_the_sentinels_do_not_name_does_not_meet_the_request() -> None:
    assert met(REQUEST, ASKED, HALF) == ()


def test_the_primary_that_all_name_meets_the_request() -> None:
    done = replace(
        WHOLE,
        nodes=(server(0, of(1)), server(1), server(2, of(1))),
        sentinels=tuple(sentinel(n, 1) for n in range(3)),
    )
    assert met(REQUEST, ASKED, done) == (PRIMARY_ANNOTATION,)
