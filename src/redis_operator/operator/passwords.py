"""The passwords of a database: read from its Secrets, generated once, rotated without a gap.

The record in the users' Secret is authoritative; a second copy of it is kept in another Secret, and
what was read is remembered. So a Secret that is deleted or edited is restored, and a running
database never gets passwords that its servers do not accept. K-19, IN-28

A rotation has two stages, each recorded before anything is done about it: first every server
accepts the new password in addition to the old one, then all users get the new one, and only then
servers drop the old one.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from redis_operator.manifests.facts import Former, Passwords, Rotation, RotationStage
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
_LATER = ("backup",)  # generated when it is first needed
_LATE_SECONDS = 600.0
_FIRST = ("operator", "replication", "exporter")  # users of a Secret that has no record yet


class PasswordError(Exception):
    """A Secret cannot be used; the message names it, its key and what is wrong. IN-09"""

    reason = "AuthSecret"


class SecretLost(PasswordError):  # noqa: N818 - what happened
    """The passwords of a running database are not in any Secret any more."""

    reason = "SecretLost"


def generated() -> str:
    """Return a new password: long, and safe in every file and URL."""
    return secrets.token_urlsafe(_BYTES)


def read_password(data: Mapping[str, bytes] | None, *, secret: str) -> str:
    """Return the default user's password from a Secret's data, or say what is wrong with it."""
    raw = (data or {}).get(PASSWORD_KEY)
    limitation = password_limitation(raw)
    if raw is None or limitation is not None:
        raise PasswordError(f"Secret {secret} {limitation}")
    return raw.decode()


def created(default: str, own: Mapping[str, bytes] | None = None, marked: str = "") -> Passwords:
    """Return the first passwords of a database: from a Secret without a record, else new ones."""
    found = {user: generated() for user in _OURS if user not in _LATER}
    for user in _FIRST:
        written = (own or {}).get(user)
        if written:
            found[user] = written.decode()
    return msgspec.convert({"default": default, "marked": marked, **found}, Passwords)


def newest(known: Passwords | None, *copies: Mapping[str, bytes] | None) -> Passwords | None:
    """Return the newest of the remembered and the stored passwords; a Secret wins a tie."""
    found = [kept for data in copies if (kept := read_record(data)) is not None]
    if known is not None:
        found.append(known)
    return max(found, key=lambda kept: kept.serial, default=None)


def wished(known: Passwords, default: str, marked: str) -> Passwords:
    """Return the passwords with a rotation begun, if one is wanted and none is in progress.

    `default` is the password in the user's Secret; `marked` is the value of the annotation that
    asks for new passwords of the operator's own users. A `default` that changes before any user got
    the new password replaces it; later, and always if `marked` changes, the request waits until the
    rotation before it is over.
    """
    rotation = known.rotation
    if rotation is None:
        others = {"default": default} if default != known.default else {}
        if marked and marked != known.marked:
            others |= {user: generated() for user in _OURS if getattr(known, user)}
    elif rotation.stage is RotationStage.ACCEPT:
        others = {user: word for user, word in rotation.others.items() if user != "default"}
        others |= {"default": default} if default != known.default else {}
    else:
        return replace(known, wished=default)
    if others == (dict(rotation.others) if rotation is not None else {}):
        return replace(known, wished=default)
    return replace(
        known,
        wished=default,
        marked=(marked if rotation is None else "") or known.marked,
        serial=known.serial + 1,
        rotation=Rotation(RotationStage.ACCEPT, others) if others else None,
    )


def advanced(known: Passwords, *, now: float) -> Passwords:
    """Return the passwords one stage further: the new ones in use, then the old ones dropped."""
    rotation = known.rotation
    assert rotation is not None
    if rotation.stage is RotationStage.USE:
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
        rotation=Rotation(RotationStage.USE, old),
        serial=known.serial + 1,
        **rotation.others,
    )
    return changed


def outlived(known: Passwords, oldest_pod: float) -> Passwords:
    """Return the passwords without those of the exporter that no pod can have started with.

    A pod that is created some minutes after a password was replaced gets the next one, also on a
    node that receives it late or whose clock is slow.
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
