"""A walk over an RDB finds every key, wherever the pieces of it end. No server is needed."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redis_operator.backup.crc64 import crc64, crc64_all
from redis_operator.backup.entries import LARGEST, NotSplit, Walk

EOF = b"\xff" + bytes(8)
Found = tuple[int, bytes, bytes, int, int]


def length(number: int) -> bytes:
    if number < 1 << 6:
        return bytes((number,))
    if number < 1 << 14:
        return bytes((0x40 | number >> 8, number & 0xFF))
    if number < 1 << 32:
        return b"\x80" + number.to_bytes(4, "big")
    return b"\x81" + number.to_bytes(8, "big")


def text(content: bytes) -> bytes:
    return length(len(content)) + content


def packed(content: bytes) -> bytes:
    """Write bytes as a compressed string may hold them: in runs of 32 at most."""
    runs = [content[n : n + 32] for n in range(0, len(content), 32)]
    found = b"".join(bytes((len(run) - 1,)) + run for run in runs)
    return b"\xc3" + length(len(found)) + length(len(content)) + found


numbers = st.one_of(
    st.integers(-128, 127).map(lambda n: (b"\xc0" + n.to_bytes(1, "little", signed=True), n)),
    st.integers(-(1 << 15), (1 << 15) - 1).map(
        lambda n: (b"\xc1" + n.to_bytes(2, "little", signed=True), n)
    ),
    st.integers(-(1 << 31), (1 << 31) - 1).map(
        lambda n: (b"\xc2" + n.to_bytes(4, "little", signed=True), n)
    ),
)
plain = st.binary(max_size=200)
strings = st.one_of(plain.map(text), numbers.map(lambda pair: pair[0]), plain.map(packed))
keys = st.one_of(
    plain.map(lambda k: (text(k), k)),
    plain.map(lambda k: (packed(k), k)),
    numbers.map(lambda pair: (pair[0], b"%d" % pair[1])),
)
small = st.integers(0, 70_000).map(length)
raw8 = st.binary(min_size=8, max_size=8)


def many(*item: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    one = st.tuples(*item).map(b"".join)
    return st.lists(one, max_size=5).map(lambda found: length(len(found)) + b"".join(found))


def joined(*parts: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.tuples(*parts).map(b"".join)


def stream(version: int) -> st.SearchStrategy[bytes]:
    id16 = st.binary(min_size=16, max_size=16)
    seen = [raw8] if version < 3 else [raw8, raw8]
    consumer = joined(strings, *seen, many(id16))
    group = joined(
        strings,
        *[small] * (2 if version == 1 else 3),
        many(id16, raw8, small),
        many(consumer),
    )
    return joined(many(strings, strings), *[small] * (3 if version == 1 else 8), many(group))


VALUES = {
    **dict.fromkeys((0, 10, 11, 12, 13, 16, 17, 20), strings),
    **dict.fromkeys((1, 2, 14), many(strings)),
    4: many(strings, strings),
    5: many(strings, raw8),
    15: stream(1),
    18: many(small, strings),
    19: stream(2),
    21: stream(3),
    22: many(strings, strings, raw8),
}


@st.composite
def databases(draw: st.DrawFn) -> tuple[bytes, list[Found], bytes]:
    """Return an RDB, what it has, and its functions."""
    made, found, functions = [b"VALKEY080", b"\xfa", text(b"redis-ver"), text(b"9.1.2")], [], b""
    for library in draw(st.lists(strings, max_size=2)):
        functions += b"\xf5" + library
    made.append(functions)
    for number in draw(st.lists(st.integers(0, 300), unique=True, max_size=3)):
        made += [b"\xfe", length(number), b"\xfb", draw(small), draw(small)]
        for _ in range(draw(st.integers(0, 6))):
            expires = draw(st.one_of(st.just(0), st.integers(1, 1 << 45)))
            if draw(st.booleans()):
                made += [b"\xf4", draw(small), draw(small), draw(small)]
            if expires:
                made += [b"\xfc", expires.to_bytes(8, "little")]
            made.append(draw(st.sampled_from([b"", b"\xf9\x07", b"\xf8\x40\x99"])))
            kind = draw(st.sampled_from(sorted(VALUES)))
            (written, key), value = draw(keys), draw(VALUES[kind])
            made += [bytes((kind,)), written, value]
            found.append((kind, key, value, expires, number))
    return b"".join(made) + EOF, found, functions


def walked(content: bytes, cuts: list[int]) -> tuple[list[Found], Walk]:
    walk, found = Walk(), []
    edges = sorted({0, *(cut % (len(content) + 1) for cut in cuts), len(content)})
    taken = [content[a:b] for a, b in pairwise(edges)]
    for piece in [*taken, None]:
        entries = walk.finish() if piece is None else walk.feed(piece)
        for kind, key, begin, end, expires, database in entries:
            found.append((kind, key, walk.buffer[begin:end], expires, database))
    return found, walk


@given(databases(), st.lists(st.integers(0, 10_000), max_size=8))
@settings(max_examples=30, deadline=None)
def test_every_key_is_found_with_all_of_its_value(
    database: tuple[bytes, list[Found], bytes], cuts: list[int]
) -> None:
    content, wanted, functions = database
    found, walk = walked(content, cuts)
    assert found == wanted
    assert walk.functions == functions
    assert walk.version == 80
    assert walk.keys == Counter(one[4] for one in wanted)
    assert counted(content, cuts) == walk.keys


def counted(content: bytes, cuts: list[int]) -> dict[int, int]:
    """Walk without looking at entries."""
    walk, edges = Walk(), sorted({0, *(cut % (len(content) + 1) for cut in cuts), len(content)})
    for a, b in pairwise(edges):
        walk.count(content[a:b])
    walk.finish()
    return walk.keys


@given(databases(), st.data())
@settings(max_examples=30, deadline=None)
def test_what_is_cut_off_is_never_taken_for_the_whole(
    database: tuple[bytes, list[Found], bytes], data: st.DataObject
) -> None:
    content = database[0]
    end = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(NotSplit):
        walked(content[:end], [])
    with pytest.raises(NotSplit, match="does not end"):
        walked(content + b"x", [])


@pytest.mark.parametrize("kind", [3, 6, 7, 8, 9, 22, 23, 24, 25, 26, 127, 0xF3, 0xF6, 0xF7, 0xFD])
def test_a_type_that_is_not_in_the_table_is_never_guessed_at(kind: int) -> None:
    content = b"REDIS0011\xfe\x00" + bytes((kind,)) + text(b"key") + text(b"value") + EOF
    with pytest.raises(NotSplit, match=f"type {kind}"):
        walked(content, [])


@pytest.mark.parametrize("magic", [b"REDIS0008", b"REDIS0012", b"VALKEY081", b"whatever."])
def test_a_version_that_is_not_in_the_table_is_never_guessed_at(magic: bytes) -> None:
    with pytest.raises(NotSplit, match="not known"):
        walked(magic + EOF, [])


def test_an_entry_that_is_too_large_for_memory_is_refused() -> None:
    walk = Walk()
    walk.feed(b"REDIS0009\x00" + text(b"key") + b"\x80" + (1 << 30).to_bytes(4, "big"))

    def feed_all() -> None:
        for _ in range(3 * LARGEST >> 20):
            walk.feed(bytes(1 << 20))
            assert len(walk.buffer) < 3 * LARGEST

    with pytest.raises(NotSplit, match="larger than"):
        feed_all()


def test_the_checksum_is_the_one_of_the_engines() -> None:
    assert crc64(b"123456789") == 0xE9C6D914C4B8D9CA


@given(st.lists(st.one_of(st.binary(max_size=300), st.binary(max_size=3000)), max_size=60))
@settings(max_examples=30, deadline=None)
def test_many_checksums_at_once_are_those_of_each(contents: list[bytes]) -> None:
    contents = contents + [content * 7 for content in contents]
    assert crc64_all(contents) == [crc64(content) for content in contents]
