"""Servers with another address, and forgotten ones: simulated servers do as real ones."""

from __future__ import annotations

from typing import Any

import pytest

from redis_operator.redis.slots import even_shares
from sim import fleet as f

pytestmark = pytest.mark.servers


async def test_a_living_node_that_was_forgotten_comes_back_on_valkey(fleet_of: Any) -> None:
    """Why a leaving shard's pods go at once after they were forgotten."""
    fleet = await fleet_of(4)
    ids = await f.form(fleet, primaries=3, count=4)
    if b"valkey_version" not in await fleet.call(0, "INFO", "server"):
        pytest.skip("redis lets it stay forgotten")
    for index in (0, 1, 2):
        await fleet.call(index, "CLUSTER", "FORGET", ids[3])

    async def back() -> bool:
        return all([ids[3] in await f.nodes(fleet, index) for index in (0, 1, 2)])

    await f.until(fleet, back)


async def test_one_server_with_a_new_address_is_found_again_by_itself(fleet_of: Any) -> None:
    fleet = await fleet_of(3)
    ids = await f.form(fleet, primaries=3, count=3)
    await fleet.kill(0)
    await fleet.start(0, new_address=True)

    async def found() -> bool:
        views = [(await f.nodes(fleet, i))[ids[0]] for i in (1, 2)]
        return all(v.ip == fleet.ip(0) and v.link_connected and not v.is_failed for v in views)

    await f.until(fleet, found)
    assert await f.my_id(fleet, 0) == ids[0]
    assert await f.owned(fleet, 0) == even_shares(3)[0]


async def test_when_all_addresses_change_only_a_mesh_heals(fleet_of: Any) -> None:
    fleet = await fleet_of(3)
    ids = await f.form(fleet, primaries=3, count=3)
    for index in range(3):
        await fleet.kill(index)
    for index in range(3):
        await fleet.start(index, new_address=True)

    async def together() -> bool:
        views = [list((await f.nodes(fleet, i)).values()) for i in range(3)]
        known = [{n.id: n for n in view} for view in views]
        return all(
            known[i][ids[j]].link_connected and known[i][ids[j]].ip == fleet.ip(j)
            for i in range(3)
            for j in range(3)
            if i != j
        )

    await f.never(fleet, together, ticks=40)
    for one in range(3):
        for two in range(3):
            if one != two:
                await fleet.call(one, "CLUSTER", "MEET", fleet.ip(two), 6379)
    await f.until(fleet, together)
    for index in range(3):
        assert await f.owned(fleet, index) == even_shares(3)[index]
