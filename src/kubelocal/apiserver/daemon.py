"""Everything an API server needs to run on this machine: files, TLS, sockets."""

from __future__ import annotations

import asyncio
import secrets
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from kubelocal.apiserver.access.certificates import (
    Authority,
    kubeconfig,
    server_context,
    write_private,
)
from kubelocal.apiserver.access.tokens import Authenticator
from kubelocal.apiserver.calls import CallWebhook, Outcome
from kubelocal.apiserver.http.listener import HttpServer
from kubelocal.apiserver.lifecycle.own_service import Place, offer, own_address
from kubelocal.apiserver.server import ApiServer, Settings
from kubelocal.apiserver.storage.entries import FieldIndex
from kubelocal.apiserver.storage.spare import open_state

__all__ = ["Daemon"]

_CALLER = "kubelocal.apiserver.admission.webhook_client"


def _now() -> datetime:
    return datetime.now(UTC)


class _Webhooks:
    """Calls webhooks; the HTTP client is loaded with the first call: most clusters have none."""

    def __init__(self) -> None:
        self._caller: Any = None

    async def __call__(self, effect: CallWebhook) -> Outcome:
        """Post a review and return the response, or why there is none."""
        if self._caller is None:
            self._made(await asyncio.to_thread(import_module, _CALLER))
        outcome: Outcome = await self._caller(effect)
        return outcome

    def _made(self, module: ModuleType) -> None:
        if self._caller is None:  # two calls may have been first
            self._caller = module.WebhookCaller()

    async def close(self) -> None:
        """Close the connections."""
        if self._caller is not None:
            await self._caller.close()


class Daemon:
    """An API server on a data directory. `start`, then `stop`."""

    def __init__(
        self,
        data: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: Settings | None = None,
    ) -> None:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._host = host
        self._port = port
        self._pki = data / "pki"
        self.authority = Authority(self._pki)
        self._journal, store = open_state(data / "state.db", FieldIndex().read)
        root_ca = self.authority.certificate.decode()
        chosen = replace(settings or Settings(), root_ca=root_ca)
        self.server = ApiServer(store, clock=_now, settings=chosen, token_key=self._token_key())
        self.webhooks = _Webhooks()
        self._copying: asyncio.Task[None] | None = None
        self.http = HttpServer(
            self.server, Authenticator(self.server.tokens), perform=self.webhooks
        )

    def _token_key(self) -> bytes:
        path = self._pki / "tokens.key"
        if not path.exists():
            write_private(path, secrets.token_bytes(32))
        return path.read_bytes()

    async def start(self) -> str:
        """Serve; return the URL."""
        cluster_ip = own_address(self.server.settings.service_network)
        context = server_context(self.authority, self._pki, (self._host, cluster_ip))
        port = await self.http.start(self._host, self._port, context)
        offer(self.server.core, Place(self._host, port, cluster_ip))
        self.url = f"https://{self._host}:{port}"
        self._copying = asyncio.create_task(self._journal.run())
        return self.url

    def kubeconfig(self) -> str:
        """Return the kubeconfig of the admin."""
        admin = self.authority.client("kubernetes-admin", ("system:masters",), file="admin")
        return kubeconfig(self.authority, self.url, admin, name="admin")

    def account_kubeconfig(self, namespace: str, name: str) -> str:
        """Return the kubeconfig of a service account for a process outside of pods."""
        group = "system:serviceaccounts"
        user = f"system:serviceaccount:{namespace}:{name}"
        groups = (group, f"{group}:{namespace}")
        pair = self.authority.client(user, groups, file=f"account-{namespace}-{name}")
        return kubeconfig(self.authority, self.url, pair, name=name)

    async def stop(self) -> None:
        """Stop serving and checkpoint everything into the files."""
        if self._copying is not None:
            self._copying.cancel()
        await self.http.stop()
        await self.webhooks.close()
        self._journal.close()
