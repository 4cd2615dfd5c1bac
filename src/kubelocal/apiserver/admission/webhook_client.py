"""Calls admission webhooks over HTTPS, for the core."""

from __future__ import annotations

import asyncio
import ssl
from functools import lru_cache

import aiohttp
from yarl import URL

from kubelocal.apiserver.calls import CallWebhook, Outcome, WebhookFailed, WebhookReply

__all__ = ["WebhookCaller"]

_UNKNOWN_ISSUER = {18, 19, 20, 21}  # OpenSSL: self-signed, or issued by an unknown authority
_LIMIT = 8 * 1024 * 1024


@lru_cache(maxsize=64)
def _context(bundle: bytes | None) -> ssl.SSLContext:
    if bundle is None:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata=bundle.decode())


class WebhookCaller:
    """Performs `CallWebhook` effects; holds the connections to webhooks."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, effect: CallWebhook) -> Outcome:
        """Post a review and return the response, or why there is none."""
        if self._session is None:
            self._session = aiohttp.ClientSession()
        url = URL(effect.url)
        headers = {"content-type": "application/json", "accept": "application/json"}
        if effect.address:
            headers["host"] = url.authority
            host, _, port = effect.address.rpartition(":")
            url = url.with_host(host).with_port(int(port))
        try:
            async with (
                asyncio.timeout(effect.timeout),
                self._session.post(
                    url,
                    data=effect.body,
                    headers=headers,
                    ssl=_context(effect.ca_bundle),
                    server_hostname=effect.server_name,
                    allow_redirects=False,
                ) as response,
            ):
                return WebhookReply(response.status, await _body(response))
        except TimeoutError:
            return WebhookFailed(f'Post "{effect.url}": context deadline exceeded')
        except aiohttp.ClientConnectorCertificateError as error:
            why = f"tls: failed to verify certificate: x509: {_untrusted(error.certificate_error)}"
            return WebhookFailed(f'Post "{effect.url}": {why}')
        except aiohttp.ClientConnectorError as error:
            why = f"dial tcp {error.host}:{error.port}: connect: {_reason(error)}"
            return WebhookFailed(f'Post "{effect.url}": {why}')
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return WebhookFailed(f'Post "{effect.url}": {error}')

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """Return the whole body; one read gives only what has arrived so far."""
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > _LIMIT:
            raise ValueError(f"the response is longer than {_LIMIT} bytes")
    return b"".join(pieces)


def _untrusted(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _UNKNOWN_ISSUER:
        return "certificate signed by unknown authority"
    return f"certificate is not valid: {error}"


def _reason(error: aiohttp.ClientConnectorError) -> str:
    if isinstance(error.os_error, ConnectionRefusedError):
        return "connection refused"
    return str(error.os_error)
