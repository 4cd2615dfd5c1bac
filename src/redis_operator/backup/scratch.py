"""The scratch server that a backup is loaded into to verify it. It stores nothing.

It runs in its own container beside the worker, waits for its settings in a shared folder, and
accepts commands with the password in them, which the worker generates.

Errors: `ScratchError`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import hiredis
from msgspec import Struct

from redis_operator.redis.resp import encode

from .errors import WorkerError
from .replica import Login

__all__ = ["Scratch", "ScratchAddress", "ScratchError", "offer", "settings_of"]

_START_SECONDS = 120.0
_ANSWER_SECONDS = 120.0  # a server that loads responds only now and then
_LOOK_SECONDS = 0.1
_SCAN = 1000


class ScratchError(WorkerError):
    """The scratch server does not respond, or refuses."""

    reason = "ScratchFailed"


class ScratchAddress(Struct, frozen=True):
    """The address of the scratch server, and its password."""

    host: str
    port: int
    password: str

    def __repr__(self) -> str:
        return f"ScratchAddress({self.host!r}, {self.port}, ***)"


def settings_of(place: ScratchAddress, login: Login) -> str:
    """Return the settings of a server that stores nothing and loads directly from the worker."""
    lines = [
        f"bind {place.host}",
        f"port {place.port}",
        f"requirepass {place.password}",
        f"masteruser {login.user}",
        f"masterauth {login.password}",
        'save ""',
        "appendonly no",
        "repl-diskless-load on-empty-db",
        "repl-timeout 3600",
        "replica-serve-stale-data yes",
        "maxmemory 0",
    ]
    return "\n".join(lines) + "\n"


def offer(folder: Path, host: str, port: int, login: Login) -> ScratchAddress:
    """Write the settings with which the server starts; return its address."""
    place = ScratchAddress(host, port, secrets.token_hex(32))
    unfinished = folder / "settings"
    unfinished.write_text(settings_of(place, login))
    unfinished.chmod(0o600)
    unfinished.rename(folder / "server.conf")
    return place


class Scratch:
    """A connection to the scratch server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._parser = hiredis.Reader()

    @classmethod
    async def begin(cls, folder: Path, host: str, port: int, login: Login) -> Scratch:
        """Write the settings, and wait until the server responds."""
        place = offer(folder, host, port, login)
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                reader, writer = await asyncio.open_connection(place.host, place.port)
                break
            except OSError as error:
                if time.monotonic() > end:
                    raise ScratchError(
                        f"the scratch server does not respond within {_START_SECONDS:g} s: "
                        f"{error}; see the log of container server"
                    ) from error
                await asyncio.sleep(_LOOK_SECONDS)
        found = cls(reader, writer)
        await found.run("AUTH", place.password)
        return found

    async def run(self, *words: str | int) -> Any:
        """Run a command. Raises `ScratchError` where it is refused or the server is gone."""
        self._writer.write(encode(words))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                while (answer := self._parser.gets()) is False:
                    data = await self._reader.read(65536)
                    if not data:
                        raise ScratchError(f"the scratch server ended while it ran {words[0]}")
                    self._parser.feed(data)
        except (OSError, TimeoutError) as error:
            message = str(error) or f"no answer to {words[0]} within {_ANSWER_SECONDS:g} s"
            raise ScratchError(f"the scratch server cannot be asked: {message}") from error
        if isinstance(answer, Exception):
            raise ScratchError(f"the scratch server refuses {words[0]}: {answer}")
        return answer

    async def info(self, section: str) -> dict[str, str]:
        """Return a section of INFO."""
        text = bytes(await self.run("INFO", section)).decode(errors="replace")
        pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
        return {name: value for name, _, value in pairs}

    async def keys(self) -> dict[str, int]:
        """Return how many keys each database has, by its number."""
        found = {}
        for name, value in (await self.info("keyspace")).items():
            if name.startswith("db"):
                figures = dict(pair.partition("=")[::2] for pair in value.split(","))
                found[name.removeprefix("db")] = int(figures["keys"])
        return found

    async def names(self) -> AsyncIterator[bytes]:
        """Return the names of all keys of database 0, without expired ones."""
        cursor = "0"
        while True:
            place, found = await self.run("SCAN", cursor, "COUNT", _SCAN)
            for name in found:
                yield bytes(name)
            cursor = bytes(place).decode()
            if cursor == "0":
                return

    async def end(self) -> None:
        """Have the server end."""
        self._writer.write(encode(("SHUTDOWN", "NOSAVE")))
        self._writer.close()
