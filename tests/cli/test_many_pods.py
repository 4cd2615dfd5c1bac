"""Two hundred pods at once on one machine: all of them run, and all of them go."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.config import load
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.objects import NAMESPACES, PODS

_PODS = 200
_SECONDS = str(9_000_000 + os.getpid())  # how long they would sleep; only these processes do


def command(home: Path, *words: str) -> None:
    program = [sys.executable, "-m", "redis_operator.cli.main", *words, "--name", "many"]
    environment = {**os.environ, "REDIS_OPERATOR_HOME": str(home)}
    subprocess.run(program, env=environment, check=True, capture_output=True, timeout=120)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    command(tmp_path, "up", "--detach", "--without-operator", "--nodes", "3")
    try:
        yield tmp_path / "many" / "kubeconfig"
    finally:
        command(tmp_path, "down", "--purge")


def sleepers() -> int:
    """Return how many of the pods' programs run on this machine."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        found += words[:2] == [b"sleep", _SECONDS.encode()]
    return found


def pod(number: int) -> dict[str, object]:
    container = {"name": "main", "image": "busybox", "command": ["sleep", _SECONDS]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "many"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


async def phases(client: Client) -> list[str]:
    page = await client.list_page(PODS, namespace="many")
    return [found.status.phase for found in page.items]


@pytest.mark.campaign
@pytest.mark.timeout(400)
async def test_two_hundred_pods_at_once_all_run_and_all_go(kubeconfig: Path) -> None:
    client = Client(HttpTransport(load(file=kubeconfig)), field_manager="many")
    try:
        await client.create(NAMESPACES.plain(), {"metadata": {"name": "many"}})
        await asyncio.gather(*(client.create(PODS, pod(number)) for number in range(_PODS)))
        async with asyncio.timeout(150):
            while (await phases(client)).count("Running") < _PODS:  # noqa: ASYNC110 - real pods
                await asyncio.sleep(0.5)
        assert await asyncio.to_thread(sleepers) == _PODS
        await client.delete(NAMESPACES.plain(), ("", "many"))
        async with asyncio.timeout(150):
            while await phases(client) or await asyncio.to_thread(sleepers):  # noqa: ASYNC110
                await asyncio.sleep(0.5)
    finally:
        await client.close()
