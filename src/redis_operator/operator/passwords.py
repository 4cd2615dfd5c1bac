"""The passwords of a database: read from its Secrets, made once when there are none.

The users' Secret is ours; the default user's may be the owner's own. What was read is remembered,
so that a Secret deleted by hand comes back as it was and no server is locked out. K-19
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from redis_operator.manifests.facts import Passwords
from redis_operator.manifests.secrets import PASSWORD_KEY, password_limitation

__all__ = ["PasswordError", "PasswordMemory", "complete", "generated", "read_password"]

_BYTES = 24
_KEYS = ("operator", "replication", "exporter")


class PasswordError(Exception):
    """A Secret cannot be used; the message names it, its key and what is wrong. IN-09"""


def generated() -> str:
    """Return a new password: long, and safe in every file and URL."""
    return secrets.token_urlsafe(_BYTES)


def read_password(data: Mapping[str, bytes] | None, *, secret: str) -> str:
    """Return the default user's password out of a Secret's data, or say what is wrong with it."""
    raw = (data or {}).get(PASSWORD_KEY)
    limitation = password_limitation(raw)
    if raw is None or limitation is not None:
        raise PasswordError(f"Secret {secret} {limitation}")
    return raw.decode()


def complete(default: str, own: Mapping[str, bytes] | None, known: Passwords | None) -> Passwords:
    """Return all passwords: as the users' Secret says, else as remembered, else new."""
    found: dict[str, str] = {}
    for user in _KEYS:
        written = (own or {}).get(user)
        if written is not None:
            found[user] = written.decode()
        elif known is not None:
            found[user] = getattr(known, user)
        else:
            found[user] = generated()
    return Passwords(default=default, **found)


class PasswordMemory:
    """What was last read, by the uid of the database."""

    def __init__(self) -> None:
        self._known: dict[str, Passwords] = {}

    def get(self, uid: str) -> Passwords | None:
        """Return what is remembered of a database."""
        return self._known.get(uid)

    def keep(self, uid: str, passwords: Passwords) -> None:
        """Remember the passwords of a database."""
        self._known[uid] = passwords

    def forget(self, uid: str) -> None:
        """Forget a database that is gone."""
        self._known.pop(uid, None)
