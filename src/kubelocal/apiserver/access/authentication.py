"""Who is asking: by client certificate, by bearer token, or anonymous."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubelocal.apiserver.access.tokens import Tokens
from kubelocal.apiserver.calls import User
from kubelocal.apiserver.errors import unauthorized

__all__ = ["ANONYMOUS", "Authenticator"]

ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class Authenticator:
    """Turns credentials into users."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def identify(self, headers: Mapping[str, str], certificate: Mapping[str, Any] | None) -> User:
        """Return who asks; a credential that is no good is refused, none at all is anonymous."""
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
