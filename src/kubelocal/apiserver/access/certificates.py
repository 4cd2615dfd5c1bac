"""The server's own certificate authority, its certificate, and the admin's kubeconfig.

Made once in the data directory and reused by the next start, so that kubeconfigs stay valid.
Private keys are readable only by their owner.
"""

from __future__ import annotations

import os
import ssl
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

from msgspec import Struct

__all__ = ["Authority", "Pair", "kubeconfig", "server_context", "write_private"]

_SERVER = "apiserver"  # not `server`: older versions used that name for a single address


class Pair(Struct, frozen=True):
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority kept in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        self._pair = self._kept("ca", lambda: _issuing().make_authority())
        self.certificate = self._pair.certificate

    def server(self, addresses: tuple[str, ...]) -> Pair:
        """Return the certificate of the server at some addresses."""
        return self._kept(_SERVER, lambda: _issuing().issue_server(self._pair, addresses))

    def client(self, user: str, groups: tuple[str, ...], *, file: str) -> Pair:
        """Return a client certificate for a user in some groups."""
        return self._kept(file, lambda: _issuing().issue_client(self._pair, user, groups))

    def _kept(self, name: str, make: Callable[[], Pair]) -> Pair:
        """Return the pair stored under a name; make and store it when there is none."""
        stored = _stored(self._directory, name)
        if stored is not None:
            return stored
        return _store(self._directory, name, make())


def _issuing() -> ModuleType:
    """Import the slow part, which a second start does not need."""
    return import_module("kubelocal.apiserver.access.issuing")


def _stored(directory: Path, name: str) -> Pair | None:
    try:
        return Pair(
            (directory / f"{name}.crt").read_bytes(), (directory / f"{name}.key").read_bytes()
        )
    except FileNotFoundError:
        return None


def _store(directory: Path, name: str, pair: Pair) -> Pair:
    write_private(directory / f"{name}.key", pair.key)
    (directory / f"{name}.crt").write_bytes(pair.certificate)
    return pair


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read; whole, or not at all.

    One with this content is left as it is: a full disk must not keep a cluster from starting again.
    """
    with suppress(OSError):
        if path.read_bytes() == content and path.stat().st_mode & 0o777 == 0o600:
            return
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


def server_context(
    authority: Authority, directory: Path, addresses: tuple[str, ...]
) -> ssl.SSLContext:
    """Return the TLS settings of the server: its certificate, and its client CA."""
    authority.server(addresses)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / f"{_SERVER}.crt", directory / f"{_SERVER}.key")
    context.load_verify_locations(cadata=authority.certificate.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    context.num_tickets = 0  # no client of an API server resumes sessions
    return context


_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: {url}
    certificate-authority-data: {authority}
users:
- name: {name}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: local
  context:
    cluster: local
    user: {name}
current-context: local
"""


def kubeconfig(authority: Authority, url: str, user: Pair, *, name: str) -> str:
    """Return a kubeconfig with everything inside."""

    def text(content: bytes) -> str:
        return b64encode(content).decode()

    return _KUBECONFIG.format(
        url=url,
        name=name,
        authority=text(authority.certificate),
        certificate=text(user.certificate),
        key=text(user.key),
    )
