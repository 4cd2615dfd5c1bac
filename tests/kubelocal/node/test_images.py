from __future__ import annotations

from pathlib import Path

import pytest

from kubelocal.node.errors import ImageError, StartError
from kubelocal.node.images import Images, Program, find_programs, parse_reference
from kubelocal.node.process.client import version_line
from redis_operator.cli.images import CATALOG

IMAGES = Images(
    CATALOG,
    [
        Program("valkey", "9.1.2", Path("/w/valkey-server")),
        Program("redis", "6.2.14", Path("/w/redis-server"), Path("/w/redis-cli")),
        Program("redis", "7.0.15", Path("/d/redis-server"), Path("/d/redis-cli")),
        Program("redis", "7.2", Path("/x/redis-server"), problem="/x/redis-server: no glibc"),
    ],
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
    found = {p.version: p for p in find_programs(CATALOG, [tmp_path], ask=version_line)}
    assert found["7.4.1"].tool == tmp_path / "redis/7.4/bin/redis-cli"
    assert "is not executable" in found["8.0"].problem
    assert "another C library" in found["8.2"].problem


def test_program_of_another_kind_is_told(tmp_path: Path) -> None:
    program = tmp_path / "redis/7.4/bin/redis-server"
    fake_program(program, "")
    program.write_bytes(b"\x7fELF no program at all")
    (found,) = [
        p for p in find_programs(CATALOG, [tmp_path], ask=version_line) if p.version == "7.4"
    ]
    assert "built for another processor" in found.problem


def test_wheels_of_this_environment_are_found() -> None:
    engines = {p.image for p in find_programs(CATALOG, [], ask=version_line) if not p.problem}
    assert "valkey" in engines


def test_version_of_a_missing_program_cannot_be_asked() -> None:
    with pytest.raises(StartError, match="No such file"):
        version_line(Path("/no/such"))
