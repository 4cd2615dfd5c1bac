"""The server side of the websocket protocol (RFC 6455): from bytes to messages, and back.

Sans-I/O and without extensions; just what `kubectl exec` needs. Everything kept is bounded.
"""

from __future__ import annotations

import base64
import hashlib

from msgspec import Struct

__all__ = ["Closed", "FrameReader", "Ping", "accept_key", "frame", "is_upgrade"]

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LIMIT = 4 * 1024 * 1024
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, PONG = 0, 1, 2, 8, 9, 10
BINARY, CLOSE = _BINARY, _CLOSE


class Ping(Struct, frozen=True):
    """The peer sent a ping; its payload is to be sent back."""

    words: bytes


class Closed(Struct, frozen=True):
    """The peer closed, or sent an invalid frame; the reason is to be sent back."""

    reason: bytes


def is_upgrade(upgrade: str, connection: str, key: str) -> bool:
    """Return whether a request is an upgrade to a websocket."""
    return upgrade.lower() == "websocket" and "upgrade" in connection.lower() and bool(key)


def accept_key(key: str) -> str:
    """Return the accept value for the client's key."""
    digest = hashlib.sha1(key.encode("latin-1") + _GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def frame(kind: int, content: bytes) -> bytes:
    """Return one whole message of the server."""
    size = len(content)
    if size < 126:
        head = bytes((0x80 | kind, size))
    elif size < 65536:
        head = bytes((0x80 | kind, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | kind, 127)) + size.to_bytes(8, "big")
    return head + content


class FrameReader:
    """Reads messages from bytes."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Read bytes of the peer."""
        self._buffer += data

    def next(self) -> bytes | Ping | Closed | None:
        """Return the next message, or nothing until more bytes have arrived."""
        while True:
            found = self._frame()
            if found is None or isinstance(found, Closed):
                return found
            is_last, kind, content = found
            if kind == _PING:
                return Ping(content)
            if kind == _CLOSE:
                return Closed(content)
            if kind == PONG:
                continue
            if (kind == _CONTINUATION) != bool(self._parts):
                return _broken(1002)
            self._parts.append(content)
            self._size += len(content)
            if self._size > _LIMIT:
                return _broken(1009)
            if is_last:
                message = b"".join(self._parts)
                self._parts, self._size = [], 0
                return message

    def _frame(self) -> tuple[bool, int, bytes] | Closed | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        kind, size, start = buffer[0] & 0x0F, buffer[1] & 0x7F, 2
        is_known = kind in (_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, PONG)
        if buffer[0] & 0x70 or not is_known or not buffer[1] & 0x80:
            return _broken(1002)
        if size > 125:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return None
            size = int.from_bytes(buffer[2:start], "big")
        if size > _LIMIT:
            return _broken(1009)
        if len(buffer) < start + 4 + size:
            return None
        mask = bytes(buffer[start : start + 4])
        content = _unmasked(bytes(buffer[start + 4 : start + 4 + size]), mask)
        is_last = bool(buffer[0] & 0x80)
        del buffer[: start + 4 + size]
        return is_last, kind, content


def _unmasked(content: bytes, mask: bytes) -> bytes:
    size = len(content)
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "little")
    return (int.from_bytes(content, "little") ^ key).to_bytes(size, "little")


def _broken(code: int) -> Closed:
    return Closed(code.to_bytes(2, "big"))
