"""At most 100 ms: a time is as exact as the samples are near, by recorded times alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from redis_operator.backup.stream.plan import AtTime, Bound, chain, cut_at
from redis_operator.backup.stream.records import Owned, Sample
from redis_operator.backup.stream.sampler import Asked
from redis_operator.backup.stream.samples import Samples
from redis_operator.backup.stream.sealing import Growing, seal
from redis_operator.redis.replies import InfoReplication
from redis_operator.redis.resp import encode

MS = 1000  # microseconds
NOON = 1_800_000_000_000_000
WRITE = encode(("INCR", "n"))


@given(
    st.lists(st.booleans(), min_size=20, max_size=120),
    st.lists(st.integers(30, 100), min_size=20, max_size=120),
    st.sets(st.integers(1, 110), max_size=6),
    st.integers(0, 3),
    st.integers(0, 4),
    st.data(),
)
def test_a_restore_is_off_by_the_distance_of_two_samples_at_most(
    written: list[bool],
    distances: list[int],
    sealed_at: set[int],
    behind: int,
    meanwhile: int,
    data: st.DataObject,
) -> None:
    """Also where nothing was written, while a segment is sealed, and where bytes are late."""
    growing, segments, clock = Growing("a", 1, parent="", now=NOON), [], NOON
    history = [(NOON, 0)]  # when the primary had come to which offset
    late: list[bytes] = []

    def seal_now() -> None:
        nonlocal growing, clock
        found = seal(growing, line=1, number=len(segments) + 1, engine="valkey", version="9.1.2")
        for _ in range(meanwhile):  # the disk is slow, and samples are taken
            clock += 50 * MS
            growing.sample(Sample(history[-1][1], clock, clock, clock))
        if meanwhile:
            clock += 1
            history.append((clock, history[-1][1] + len(WRITE)))
            late.append(WRITE)
        if found is not None:
            segments.append(found.segment)
            growing = growing.rest_after(found, clock)

    for place, (is_written, distance) in enumerate(zip(written, distances, strict=False)):
        clock += distance * MS
        offset = history[-1][1]
        growing.sample(Sample(offset, clock, clock, clock))
        if is_written:
            clock += 1
            history.append((clock, offset + len(WRITE)))
            late.append(WRITE)
        while len(late) > behind:
            growing.add(late.pop(0), clock)
        if place in sealed_at:
            seal_now()
    for piece in late:
        growing.add(piece, clock)
    clock += 50 * MS
    growing.sample(Sample(history[-1][1], clock, clock, clock))
    ended, meanwhile = clock, 0
    seal_now()
    spans = chain(segments)
    first = min(sample.server for span in spans for sample in span.samples)
    time = data.draw(st.integers(first, ended - 1))

    def reached(moment: int) -> int:
        return max((offset for when, offset in history if when <= moment), default=0)

    early = cut_at(AtTime(time), spans).offset
    assert reached(time - 101 * MS) <= early <= reached(time)
    after = cut_at(AtTime(time, Bound.INCLUDE), spans).offset
    assert reached(time) <= after <= reached(time + 101 * MS)


def test_slots_that_change_hands_while_a_segment_is_sealed_are_in_the_next_one() -> None:
    """A server of Redis 6.2 writes nothing to its stream when a slot is opened or assigned."""
    samples, growing = Samples(), Growing("a", 1, parent="", now=NOON)

    def answer(offset: int, after: int, slots: str) -> Asked:
        when = NOON + after * MS
        told = InfoReplication(role="master", replication_id="a", offset=offset)
        return Asked(told, Sample(offset, when, when, when), Owned(offset, when, 1, slots))

    growing.add(WRITE, NOON)
    samples.take(answer(len(WRITE), 50, "0-99"), growing)
    found = seal(growing, line=1, number=1, engine="redis", version="6.2.14")
    assert found is not None
    samples.take(answer(len(WRITE), 100, "0-98"), growing)
    samples.take(answer(len(WRITE) + 9, 150, "0-98"), growing)
    rest = growing.rest_after(found, NOON)
    assert [(one.server - NOON) // MS for one in found.segment.samples] == [50]
    assert [(one.server - NOON) // MS for one in rest.samples] == [100, 150]
    assert [((one.server - NOON) // MS, one.slots) for one in rest.owned] == [(100, "0-98")]
