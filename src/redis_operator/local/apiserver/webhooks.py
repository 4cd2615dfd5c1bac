"""Calls admission webhooks over HTTPS, as the core asks for it."""

from __future__ import annotations

import asyncio
import ssl
from functools import lru_cache

import aiohttp

from .calls import CallWebhook, Outcome, WebhookFailed, WebhookReply

__all__ = ["WebhookCaller"]

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
        """Post a review and return the answer, or why there is none."""
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with asyncio.timeout(effect.timeout):
                async with self._session.post(
                    effect.url,
                    data=effect.body,
                    headers={"content-type": "application/json", "accept": "application/json"},
                    ssl=_context(effect.ca_bundle),
                    server_hostname=effect.server_name,
                ) as response:
                    return WebhookReply(response.status, await response.content.read(_LIMIT))
        except TimeoutError:
            return WebhookFailed(f'Post "{effect.url}": context deadline exceeded')
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return WebhookFailed(f'Post "{effect.url}": {error}')

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
