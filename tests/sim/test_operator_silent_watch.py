"""A watch of pods that stays open and says nothing any more: no write is repeated for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kubecontroller.client.errors import StreamStalled
from kubecontroller.client.request import Request
from kubecontroller.client.transport import Transport
from redis_testing.simulation.scenarios import formed, primary
from redis_testing.simulation.system import Simulation, database, simulate


class SilentPods:
    """A transport whose streams of pods can be silenced: those that are open then, or all."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.request = transport.request
        self.opened = 0
        self.silent_until = 0  # streams up to this number say nothing any more

    def stream(self, request: Request, *, idle: float) -> Any:
        return self._stream(request, idle)

    @asynccontextmanager
    async def _stream(self, request: Request, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._transport.stream(request, idle=idle) as pieces:
            if not request.path.endswith("/pods"):
                yield pieces
                return
            self.opened += 1
            yield self._muted(pieces, self.opened, idle)

    async def _muted(
        self, pieces: AsyncIterator[bytes], number: int, idle: float
    ) -> AsyncIterator[bytes]:
        async for piece in pieces:
            if number <= self.silent_until:
                await asyncio.sleep(idle)
                raise StreamStalled(f"no byte for {idle:g} s")
            yield piece


def _labels_written(simulation: Simulation) -> int:
    return sum(effect.kind == "api PATCH pods" for effect in simulation.journal.effects)


def _play(*, all_streams: bool) -> tuple[int, float]:
    """A primary dies while the watch is silent; the labels written and when all was well again."""

    async def scenario(simulation: Simulation) -> tuple[int, float]:
        transports: list[SilentPods] = []

        def wrap(transport: Transport) -> Transport:
            transports.append(SilentPods(transport))
            return transports[-1]

        simulation.wrap = wrap
        simulation.start_operator()
        await asyncio.sleep(3.0)
        (transport,) = transports
        transport.silent_until = 10**9 if all_streams else transport.opened
        before = _labels_written(simulation)
        began = asyncio.get_running_loop().time()
        simulation.kill(primary(simulation, 0).name)
        await asyncio.sleep(20.0)
        written = _labels_written(simulation) - before
        transport.silent_until = 0 if all_streams else transport.silent_until
        await simulation.until_ready(within=200.0)
        simulation.check_end()
        return written, asyncio.get_running_loop().time() - began

    return simulate(scenario, snapshot=formed(database()))


def test_what_was_written_on_a_pod_is_not_written_again_while_its_watch_is_silent() -> None:
    """The cache shows the old label for minutes; it was written 43 times a second."""
    written, _ = _play(all_streams=True)
    assert 1 <= written <= 6


def test_a_watch_that_does_not_show_what_we_wrote_is_opened_again() -> None:
    written, seconds = _play(all_streams=False)
    assert 1 <= written <= 6
    assert seconds < 40.0
