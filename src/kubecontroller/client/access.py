"""The address of an API server and its credentials: plain values, made from configuration files.

Secrets inside are `Hidden` and print as `***`. Files are named here and read by the code that uses
them, because tokens and certificates on disk are rotated while the process runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

__all__ = [
    "Access",
    "Anonymous",
    "Auth",
    "BasicAuth",
    "ExecAuth",
    "FileOrBytes",
    "Hidden",
    "TokenAuth",
    "TokenFileAuth",
    "proxy_from_environment",
    "proxy_problem",
]


class Hidden:
    """A secret that is only returned by `reveal`: it is in no text, no log line, no pickle.

    This is not a Struct on purpose: an encoder would write its fields.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret."""
        return self._value

    def __str__(self) -> str:
        return "***"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hidden) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled: that would write it down")


class FileOrBytes(Struct, frozen=True):
    """PEM text given inline, or the file it is in; the file is read again when it changes."""

    file: str = ""
    inline: bytes = b""

    def __bool__(self) -> bool:
        return bool(self.file or self.inline)

    def __repr__(self) -> str:
        return f"FileOrBytes(file={self.file!r})" if self.file else "FileOrBytes(inline=***)"


class Anonymous(Struct, frozen=True):
    """No credential in headers; a client certificate may still identify the user."""


class TokenAuth(Struct, frozen=True):
    """A bearer token that does not change."""

    token: Hidden


class TokenFileAuth(Struct, frozen=True):
    """A bearer token in a file that another process rotates."""

    file: str


class BasicAuth(Struct, frozen=True):
    """A user name and password."""

    username: str
    password: Hidden


class ExecAuth(Struct, frozen=True):
    """A program that prints a credential."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    needs_terminal: bool = False
    cluster_info: bytes = b""
    source: str = ""

    def __repr__(self) -> str:
        return f"ExecAuth(command={self.command!r}, source={self.source!r})"


Auth: TypeAlias = Anonymous | TokenAuth | TokenFileAuth | BasicAuth | ExecAuth


class Access(Struct, frozen=True):
    """Everything needed to reach one API server as one user."""

    server: str
    namespace: str = "default"
    ca: FileOrBytes = FileOrBytes()
    insecure: bool = False
    server_name: str = ""
    proxy: str = ""
    auth: Auth = Anonymous()
    certificate: FileOrBytes = FileOrBytes()
    key: FileOrBytes = FileOrBytes()
    impersonate: tuple[tuple[str, str], ...] = ()
    source: str = ""


def proxy_from_environment(server: str, environment: Mapping[str, str]) -> str:
    """Return the proxy that `HTTPS_PROXY` and similar variables name for a server, or nothing.

    `NO_PROXY` may list hosts, domains, addresses, networks and `*`. Loopback is never proxied.
    """
    parts = urlsplit(server)
    host = parts.hostname or ""
    name = f"{parts.scheme}_proxy"
    proxy = environment.get(name.upper()) or environment.get(name) or ""
    if not proxy or _is_loopback(host):
        return ""
    listed = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    skipped = any(_covers(entry.strip(), host) for entry in listed.split(",") if entry.strip())
    if skipped:
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def proxy_problem(proxy: str) -> str | None:
    """Return why a proxy cannot be used, or nothing; what may be a password is not quoted."""
    try:
        parts = urlsplit(proxy)
        usable = bool(parts.hostname) and parts.port != 0 and proxy.isprintable()
    except ValueError:
        usable = False
    if not usable:
        return "the proxy is not an address"
    if parts.scheme not in {"http", "https"}:
        return f"a proxy of scheme {parts.scheme!r} is not supported"
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _covers(entry: str, host: str) -> bool:
    if entry == "*":
        return True
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        domain = entry.lstrip("*.").lower().partition(":")[0]
        lowered = host.lower()
        return lowered == domain or lowered.endswith(f".{domain}")
