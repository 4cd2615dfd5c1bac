"""A leader election in the running loop, for tests in virtual time, without a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from kubecontroller.client.api import Client
from kubecontroller.client.transport import Transport
from kubecontroller.runtime.lease import Elector, Fence, LeaseSettings

__all__ = ["ElectionTask"]


class ElectionTask:
    """Takes part in the election as `ElectionThread` does, by the given clocks.

    Pass it to a `Manager` as `election`. It does not protect against a blocked loop.
    """

    def __init__(
        self,
        settings: LeaseSettings,
        transport: Transport,
        *,
        wall_clock: Callable[[], datetime],
        random: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.fence = Fence(asyncio.get_running_loop().time)
        self.leading = asyncio.Event()
        self.lost = asyncio.Event()
        self._elector = Elector(
            Client(transport, timeout=settings.request_timeout),
            settings,
            self.fence,
            random=random,
            wall_clock=wall_clock,
        )
        self._task: asyncio.Task[None] | None = None

    @property
    def holder(self) -> str:
        """The identity that was last seen to hold the lease."""
        return self._elector.holder

    def is_leader(self) -> bool:
        """Whether a write may be sent now."""
        return self.fence.is_leader()

    @property
    def left(self) -> float:
        """How many seconds a write that is sent now may take."""
        return self.fence.left

    def start(self) -> None:
        """Begin to take part in the election."""
        self._task = asyncio.create_task(self._elect(), name="election")

    async def wait_leading(self) -> None:
        """Return when this process leads."""
        await self.leading.wait()

    async def stop(self, *, timeout: float = 5.0) -> None:
        """Release the lease, if it is held and there is time, and end."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task], timeout=1.0)
        if timeout > 0 and self.settings.release_on_exit:
            async with asyncio.timeout(timeout):
                await self._elector.release()

    async def _elect(self) -> None:
        try:
            await self._elector.acquire()
            self.leading.set()
            await self._elector.hold()
            self.lost.set()
        finally:
            self.fence.drop()
