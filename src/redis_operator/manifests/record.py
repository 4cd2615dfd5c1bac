"""All passwords of a database as one text, kept in two Secrets. Pure.

The record is authoritative: the other keys of the users' Secret are made from it. It has a digest
of itself, so that a record that was edited by hand is detected.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .facts import Passwords

__all__ = ["RECORD_KEY", "read_record", "record"]

RECORD_KEY = "record.json"
_UNSEALED = "backup"
"""A password that older operators do not know: they read the record without it, so that a downgrade
works, and leave it out of what they write. One that is lost is replaced."""
_NEWER = ("sentinel", "exporter_earlier")  # fields that the first records did not have


class _Sealed(Struct, frozen=True):
    passwords: Passwords
    digest: str


def record(passwords: Passwords) -> str:
    """Return passwords as the text of a record."""
    kept = replace(passwords, wished="")  # that is read again from its own Secret
    found = msgspec.to_builtins(_Sealed(kept, _digest(kept)))
    if not kept.backup:
        del found["passwords"][_UNSEALED]
    return msgspec.json.encode(found).decode()


def read_record(data: Mapping[str, bytes] | None) -> Passwords | None:
    """Return the passwords of a Secret, or None when there are none or they were edited."""
    try:
        sealed = msgspec.json.decode((data or {}).get(RECORD_KEY, b""), type=_Sealed)
    except msgspec.DecodeError:
        return None
    if not hmac.compare_digest(sealed.digest, _digest(sealed.passwords)):
        return None
    return sealed.passwords


def _digest(passwords: Passwords) -> str:
    """Hash the passwords as their JSON; newer fields are left out while they are empty.

    So records that were written before these fields existed are still valid.
    """
    fields = [
        msgspec.json.encode(name) + b":" + msgspec.json.encode(value, order="deterministic")
        for name in passwords.__struct_fields__
        if name != _UNSEALED and ((value := getattr(passwords, name)) or name not in _NEWER)
    ]
    return hashlib.sha256(b"{" + b",".join(fields) + b"}").hexdigest()
