"""Loads a certificate and its key from a Secret into a live TLS context."""

from __future__ import annotations

import os
import ssl
import tempfile
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

__all__ = ["decoded", "load_pair"]


def decoded(secret: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the data of a Secret; values that are not base64 are left out."""
    found = {}
    for name, text in (secret.get("data") or {}).items():
        try:
            found[name] = b64decode(text, validate=True)
        except ValueError:
            continue  # treat it as missing
    return found


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Replace the certificate of a live context.

    The context only reads files. Where the system can, that is a file in memory: a pod may have no
    writable folder. Otherwise the key is on disk for that moment, readable only by this user.
    """
    with _file() as file:
        file.write(certificate.rstrip() + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


@contextmanager
def _file() -> Iterator[IO[bytes]]:
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile(prefix="tls-", suffix=".pem") as file:
            yield cast("IO[bytes]", file)
        return
    descriptor = os.memfd_create("tls")
    with Path(f"/proc/self/fd/{descriptor}").open("wb") as file:
        try:
            yield file
        finally:
            os.close(descriptor)
