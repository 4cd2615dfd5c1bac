"""Metrics over TLS, only for readers that the API server authorizes.

A reader sends a bearer token, for instance that of its service account. A TokenReview says which
user it is, a SubjectAccessReview whether that user may `get` the path. Results are cached, so that
a scraper costs at most two requests a minute. If the API server does not respond, that is not a
refusal: readers are asked to retry, and those who were authorized a moment ago still are.

The process makes its own certificate, and renews it in time: readers cannot verify it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from kubecontroller.client.api import Client
from kubecontroller.client.errors import KubeError
from kubecontroller.client.meta import Manifest
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.certificates import Material, next_check, renewed
from kubecontroller.runtime.logs import fields
from kubecontroller.runtime.tlscontext import load_pair

__all__ = ["AccessReviews", "Refusal", "SecuredMetrics"]

_log = logging.getLogger(__name__)

_TOKENS: Final[Kind[Manifest]] = Kind(
    "authentication.k8s.io", "v1", "TokenReview", "tokenreviews", False, dict
)
_ACCESS: Final[Kind[Manifest]] = Kind(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False, dict
)
_KEPT_SECONDS: Final = 60.0
_REFUSED_SECONDS: Final = 10.0  # a new permission takes effect soon
_MOST_KEPT: Final = 1000
_NAMES: Final = ("metrics",)  # of the certificate; a host name may be one that X.509 refuses
_RETRY_SECONDS: Final = 3600.0
_DEADLINE_SECONDS: Final = 5.0  # a scraper waits ten
_AT_ONCE: Final = 10  # concurrent reviews: many readers must not become as many requests


class Refusal(Struct, frozen=True):
    """The HTTP status for a reader that is refused, and why."""

    status: int
    reason: str


class _Kept(Struct, frozen=True):
    refusal: Refusal | None
    until: float


class AccessReviews:
    """Decides who may read a path. `client` needs the permission to create both reviews."""

    def __init__(self, client: Client, *, clock: Callable[[], float] | None = None) -> None:
        self._client = client
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._kept: dict[tuple[bytes, str], _Kept] = {}
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def refusal(self, authorization: str | None, path: str) -> Refusal | None:
        """Return why a reader with this Authorization header may not read a path, or nothing."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return Refusal(401, "a bearer token is needed, for instance that of a service account")
        key = (hashlib.sha256(token.strip().encode()).digest(), path)
        kept = self._kept.get(key)
        if kept is not None and self._clock() < kept.until:
            return kept.refusal
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS), self._turn:
                found = await self._ask(token.strip(), path)
        except (KubeError, TimeoutError) as error:
            _log.warning("readers cannot be checked", extra=fields(path=path, error=str(error)))
            return Refusal(503, "the API server could not be asked who you are; try again")
        self._keep(key, found)
        return found

    async def _ask(self, token: str, path: str) -> Refusal | None:
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
        review = await self._client.create(_TOKENS, {**asked, "spec": {"token": token}})
        status: dict[str, Any] = review.get("status") or {}
        if status.get("authenticated") is not True:
            return Refusal(401, "the API server does not know this token, or it has expired")
        user: dict[str, Any] = status.get("user") or {}
        spec = {
            "user": user.get("username", ""),
            "groups": user.get("groups") or [],
            "uid": user.get("uid", ""),
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        wanted = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        access = await self._client.create(_ACCESS, {**wanted, "spec": spec})
        if (access.get("status") or {}).get("allowed") is True:
            return None
        name = user.get("username", "")
        return Refusal(
            403,
            f"{name} may not get {path}: bind it to a ClusterRole with verbs: [get] and "
            f"nonResourceURLs: [{path}]",
        )

    def _keep(self, key: tuple[bytes, str], refusal: Refusal | None) -> None:
        now = self._clock()
        if len(self._kept) >= _MOST_KEPT:
            self._kept = {k: kept for k, kept in self._kept.items() if kept.until > now}
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        seconds = _KEPT_SECONDS if refusal is None else _REFUSED_SECONDS
        self._kept[key] = _Kept(refusal, now + seconds)


class SecuredMetrics:
    """The port, the certificate and the authorized readers of secured metrics.

    Port 0 takes any free one. `client` needs permission to create TokenReviews and
    SubjectAccessReviews; it must not be fenced, since replicas that do not lead are scraped too.
    """

    def __init__(self, client: Client, *, port: int = 8443) -> None:
        self.port = port
        self.reviews = AccessReviews(client)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._material: Material | None = None

    def renew(self) -> float:
        """Put a valid certificate into `context`; return after how many seconds to check again."""
        now = datetime.now(UTC)
        due = renewed(self._material, names=_NAMES, now=now)
        if due is not None:
            self._material, _ = due
            load_pair(self.context, self._material.certificate, self._material.key)
        assert self._material is not None
        return next_check(self._material, now=now).total_seconds()

    async def keep_valid(self) -> None:
        """Renew the certificate in time, until cancelled."""
        wait = self.renew()
        while True:
            await asyncio.sleep(wait)
            try:
                wait = self.renew()
            except Exception:  # the current certificate is valid for months
                _log.exception("the certificate of the metrics cannot be renewed, will retry")
                wait = _RETRY_SECONDS
