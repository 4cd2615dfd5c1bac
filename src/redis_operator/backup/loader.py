"""Have the server beside a worker load one piece after the other, and read its content.

The worker acts as the server's primary, so only the engine itself parses a snapshot.

Guarantees: when `load` returns, the server has all of a piece, and nothing else, and replicates no
more. With the end of the context the server ends: the pod is over when both containers are.
Assumptions: the piece was verified.
Errors: `WorkerError`.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from .errors import Damaged, TargetError
from .link import CommandLink, connect
from .piece import Piece
from .primary import Primary
from .replica import Login
from .scratch import ScratchAddress, ScratchError, offer
from .stream.refusals import read_errors, refusal

__all__ = ["Keyspace", "Loader", "info_fields", "keyspaces", "open_loader"]

_START_SECONDS = 120.0
_LOOK_SECONDS = 0.05
_STUCK_SECONDS = 300.0
_DATABASE = re.compile(r"^db(\d+):keys=(\d+),expires=(\d+)", re.MULTILINE)
_NAME = "the server beside the worker"


class Keyspace(Struct, frozen=True):
    """How many keys a database has, and how many of them have a time to live."""

    number: int
    keys: int
    mortal: int


def info_fields(answer: bytes) -> dict[str, str]:
    """Return the fields of an answer to INFO."""
    lines = (line.partition(":") for line in answer.decode().splitlines())
    return {name: value for name, mark, value in lines if mark}


def keyspaces(answer: bytes) -> list[Keyspace]:
    """Return the databases that have keys, from an answer to INFO."""
    return [Keyspace(*map(int, found)) for found in _DATABASE.findall(answer.decode())]


class Loader:
    """The server, connected. One part at a time."""

    def __init__(self, link: CommandLink, host: str, login: Login) -> None:
        self.link = link
        self._host = host
        self._login = login

    async def load(self, piece: Piece) -> None:
        """Have the server hold this and nothing else. What it refuses of a stream is an error."""
        await self._clear()
        before = read_errors(await self.link.ask("INFO", "errorstats"))
        feeder = Primary(
            piece.shelf,
            piece.manifest,
            piece.part,
            lambda: self._login,
            stream=piece.stream,
            stream_size=piece.stream_size,
        )
        server = await feeder.serve(self._host, 0)
        try:
            port = server.sockets[0].getsockname()[1]
            await self.link.ask("REPLICAOF", self._host, port)
            await self._wait_loaded(feeder, piece)
            refused = refusal(before, read_errors(await self.link.ask("INFO", "errorstats")))
            if piece.stream is not None and refused is not None:
                raise ScratchError(f"{piece.part.name}: {refused} (container server)")
            await self.link.ask("REPLICAOF", "NO", "ONE")
        finally:
            server.close()

    async def _wait_loaded(self, feeder: Primary, piece: Piece) -> None:
        part = piece.part
        last, since = "", time.monotonic()
        while True:
            info = info_fields(await self.link.ask("INFO", "replication"))
            info |= info_fields(await self.link.ask("INFO", "persistence"))
            syncs = info.get("master_sync_in_progress") != "0"
            loaded = info.get("master_link_status") == "up" and not syncs
            if loaded and (piece.stream is None or feeder.whole.is_set()):
                return
            if feeder.failure is not None:  # of the store: it says nothing about the backup
                raise feeder.failure
            if feeder.sent > 1:
                raise Damaged(
                    f"{part.object} cannot be loaded: the server that was given it asked for it "
                    "again; see the log of container server"
                )
            signs = ("master_sync_read_bytes", "loading_loaded_bytes", "slave_repl_offset")
            sign = " ".join(info.get(name, "") for name in signs)
            if sign != last:
                last, since = sign, time.monotonic()
            if time.monotonic() - since > _STUCK_SECONDS:
                raise ScratchError(
                    f"{_NAME} has loaded no more of {part.object} for {_STUCK_SECONDS:g} s; "
                    "see the log of container server"
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def _clear(self) -> None:
        """Drop everything, functions too where the engine has them."""
        await self.link.ask("FLUSHALL", timeout=_STUCK_SECONDS)
        with suppress(TargetError):  # unknown before Redis 7
            await self.link.ask("FUNCTION", "FLUSH")

    async def databases(self) -> list[Keyspace]:
        """Return the databases that have keys."""
        return keyspaces(await self.link.ask("INFO", "keyspace"))

    async def functions(self) -> bytes:
        """Return the functions as one payload; empty: there are none, or the engine has none."""
        try:
            if not await self.link.ask("FUNCTION", "LIST"):
                return b""
        except TargetError:
            return b""
        return bytes(await self.link.ask("FUNCTION", "DUMP"))


@asynccontextmanager
async def open_loader(folder: Path, host: str, port: int) -> AsyncIterator[Loader]:
    """Start the server that waits in a folder, and connect to it; it ends with the context."""
    login = Login("restore", secrets.token_hex(32))
    link = await _connected(offer(folder, host, port, login))
    try:
        yield Loader(link, host, login)
    finally:
        with suppress(TargetError):
            await link.ask("SHUTDOWN", "NOSAVE")
        link.close()


async def _connected(place: ScratchAddress) -> CommandLink:
    end = time.monotonic() + _START_SECONDS
    login = Login("default", place.password)
    while True:
        try:
            return await connect(_NAME, host=place.host, port=place.port, login=login)
        except TargetError as error:
            if time.monotonic() > end:
                raise ScratchError(
                    f"{_NAME} does not respond within {_START_SECONDS:g} s: {error}; "
                    "see the log of container server"
                ) from error
        await asyncio.sleep(_LOOK_SECONDS)
