"""Requests over HTTP/1.1: the only module here that knows aiohttp.

Requests share a bounded pool of connections; each stream has its own connection. Gzip is not
requested: near the server it costs more time than it saves.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from io import BytesIO
from typing import Final, TypeAlias
from urllib.parse import quote, urlsplit

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from multidict import CIMultiDict
from yarl import URL

from kubecontroller.client.access import (
    Access,
    Anonymous,
    BasicAuth,
    ExecAuth,
    TokenAuth,
    TokenFileAuth,
)
from kubecontroller.client.credential import (
    Credential,
    FixedLogin,
    Login,
    PluginLogin,
    TokenFileLogin,
    basic,
    bearer,
)
from kubecontroller.client.errors import (
    CertificateRejected,
    ConnectionBroken,
    ConnectionFailed,
    CredentialError,
    KubeError,
    NoAnswer,
    StreamStalled,
    error_from_response,
    retry_after,
)
from kubecontroller.client.execplugin import run_plugin
from kubecontroller.client.request import Request, Response
from kubecontroller.client.tls import Trust
from kubecontroller.client.transport import SILENT_SECONDS

__all__ = ["HttpTransport", "login_for"]

_log = logging.getLogger(__name__)

_MOST_RETRIES: Final = 10
_CONNECT_WITHIN: Final = 10.0
_TOO_NEW: Final = b"Too large resource version"
_READ_BUFFER: Final = 2**20
_RESET: Final = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientPayloadError)
# Handed to the connector: a request waits there for a place in the pool, DNS, TCP and TLS.
_BEFORE_SEND: Final[ContextVar[Callable[[], None] | None]] = ContextVar("before_send", default=None)
_Address: TypeAlias = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int]]


def login_for(access: Access) -> Login:
    """Return the source of the credentials of an access."""
    match access.auth:
        case Anonymous():
            return FixedLogin(Credential())
        case TokenAuth(token):
            return FixedLogin(Credential(headers=bearer(token.reveal())))
        case BasicAuth(username, password):
            return FixedLogin(Credential(headers=basic(username, password.reveal())))
        case TokenFileAuth(file):
            return TokenFileLogin(file)
        case ExecAuth() as auth:
            return PluginLogin(lambda now: run_plugin(auth, now=now))


class HttpTransport:
    """A transport over HTTP to one API server, as one user. One event loop may use it.

    Guarantees: a request is repeated only when the server asks for it (429 or 5xx with
    Retry-After), once after a 401 with a fresh credential, or, if it is a GET, when the connection
    broke; at most ten times and within its deadline. A cancelled call frees its connection.
    """

    def __init__(
        self, access: Access, *, user_agent: str = "kubecontroller", connections: int = 32
    ) -> None:
        self.access = access
        self._user_agent = user_agent
        self._login = login_for(access)
        self._trust = Trust(access)
        self._connections = connections
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._warned: set[str] = set()
        parts = urlsplit(access.server)
        self._tls = parts.scheme == "https"
        self.host = parts.netloc.rpartition("@")[2]
        self._host = f"{parts.scheme}://{self.host}"

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send a request and return the whole response, whatever its status."""
        deadline = asyncio.get_running_loop().time() + timeout
        await self._log_in(deadline, timeout)
        try:
            async with asyncio.timeout_at(deadline):
                return await self._with_retries(request, deadline)
        except TimeoutError as error:
            raise NoAnswer(
                f"no response to {request.method} {request.path} within {timeout:g} s",
                host=self._host,
                advice="Check that the server is up and reachable; it may have done it anyway",
            ) from error

    @asynccontextmanager
    async def stream(self, request: Request, *, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream of raw pieces; leaving the context closes its connection.

        `idle` limits the silence of an open stream; the headers must arrive within a minute.
        """
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_WITHIN, sock_read=idle)
        try:
            async with asyncio.timeout(min(idle, SILENT_SECONDS)):
                response = await self._authorised(request, self._stream_session(), limits)
        except TimeoutError as error:
            raise NoAnswer(f"no response to watch of {request.path}", host=self._host) from error
        try:
            if response.status != 200:
                raise error_from_response(
                    await self._whole(response), ref=f"watch of {request.path}"
                )
            self._note_warnings(response)
            async with aclosing(self._pieces(response, request, idle)) as pieces:
                yield pieces
        finally:
            response.close()

    async def close(self) -> None:
        """Close every connection."""
        for session in (self._requests, self._streams):
            if session is not None:
                await session.close()

    async def _log_in(self, deadline: float, timeout: float) -> None:
        """Get the credential first, so that a slow plugin is not mistaken for a slow server."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._login.current()
        except TimeoutError as error:
            raise CredentialError(
                f"no credential within {timeout:g} s",
                file=self.access.source,
                advice="The exec plugin is slow: run it by hand to see why",
            ) from error

    async def _with_retries(self, request: Request, deadline: float) -> Response:
        loop = asyncio.get_running_loop()
        # Silence has its own limit: a list of many megabytes may take long while data arrives.
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_WITHIN, sock_read=SILENT_SECONDS
        )
        for attempt in range(_MOST_RETRIES + 1):
            last = attempt == _MOST_RETRIES
            try:
                held = await self._authorised(request, self._request_session(), limits)
                self._note_warnings(held)
                response = await self._whole(held)
            except ConnectionBroken:
                wait = min(0.1 * 2**attempt, 1.0)
                if last or request.method != "GET" or loop.time() + wait >= deadline:
                    raise
            else:
                asked = retry_after(response)
                busy = response.status == 429 or response.status >= 500
                if response.status == 504 and _TOO_NEW in response.body:
                    return response  # the caller has a better reaction than to wait: a quorum read
                if last or asked is None or not busy or loop.time() + asked >= deadline:
                    return response
                wait = max(asked, 0.05)
            await asyncio.sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _authorised(
        self, request: Request, session: aiohttp.ClientSession, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send as the current user; after a 401 once more with a fresh credential, if any."""
        credential = await self._login.current()
        used = self._context(credential)
        try:
            response = await self._send(request, session, limits, credential)
        except CertificateRejected:
            # The CA may have been rotated. Nothing was sent, so any request may be repeated.
            self._trust.recheck()
            if self._context(credential) is used:
                raise
            return await self._send(request, session, limits, credential)
        if response.status != 401:
            return response
        self._trust.recheck()
        try:
            if not self._login.refuse(credential):
                return response
        except BaseException:
            response.close()
            raise
        response.close()
        return await self._send(request, session, limits, await self._login.current())

    def _context(self, credential: Credential) -> ssl.SSLContext | bool:
        if not self._tls:
            return True
        return self._trust.context(credential.certificate, asyncio.get_running_loop().time())

    async def _send(
        self,
        request: Request,
        session: aiohttp.ClientSession,
        limits: aiohttp.ClientTimeout,
        credential: Credential,
    ) -> aiohttp.ClientResponse:
        if request.before_send is not None:
            request.before_send()
        context = self._context(credential)
        headers = CIMultiDict(request.headers)
        headers.extend(credential.headers)
        headers.extend(self.access.impersonate)
        asked = _BEFORE_SEND.set(request.before_send)
        try:
            return await session.request(
                request.method,
                _url(self.access.server, request),
                data=_payload(request.body),
                headers=headers,
                ssl=context,
                server_hostname=self.access.server_name or None,
                proxy=self.access.proxy or None,
                timeout=limits,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._translate(error) from error
        finally:
            _BEFORE_SEND.reset(asked)

    async def _whole(self, response: aiohttp.ClientResponse) -> Response:
        try:
            body = await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise self._translate(error) from error
        finally:
            response.release()
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Response(response.status, headers, body)

    async def _pieces(
        self, response: aiohttp.ClientResponse, request: Request, idle: float
    ) -> AsyncGenerator[bytes, None]:
        try:
            async for piece in response.content.iter_any():
                yield piece
        except (aiohttp.ServerTimeoutError, TimeoutError) as error:
            raise StreamStalled(
                f"{self._host} sent nothing for {idle:g} s; the stream is considered dead",
                path=request.path,
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._translate(error) from error

    def _is_proxy(self, error: aiohttp.ClientConnectorCertificateError) -> bool:
        if not self.access.proxy:
            return False
        proxy = URL(self.access.proxy)
        return (error.host, error.port) == (proxy.host, proxy.port)

    def _translate(self, error: Exception) -> KubeError:
        """Return the error of this package for one of aiohttp's, with the host and what to do."""
        host = self._host
        match error:
            case aiohttp.ClientConnectorCertificateError():
                reason = getattr(error.certificate_error, "verify_message", "") or str(error)
                if self._is_proxy(error):
                    return ConnectionFailed(
                        f"the certificate of the proxy {_bare(self.access.proxy)} is not trusted"
                        f" ({reason})",
                        host=host,
                        advice="Add its authority to those that this machine trusts",
                    )
                return CertificateRejected(
                    f"the server's certificate is not trusted ({reason})",
                    host=host,
                    advice="Check certificate-authority and tls-server-name"
                    f" in {self.access.source or 'the configuration'}",
                )
            case aiohttp.ClientConnectorSSLError():
                return CertificateRejected(
                    f"TLS failed ({error.os_error})",
                    host=host,
                    advice="Check that this is an HTTPS port and that our certificate is accepted",
                )
            case aiohttp.ClientHttpProxyError():
                return ConnectionFailed(
                    f"the proxy {_bare(self.access.proxy)} answered {error.status}", host=host
                )
            case aiohttp.ClientConnectorDNSError():
                return ConnectionFailed(
                    "the host name is not known",
                    host=host,
                    advice=f"Check the server in {self.access.source or 'the configuration'}",
                )
            case aiohttp.ClientConnectorError():
                return ConnectionFailed(
                    f"cannot be reached ({error.os_error.strerror or error.os_error})",
                    host=host,
                    advice="Check that the API server runs, and the address in"
                    f" {self.access.source or 'the configuration'}",
                )
            case aiohttp.ServerTimeoutError() | TimeoutError():
                return NoAnswer("the server does not respond", host=host)
            case aiohttp.ClientOSError() if isinstance(error.__cause__, ssl.SSLError):
                return CertificateRejected(
                    f"the server ended TLS ({error.__cause__.reason})",
                    host=host,
                    advice="It may not accept our client certificate",
                )
            case _ if isinstance(error, _RESET):
                return ConnectionBroken(
                    f"the connection broke ({error})",
                    host=host,
                    advice="If it does each time, the server may want a client certificate it"
                    " accepts"
                    if self._tls
                    else "",
                )
            case _:
                return ConnectionFailed(f"the request failed ({error})", host=host)

    def _note_warnings(self, response: aiohttp.ClientResponse) -> None:
        """Log the server's warnings (deprecated versions, unknown fields), each text once."""
        for text in response.headers.getall("Warning", ()):
            if text not in self._warned and len(self._warned) < 1000:
                self._warned.add(text)
                _log.warning(
                    "API server warning", extra={"fields": {"warning": text, "host": self._host}}
                )

    def _request_session(self) -> aiohttp.ClientSession:
        if self._requests is None:
            self._requests = _session(self._connections, self.access.proxy, self._user_agent)
        return self._requests

    def _stream_session(self) -> aiohttp.ClientSession:
        if self._streams is None:
            self._streams = _session(0, self.access.proxy, self._user_agent)
        return self._streams


class _Connector(aiohttp.TCPConnector):
    """Checks a proxy against the CAs of the machine, and sends it no client certificate.

    By default aiohttp uses the TLS settings of the server for its proxy too. It also leaves a
    connection that it does not reuse open until TLS is shut down, for up to 30 s if the server does
    not respond; here the connection ends at once, and closing waits for that.

    A request that has its connection is asked for once more (`before_send`): it may have waited.
    """

    def __init__(self, proxy: str, *, limit: int) -> None:
        super().__init__(limit=limit, keepalive_timeout=60.0, socket_factory=_socket)
        self._proxy = URL(proxy).origin() if proxy.startswith("https:") else None
        self._proxy_context: ssl.SSLContext | None = None
        self._ending: set[asyncio.Future[None]] = set()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        before_send = _BEFORE_SEND.get()
        if before_send is not None:
            try:
                before_send()
            except BaseException:
                connection.release()  # nothing was sent: another request may use it
                raise
        return connection

    def _get_ssl_context(self, req: aiohttp.ClientRequest) -> ssl.SSLContext | None:
        if self._proxy is None or req.url.origin() != self._proxy:
            return super()._get_ssl_context(req)
        if self._proxy_context is None:
            self._proxy_context = ssl.create_default_context()
        return self._proxy_context

    def _release(
        self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False
    ) -> None:
        transport = protocol.transport
        super()._release(key, protocol, should_close=should_close)
        if protocol.transport is not None or transport is None or self.closed:
            return  # it is kept, or was closed with all others
        if key.is_ssl:
            transport.abort()
        ended = protocol.closed
        if ended is not None:
            self._ending.add(ended)
            ended.add_done_callback(self._forget)

    def _forget(self, ended: asyncio.Future[None]) -> None:
        self._ending.discard(ended)
        if not ended.cancelled():
            ended.exception()  # how it ended does not matter

    async def close(self, *, abort_ssl: bool = False) -> None:
        await super().close(abort_ssl=abort_ssl)
        if self._ending:
            await asyncio.wait(set(self._ending), timeout=_CONNECT_WITHIN)


def _session(connections: int, proxy: str, user_agent: str) -> aiohttp.ClientSession:
    connector = _Connector(proxy, limit=connections)
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"user-agent": user_agent, "accept-encoding": "identity"},
        skip_auto_headers=("content-type",),
        read_bufsize=_READ_BUFFER,
        trust_env=False,
    )
    # By default aiohttp sends PUT and DELETE once more when a connection breaks after the request:
    # the first copy may have been executed, and the second could hit an object created since.
    session._retry_connection = False  # noqa: SLF001 - aiohttp has no option for it
    return session


def _socket(address: _Address) -> socket.socket:
    """Create a socket that detects within about a minute that its peer is gone."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 60_000),
    ):
        option = getattr(socket, name, None)  # not every system has them all
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def _url(server: str, request: Request) -> URL:
    parameters = "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in request.query
    )
    text = f"{server}{request.path}"
    return URL(f"{text}?{parameters}" if parameters else text, encoded=True)


def _payload(body: bytes) -> bytes | BytesIO | None:
    """Return a body as it is sent: a large one in pieces, so that the loop is not blocked."""
    return BytesIO(body) if len(body) > _READ_BUFFER else body or None


def _bare(proxy: str) -> str:
    """Return a proxy's address without the password that may be in it."""
    parts = urlsplit(proxy)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
