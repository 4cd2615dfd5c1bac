"""One TLS context for each server, shared by its connections and renewed when its files change."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from msgspec import Struct

from kubecontroller.client.access import Access, FileOrBytes
from kubecontroller.client.credential import ClientCertificate
from kubecontroller.client.errors import ConfigError

__all__ = ["Trust"]

_LOOK_AFTER: Final = 60.0
_PEM: Final = re.compile(
    "-----BEGIN [A-Z0-9 ]*CERTIFICATE-----.*?-----END [A-Z0-9 ]*CERTIFICATE-----", re.DOTALL
)


class _Material(Struct, frozen=True):
    ca: bytes
    certificate: ClientCertificate | None


class Trust:
    """The trusted CAs and the client certificate of TLS connections.

    Files are checked each minute, and after `recheck` is called because of a failure; a new
    context is made only when their content changed, so that connections stay pooled.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._material: _Material | None = None
        self._context: ssl.SSLContext | None = None
        self._given: ClientCertificate | None = None
        self._look = 0.0

    def recheck(self) -> None:
        """Read the files again at the next request."""
        self._look = 0.0

    def context(self, certificate: ClientCertificate | None, now: float) -> ssl.SSLContext:
        """Return the current context; `certificate` replaces the configured one.

        Errors: `ConfigError` naming the file, when it cannot be read or is not PEM.
        """
        if self._context is not None and now < self._look and certificate == self._given:
            return self._context
        self._look = now + _LOOK_AFTER
        try:
            material = self._read(certificate)
            if self._context is None or material != self._material:
                self._context = self._build(material)
                self._material = material
        except ConfigError:
            # Valid files are being rotated: use their previous content until the next check.
            if self._context is None or certificate != self._given:
                raise
        self._given = certificate
        return self._context

    def _read(self, certificate: ClientCertificate | None) -> _Material:
        access = self._access
        ca = _bytes(access.ca)
        if certificate is None and access.certificate:
            certificate = ClientCertificate(_bytes(access.certificate), _bytes(access.key))
        return _Material(ca, certificate)

    def _build(self, material: _Material) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self._access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif material.ca:
            self._trust(context, material.ca)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        if material.certificate is not None:
            self._show(context, material.certificate)
        return context

    def _trust(self, context: ssl.SSLContext, ca: bytes) -> None:
        try:
            # Bundles have comments in any language between their certificates.
            context.load_verify_locations(cadata="\n".join(_PEM.findall(ca.decode("latin-1"))))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                "the CA is not a PEM certificate",
                file=self._access.ca.file or self._access.source,
                field="" if self._access.ca.file else "certificate-authority-data",
                advice="Put the cluster's CA there, beginning with -----BEGIN CERTIFICATE-----",
            ) from error

    def _show(self, context: ssl.SSLContext, certificate: ClientCertificate) -> None:
        # Python loads certificates from files only: use a private one, deleted before returning.
        where = {
            "file": self._access.certificate.file or self._access.source,
            "field": "" if self._access.certificate.file else "client-certificate-data",
        }
        pair = certificate.certificate.strip() + b"\n" + certificate.key.strip() + b"\n"
        try:
            with NamedTemporaryFile(suffix=".pem") as file:
                file.write(pair)
                file.flush()
                context.load_cert_chain(file.name)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                "the client certificate and its key are not a matching PEM pair",
                advice="Write both again, issued together",
                **where,
            ) from error
        except OSError as error:
            raise ConfigError(
                f"the client certificate cannot be written to a temporary file ({error})",
                advice="Check that the folder TMPDIR (or /tmp) can be written and has space",
                **where,
            ) from error


def _bytes(pem: FileOrBytes) -> bytes:
    if not pem.file:
        return pem.inline
    try:
        return Path(pem.file).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})",
            file=pem.file,
            advice="Check that the file is there and that this user may read it",
        ) from error
