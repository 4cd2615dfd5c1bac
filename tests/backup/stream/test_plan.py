"""What is read for a moment: bases and segments as values."""

from __future__ import annotations

import pytest

from redis_operator.backup.manifest import StoredPart
from redis_operator.backup.stream.plan import AtTime, NotArchived, Offset, chain, plan
from redis_operator.backup.stream.records import Base, Sample, Segment


def segment(number: int, first: int, last: int, *, history: str = "a", parent: str = "") -> Segment:
    """A segment with a sample at its end: a byte is a second."""
    return Segment(
        line=1,
        number=number,
        object=f"segment-{number}",
        replication_id=history,
        first=first,
        last=last,
        size=last - first + 1,
        stored=1,
        sha256="",
        begun=first * 1_000_000,
        ended=last * 1_000_000,
        engine="valkey",
        version="9.1.2",
        clean_start=True,
        database=-1,
        parent=parent,
        samples=(Sample(last, last * 1_000_000, 0, 0),),
    )


def base(number: int, offset: int, *, history: str = "a") -> Base:
    part = StoredPart(
        name=f"base-{number}",
        object=f"base-{number}",
        replication_id=history,
        offset=offset,
        rdb="VALKEY080",
        size=1,
        stored=1,
        sha256="",
        source="pod",
    )
    return Base(line=1, number=number, part=part, taken=offset, engine="valkey", version="9.1.2")


LOST = [  # 201 to 300 were acknowledged and lost: the new history leaves the old one at 201
    segment(1, 101, 200),
    segment(2, 201, 250),
    segment(3, 251, 300),
    segment(4, 301, 300),
    segment(5, 201, 400, history="b", parent="a"),
]


def test_a_base_among_lost_writes_is_never_begun_with() -> None:
    bases = [base(1, 100), base(3, 250), base(4, 300)]
    found = plan(AtTime(400_000_000), bases, [*LOST, segment(6, 401, 500, history="b")])
    assert found.base.part.offset == 100
    assert [span.until for span in found.spans] == [200, 200, 200, 200, 400]


@pytest.mark.parametrize("offset", [220, 250, 251, 300])
def test_an_offset_among_lost_writes_is_refused(offset: int) -> None:
    with pytest.raises(NotArchived, match="lost in a failover"):
        plan(Offset("a", offset), [base(1, 100)], LOST)


def test_the_place_where_a_history_left_another_is_in_both() -> None:
    for history in ("a", "b"):
        assert plan(Offset(history, 200), [base(1, 100)], LOST).cut.offset == 200


def test_a_segment_without_a_byte_is_a_part_of_the_chain() -> None:
    segments = [segment(1, 101, 100), segment(2, 101, 150), segment(3, 151, 150)]
    assert [span.until for span in chain(segments)] == [100, 150, 150]
    assert plan(Offset("a", 100), [base(1, 100)], segments).cut.offset == 100
    assert plan(Offset("a", 150), [base(1, 100), base(3, 150)], segments).base.number == 3
