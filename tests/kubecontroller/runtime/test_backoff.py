from __future__ import annotations

import random

import pytest

from kubecontroller.runtime.backoff import (
    Backoff,
    ItemExponential,
)


def test_an_items_wait_doubles_from_5_ms_and_is_capped_at_1000_s():
    limiter = ItemExponential[str]()
    waits = [limiter.when("a") for _ in range(20)]
    assert waits[:4] == pytest.approx([0.005, 0.01, 0.02, 0.04])
    assert waits[-1] == 1000.0
    assert limiter.when("b") == 0.005


def test_a_million_failures_do_not_overflow():
    limiter = ItemExponential[str]()
    limiter._failures["a"] = 1_000_000
    assert limiter.when("a") == 1000.0


def test_forgetting_starts_from_the_shortest_wait_and_the_count_is_of_failures_in_a_row():
    limiter = ItemExponential[str]()
    for _ in range(5):
        limiter.when("a")
    assert limiter.failures("a") == 5
    limiter.forget("a")
    assert (limiter.failures("a"), limiter.when("a")) == (0, 0.005)


def test_jitter_adds_up_to_its_share_and_never_shortens_a_wait():
    limiter = ItemExponential[int](jitter=0.1, random=random.Random(1).random)
    waits = [limiter.when(n) for n in range(200)]
    assert all(0.005 <= wait <= 0.0055 for wait in waits)
    assert len(set(waits)) > 100


def test_jitter_without_randomness_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match="pass random="):
        ItemExponential(jitter=0.1)


def test_stream_backoff_goes_from_800_ms_to_30_s_and_jitter_doubles_at_most():
    plain = Backoff(random=lambda: 0.0)
    assert [plain.next(0.0) for _ in range(8)] == pytest.approx(
        [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    )
    jittered = Backoff(random=lambda: 1.0)
    assert [jittered.next(0.0) for _ in range(7)][-1] == pytest.approx(60)


def test_stream_backoff_is_reset_after_two_minutes_of_health():
    backoff = Backoff(random=lambda: 0.0)
    now = 0.0
    for _ in range(4):
        now += backoff.next(now)
    assert backoff.next(now + 119) == pytest.approx(12.8)
    now += 119 + 12.8
    assert backoff.next(now + 120) == pytest.approx(0.8)


def test_stream_backoff_can_be_reset_by_hand():
    backoff = Backoff(random=lambda: 0.0)
    backoff.next(0), backoff.next(0)
    backoff.reset()
    assert backoff.next(0) == pytest.approx(0.8)
