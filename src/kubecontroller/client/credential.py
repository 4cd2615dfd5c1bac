"""Credentials for an API server, and where they come from.

A `Login` returns the current credential and is notified when the server refused one. It belongs to
one event loop: make one for each transport.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from kubecontroller.client.errors import CredentialError

__all__ = [
    "ClientCertificate",
    "Credential",
    "FixedLogin",
    "Login",
    "PluginLogin",
    "TokenFileLogin",
    "basic",
    "bearer",
]

_REREAD_AFTER: Final = 60.0


class ClientCertificate(Struct, frozen=True):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "ClientCertificate(***)"


class Credential(Struct, frozen=True):
    """Headers to send, a client certificate, or both, and when they expire."""

    headers: tuple[tuple[str, str], ...] = ()
    certificate: ClientCertificate | None = None
    expires: datetime | None = None

    def __repr__(self) -> str:
        return f"Credential(***, expires={self.expires})"


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    """Return the header that carries a token.

    Errors: `CredentialError` for a token that no header can carry; the token is not quoted.
    """
    if not token.isascii() or not token.isprintable():
        raise CredentialError(
            "the token holds line breaks or other characters that no header can carry",
            advice="Write the token again, on one line",
        )
    return (("authorization", f"Bearer {token}"),)


def basic(username: str, password: str) -> tuple[tuple[str, str], ...]:
    """Return the header that carries a user name and password."""
    text = b64encode(f"{username}:{password}".encode()).decode()
    return (("authorization", f"Basic {text}"),)


class Login(Protocol):
    """A source of credentials."""

    async def current(self) -> Credential:
        """Return the current credential; raises `CredentialError` when there is none."""
        ...

    def refuse(self, credential: Credential) -> bool:
        """Record that the server refused this credential; return whether another may exist."""
        ...


class FixedLogin:
    """A credential that never changes."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        """Return the credential."""
        return self._credential

    def refuse(self, credential: Credential) -> bool:
        """Return whether the credential is another than the refused one: never."""
        return credential != self._credential


class TokenFileLogin:
    """A token in a file that is replaced from time to time; read each minute and when refused.

    A read that fails after one that worked is tolerated: the file may be rotated at that moment.
    """

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._credential: Credential | None = None
        self._read_again = 0.0

    async def current(self) -> Credential:
        """Return the file's token."""
        now = asyncio.get_running_loop().time()
        if self._credential is None or now >= self._read_again:
            self._credential = self._read()
            self._read_again = now + _REREAD_AFTER
        return self._credential

    def refuse(self, credential: Credential) -> bool:
        """Read the file again; another token is worth a retry."""
        self._read_again = 0.0
        return self._read() != credential

    def _read(self) -> Credential:
        try:
            token = self._file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            if self._credential is not None:
                return self._credential
            raise CredentialError(
                f"the token cannot be read ({error})",
                file=str(self._file),
                advice="Check that the file is there and that this user may read it",
            ) from error
        if token:
            return Credential(headers=bearer(token))
        if self._credential is not None:
            return self._credential
        raise CredentialError(
            "the token file is empty", file=str(self._file), advice="Write a token to it"
        )


class PluginLogin:
    """A credential printed by a program, kept until it expires or is refused.

    Guarantees: the program runs once for all callers that wait at the same time, and continues when
    one of them gives up: the deadline of the first caller must not end a slow program.
    """

    def __init__(
        self,
        run: Callable[[datetime], Awaitable[Credential]],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._run = run
        self._now = now
        self._credential: Credential | None = None
        # Single flight: two requests that find no credential must not start two programs.
        self._flight: asyncio.Task[Credential] | None = None

    async def current(self) -> Credential:
        """Return the kept credential, or run the program for a new one."""
        kept, now = self._credential, self._now()
        if kept is not None and (kept.expires is None or kept.expires > now):
            return kept
        if self._flight is None:
            self._flight = asyncio.create_task(self._fetch(now))
        return await asyncio.shield(self._flight)

    async def _fetch(self, now: datetime) -> Credential:
        try:
            self._credential = await self._run(now)
        finally:
            self._flight = None
        return self._credential

    def refuse(self, credential: Credential) -> bool:
        """Drop the kept credential if it is the refused one; the program may print another."""
        if self._credential == credential:
            self._credential = None
        return True
