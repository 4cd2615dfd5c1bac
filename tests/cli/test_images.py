"""How servers and their command lines are started in pods that share the machine's loopback."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from kubelocal.loopback import free_host
from kubelocal.node.images import Images
from kubelocal.node.process.client import version_line
from kubelocal.node.shims import write_shims
from redis_operator.cli.images import CATALOG, start


def fake_program(path: Path, script: str, mode: int = 0o755) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(mode)


def run_shim(tmp_path: Path, name: str, *words: str, version: str = "9.1.2") -> list[str]:
    program = tmp_path / "program"
    fake_program(program, 'for w in "$@"; do echo "$w"; done')
    shim = tmp_path / name
    shim.write_text(start(name, str(program), "127.5.0.1", version))
    shim.chmod(0o755)
    done = subprocess.run([shim, *words], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


BOUND = ["--bind", "127.5.0.1", "--bind-source-addr", "127.5.0.1"]


@pytest.mark.parametrize(
    ("words", "added"),
    [
        ([], BOUND),
        (["/c.conf", "--port", "1"], BOUND),
        (["--bind", "0.0.0.0"], BOUND),
        (["--bind", "* -::*"], BOUND),
        (["--bind", "*", "-::*", "--port", "1"], BOUND),
        (["--bind", "127.5.0.1"], []),
        (["--bind", "127.0.0.1", "--port", "1"], []),
        (["--version"], []),
        (["--test-memory", "1"], []),
        (["--save", ""], BOUND),
    ],
)
def test_servers_are_bound_to_the_pod(tmp_path: Path, words: list[str], added: list[str]) -> None:
    assert run_shim(tmp_path, "valkey-server", *words) == [*words, *added]


def test_old_servers_have_no_source_address(tmp_path: Path) -> None:
    found = run_shim(tmp_path, "redis-server", "--port", "1", version="6.2.14")
    assert found == ["--port", "1", "--bind", "127.5.0.1"]


def test_sentinel_is_the_server_in_another_mode(tmp_path: Path) -> None:
    found = run_shim(tmp_path, "redis-sentinel", "/s.conf")
    assert found == ["/s.conf", *BOUND, "--sentinel"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ping"], ["ping"]),
        (["-h", "127.0.0.1", "ping"], ["-h", "127.5.0.1", "ping"]),
        (["-h", "localhost", "-p", "1"], ["-h", "127.5.0.1", "-p", "1"]),
        (["-h", "other", "get", "a b"], ["-h", "other", "get", "a b"]),
    ],
)
def test_clients_find_the_pods_own_server(
    tmp_path: Path, words: list[str], expected: list[str]
) -> None:
    assert run_shim(tmp_path, "redis-cli", *words) == ["-h", "127.5.0.1", *expected]


@pytest.mark.servers
async def test_bound_server_connects_from_its_own_address(tmp_path: Path) -> None:
    """What a cluster's peers see of a server must be its own address, not 127.0.0.1."""
    images, address = Images.discover(CATALOG, ask=version_line), free_host(7099)
    write_shims(tmp_path, images.resolve("valkey:9.1"), address=address)
    peer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not peer.done():
            peer.set_result(writer.get_extra_info("peername")[0])
        writer.close()

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    server = await asyncio.create_subprocess_exec(
        tmp_path / "valkey-server", "--port", "7099", "--save", "", "--replicaof", "127.0.0.1",
        str(port), stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(30):
            assert await peer == address
    finally:
        server.kill()
        await server.wait()
        listener.close()
