"""How large an atomic job may be, so that no client waits long for it."""

from __future__ import annotations

import pytest

from redis_operator.redis.carrying import BatchSize
from redis_operator.redis.moving import Pace, keys_of_a_job

PACE = Pace(job_microseconds=14_000)


@pytest.mark.parametrize(
    ("average_bytes", "fork_microseconds", "least", "most"),
    [
        pytest.param(100, 1000, 15_000, 25_000, id="small values: tens of thousands of keys"),
        pytest.param(1100, 1000, 5_000, 10_000, id="a kilobyte each: freeing takes longer"),
        pytest.param(100_000, 1000, 1_000, 2_000, id="large values: a thousand or two"),
        pytest.param(10**9, 1000, 1_000, 2_000, id="huge values cost no more than large ones"),
        pytest.param(100, 60_000, 80_000, 120_000, id="forking takes 60 ms: deleting may as well"),
        pytest.param(100, 10**7, 200_000, 200_000, id="but never without any limit"),
    ],
)
def test_a_job_has_so_many_keys(
    average_bytes: float, fork_microseconds: int, least: int, most: int
) -> None:
    found = keys_of_a_job(PACE, average_bytes=average_bytes, fork_microseconds=fork_microseconds)
    assert least <= found <= most


def test_a_job_has_at_least_one_key() -> None:
    pace = Pace(job_microseconds=1)
    assert keys_of_a_job(pace, average_bytes=1e9, fork_microseconds=0) == 1


def test_batches_shrink_to_a_quarter_while_they_take_too_long_and_grow_again() -> None:
    batch = BatchSize(Pace(keys=100, bytes=400_000, microseconds=1000))
    seen = []
    for microseconds in (1001, 5000, 5000, 600, 499, 499, 499):
        batch.took(microseconds)
        seen.append(batch.limits)
    assert seen == [
        (50, 200_000),
        (25, 100_000),
        (25, 100_000),
        (25, 100_000),
        (50, 200_000),
        (100, 400_000),
        (100, 400_000),
    ]


def test_a_batch_has_at_least_one_key() -> None:
    batch = BatchSize(Pace(keys=1, bytes=1, microseconds=1))
    batch.took(100)
    assert batch.limits == (1, 1)
