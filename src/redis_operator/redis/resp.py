"""Encode commands in the Redis protocol. Pure; hiredis encodes and parses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import hiredis

__all__ = ["Argument", "Reply", "encode", "encode_all"]

Argument: TypeAlias = bytes | str | int
Reply: TypeAlias = "bytes | int | float | bool | list[Reply] | Exception | None"


def encode(arguments: Iterable[Argument]) -> bytes:
    """Encode one command as an array of bulk strings, for any bytes in its arguments."""
    packed: bytes = hiredis.pack_command(tuple(arguments))  # type: ignore[arg-type]  # its stub means one
    return packed


def encode_all(commands: Iterable[Iterable[Argument]]) -> bytes:
    """Encode several commands for one write."""
    return b"".join(map(encode, commands))
