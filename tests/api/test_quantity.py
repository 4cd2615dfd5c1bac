"""Quantities are read exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_operator.api.quantity import format_bytes, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100m", Fraction(1, 10)),
        ("1Gi", Fraction(2**30)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("1e3", Fraction(1000)),
        ("5E-1", Fraction(1, 2)),
        ("2E", Fraction(2 * 10**18)),
        (".5", Fraction(1, 2)),
        ("3.", Fraction(3)),
        (7, Fraction(7)),
        ("+2", Fraction(2)),
        ("", None),
        ("-1", None),
        ("1 Gi", None),
        ("1GiB", None),
        ("1\n", None),
        ("1e999", None),
    ],
)
def test_quantities_are_read_exactly(text: str | int, value: Fraction | None) -> None:
    assert parse_quantity(text) == value


@given(st.text())
def test_any_text_is_a_quantity_or_none(text: str) -> None:
    value = parse_quantity(text)
    assert value is None or value >= 0


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (1536, "2Ki"), (2**30, "1.0Gi"), (300 * 2**20, "300Mi")]
)
def test_sizes_are_shown_briefly(count: int, text: str) -> None:
    assert format_bytes(count) == text
