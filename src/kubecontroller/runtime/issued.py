"""A webhook certificate that another system issues and renews, such as cert-manager: only read.

Guarantees: nothing is written. A certificate that is renewed in the Secret is served without
closing a connection or restarting. A certificate that cannot be served (no key, the key of another
certificate, other names) is logged with its reason, and the previous one is still served. The
issuer also configures the authority that the API server trusts.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from contextlib import suppress

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from kubecontroller.client.api import Client
from kubecontroller.client.errors import KubeError, NotFound
from kubecontroller.client.meta import Key
from kubecontroller.runtime.certificates import UNREADABLE, covers
from kubecontroller.runtime.certkeeper import SECRETS
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.logs import fields
from kubecontroller.runtime.tlscontext import decoded, load_pair

__all__ = ["IssuedCertificate"]

_log = logging.getLogger(__name__)
_CHECK_SECONDS = 600.0
_UNWATCHED_SECONDS = 60.0
_RETRY_SECONDS = 5.0


class IssuedCertificate:
    """A certificate read from a Secret. `context` is the TLS context, changed in place."""

    def __init__(self, client: Client, *, secret: Key, names: Sequence[str]) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._client = client
        self._secret = secret
        self._names = tuple(names)
        self._loaded: tuple[bytes, bytes] | None = None
        self._problem = "it has not been read yet"

    def limitation(self) -> str | None:
        """Return why webhooks cannot be served yet, or nothing; once ready, it stays ready."""
        if self._loaded is not None:
            return None
        return f"no certificate is loaded yet: Secret {'/'.join(self._secret)}: {self._problem}"

    async def begin(self) -> None:
        """Read once if possible; if not, `run` retries and the start continues."""
        await self._refreshed()

    async def run(self) -> None:
        """Read again for ever: when the Secret changes, and at intervals."""
        namespace, name = self._secret
        changed = asyncio.Event()
        informer = Informer(
            self._client, SECRETS, namespace=namespace, fields=f"metadata.name={name}"
        )
        informer.subscribe(lambda _: changed.set())
        watch = asyncio.create_task(informer.run())
        try:
            while not watch.done():
                changed.clear()
                failures = informer.failures
                wait = _CHECK_SECONDS if await self._refreshed() else _RETRY_SECONDS
                if not informer.has_synced or informer.failures != failures:
                    wait = min(wait, _UNWATCHED_SECONDS)
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await changed.wait()
            watch.result()
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _refreshed(self) -> bool:
        """Serve the certificate of the Secret; return whether that was possible."""
        try:
            pair = await self._read()
            if pair != self._loaded:
                load_pair(self.context, *pair)
                self._loaded = pair
                _log.info("certificate loaded", extra=fields(secret="/".join(self._secret)))
        except (KubeError, OSError, *UNREADABLE) as error:
            said = "it does not exist yet" if isinstance(error, NotFound) else str(error)
            if said != self._problem:
                place = "/".join(self._secret)
                _log.warning("certificate not read", extra=fields(secret=place, error=said))
            self._problem = said
            return False
        self._problem = ""
        return True

    async def _read(self) -> tuple[bytes, bytes]:
        """Return the certificate (with those of its authorities) and key; check them first."""
        data = decoded(await self._client.get(SECRETS, self._secret))
        missing = [name for name in ("tls.crt", "tls.key") if not data.get(name)]
        if missing:
            raise ValueError(f"it has no {' and no '.join(missing)}")
        certificate, key = data["tls.crt"], data["tls.key"]
        leaf = x509.load_pem_x509_certificate(certificate)
        private = serialization.load_pem_private_key(key, password=None)
        if private.public_key() != leaf.public_key():
            raise ValueError("tls.key is not the key of tls.crt")
        if not covers(leaf, self._names):
            raise ValueError(f"tls.crt is not for {', '.join(self._names)}")
        return certificate, key
