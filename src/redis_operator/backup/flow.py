"""The data rate of a worker: limited to a bandwidth, counted, and reported on a port.

The worker has no rights in the cluster, so it cannot write its progress there. It sends it to every
client that connects to a port of its pod: one line of JSON with three numbers, and nothing is read
from the client. A client that cannot connect (a NetworkPolicy, say) only misses the progress.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from .listening import listen
from .task import WorkerProgress

__all__ = ["ByteRate", "Flow"]

_LOG = logging.getLogger(__name__)
_BURST_SECONDS = 0.1


class ByteRate:
    """When the next bytes may pass, at so many a second. Pure."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._free = 0.0

    def delay(self, size: int, now: float) -> float:
        """Return how long to wait after so many bytes; an unused rate is not saved up."""
        if not self._rate:
            return 0.0
        self._free = max(self._free, now - _BURST_SECONDS) + size / self._rate
        return max(0.0, self._free - now)


class Flow:
    """The values that all shards of a backup share."""

    def __init__(self, rate: int = 0) -> None:
        self.read = self.stored = self.parts = 0
        self._pace = ByteRate(rate)

    async def passed(self, size: int) -> None:
        """Count bytes that were read; return when the next ones may be."""
        self.read += size
        delay = self._pace.delay(size, asyncio.get_running_loop().time())
        if delay > 0:
            await asyncio.sleep(delay)

    @property
    def progress(self) -> WorkerProgress:
        """The progress."""
        return WorkerProgress(read=self.read, stored=self.stored, parts=self.parts)

    async def tell(self, host: str, port: int) -> asyncio.Server | None:
        """Report the progress to clients, until the server that is returned is closed."""

        async def say(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(msgspec.json.encode(self.progress) + b"\n")

        try:
            return await listen(say, host, port)
        except OSError as error:  # a backup never fails for that
            _LOG.warning("progress cannot be served on this port: %s", error)
            return None
