"""Keys are counted slot by slot, in few commands where servers run scripts."""

from __future__ import annotations

import pytest

from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Connection
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet
from redis_operator.redis.tally import count_keys
from redis_testing.servers import EngineBinary
from support.pair_of_servers import fill, pair, speak

pytestmark = pytest.mark.servers
SOME = SlotSet.span(8192, 9999)


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False], ids=["by script", "slot by slot"])
async def test_keys_are_counted_slot_by_slot_also_while_writes_are_paused(
    binary: EngineBinary, *, scripts: bool
) -> None:
    async with pair(binary) as found:
        expected = await fill(found, 3000)
        link = found.links["source"]
        if not scripts:
            await speak(found.source, ("ACL", "SETUSER", "default", "-@scripting"))
        await link.run(commands.client_pause_writes(60_000), timeout=5)
        for slots in (ALL_SLOTS, SOME, SlotSet([min(expected)]), NO_SLOTS):
            counted = await count_keys(link, slots, timeout=5)
            assert dict(counted) == {s: n for s, n in expected.items() if s in slots}
            assert list(counted) == sorted(counted)
        await link.run(commands.client_unpause(), timeout=5)


class _Recording:
    """A link that notes how many slots each write to the server has counted."""

    def __init__(self, link: Connection) -> None:
        self._link = link
        self.slots: list[int] = []

    async def run(self, command: Command[object], *, timeout: float) -> object:
        if command.name == "EVALSHA_RO":
            first, last = (int(str(word)) for word in command.arguments[-2:])
            self.slots.append(last - first + 1)
        return await self._link.run(command, timeout=timeout)

    async def run_all(self, asked: list[Command[object]], *, timeout: float) -> list[object]:
        self.slots.append(len(asked))
        return await self._link.run_all(asked, timeout=timeout)


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False], ids=["by script", "slot by slot"])
async def test_clients_are_served_between_the_pieces_of_a_count(
    binary: EngineBinary, *, scripts: bool
) -> None:
    torn = SlotSet(range(2, 16384, 2))
    async with pair(binary) as found:
        expected = await fill(found, 3000)
        if not scripts:
            await speak(found.source, ("ACL", "SETUSER", "default", "-@scripting"))
        link = _Recording(found.links["source"])
        counted = await count_keys(link, torn, timeout=5)  # type: ignore[arg-type]
        assert dict(counted) == {s: n for s, n in expected.items() if s in torn}
        assert max(link.slots) <= 1024
        assert len(link.slots) <= 40, "a torn set is not asked for range by range"
