"""HTTP/1.1 as bytes: reads requests, writes the heads of responses.

Sans-I/O. A `RequestReader` is fed with bytes and returns the next request; everything it keeps is
bounded, and ambiguous requests (two lengths, folded headers) are refused.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from kubecontroller.client import Request

__all__ = ["BadRequest", "Message", "RequestReader", "chunk", "head", "last_chunk"]

_HEAD_LIMIT = 64 * 1024
_MOST_DIGITS = 18
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/1\.([01])")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?")
_BREAKS = re.compile(r"[\r\n\0]")
_REASONS = {
    101: "Switching Protocols",
    200: "OK",
    201: "Created",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    409: "Conflict",
    410: "Gone",
    413: "Request Entity Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

last_chunk = b"0\r\n\r\n"


class BadRequest(Exception):  # noqa: N818 - what the client receives
    """The bytes are not a request; the connection cannot be used any further."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Message(Struct, frozen=True):
    """A request, and the properties of its form that the response depends on."""

    request: Request
    keeps_alive: bool
    has_chunks: bool  # a client that understands chunked responses

    def header(self, name: str) -> str:
        """Return the value of a header, all values joined; empty when there is none."""
        return ", ".join(value for key, value in self.request.headers if key == name)


class RequestReader:
    """Reads requests from bytes. `limit` bounds a body."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._head: Message | None = None
        self._length = 0
        self._is_chunked = False
        self._body: list[bytes] = []
        self._size = 0
        self._waits = False

    @property
    def held(self) -> int:
        """How many bytes wait to become a request."""
        return len(self._buffer)

    @property
    def is_idle(self) -> bool:
        """Return whether nothing of a request has arrived yet."""
        return not self._buffer and self._head is None

    def feed(self, data: bytes) -> None:
        """Read bytes of a client."""
        self._buffer += data

    def rest(self) -> bytes:
        """Return the bytes after the last request, and keep none of them."""
        found = bytes(self._buffer)
        self._buffer.clear()
        return found

    def wants_continue(self) -> bool:
        """Return, once, whether the client waits for a `100 Continue`."""
        waits, self._waits = self._waits, False
        return waits

    def next(self) -> Message | None:
        """Return the next complete request, or nothing until more bytes arrive; may refuse."""
        if self._head is None:
            self._head = self._read_head()
            if self._head is None:
                return None
        if not (self._read_chunks() if self._is_chunked else self._read_length()):
            return None
        found = self._head
        if self._body:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            request = found.request
            whole = Request(
                method=request.method,
                path=request.path,
                query=request.query,
                headers=request.headers,
                body=body,
            )
            found = Message(whole, found.keeps_alive, found.has_chunks)
        self._head, self._body, self._size = None, [], 0
        return found

    def _read_head(self) -> Message | None:
        while self._buffer.startswith(b"\r\n"):  # allowed between requests
            del self._buffer[:2]
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or end > _HEAD_LIMIT:
            if len(self._buffer) > _HEAD_LIMIT:
                raise BadRequest(431, "the head of the request is too large")
            return None
        lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        line = _LINE.fullmatch(lines[0])
        if line is None:
            raise BadRequest(400, "the first line is not that of an HTTP/1.1 request")
        headers = tuple(_header(text) for text in lines[1:])
        self._frame(headers)
        target = line[2].decode("ascii")
        if not target.startswith("/"):
            try:
                parts = urlsplit(target)
            except ValueError as error:
                raise BadRequest(400, "the address in the first line is not valid") from error
            target = f"{parts.path or '/'}?{parts.query}"
        path, _, query = target.partition("?")
        is_newer = line[3] == b"1"
        self._waits = is_newer and _value(headers, "expect").lower() == "100-continue"
        connection = _value(headers, "connection").lower()
        return Message(
            Request(
                method=line[1].decode("ascii"),
                path=path,
                query=tuple(parse_qsl(query, keep_blank_values=True)) if query else (),
                headers=headers,
            ),
            keeps_alive="close" not in connection if is_newer else "keep-alive" in connection,
            has_chunks=is_newer,
        )

    def _frame(self, headers: tuple[tuple[str, str], ...]) -> None:
        """Find the length of the body, which must be given in one way only."""
        lengths = {value for name, value in headers if name == "content-length"}
        coding = _value(headers, "transfer-encoding").lower()
        if coding and (lengths or coding != "chunked"):
            raise BadRequest(400, "the length of the body is not clear")
        self._is_chunked, self._length = bool(coding), 0
        if not lengths:
            return
        text = lengths.pop()
        if lengths or not (text.isascii() and text.isdigit()):
            raise BadRequest(400, "the length of the body is not clear")
        if len(text) > _MOST_DIGITS or int(text) > self._limit:
            raise BadRequest(413, "the body is too large")
        self._length = int(text)

    def _read_length(self) -> bool:
        if len(self._buffer) < self._length:
            return False
        if self._length:
            self._body = [bytes(memoryview(self._buffer)[: self._length])]
            del self._buffer[: self._length]
        return True

    def _read_chunks(self) -> bool:
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                if len(self._buffer) > _HEAD_LIMIT:
                    raise BadRequest(400, "a chunk has no size")
                return False
            found = _SIZE.fullmatch(self._buffer[:end])
            if found is None:
                raise BadRequest(400, "a chunk has no size")
            size = int(found[1], 16)
            if size == 0:
                return self._read_trailers(end)
            if self._size + size > self._limit:
                raise BadRequest(413, "the body is too large")
            if len(self._buffer) < end + 2 + size + 2:
                return False
            if self._buffer[end + 2 + size : end + 4 + size] != b"\r\n":
                raise BadRequest(400, "a chunk is longer than it says")
            self._body.append(bytes(self._buffer[end + 2 : end + 2 + size]))
            self._size += size
            del self._buffer[: end + 4 + size]

    def _read_trailers(self, start: int) -> bool:
        """Read past the last chunk; trailers are ignored."""
        if self._buffer[start : start + 4] == b"\r\n\r\n":
            del self._buffer[: start + 4]
            return True
        end = self._buffer.find(b"\r\n\r\n", start)
        if end < 0:
            if len(self._buffer) > _HEAD_LIMIT:
                raise BadRequest(431, "the trailers are too large")
            return False
        del self._buffer[: end + 4]
        return True


def _header(line: bytes) -> tuple[str, str]:
    name, separator, value = line.decode("latin-1").partition(":")
    if not separator or not _NAME.fullmatch(name) or "\0" in value or "\n" in value:
        raise BadRequest(400, "a header is not of the form name: value")
    return name.lower(), value.strip(" \t")


def _value(headers: tuple[tuple[str, str], ...], name: str) -> str:
    return ", ".join(value for key, value in headers if key == name)


def head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return the head of a response."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\ndate: {_date()}\r\n"]
    lines += [f"{name}: {_BREAKS.sub(' ', value)}\r\n" for name, value in headers]
    lines.append("\r\n")
    return "".join(lines).encode()


def chunk(content: bytes) -> bytes:
    """Return a piece of a response whose length is not known beforehand."""
    return b"%x\r\n%b\r\n" % (len(content), content)


_dated: tuple[int, str] = (0, "")


def _date() -> str:
    """Return the time in the format of HTTP; computed once a second."""
    global _dated  # noqa: PLW0603 - a cache of one
    now = int(time.time())
    if _dated[0] != now:
        t = time.gmtime(now)
        text = (
            f"{_DAYS[t.tm_wday]}, {t.tm_mday:02d} {_MONTHS[t.tm_mon - 1]} {t.tm_year}"
            f" {t.tm_hour:02d}:{t.tm_min:02d}:{t.tm_sec:02d} GMT"
        )
        _dated = (now, text)
    return _dated[1]
