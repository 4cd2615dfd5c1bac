"""The passwords of a database: read from its Secrets, made once, changed without a gap.

The record in the users' Secret is the truth; a second copy of it is kept in another Secret, and
what was read is remembered. So a Secret that somebody deletes or edits comes back as it was, and a
database that runs is never given passwords that its servers do not know. K-19, IN-28

A change goes in two stages, each written down before anything is done about it: first every server
learns to accept the new password beside the old one, then everybody is given the new one, and only
then servers forget the old one.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from redis_operator.manifests.facts import Former, Passwords, Rotation, Stage
from redis_operator.manifests.record import read_record
from redis_operator.manifests.secrets import PASSWORD_KEY, password_limitation

__all__ = [
    "PasswordError",
    "PasswordMemory",
    "SecretLost",
    "advanced",
    "created",
    "generated",
    "newest",
    "outlived",
    "read_password",
    "wished",
]

_BYTES = 24
_OURS = ("operator", "replication", "exporter", "admin", "sentinel", "backup")
_LATER = ("backup",)  # made when it is first needed
_LATE_SECONDS = 600.0
_FIRST = ("operator", "replication", "exporter")  # users of a Secret that has no record yet


class PasswordError(Exception):
    """A Secret cannot be used; the message names it, its key and what is wrong. IN-09"""

    reason = "AuthSecret"


class SecretLost(PasswordError):  # noqa: N818 - what happened
    """The passwords of a database that runs are in no Secret any more."""

    reason = "SecretLost"


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


def created(default: str, own: Mapping[str, bytes] | None = None, marked: str = "") -> Passwords:
    """Return the first passwords of a database: as a Secret without a record says, else new."""
    found = {user: generated() for user in _OURS if user not in _LATER}
    for user in _FIRST:
        written = (own or {}).get(user)
        if written:
            found[user] = written.decode()
    return msgspec.convert({"default": default, "marked": marked, **found}, Passwords)


def newest(known: Passwords | None, *copies: Mapping[str, bytes] | None) -> Passwords | None:
    """Return the newest of what is remembered and what Secrets keep; a Secret wins a tie."""
    found = [kept for data in copies if (kept := read_record(data)) is not None]
    if known is not None:
        found.append(known)
    return max(found, key=lambda kept: kept.serial, default=None)


def wished(known: Passwords, default: str, marked: str) -> Passwords:
    """Return the passwords with a change begun, if one is asked for and none is in its midst.

    `default` is what the owner's Secret says; `marked` is the value of the annotation that asks for
    new passwords of our own users. A wish that changes before anybody was given the new password
    replaces it; later it waits until the change before it is over.
    """
    rotation = known.rotation
    if rotation is None:
        others = {"default": default} if default != known.default else {}
        if marked and marked != known.marked:
            others |= {user: generated() for user in _OURS if getattr(known, user)}
    elif rotation.stage is Stage.ACCEPT:
        others = {user: word for user, word in rotation.others.items() if user != "default"}
        others |= {"default": default} if default != known.default else {}
    else:
        return replace(known, wished=default)
    if others == (dict(rotation.others) if rotation is not None else {}):
        return replace(known, wished=default)
    return replace(
        known,
        wished=default,
        marked=marked or known.marked,
        serial=known.serial + 1,
        rotation=Rotation(Stage.ACCEPT, others) if others else None,
    )


def advanced(known: Passwords, *, now: float) -> Passwords:
    """Return the passwords one stage further: the new ones in use, then the old ones gone."""
    rotation = known.rotation
    assert rotation is not None
    if rotation.stage is Stage.USE:
        ended = replace(known, rotation=None, serial=known.serial + 1)
        if "exporter" not in rotation.others:
            return ended
        earlier = known.exporter_earlier
        if known.exporter_before:
            earlier = (*earlier, Former(known.exporter_before, int(now)))
        return replace(ended, exporter_before=rotation.others["exporter"], exporter_earlier=earlier)
    old = {user: getattr(known, user) for user in rotation.others}
    changed: Passwords = replace(
        known,
        rotation=Rotation(Stage.USE, old),
        serial=known.serial + 1,
        **rotation.others,
    )
    return changed


def outlived(known: Passwords, oldest_pod: float) -> Passwords:
    """Return the passwords without those of the exporter that no pod can have started with.

    A pod that is created some minutes after a password was replaced is given the next one, also by
    a node that is late to hear of it or whose clock is slow.
    """
    earlier = tuple(f for f in known.exporter_earlier if f.until + _LATE_SECONDS >= oldest_pod)
    if earlier == known.exporter_earlier:
        return known
    return replace(known, exporter_earlier=earlier, serial=known.serial + 1)


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
