"""A certificate and its key from a Secret into a TLS context that is being served with."""

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
    """Return the data of a Secret; what is not base64 is left out."""
    found = {}
    for name, text in (secret.get("data") or {}).items():
        try:
            found[name] = b64decode(text, validate=True)
        except ValueError:
            continue  # as good as missing
    return found


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Swap the certificate of a live context.

    It reads files only. Where the system can, that is one in memory: a pod may have no folder that
    it can write to. Else the key is on disk for that moment, for us alone.
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
