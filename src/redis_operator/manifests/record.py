"""All passwords of a database as one text, kept in two Secrets. Pure.

The record is the truth: the other keys of the users' Secret are made from it. It carries a digest
of itself, so that one that was edited by hand is told from one that was written by an operator.
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
"""A password that operators before it do not know: they read the record without it, so that one can
be put back, and leave it out of what they write. One that is lost is replaced."""
_NEWER = ("sentinel", "exporter_earlier")  # fields that the first records did not have


class _Sealed(Struct, frozen=True):
    passwords: Passwords
    digest: str


def record(passwords: Passwords) -> str:
    """Return the text that passwords are kept as."""
    kept = replace(passwords, wished="")  # what is wished is read again from where it is written
    found = msgspec.to_builtins(_Sealed(kept, _digest(kept)))
    if not kept.backup:
        del found["passwords"][_UNSEALED]
    return msgspec.json.encode(found).decode()


def read_record(data: Mapping[str, bytes] | None) -> Passwords | None:
    """Return the passwords that a Secret keeps, or None when there are none or they were edited."""
    try:
        sealed = msgspec.json.decode((data or {}).get(RECORD_KEY, b""), type=_Sealed)
    except msgspec.DecodeError:
        return None
    if not hmac.compare_digest(sealed.digest, _digest(sealed.passwords)):
        return None
    return sealed.passwords


def _digest(passwords: Passwords) -> str:
    """Hash the passwords as their JSON is written; newer fields are left out while they are empty.

    So records that were written before there were such fields are still read.
    """
    fields = [
        msgspec.json.encode(name) + b":" + msgspec.json.encode(value, order="deterministic")
        for name in passwords.__struct_fields__
        if name != _UNSEALED and ((value := getattr(passwords, name)) or name not in _NEWER)
    ]
    return hashlib.sha256(b"{" + b",".join(fields) + b"}").hexdigest()
