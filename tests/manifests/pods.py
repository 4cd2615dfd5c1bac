"""Pods as a kubelet would make them of our template: files, environment, a real server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import hiredis
import pytest

from kubelocal.loopback import free_host
from redis_operator.api.redis import Durability, Mode, Persistence, RedisSpec
from redis_operator.manifests.cluster_scripts import BOOT, READY, STOP
from redis_operator.manifests.config import config_file, config_file_name
from redis_operator.manifests.facts import Passwords
from redis_operator.manifests.users import acl_file, acl_file_name, replication_file
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Address, Connection, Credentials, connect
from redis_operator.redis.errors import LinkError, LoadingError, RedisError
from redis_operator.redis.slots import ALL_SLOTS, SlotSet, key_slot
from redis_testing.servers import EngineBinary

PASSWORDS = Passwords("app-pw", "operator-pw", "replication-pw", "exporter-pw", "admin-pw")
OPERATOR = Credentials("operator", "operator-pw")
T = TypeVar("T")
EARLY = SlotSet.span(0, 16382)
SHELL = shutil.which("dash") or "sh"
SLEEP = shutil.which("sleep") or "/bin/sleep"


class Pod:
    """What a kubelet would make of our template: files, environment, a process."""

    def __init__(self, directory: Path, binary: EngineBinary, persistence: Persistence) -> None:
        self.directory = directory
        self.binary = binary
        self.host = free_host()
        self.persistence = persistence
        self.name = "db-0-0"
        self.identity = "uid-1"
        self.failover_seconds = 2
        self.settings = ""
        for part in ("data", "config", "users", "bin"):
            (directory / part).mkdir(parents=True)
        self._write_files()
        self.process: subprocess.Popen[bytes] | None = None
        self.talks: list[asyncio.StreamWriter] = []

    def _write_files(self) -> None:
        version = self.binary.version
        config, users = self.directory / "config", self.directory / "users"
        spec = RedisSpec(mode=Mode.CLUSTER, shards=3, durability=Durability(self.persistence))
        (config / "boot.sh").write_text(BOOT)
        (config / "ready.sh").write_text(READY)
        (config / "stop.sh").write_text(STOP)
        (config / config_file_name(version)).write_text(config_file(spec, version))
        (users / acl_file_name(version)).write_text(acl_file(version, PASSWORDS))
        (users / "replication.conf").write_text(replication_file(PASSWORDS))
        (users / "exporter").write_text(PASSWORDS.exporter)
        server = self.directory / "bin" / "server"
        server.write_text(f'#!/bin/sh\nexec {self.binary.path} "$@" --bind {self.host}\n')
        server.chmod(0o755)
        sleep = self.directory / "bin" / "sleep"
        sleep.write_text(f'#!/bin/sh\necho "$1" >>{self.directory}/slept\nexec {SLEEP} "$@"\n')
        sleep.chmod(0o755)

    def move(self) -> None:
        """Give it another address, as a pod gets whose node was rebooted."""
        self.host = free_host()
        self._write_files()

    def change(self, persistence: Persistence) -> None:
        """Give it the files and the environment of another way to keep data."""
        self.persistence = persistence
        self._write_files()

    def environment(self) -> dict[str, str]:
        version = self.binary.version
        return {
            "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}",
            "POD_IP": self.host,
            "POD_NAME": self.name,
            "PORT": "6379",
            "IDENTITY": self.identity,
            "PERSISTENCE": self.persistence.value,
            "FAILOVER_SECONDS": str(self.failover_seconds),
            "HANDOVER_SECONDS": "1",
            "SETTINGS": self.settings,
            "SERVER": str(self.directory / "bin" / "server"),
            "DATA": str(self.directory / "data"),
            "CONFIG": str(self.directory / "config"),
            "USERS": str(self.directory / "users"),
            "CONFIG_FILE": config_file_name(version),
            "ACL_FILE": acl_file_name(version),
        }

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def public(self) -> str:
        """What anybody on the node can see of the process."""
        assert self.process is not None
        place = Path(f"/proc/{self.process.pid}")
        return (place / "cmdline").read_text() + (place / "environ").read_text()

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [SHELL, str(self.directory / "config" / "boot.sh")],
                env=self.environment(),
                stdout=log,
                stderr=log,
            )

    async def answers(self) -> Connection:
        async with asyncio.timeout(60):
            while True:
                try:
                    connection = await connect(Address(self.host), timeout=5, credentials=OPERATOR)
                    try:
                        await connection.run(commands.ping(), timeout=5)
                    except BaseException:
                        connection.close()
                        raise
                except LinkError:
                    assert self.process is not None
                    assert self.process.poll() is None, self.log()
                    await asyncio.sleep(0.01)
                except LoadingError:
                    await asyncio.sleep(0.01)
                else:
                    return connection

    def end(self, *, kill: bool) -> None:
        if self.process is not None:
            self.process.kill() if kill else self.process.terminate()
            self.process.wait(timeout=30)

    def is_ready(self, path: str | None = None) -> bool:
        environment = self.environment() | ({"PATH": path} if path else {})
        script = [SHELL, str(self.directory / "config" / "ready.sh")]
        done = subprocess.run(
            script, env=environment, check=False, timeout=60, stdout=subprocess.PIPE
        )
        assert bool(done.stdout.strip()) == bool(done.returncode), "the event has what it prints"
        return done.returncode == 0

    def slept(self) -> float:
        """How many seconds the scripts have slept, all sleeps of this pod together."""
        file = self.directory / "slept"
        return sum(float(word) for word in file.read_text().split()) if file.exists() else 0.0

    async def stop_hook(self) -> float:
        """Run what runs before a stop; return how many seconds it chose to wait."""
        before = self.slept()
        script = [SHELL, str(self.directory / "config" / "stop.sh")]
        done = await asyncio.to_thread(
            subprocess.run, script, env=self.environment(), check=False, timeout=20
        )
        assert done.returncode == 0
        return self.slept() - before


@contextlib.asynccontextmanager
async def pods(
    directory: Path, binary: EngineBinary, count: int, persistence: Persistence
) -> AsyncIterator[list[Pod]]:
    made = [Pod(directory / f"{n}", binary, persistence) for n in range(count)]
    try:
        for pod in made:
            pod.start()
        yield made
    finally:
        for pod in made:
            for writer in pod.talks:
                writer.close()
            pod.end(kill=True)


async def ask(pod: Pod, *asked: Command[object]) -> list[object]:
    async with await pod.answers() as connection:
        return list(await connection.run_all(asked, timeout=10))


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.02)


async def until(pod: Pod, question: Command[T], wanted: Callable[[T], bool]) -> None:
    async with await pod.answers() as connection:

        async def holds() -> bool:
            return wanted(await connection.run(question, timeout=5))

        await eventually(holds)


async def printed(file: Path, text: str) -> None:
    async def holds() -> bool:
        return text in await asyncio.to_thread(file.read_text, errors="replace")

    await eventually(holds)


async def form_shard(primary: Pod, replica: Pod, slots: SlotSet = ALL_SLOTS) -> None:
    [primary_id] = await ask(primary, commands.my_id())
    await ask(primary, commands.add_slots(slots), commands.meet(replica.host, 6379, 16379))
    async with await replica.answers() as connection:

        async def follows() -> bool:
            with contextlib.suppress(RedisError):
                await connection.run(commands.replicate(str(primary_id)), timeout=5)
                return True
            return False

        await eventually(follows)
    await until(replica, commands.info_replication(), lambda found: found.link_up)


async def serving_shard(primary: Pod, replica: Pod) -> None:
    """Form a shard of all slots, and wait until it serves and a crash would not forget the replica.

    nodes.conf is written on change: the replica must be in it.
    """
    await form_shard(primary, replica)
    await until(primary, commands.cluster_info(), lambda info: info.is_ok)
    await printed(primary.data / "nodes.conf", " slave ")


async def write(pod: Pod, count: int, slots: SlotSet = ALL_SLOTS) -> int:
    """Write keys of these slots as an application would; return how many."""
    keys = [f"key:{n}" for n in range(count) if key_slot(f"key:{n}") in slots]
    reader, writer = await asyncio.open_connection(pod.host, 6379)
    writer.write(f"AUTH default {PASSWORDS.default}\r\n".encode())
    writer.write(b"".join(f"SET {key} v\r\n".encode() for key in keys))
    for _ in range(len(keys) + 1):
        assert await reader.readline() == b"+OK\r\n"
    while await _is_buffering(reader, writer):  # noqa: ASYNC110 - the server has no event for it
        await asyncio.sleep(0.01)
    writer.close()
    return len(keys)


async def _is_buffering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether writes wait in memory for an fsync under way: a kill would lose them, as it may."""
    writer.write(b"INFO persistence\r\n")
    size = int((await reader.readline())[1:])
    answer = (await reader.readexactly(size + 2)).decode()
    return "aof_buffer_length:" in answer and "aof_buffer_length:0\r" not in answer


async def talk(pod: Pod) -> Callable[[str], Awaitable[str]]:
    """A conversation in plain lines, as anybody could have it; it lasts as long as the server."""
    reader, writer = await asyncio.open_connection(pod.host, 6379)
    parser = hiredis.Reader()

    async def say(line: str) -> str:
        writer.write(f"{line}\r\n".encode())
        while (answer := parser.gets()) is False:
            received = await reader.read(65536)
            assert received, f"the server hung up on {line}"
            parser.feed(received)
        return repr(answer)

    pod.talks.append(writer)
    return say


pytestmark = pytest.mark.servers
