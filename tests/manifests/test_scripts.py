"""The scripts of the pod, run by a real shell around real servers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import hiredis
import pytest

from redis_operator.api.redis import Durability, Mode, Persistence, RedisSpec
from redis_operator.manifests.config import config_file, config_file_name
from redis_operator.manifests.facts import Passwords
from redis_operator.manifests.scripts import BOOT, READY, STOP
from redis_operator.manifests.users import acl_file, acl_file_name, replication_file
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Address, Connection, Credentials, connect
from redis_operator.redis.errors import LinkError, LoadingError, RedisError
from redis_operator.redis.mover import move_slots
from redis_operator.redis.moving import Move, Side
from redis_operator.redis.replies import PrimaryRole
from redis_operator.redis.slots import ALL_SLOTS, SlotSet, key_slot
from redis_operator.testing.servers import EngineBinary, find_engines, free_host

PASSWORDS = Passwords("app-pw", "operator-pw", "replication-pw", "exporter-pw")
OPERATOR = Credentials("operator", "operator-pw")
T = TypeVar("T")
EARLY = SlotSet.span(0, 16382)
SHELL = shutil.which("dash") or "sh"


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

    def environment(self) -> dict[str, str]:
        version = self.binary.version
        return {
            "PATH": os.environ["PATH"],
            "POD_IP": self.host,
            "POD_NAME": self.name,
            "PORT": "6379",
            "IDENTITY": self.identity,
            "PERSISTENCE": self.persistence.value,
            "FAILOVER_SECONDS": str(self.failover_seconds),
            "HANDOVER_SECONDS": "1",
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
        async with asyncio.timeout(15):
            while True:
                try:
                    connection = await connect(Address(self.host), timeout=5, credentials=OPERATOR)
                    await connection.run(commands.ping(), timeout=5)
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
        return subprocess.run(script, env=environment, check=False, timeout=10).returncode == 0

    async def stop_hook(self) -> float:
        """Run what runs before a stop; return how many seconds it took."""
        begun = time.monotonic()
        script = [SHELL, str(self.directory / "config" / "stop.sh")]
        done = await asyncio.to_thread(
            subprocess.run, script, env=self.environment(), check=False, timeout=20
        )
        assert done.returncode == 0
        return time.monotonic() - begun


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


@pytest.fixture(params=find_engines(), ids=lambda b: b.name)
def binary(request: pytest.FixtureRequest) -> EngineBinary:
    return request.param


async def ask(pod: Pod, *asked: Command[object]) -> list[object]:
    async with await pod.answers() as connection:
        return list(await connection.run_all(asked, timeout=10))


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
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


async def write(pod: Pod, count: int, slots: SlotSet = ALL_SLOTS) -> int:
    """Write keys of these slots as an application would; return how many."""
    keys = [f"key:{n}" for n in range(count) if key_slot(f"key:{n}") in slots]
    reader, writer = await asyncio.open_connection(pod.host, 6379)
    writer.write(f"AUTH default {PASSWORDS.default}\r\n".encode())
    writer.write(b"".join(f"SET {key} v\r\n".encode() for key in keys))
    for _ in range(len(keys) + 1):
        assert await reader.readline() == b"+OK\r\n"
    writer.close()
    return len(keys)


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


async def test_a_server_starts_with_its_users_and_its_address(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        [who, nodes] = await ask(pod, commands.acl_whoami(), commands.cluster_nodes())
        assert who == "operator"
        assert [node.ip for node in nodes] == [pod.host]  # type: ignore[attr-defined]
        assert (pod.data / "identity").read_text() == "uid-1 db-0-0\n"
        assert "-pw" not in pod.public()


@pytest.mark.parametrize("kind", [Persistence.AOF, Persistence.RDB], ids=lambda k: k.value)
async def test_a_server_that_was_stopped_comes_back_as_itself(
    tmp_path: Path, binary: EngineBinary, kind: Persistence
) -> None:
    async with pods(tmp_path, binary, 1, kind) as [pod]:
        [before, _] = await ask(pod, commands.my_id(), commands.add_slots(ALL_SLOTS))
        await until(pod, commands.cluster_info(), lambda info: info.is_ok)
        await write(pod, 100)
        pod.end(kill=False)
        assert not (pod.data / "server.pid").exists()
        pod.start()
        [after, size] = await ask(pod, commands.my_id(), commands.dbsize())
        assert after == before
        assert size == 100


async def test_a_primary_without_its_data_starts_as_somebody_new(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        [before, _] = await ask(pod, commands.my_id(), commands.add_slots(ALL_SLOTS))
        pod.end(kill=True)
        shutil.rmtree(pod.data / "appendonlydir", ignore_errors=True)
        (pod.data / "appendonly.aof").unlink(missing_ok=True)
        pod.start()
        [after, nodes] = await ask(pod, commands.my_id(), commands.cluster_nodes())
        assert after != before
        assert not nodes[0].slots  # type: ignore[index]
        assert "data of this primary are gone" in pod.log()


async def test_a_primary_in_memory_only_starts_as_somebody_new_after_its_replica_had_its_time(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 2, Persistence.NONE) as [primary, replica]:
        await form_shard(primary, replica)
        await until(primary, commands.cluster_info(), lambda info: info.is_ok)
        await write(primary, 100)
        await until(replica, commands.dbsize(), lambda size: size == 100)
        [before] = await ask(primary, commands.my_id())
        primary.end(kill=True)
        primary.start()
        # While it waits nobody listens at its address, so the replica cannot copy an empty server.
        # (Alone it cannot be elected either: with other primaries it would take over now.)
        assert await ask(replica, commands.dbsize()) == [100]
        [after] = await ask(primary, commands.my_id())
        assert after != before
        assert "to take over" in primary.log()


async def test_a_stale_file_is_not_the_data_of_a_database_in_memory(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.NONE) as [pod]:
        await ask(pod, commands.add_slots(ALL_SLOTS))
        pod.end(kill=True)
        (pod.data / "dump.rdb").write_bytes(b"old")
        pod.start()
        [nodes] = await ask(pod, commands.cluster_nodes())
        assert not nodes[0].slots  # type: ignore[index]
        assert not (pod.data / "dump.rdb").exists()


async def test_a_volume_of_another_server_does_not_lend_its_identity(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        [before] = await ask(pod, commands.my_id())
        pod.end(kill=False)
        pod.name = "db-1-0"
        pod.start()
        [after] = await ask(pod, commands.my_id())
        assert after != before
        pod.end(kill=False)
        pod.identity = "uid-2"
        pod.start()
        [last] = await ask(pod, commands.my_id())
        assert last != after


async def test_a_killed_primary_lets_its_replica_go_first(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 2, Persistence.AOF) as [primary, replica]:
        await form_shard(primary, replica)
        await until(primary, commands.cluster_info(), lambda info: info.is_ok)
        # nodes.conf is written on change; the replica must be in it before the crash
        await printed(primary.data / "nodes.conf", " slave ")
        primary.end(kill=True)
        started = time.monotonic()
        primary.start()
        (await primary.answers()).close()
        assert time.monotonic() - started >= 2
        assert "2 s to take over" in primary.log()
        primary.end(kill=False)
        started = time.monotonic()
        primary.start()
        (await primary.answers()).close()
        assert time.monotonic() - started < 2, "a clean end needs no grace"


async def test_a_killed_primary_waits_no_longer_than_until_its_replica_leads(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 2, Persistence.NONE) as [primary, replica]:
        await form_shard(primary, replica)
        await until(primary, commands.cluster_info(), lambda info: info.is_ok)
        await printed(primary.data / "nodes.conf", " slave ")
        primary.end(kill=True)
        primary.failover_seconds = 600
        primary.start()
        await printed(primary.directory / "log", "600 s to take over")
        await ask(replica, commands.failover(commands.FailoverMode.TAKEOVER))
        (await primary.answers()).close()


async def test_waiting_for_the_replica_ends_when_the_pod_is_deleted(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        await ask(pod, commands.add_slots(ALL_SLOTS))
        pod.end(kill=True)
        me = (pod.data / "nodes.conf").read_text().split()[0]
        line = f"{'b' * 40} 127.0.0.9:6379@16379 slave {me} 0 0 1 connected\n"
        text = (pod.data / "nodes.conf").read_text()
        (pod.data / "nodes.conf").write_text(line + text)
        pod.start()
        await printed(pod.directory / "log", "to take over")
        started = time.monotonic()
        pod.end(kill=False)
        assert time.monotonic() - started < 1


@pytest.mark.parametrize("client", ["with-client", "with-bash"])
async def test_ready_means_that_the_cluster_serves_and_the_copy_is_complete(
    tmp_path: Path, binary: EngineBinary, client: str
) -> None:
    path = None
    if client == "with-bash":
        tools = tmp_path / "tools"
        tools.mkdir()
        for name in ("bash", "cat"):
            (tools / name).symlink_to(shutil.which(name) or "")
        path = str(tools)
    elif not shutil.which("redis-cli") and not shutil.which("valkey-cli"):
        pytest.skip("no command line client here")
    async with pods(tmp_path / "pods", binary, 2, Persistence.AOF) as [primary, replica]:
        await ask(primary, commands.ping())
        assert not primary.is_ready(path), "a server without slots serves nothing"
        await form_shard(primary, replica)
        await until(primary, commands.cluster_info(), lambda info: info.is_ok)
        await until(replica, commands.cluster_info(), lambda info: info.is_ok)
        assert primary.is_ready(path)
        assert replica.is_ready(path)
        primary.end(kill=True)
        assert not primary.is_ready(path)
        await until(replica, commands.info_replication(), lambda found: not found.link_up)
        assert not replica.is_ready(path), "a replica without its primary falls behind"


async def test_a_primary_that_is_let_go_hands_over_first_also_while_the_operator_is_away(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 2, Persistence.AOF) as [primary, replica]:
        await form_shard(primary, replica)
        await until(primary, commands.cluster_info(), lambda info: info.is_ok)
        await until(primary, commands.info_replication(), lambda found: bool(found.replicas))
        assert await replica.stop_hook() < 1, "it has nothing to hand over"
        written = await write(primary, 100)
        assert await primary.stop_hook() >= 1, "the operator has its time"
        [role] = await ask(replica, commands.role())
        assert isinstance(role, PrimaryRole)
        [keys] = await ask(replica, commands.dbsize())
        assert keys == written
        assert await primary.stop_hook() < 1, "it leads nobody any more"


async def test_applications_may_work_and_may_not_administrate(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        await ask(pod, commands.add_slots(ALL_SLOTS))
        await until(pod, commands.cluster_info(), lambda info: info.is_ok)
        say = await talk(pod)
        assert "NOAUTH" in await say("GET a")
        assert await say(f"AUTH default {PASSWORDS.default}") == "b'OK'"
        for allowed in ("SET a b", "EVAL return(1) 0", "CLIENT SETNAME x", "CLUSTER KEYSLOT a"):
            assert "NOPERM" not in await say(allowed), allowed
        for refused in (
            *("CONFIG GET masterauth", "DEBUG SLEEP 0", "SHUTDOWN", "REPLICAOF a 1", "FLUSHALL"),
            *("CLUSTER RESET", "CLUSTER FAILOVER", "ACL LIST", "KEYS *", "CLIENT KILL ID 1"),
            *("MIGRATE a 1 b 0 1", "BGSAVE", "SLAVEOF NO ONE", "MONITOR", "CLUSTER MEET a 1"),
        ):
            answer = await say(refused)
            assert "NOPERM" in answer or "DEBUG command not allowed" in answer, refused


async def test_the_operators_user_has_what_is_on_the_allow_list_and_can_not_flush(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        (await pod.answers()).close()
        say = await talk(pod)
        assert await say("AUTH operator operator-pw") == "b'OK'"
        for allowed in (
            *("CLUSTER FORGET x", "CLUSTER SETSLOT 1 STABLE", "CLUSTER FAILOVER", "WAIT 0 1"),
            *("CLIENT PAUSE 1 WRITE", "SCRIPT LOAD return(1)", "EVALSHA x 0", "ACL SETUSER x off"),
            *("CONFIG SET hz 10", "CLUSTER ADDSLOTS 99999", "CLUSTER GETKEYSINSLOT x 1"),
        ):
            assert "NOPERM" not in await say(allowed), allowed
        for refused in (
            *("FLUSHALL", "FLUSHDB", "CLUSTER FLUSHSLOTS", "CLUSTER SAVECONFIG", "DEBUG SLEEP 0"),
            *("SET a b", "DEL a", "GET a", "KEYS *", "CONFIG REWRITE", "MONITOR", "SLAVEOF NO ONE"),
            *("EVAL return(1) 0",),
        ):
            answer = await say(refused)
            assert "NOPERM" in answer or "DEBUG command not allowed" in answer, refused


async def test_the_users_have_the_rights_that_moving_slots_needs(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """X-07, CL-09: a right that is missing shows only when slots move for the first time."""
    async with pods(tmp_path, binary, 3, Persistence.AOF) as [source, target, replica]:
        await ask(source, commands.set_config_epoch(1), commands.add_slots(EARLY))
        [target_id, _] = await ask(target, commands.my_id(), commands.set_config_epoch(2))
        await form_shard(target, replica, SlotSet([16383]))
        await ask(source, commands.meet(target.host, 6379, 16379))
        await until(source, commands.cluster_info(), lambda info: info.known_nodes == 3)
        await until(target, commands.cluster_info(), lambda info: info.is_ok)
        await until(source, commands.cluster_info(), lambda info: info.is_ok)
        # A target that has not heard yet whose the slots are refuses to take them.
        await until(target, commands.cluster_info(), lambda info: info.slots_assigned == 16384)
        written = await write(source, 5000, EARLY)
        [source_id] = await ask(source, commands.my_id())
        slots = SlotSet.span(0, 127)
        move = Move(
            source=Side(str(source_id), source.host, 6379, binary.version),
            target=Side(str(target_id), target.host, 6379, binary.version),
            slots=slots,
            username="replication",
            password=PASSWORDS.replication,
        )
        links = [await pod.answers() for pod in (source, target, replica)]
        done = await move_slots(links[0], links[1], move, replicas=[links[2]])
        assert done.slots_moved == slots
        [here, there] = [await link.run(commands.dbsize(), timeout=5) for link in links[:2]]
        assert here + there == written
        assert there > 0
        for link in links:
            link.close()


def test_a_pod_that_is_told_to_stop_while_it_boots_stops(tmp_path: Path) -> None:
    """As the first process of a container, where nothing stops a process that does not listen."""
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("this machine gives no process namespace of our own")
    programs = tmp_path / "bin"
    programs.mkdir()
    cat = programs / "cat"
    cat.write_text("#!/bin/sh\nkill -TERM 1\n")  # told to stop right here
    cat.chmod(0o755)
    (tmp_path / "nodes.conf").touch()
    (tmp_path / "boot.sh").write_text(BOOT)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        **dict.fromkeys(("DATA", "CONFIG", "USERS"), str(tmp_path)),
        **dict.fromkeys(("IDENTITY", "POD_NAME", "POD_IP", "CONFIG_FILE", "ACL_FILE"), "any"),
        "PERSISTENCE": "none",
        "SERVER": "echo",
    }
    done = subprocess.run(
        [*alone, SHELL, str(tmp_path / "boot.sh")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
