"""MULTI and EXEC, with which a server takes many slots at once, on simulated and real servers."""

from __future__ import annotations

from typing import Any

import pytest

from redis_operator.redis.errors import CrossSlotError, ExecAbortError, MovedError, ReplyError
from redis_operator.redis.slots import SLOTS, key_slot
from sim import fleet as f

pytestmark = pytest.mark.servers


async def pair(fleet_of: Any) -> f.Fleet:
    """Two primaries; the first has the lower half of all slots."""
    fleet: f.Fleet = await fleet_of(2)
    await f.form(fleet, primaries=2, count=2)
    return fleet


LOWER = [key for key in map(str, range(30)) if key_slot(key) < SLOTS // 2]  # of the first
PAIR = (LOWER[0], f"{{{LOWER[0]}}}")  # in one slot
UPPER = [key for key in map(str, range(30)) if key_slot(key) >= SLOTS // 2]


def texts(replies: list[Any]) -> list[Any]:
    return [r.decode() if isinstance(r, bytes) else r for r in replies]


async def test_what_is_queued_happens_at_exec_and_all_of_it(fleet_of: Any) -> None:
    fleet = await pair(fleet_of)
    key, other = PAIR
    *queued, done = await fleet.pipe(
        0, ("MULTI",), ("SET", key, "1"), ("SET", other, "2"), ("GET", key), ("EXEC",)
    )
    assert texts(queued) == ["OK", "QUEUED", "QUEUED", "QUEUED"]
    assert texts(done) == ["OK", "OK", "1"]
    assert await f.keys(fleet, 0) == 2


async def test_nothing_is_left_of_a_client_that_goes_before_exec(fleet_of: Any) -> None:
    fleet = await pair(fleet_of)
    source = await f.my_id(fleet, 1)
    slot = 9000
    await fleet.pipe(0, ("MULTI",), ("CLUSTER", "SETSLOT", slot, "IMPORTING", source))
    await f.never(fleet, lambda: is_open(fleet, 0), ticks=5)


async def is_open(fleet: f.Fleet, index: int) -> bool:
    found = await f.myself(fleet, index)
    return bool(found.importing or found.migrating)


async def test_a_command_that_is_not_known_drops_the_whole_transaction(fleet_of: Any) -> None:
    fleet = await pair(fleet_of)
    key = LOWER[0]
    _, kept, refused, ended = await fleet.pipe(
        0, ("MULTI",), ("SET", key, "1"), ("NOSUCHCOMMAND", "x"), ("EXEC",)
    )
    assert kept == b"QUEUED"
    assert isinstance(refused, ReplyError)
    assert isinstance(ended, ExecAbortError)
    assert await f.keys(fleet, 0) == 0


async def test_a_key_that_is_elsewhere_drops_the_whole_transaction(fleet_of: Any) -> None:
    fleet = await pair(fleet_of)
    _, kept, refused, ended = await fleet.pipe(
        0, ("MULTI",), ("SET", LOWER[0], "1"), ("SET", UPPER[0], "2"), ("EXEC",)
    )
    assert kept == b"QUEUED"
    assert isinstance(refused, MovedError)
    assert isinstance(ended, ExecAbortError)
    assert await f.keys(fleet, 0) == 0


async def test_a_refusal_on_the_way_does_not_undo_the_others(fleet_of: Any) -> None:
    fleet = await pair(fleet_of)
    *_, done = await fleet.pipe(
        0,
        ("MULTI",),
        ("SET", PAIR[0], "1"),
        ("CLUSTER", "SETSLOT", 9000, "IMPORTING", "0" * 40),
        ("SET", PAIR[1], "2"),
        ("EXEC",),
    )
    first, refused, last = done
    assert (first, last) == (b"OK", b"OK")
    assert isinstance(refused, Exception)
    assert await f.keys(fleet, 0) == 2


async def test_exec_alone_is_refused_and_discard_forgets(fleet_of: Any) -> None:
    fleet = await pair(fleet_of)
    (refused,) = await fleet.pipe(0, ("EXEC",))
    assert isinstance(refused, ReplyError)
    replies = await fleet.pipe(
        0, ("MULTI",), ("SET", LOWER[0], "1"), ("MULTI",), ("DISCARD",), ("EXEC",)
    )
    assert texts(replies[:2]) == ["OK", "QUEUED"]
    assert isinstance(replies[2], ReplyError)
    assert replies[3] == b"OK"
    assert isinstance(replies[4], ReplyError)
    assert await f.keys(fleet, 0) == 0


async def test_keys_of_two_slots_are_refused_as_a_whole_at_exec(fleet_of: Any) -> None:
    fleet = await pair(fleet_of)
    one, other, *_ = LOWER
    *kept, ended = await fleet.pipe(
        0, ("MULTI",), ("SET", one, "1"), ("SET", other, "2"), ("EXEC",)
    )
    assert texts(kept) == ["OK", "QUEUED", "QUEUED"]
    assert isinstance(ended, CrossSlotError)
    assert await f.keys(fleet, 0) == 0
