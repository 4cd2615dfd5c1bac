"""One connection of a client: requests in their order, responses, streams and websockets.

Nearly every request is handled within the call that received its last byte; only what has to wait
(a webhook, a log, a command in a pod) gets a task. A watch has no task either: changes and timers
wake it. Data that a client does not read is bounded: large responses are written piece by piece,
and a client that reads nothing for a minute is disconnected.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

from kubecontroller.client import Response
from kubelocal.apiserver.calls import Answer, CallWebhook, Connect, Steps, User
from kubelocal.apiserver.errors import StatusError, too_large
from kubelocal.apiserver.format.bodies import LIMIT, refusal
from kubelocal.apiserver.http.websocket import (
    BINARY,
    CLOSE,
    PONG,
    Closed,
    FrameReader,
    Ping,
    accept_key,
    frame,
)
from kubelocal.apiserver.http.wire import (
    BadRequest,
    Message,
    RequestReader,
    chunk,
    head,
    last_chunk,
)
from kubelocal.apiserver.objects.metadata import new_uid
from kubelocal.apiserver.pump import FeedWriter, Perform, finish
from kubelocal.apiserver.storage.watch import Watch

__all__ = ["Connection", "Service", "WebSocket"]

_STALLED = 60.0
_LINGER, _UNWANTED = 5.0, 64 * 1024 * 1024
_PIECE = 128 * 1024
_WAITING = 64 * 1024  # bytes of later requests that are kept while one is handled


class Service(Protocol):
    """What a connection needs of the server it belongs to."""

    connections: set[Connection]
    perform: Perform

    def identify(self, message: Message, certificate: Any) -> User:
        """Return the user of a request."""

    def begin(self, message: Message, user: User) -> Steps[Answer]:
        """Begin to handle a request."""

    def failed(self, error: Exception, request: str) -> Response:
        """Log a failure that is a bug of the server, or of the disk, and return a 500."""

    async def stream_pod(self, connection: Connection, message: Message, connect: Connect) -> None:
        """Serve a stream of a pod to its end."""


class Connection(asyncio.Protocol):
    """Handles HTTP/1.1 with one client."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._reader = RequestReader(LIMIT)
        self._message: Message | None = None  # the request that is being handled
        self._user: User | None = None  # known from then on when a certificate names them
        self._task: asyncio.Task[None] | None = None
        self._feed: FeedWriter | None = None
        self._socket: WebSocket | None = None
        self._unsent: memoryview | None = None
        self._unwanted: int | None = None  # bytes discarded since nothing more is read
        self._has_begun = False
        self._stall: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.is_lost = False
        self.last_heard = self._loop.time()

    @property
    def is_idle(self) -> bool:
        """Return whether no request is being handled."""
        return self._message is None

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to the client."""
        self._transport = cast("asyncio.Transport", transport)
        self._service.connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Read the received bytes; handle each complete request."""
        self.last_heard = self._loop.time()
        if self._unwanted is not None:
            self._unwanted += len(data)
            if self._unwanted > _UNWANTED:
                self._transport.abort()
            return
        if self._socket is not None:
            self._socket.feed(data)
            return
        self._reader.feed(data)
        if self._message is None:
            self._advance()
        elif self._reader.held > _WAITING:
            self._transport.pause_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        """Release everything that belongs to this client."""
        self.is_lost = True
        self._service.connections.discard(self)
        self._unstall()
        self._room.set()
        if self._feed is not None:
            self._feed.close()
        if self._socket is not None:
            self._socket.lose()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        """Wait for the client to read, but not for ever."""
        self._room.clear()
        self._stall = self._loop.call_later(_STALLED, self._transport.abort)

    def resume_writing(self) -> None:
        """Continue writing."""
        self._unstall()
        self._room.set()
        if self._unsent is not None:
            self._write_pieces()
        elif self._feed is not None:
            self._feed.flush()

    def _unstall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    # requests

    def _advance(self) -> None:
        """Handle requests until one is not complete yet or has to wait."""
        while self._is_free() and not self._transport.is_closing():
            try:
                message = self._reader.next()
            except BadRequest as error:
                self._refuse(error)
                return
            if message is None:
                if self._reader.wants_continue():
                    self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            self._message, self._has_begun = message, False
            self._answer(message)

    def _is_free(self) -> bool:
        return self._message is None and self._unwanted is None

    def _refuse(self, error: BadRequest) -> None:
        """Respond to bytes that are not a request, and close the connection."""
        answer = refusal(too_large(LIMIT))
        if error.status != 413:
            text = f"{error.status}: {error.why}\n".encode()
            answer = Response(error.status, {"content-type": "text/plain; charset=utf-8"}, text)
        headers = [*answer.headers.items(), ("content-length", str(len(answer.body)))]
        self._transport.write(head(answer.status, [*headers, ("connection", "close")]))
        self._transport.write(answer.body)
        # a client that is still sending reads the response only afterwards, if the connection lasts
        self._unwanted = 0
        self._loop.call_later(_LINGER, self._transport.close)

    def _answer(self, message: Message) -> None:
        try:
            user = self._user or self._identify(message)
            steps = self._service.begin(message, user)
            effect = next(steps)
        except StopIteration as done:
            self._send(done.value)
        except StatusError as error:
            self._send(refusal(error))
        except Exception as error:  # the request fails, not the server
            self._send(self._failed(error))
        else:
            self._task = self._loop.create_task(self._wait(steps, effect))

    def _identify(self, message: Message) -> User:
        certificate = self._transport.get_extra_info("peercert")
        user = self._service.identify(message, certificate)
        if certificate:
            self._user = user
        return user

    def _failed(self, error: Exception) -> Response:
        return self._service.failed(error, self._request())

    def _request(self) -> str:
        """Method and path of the request, for the log."""
        if self._message is None:
            return "a request"
        return f"{self._message.request.method} {self._message.request.path}"

    async def _wait(self, steps: Steps[Answer], effect: CallWebhook) -> None:
        """Handle a request that needs the outside world."""
        try:
            answer = await finish(steps, effect, self._service.perform)
        except Exception as error:
            answer = self._failed(error)
        self._task = None
        if not self.is_lost:
            self._send(answer)
            self._advance()

    def _send(self, answer: Answer) -> None:
        assert self._message is not None
        match answer:
            case Response():
                self.respond(answer)
            case Watch():
                self.begin([("content-type", "application/json")])
                self._feed = FeedWriter(
                    answer,
                    self._loop,
                    self.write,
                    self._fed,
                    self._room.is_set,
                    failed=self._unfed,
                )
                self._feed.flush()
            case Connect():
                talk = self._service.stream_pod(self, self._message, answer)
                self._task = self._loop.create_task(self._run_stream(talk))

    def _fed(self) -> None:
        self._feed = None
        self.end()

    def _unfed(self, error: Exception) -> None:
        self._service.failed(error, self._request())
        self._transport.abort()

    async def _run_stream(self, talk: Awaitable[None]) -> None:
        try:
            await talk
        except ConnectionError:
            self._transport.abort()
        except Exception as error:
            self._service.failed(error, self._request())
            self._transport.abort()
        finally:
            self._task = None
            if self._socket is None and not self.is_lost:
                self._advance()

    # Responses

    def respond(self, response: Response) -> None:
        """Write a whole response."""
        assert self._message is not None
        if self._has_begun:
            self.abort()  # half a response was sent; its end must not look complete
            return
        headers = [
            *response.headers.items(),
            ("audit-id", new_uid(random.getrandbits)),
            ("content-length", str(len(response.body))),
        ]
        if not self._message.keeps_alive:
            headers.append(("connection", "close"))
        top = head(response.status, headers)
        body = b"" if self._message.request.method == "HEAD" else response.body
        if len(body) <= _PIECE:
            self._transport.write(top + body)
            self._finish()
            return
        self._transport.write(top)
        self._unsent = memoryview(body)
        if self._room.is_set():
            self._write_pieces()

    def _write_pieces(self) -> None:
        """Write a large response as fast as the client reads it."""
        while self._unsent is not None and not self.is_lost:
            piece, self._unsent = self._unsent[:_PIECE], self._unsent[_PIECE:]
            if not self._unsent:
                self._unsent = None
            self._transport.write(piece)
            if not self._room.is_set():
                break
        if self._unsent is None:
            self._finish()
            self._advance()

    def begin(self, headers: list[tuple[str, str]]) -> None:
        """Begin a response that is sent in pieces."""
        assert self._message is not None
        self._has_begun = True
        headers = [
            *headers,
            ("cache-control", "no-cache, private"),
            ("audit-id", new_uid(random.getrandbits)),
        ]
        if self._message.has_chunks:
            headers.append(("transfer-encoding", "chunked"))
        self._transport.write(head(200, headers))

    def write(self, content: bytes) -> None:
        """Write a piece of a response that was begun."""
        assert self._message is not None
        if content and not self.is_lost:
            self._transport.write(chunk(content) if self._message.has_chunks else content)

    async def drain(self) -> None:
        """Wait until the client has read most of what was written."""
        await self._room.wait()
        if self.is_lost:
            raise ConnectionResetError("the client is gone")

    def end(self) -> None:
        """End a response that was begun."""
        if self._message is None or self.is_lost:
            return
        if self._message.has_chunks:
            self._transport.write(last_chunk)
        else:
            self._transport.close()
        self._finish()
        self._loop.call_soon(self._advance)

    def _finish(self) -> None:
        message, self._message = self._message, None
        if message is not None and not message.keeps_alive:
            self._transport.close()
        elif self._reader.held > _WAITING:
            self._transport.resume_reading()

    def upgrade(self, protocol: str) -> WebSocket:
        """Continue as a websocket; the request must be an upgrade."""
        assert self._message is not None
        headers = [
            ("upgrade", "websocket"),
            ("connection", "Upgrade"),
            ("sec-websocket-accept", accept_key(self._message.header("sec-websocket-key"))),
            ("sec-websocket-protocol", protocol),
        ]
        self._transport.write(head(101, headers))
        self._socket = WebSocket(self._transport, self.drain)
        self._socket.feed(self._reader.rest())
        return self._socket

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()


class WebSocket:
    """A connection that became a websocket."""

    _WAITING = 64

    def __init__(self, transport: asyncio.Transport, drain: Callable[[], Awaitable[None]]) -> None:
        self._transport = transport
        self._drain = drain
        self._reader = FrameReader()
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._is_closed = False

    def feed(self, data: bytes) -> None:
        """Read bytes of the peer."""
        self._reader.feed(data)
        while not self._is_closed:
            match self._reader.next():
                case None:
                    break
                case Ping(words):
                    self._transport.write(frame(PONG, words))
                case Closed(reason):
                    self.close(reason)
                case bytes() as message:
                    self._messages.put_nowait(message)
        if self._messages.qsize() > self._WAITING:
            self._transport.pause_reading()

    def lose(self) -> None:
        """Record that the peer is gone."""
        self._is_closed = True
        self._messages.put_nowait(None)

    async def receive(self) -> bytes | None:
        """Return the next message, or nothing when the peer is gone."""
        message = await self._messages.get()
        if self._messages.qsize() <= self._WAITING and not self._transport.is_closing():
            self._transport.resume_reading()
        return message

    async def send(self, message: bytes) -> None:
        """Send one message."""
        if self._is_closed:
            raise ConnectionResetError("the websocket is closed")
        self._transport.write(frame(BINARY, message))
        await self._drain()

    def close(self, reason: bytes = b"\x03\xe8") -> None:
        """Send a close frame and close the connection; by default as a normal end."""
        if not self._is_closed:
            self._is_closed = True
            self._transport.write(frame(CLOSE, reason))
            self._messages.put_nowait(None)
            self._transport.close()
