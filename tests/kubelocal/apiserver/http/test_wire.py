"""HTTP/1.1 and websockets as bytes: however they are cut, and whatever is wrong with them."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelocal.apiserver.http.websocket import (
    BINARY,
    CLOSE,
    Closed,
    FrameReader,
    Ping,
    accept_key,
    frame,
    is_upgrade,
)
from kubelocal.apiserver.http.wire import BadRequest, RequestReader, chunk, head

POST = (
    b"POST /api/v1/pods?watch=1&l=a%2Cb+c&empty= HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    b"X-Note:  two words \r\n\r\nhello"
)
CHUNKED = (
    b"PUT /a%2Fb HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;ext=1\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: x\r\n\r\n"
)
GET = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"


def read_all(pieces: list[bytes], limit: int = 1000) -> list:
    reader, found = RequestReader(limit), []
    for piece in pieces:
        reader.feed(piece)
        while (message := reader.next()) is not None:
            found.append(message)
    assert reader.is_idle
    return found


@given(st.lists(st.integers(0, len(POST + CHUNKED + GET)), max_size=6))
def test_requests_are_the_same_however_they_are_cut(cuts):
    text, places = POST + CHUNKED + GET, sorted({0, *cuts, len(POST + CHUNKED + GET)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    first, second, third = read_all(pieces)
    assert (first.request.method, first.request.path) == ("POST", "/api/v1/pods")
    assert first.request.query == (("watch", "1"), ("l", "a,b c"), ("empty", ""))
    assert first.request.body == b"hello"
    assert first.header("x-note") == "two words"
    assert first.keeps_alive
    assert (second.request.path, second.request.body) == ("/a%2Fb", b"hello world")
    assert not third.keeps_alive


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nBad Name: b\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n", 413),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * 70_000, 431),
        (b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (b"GET http://[ HTTP/1.1\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_refused(text, status):
    with pytest.raises(BadRequest) as refused:
        read_all([text])
    assert refused.value.status == status


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_refused_or_unfinished(data):
    reader = RequestReader(100)
    reader.feed(data)
    with suppress(BadRequest):
        while (found := reader.next()) is not None:
            assert found.method


def test_client_that_waits_for_a_go_ahead_is_told_once():
    reader = RequestReader(100)
    reader.feed(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert reader.next() is None
    assert reader.wants_continue()
    assert not reader.wants_continue()
    reader.feed(b"ok")
    message = reader.next()
    assert message is not None
    assert message.request.body == b"ok"


def test_old_clients_get_no_chunks_and_no_second_answer():
    (message,) = read_all([b"GET http://host/p?q=1 HTTP/1.0\r\n\r\n"])
    assert not message.keeps_alive
    assert not message.has_chunks
    assert (message.request.path, message.request.query) == ("/p", (("q", "1"),))


def test_header_cannot_bring_another_with_it():
    text = head(200, [("warning", '299 - "a\r\nset-cookie: b"')])
    assert text.count(b"\r\n") == 4
    assert text.startswith(b"HTTP/1.1 200 OK\r\n")


def test_chunk_says_its_size():
    assert chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"


def masked(kind: int, content: bytes, *, last: bool = True) -> bytes:
    mask = b"\x01\x02\x03\x04"
    plain = bytearray(frame(kind, content))
    plain[0] = kind | (0x80 if last else 0)
    start = len(plain) - len(content)
    plain[1] |= 0x80
    body = bytes(byte ^ mask[place % 4] for place, byte in enumerate(content))
    return bytes(plain[:start]) + mask + body


@given(st.lists(st.binary(max_size=70_000), max_size=4), st.integers(1, 40_000))
def test_messages_are_the_same_however_they_are_cut(messages, size):
    text = b"".join(masked(BINARY, message) for message in messages)
    reader, found = FrameReader(), []
    for start in range(0, len(text), size):
        reader.feed(text[start : start + size])
        while (message := reader.next()) is not None:
            found.append(message)
    assert found == messages


def test_message_in_parts_is_joined_past_a_ping():
    reader = FrameReader()
    reader.feed(masked(BINARY, b"one ", last=False) + masked(9, b"there?") + masked(0, b"two"))
    assert reader.next() == Ping(b"there?")
    assert reader.next() == b"one two"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (frame(BINARY, b"not masked"), 1002),
        (masked(3, b"no such kind"), 1002),
        (masked(0, b"the end of nothing"), 1002),
        (b"\x82\xff" + (5 * 2**20).to_bytes(8, "big"), 1009),
    ],
)
def test_what_is_no_message_ends_the_conversation(text, code):
    reader = FrameReader()
    reader.feed(text)
    assert reader.next() == Closed(code.to_bytes(2, "big"))


def test_goodbye_is_answered_with_its_own_reason():
    reader = FrameReader()
    reader.feed(masked(CLOSE, b"\x03\xe8bye"))
    assert reader.next() == Closed(b"\x03\xe8bye")


def test_key_is_answered_as_the_standard_says():
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert is_upgrade("WebSocket", "keep-alive, Upgrade", "k")
    assert not is_upgrade("websocket", "Upgrade", "")
