"""The request half of the Redis protocol: commands to bytes. Pure; answers are read by hiredis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["Argument", "Reply", "encode", "encode_all"]

Argument: TypeAlias = bytes | str | int
Reply: TypeAlias = "bytes | int | float | bool | list[Reply] | Exception | None"


def encode(arguments: Iterable[Argument]) -> bytes:
    """One command as an array of bulk strings, whatever bytes its arguments hold."""
    parts: list[bytes] = []
    for argument in arguments:
        raw = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))


def encode_all(commands: Iterable[Iterable[Argument]]) -> bytes:
    """Several commands for one write."""
    return b"".join(map(encode, commands))
