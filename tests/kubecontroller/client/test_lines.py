from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecontroller.client.errors import GarbledLine
from kubecontroller.client.lines import LineJoiner


@given(st.lists(st.binary(max_size=20).filter(lambda b: b"\n" not in b)), st.data())
def test_lines_come_out_the_same_however_they_are_cut(
    lines: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    joiner, got = LineJoiner(), []
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        got += joiner.feed(whole[:size])
        whole = whole[size:]
    assert got == [line for line in lines if line and not line.isspace()]
    assert joiner.pending == 0


def test_an_unfinished_line_is_held_back() -> None:
    joiner = LineJoiner()
    assert joiner.feed(b"abc") == []
    assert joiner.pending == 3
    assert joiner.feed(b"def\ng") == [b"abcdef"]
    assert joiner.feed(b"\n") == [b"g"]


def test_a_long_line_comes_out_whole() -> None:
    joiner, piece = LineJoiner(), b"x" * 1024
    for _ in range(2 * 1024):
        assert joiner.feed(piece) == []
    (line,) = joiner.feed(b"\n")
    assert line == b"x" * 2 * 2**20


def test_a_line_that_never_ends_is_refused_with_its_beginning() -> None:
    joiner = LineJoiner(largest=100)
    joiner.feed(b"begin" * 10)
    with pytest.raises(GarbledLine, match=r"longer than 100 bytes.*begin"):
        joiner.feed(b"x" * 100)
