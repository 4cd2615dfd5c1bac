"""Bases of an archive whose bytes are not those that were written, in archives without a server."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from backup.stream.test_find import base_of, ten_seconds
from redis_operator.backup.errors import Damaged
from redis_operator.backup.manifest import Manifest
from redis_operator.backup.piece import Piece
from redis_operator.backup.squeeze import Compressor
from redis_operator.backup.store import Shelf, open_shelf
from redis_operator.backup.stream.moments import find_pieces
from redis_operator.backup.stream.records import (
    Base,
    Point,
    PointMark,
    Segment,
    base_names,
    encode,
    point_name,
    segment_names,
)
from redis_operator.backup.task import Store, Until

STORE = Store("archive")
LATE = Until(point="late")


def compressed(content: bytes) -> bytes:
    made = Compressor(1)
    return made.compress(content) + made.flush()


async def stored(shelf: Shelf, segments: list[Segment], bases: list[Base]) -> None:
    """Write an archive whose manifests are of the bytes that it has."""
    for one in segments:
        content = b"\r\n" * (one.size // 2)
        made = compressed(content)
        digest = hashlib.sha256(content).hexdigest()
        await shelf.create(one.object, made)
        found = replace(one, stored=len(made), sha256=digest)
        await shelf.create(segment_names(one.line, one.number).manifest, encode(found))
    for each in bases:
        content = b"VALKEY080 of base %d" % each.number
        made = compressed(content)
        digest = hashlib.sha256(content).hexdigest()
        part = replace(each.part, size=len(content), stored=len(made), sha256=digest)
        await shelf.create(part.object, made)
        name = base_names(each.line, each.number).manifest
        await shelf.create(name, encode(replace(each, part=part)))


async def found_in(folder: Path) -> tuple[Piece, ...]:
    def any_version(_: Manifest) -> None:
        return

    def opened(store: Store) -> Shelf:
        return open_shelf(store, folder=str(folder))

    return await find_pieces(STORE, LATE, "spec.from", any_version, opened)


def change(folder: Path, base: Base) -> None:
    place = folder / "archive/shard-0" / base.part.object
    content = place.read_bytes()
    place.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.fixture
async def archive(tmp_path: Path) -> Path:
    shelf = open_shelf(Store("archive/shard-0"), folder=str(tmp_path))
    segments = [ten_seconds(number) for number in range(1, 61)]
    await stored(shelf, segments, [base_of(number) for number in (1, 10, 30)])
    mark = PointMark("a", segments[40].last, segments[40].ended_at)
    await shelf.create(point_name("late"), encode(Point("late", {"shard-0": mark})))
    return tmp_path


@pytest.mark.parametrize(("changed", "taken"), [((), 30), ((30,), 10), ((30, 10), 1)])
async def test_an_earlier_base_is_taken_where_the_bytes_of_one_were_changed(
    archive: Path, changed: tuple[int, ...], taken: int
) -> None:
    [whole] = await found_in(archive)
    for number in changed:
        change(archive, base_of(number))
    [piece] = await found_in(archive)
    assert piece.part.name == f"base-{taken}"
    assert (piece.offset, piece.reached) == (whole.offset, whole.reached)
    assert piece.stream_size == piece.offset - piece.part.offset


async def test_the_base_is_named_where_no_earlier_one_serves(archive: Path) -> None:
    for number in (1, 10, 30):
        change(archive, base_of(number))
    with pytest.raises(Damaged, match=f"shard-0/{base_of(30).part.object} is damaged"):
        await found_in(archive)
