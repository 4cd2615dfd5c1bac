from __future__ import annotations

from bench.turns import in_turns


async def test_sides_run_in_turns_and_each_goes_first_as_often() -> None:
    order: list[str] = []

    async def ours() -> int:
        order.append("A")
        return len(order)

    async def peer() -> int:
        order.append("B")
        return len(order)

    results = await in_turns(ours, peer, runs=4)
    assert "".join(order) == "ABBAABBA"
    assert results == [[1, 4, 5, 8], [2, 3, 6, 7]]
