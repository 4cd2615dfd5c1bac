"""The request half of the Redis protocol: commands to bytes. Pure; hiredis does both halves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import hiredis

__all__ = ["Argument", "Reply", "encode", "encode_all"]

Argument: TypeAlias = bytes | str | int
Reply: TypeAlias = "bytes | int | float | bool | list[Reply] | Exception | None"


def encode(arguments: Iterable[Argument]) -> bytes:
    """One command as an array of bulk strings, whatever bytes its arguments hold."""
    packed: bytes = hiredis.pack_command(tuple(arguments))  # type: ignore[arg-type]  # its stub means one
    return packed


def encode_all(commands: Iterable[Iterable[Argument]]) -> bytes:
    """Several commands for one write."""
    return b"".join(map(encode, commands))
