"""The demonstration: a sharded Valkey under load, a primary killed, a shard added, and the results.

Everything is real: the cluster is `redis-operator up`, the database an applied YAML, the servers
processes that are killed with -9. The exit code says whether any write was lost that must not be.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from kubecontroller import Client, HttpTransport, Kind, Manifest, MergePatch, load
from kubecontroller.client.objects import PODS, SECRETS
from kubelocal.instance import Instance
from redis_operator.cli.application import Application, ApplicationReport, Seeds
from redis_operator.cli.local_cluster import INSTANCES, PROGRAM
from redis_operator.redis import commands
from redis_operator.redis.connection import Address, Credentials, connect

__all__ = ["run_demo"]

_NAME = "demo"
_REDISES: Kind[Manifest] = Kind("redisoperator.dev", "v1", "Redis", "redis", True, dict)
_KEY = ("default", "demo")
_DATABASE = """\
apiVersion: redisoperator.dev/v1
kind: Redis
metadata: {name: demo}
spec:
  mode: Cluster
  shards: 3
  replicas: 1
"""
_PATIENCE_SECONDS = 90.0


class DemoError(Exception):
    """The demonstration failed; the message says in which step."""


class _Act(Struct, frozen=True):
    """One step of the demonstration, and the report of the application."""

    title: str
    report: ApplicationReport
    planned: bool
    slots_moved: int = 0


def run_demo(*, keep: bool, mounts: str | None) -> int:
    """Run the whole demonstration; return the exit code."""
    console = Console(highlight=False)
    instance = INSTANCES.find(_NAME)
    if instance.settings() is not None:
        console.print(
            f"There is a local cluster {_NAME!r} already: another demonstration, one that was "
            "kept, or your own. The demonstration does not delete it. To do so, run\n"
            f"  redis-operator down --name {_NAME} --purge",
            soft_wrap=True,
        )
        return 1
    try:
        console.print("[bold]1. A small cluster on this machine[/]: redis-operator up --nodes 3")
        extra = ["--mounts", mounts] if mounts else []
        _command(["up", "--name", _NAME, "--nodes", "3", "--zones", "3", "--detach", *extra])
        acts = asyncio.run(_play(console, instance))
    except DemoError as error:
        console.print(f"[bold red]The demonstration stopped:[/] {error}")
        console.print(f"logs are in {instance.logs}")
        return 1
    finally:
        if not keep:
            _command(["down", "--name", _NAME, "--purge"], quiet=True)
    return _books(console, acts)


def _command(words: list[str], *, quiet: bool = False) -> None:
    done = subprocess.run(
        [sys.executable, *PROGRAM, *words],
        check=False,
        capture_output=quiet,
    )
    if done.returncode and not quiet:
        raise DemoError(f"`redis-operator {' '.join(words)}` failed")


async def _play(console: Console, instance: Instance) -> list[_Act]:
    client = Client(HttpTransport(load(file=instance.kubeconfig)), field_manager="demo")
    try:
        return await _scenes(console, client)
    finally:
        await client.close()


async def _scenes(console: Console, client: Client) -> list[_Act]:
    console.print("[bold]2. A sharded Valkey[/]: kubectl apply -f - <<EOF")
    console.print(_DATABASE + "EOF", style="cyan")
    await client.apply(_REDISES, _manifest())
    begun = time.monotonic()
    await _until(client, console, _is_ready)
    console.print(f"   Ready after {time.monotonic() - begun:.1f} s")
    acts = []

    console.print("[bold]3. A primary dies[/]: kill -9, while an application writes")

    async def kill() -> None:
        pod = await _kill_primary(client)
        console.print(f"   killed the server in {pod}")
        await _until(client, console, lambda status: _is_ready(status) and not _leads(status, pod))
        console.print("   Ready again, with a new replica where the primary was")

    acts.append(_Act("primary killed -9", await _under_load(client, kill), planned=False))

    console.print("[bold]4. A shard is added[/]: kubectl patch redis demo ... shards: 4")
    before = await _shards(client)

    async def grow() -> None:
        await client.patch(_REDISES, _KEY, MergePatch({"spec": {"shards": 4}}))
        await _until(client, console, lambda status: _is_ready(status) and _owners(status) == 4)

    report = await _under_load(client, grow)
    moved = _moved(before, await _shards(client))
    console.print(f"   {moved} slots moved")
    acts.append(_Act("shard added", report, planned=True, slots_moved=moved))
    return acts


def _manifest() -> Manifest:
    spec = {"mode": "Cluster", "shards": 3, "replicas": 1}
    return {"metadata": {"namespace": _KEY[0], "name": _KEY[1]}, "spec": spec}


async def _until(client: Client, console: Console, met: Callable[[Manifest], bool]) -> None:
    """Wait until the status is reached, and print each new message."""
    last = ""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                found = await client.get(_REDISES, _KEY)
                status: Manifest = found.get("status") or {}
                current = status.get("observedGeneration") == found["metadata"]["generation"]
                if current and met(status):
                    return
                message = f"{status.get('phase', 'Pending')}: {status.get('message', '')}"
                if message != last:
                    last = message
                    console.print(f"   [dim]{message[:150]}[/]")
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise DemoError(f"it took longer than {_PATIENCE_SECONDS:g} s; last: {last}") from error


def _is_ready(status: Manifest) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ()))


def _leads(status: Manifest, pod: str) -> bool:
    return any(shard.get("primary") == pod for shard in status.get("shards", ()))


def _owners(status: Manifest) -> int:
    return sum(1 for shard in status.get("shards", ()) if shard.get("slots"))


async def _shards(client: Client) -> dict[str, set[int]]:
    found = await client.get(_REDISES, _KEY)
    return {s["name"]: _slots(s.get("slots", "")) for s in found["status"].get("shards", ())}


def _slots(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _moved(before: dict[str, set[int]], after: dict[str, set[int]]) -> int:
    return sum(len(slots - before.get(name, set())) for name, slots in after.items())


async def _under_load(client: Client, act: Callable[[], Awaitable[None]]) -> ApplicationReport:
    application = Application(await _seeds(client), writes_per_second=500)
    application.start()
    await asyncio.sleep(1.5)
    try:
        await act()
        await asyncio.sleep(1.0)
    finally:
        await application.stop()
    return await application.verify()


async def _seeds(client: Client) -> Seeds:
    secret = await client.get(SECRETS, (_KEY[0], "demo-conn"))
    pods = await client.list(PODS, namespace=_KEY[0], labels="redisoperator.dev/database=demo")
    addresses = tuple((pod.status.pod_ip, 6379) for pod in pods.items if pod.status.pod_ip)
    return Seeds(addresses, "default", _text(secret.data, "password"))


def _text(data: Any, key: str) -> str:
    value = data[key]
    return value.decode() if isinstance(value, bytes) else base64.b64decode(value).decode()


async def _kill_primary(client: Client) -> str:
    """Kill the server process of the first shard's primary, as a crash would."""
    found = await client.get(_REDISES, _KEY)
    name = str(found["status"]["shards"][0]["primary"])
    pod = await client.get(PODS, (_KEY[0], name))
    users = await client.get(SECRETS, (_KEY[0], "demo-users"))
    credentials = Credentials("operator", _text(users.data, "operator"))
    connection = await connect(Address(pod.status.pod_ip), timeout=5, credentials=credentials)
    info = await connection.run(commands.info(), timeout=5)
    connection.close()
    os.kill(info.server.process_id, signal.SIGKILL)
    return name


def _books(console: Console, acts: list[_Act]) -> int:
    table = Table(title="What the application saw")
    for heading in ("act", "sent", "acknowledged", "lost", "longest wait", "slots moved"):
        table.add_column(heading, justify="left" if heading == "act" else "right")
    for act in acts:
        table.add_row(
            act.title,
            str(act.report.sent),
            str(act.report.acknowledged),
            str(len(act.report.lost)),
            f"{act.report.longest_wait_seconds * 1000:.0f} ms",
            str(act.slots_moved or "-"),
        )
    console.print(table)
    stuck = [act.title for act in acts if act.report.unfinished]
    if stuck:
        console.print(f"[bold red]Writes were still waiting at the end of:[/] {stuck}")
        return 1
    broken = [act.title for act in acts if act.planned and act.report.lost]
    if broken:
        console.print(f"[bold red]Acknowledged writes were lost in planned work:[/] {broken}")
        return 1
    lost = sum(len(act.report.lost) for act in acts)
    if lost:
        console.print(
            f"{lost} writes were acknowledged by the killed primary before its replica had them: "
            "replication is asynchronous. durability.minReplicasToWrite and WAIT bound that."
        )
    console.print("[bold green]Every promise was kept.[/]")
    return 0
