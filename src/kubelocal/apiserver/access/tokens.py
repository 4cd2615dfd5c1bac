"""Tokens of service accounts: signed claims about their bearer, bound to objects.

Also the authentication of requests: by client certificate, by bearer token, or anonymous.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from kubelocal.apiserver.calls import User
from kubelocal.apiserver.core import Core
from kubelocal.apiserver.errors import unauthorized
from kubelocal.apiserver.objects.metadata import new_uid

__all__ = ["ANONYMOUS", "AUDIENCE", "Authenticator", "Tokens"]

AUDIENCE = "https://kubernetes.default.svc.cluster.local"
_HEADER = {"alg": "HS256", "typ": "JWT"}


def _pack(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _unpack(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Tokens:
    """Signs and checks tokens with one secret key."""

    def __init__(self, core: Core, key: bytes, clock: Callable[[], datetime]) -> None:
        self._core = core
        self._key = key
        self._clock = clock

    def issue(
        self,
        account: dict[str, Any],
        *,
        audiences: list[str],
        seconds: int,
        bound: dict[str, Any] | None,
    ) -> tuple[str, datetime]:
        """Return a token for a service account and when it expires."""
        now = int(self._clock().timestamp())
        metadata = account["metadata"]
        inside: dict[str, Any] = {
            "namespace": metadata["namespace"],
            "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
        }
        if bound:
            kind = bound["kind"].lower()
            inside[kind] = {"name": bound["name"], "uid": bound.get("uid", "")}
        claims = {
            "aud": audiences or [AUDIENCE],
            "exp": now + seconds,
            "iat": now,
            "iss": AUDIENCE,
            "jti": new_uid(self._core.bits),
            "kubernetes.io": inside,
            "nbf": now,
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        text = f"{_pack(msgspec.json.encode(_HEADER))}.{_pack(msgspec.json.encode(claims))}"
        return f"{text}.{_pack(self._sign(text))}", datetime.fromtimestamp(
            now + seconds, self._clock().tzinfo
        )

    def identify(self, token: str, audiences: list[str] | None = None) -> User | None:
        """Return the user of a token, if it is valid now."""
        claims = self._claims(token)
        if claims is None or not set(claims["aud"]) & set(audiences or [AUDIENCE]):
            return None
        inside = claims["kubernetes.io"]
        namespace, account = inside["namespace"], inside["serviceaccount"]
        if not self._exists("serviceaccounts", namespace, account):
            return None
        extra: list[tuple[str, tuple[str, ...]]] = [
            ("authentication.kubernetes.io/credential-id", (f"JTI={claims['jti']}",))
        ]
        for kind in ("pod", "secret"):
            bound = inside.get(kind)
            if bound is None:
                continue
            if not self._exists(f"{kind}s", namespace, bound):
                return None
            if kind == "pod":
                extra.append(("authentication.kubernetes.io/pod-name", (bound["name"],)))
                extra.append(("authentication.kubernetes.io/pod-uid", (bound["uid"],)))
        return User(
            name=claims["sub"],
            groups=(
                "system:serviceaccounts",
                f"system:serviceaccounts:{namespace}",
                "system:authenticated",
            ),
            uid=account["uid"],
            extra=tuple(extra),
        )

    def _claims(self, token: str) -> dict[str, Any] | None:
        text, _, signature = token.rpartition(".")
        try:
            if not hmac.compare_digest(_unpack(signature), self._sign(text)):
                return None
            claims: dict[str, Any] = msgspec.json.decode(_unpack(text.partition(".")[2]))
        except ValueError:
            return None
        return claims if claims["exp"] > self._clock().timestamp() else None

    def _exists(self, collection: str, namespace: str, bound: dict[str, Any]) -> bool:
        entry = self._core.entry(collection, namespace, bound["name"])
        return entry is not None and bound.get("uid", entry.uid) in {entry.uid, ""}

    def _sign(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode(), hashlib.sha256).digest()


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class Authenticator:
    """Turns credentials into users."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def identify(self, headers: Mapping[str, str], certificate: Mapping[str, Any] | None) -> User:
        """Return the user; an invalid credential is refused, without one it is anonymous."""
        if certificate:
            return _subject(certificate)
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            return ANONYMOUS
        user = self._tokens.identify(token.strip())
        if user is None:
            raise unauthorized()
        return user


def _subject(certificate: Mapping[str, Any]) -> User:
    name, groups = "", []
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return User(name, (*groups, "system:authenticated"))
