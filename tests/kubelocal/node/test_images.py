from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from kubelocal.loopback import free_host
from kubelocal.node.errors import ImageError, StartError
from kubelocal.node.images import Images, Program, find_programs
from kubelocal.node.processes import version_line
from kubelocal.node.references import parse_reference
from kubelocal.node.shims import shim_text, write_shims

IMAGES = Images(
    [
        Program("valkey", "9.1.2", Path("/w/valkey-server")),
        Program("redis", "6.2.14", Path("/w/redis-server"), Path("/w/redis-cli")),
        Program("redis", "7.0.15", Path("/d/redis-server"), Path("/d/redis-cli")),
        Program("redis", "7.2", Path("/x/redis-server"), problem="/x/redis-server: no glibc"),
    ]
)


@pytest.mark.parametrize(
    ("text", "name", "tag"),
    [
        ("redis", "redis", ""),
        ("redis:7", "redis", "7"),
        ("valkey/valkey:9.1-alpine", "valkey", "9.1-alpine"),
        ("host.example:5000/team/redis:7.0", "redis", "7.0"),
        ("host.example:5000/redis", "redis", ""),
        ("redis:7.0@sha256:" + "a" * 64, "redis", "7.0"),
        ("redis@sha256:" + "a" * 64, "redis", ""),
    ],
)
def test_references_are_taken_apart(text: str, name: str, tag: str) -> None:
    reference = parse_reference(text)
    assert (reference.name, reference.tag) == (name, tag)


@pytest.mark.parametrize("text", ["", ":x", "Redis/Up:1", "a b", "redis::7", "redis:"])
def test_what_is_no_reference_is_an_invalid_name(text: str) -> None:
    with pytest.raises(ImageError, match="invalid reference format") as caught:
        parse_reference(text)
    assert caught.value.reason == "InvalidImageName"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("valkey", "9.1.2"),
        ("valkey:latest", "9.1.2"),
        ("example.com/any/valkey:9", "9.1.2"),
        ("valkey:9.1.2-bookworm", "9.1.2"),
        ("redis:6.2", "6.2.14"),
        ("redis:7.0", "7.0.15"),
        ("redis", "7.0.15"),
    ],
)
def test_tag_chooses_the_newest_program_that_fits(text: str, version: str) -> None:
    assert IMAGES.resolve(text).version == version


@pytest.mark.parametrize("text", ["redis:6.20", "redis:5", "valkey:9.10", "nginx:1"])
def test_image_without_a_program_lists_what_there_is(text: str) -> None:
    with pytest.raises(ImageError) as caught:
        IMAGES.resolve(text)
    assert caught.value.reason == "ErrImagePull"
    assert "valkey:9.1.2, redis:7.0.15, redis:6.2.14" in str(caught.value)


def test_program_that_does_not_run_says_why() -> None:
    with pytest.raises(ImageError, match="/x/redis-server: no glibc"):
        IMAGES.resolve("redis:7.2")


def test_valkey_goes_by_both_names_and_borrows_a_command_line() -> None:
    names = IMAGES.resolve("valkey:9.1").names
    assert names["valkey-server"] == names["redis-server"] == Path("/w/valkey-server")
    assert names["valkey-cli"] == Path("/d/redis-cli")
    assert "valkey-server" not in IMAGES.resolve("redis:7.0").names


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        (None, None, ["redis-server"]),
        (None, ["--port", "7000"], ["redis-server", "--port", "7000"]),
        (None, ["/etc/redis.conf"], ["redis-server", "/etc/redis.conf"]),
        (None, ["sh", "-c", "x"], ["sh", "-c", "x"]),
        (["sh"], ["-c", "x"], ["sh", "-c", "x"]),
    ],
)
def test_command_and_args_are_joined_with_the_entry(
    command: list[str] | None, args: list[str] | None, expected: list[str]
) -> None:
    assert IMAGES.resolve("redis:7.0").command(command, args) == expected


def fake_program(path: Path, script: str, mode: int = 0o755) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(mode)


def test_folders_hold_versions_side_by_side(tmp_path: Path) -> None:
    fake_program(tmp_path / "redis/7.4/bin/redis-server", "echo Redis server v=7.4.1 sha=0:0")
    fake_program(tmp_path / "redis/7.4/bin/redis-cli", "true")
    fake_program(tmp_path / "redis/8.0/bin/redis-server", "true", mode=0o644)
    glibc = "echo \"version 'GLIBC_2.99' not found\" >&2; exit 1"
    fake_program(tmp_path / "redis/8.2/bin/redis-server", glibc)
    found = {p.version: p for p in find_programs([tmp_path], ask=version_line)}
    assert found["7.4.1"].cli == tmp_path / "redis/7.4/bin/redis-cli"
    assert "is not executable" in found["8.0"].problem
    assert "another C library" in found["8.2"].problem


def test_program_of_another_kind_is_told(tmp_path: Path) -> None:
    program = tmp_path / "redis/7.4/bin/redis-server"
    fake_program(program, "")
    program.write_bytes(b"\x7fELF no program at all")
    (found,) = [p for p in find_programs([tmp_path], ask=version_line) if p.version == "7.4"]
    assert "built for another processor" in found.problem


def test_wheels_of_this_environment_are_found() -> None:
    engines = {p.engine for p in find_programs([], ask=version_line) if not p.problem}
    assert "valkey" in engines


def test_version_of_a_missing_program_cannot_be_asked() -> None:
    with pytest.raises(StartError, match="No such file"):
        version_line(Path("/no/such"))


def run_shim(tmp_path: Path, name: str, *words: str, version: str = "9.1.2") -> list[str]:
    program = tmp_path / "program"
    fake_program(program, 'for w in "$@"; do echo "$w"; done')
    shim = tmp_path / name
    shim.write_text(shim_text(name, program, address="127.5.0.1", version=version))
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
    images, address = Images.discover(ask=version_line), free_host(7099)
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
