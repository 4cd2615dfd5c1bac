"""Encryption of the objects in a store: authenticated, chunk by chunk, with keys from a Secret.

An object begins with the id of its key and a random salt. The key of the object is derived from
both and from its name (HKDF-SHA256). Then come chunks of 1 MiB, each encrypted with AES-256-GCM;
the nonce is the number of the chunk and whether it is the last one. So a chunk that is changed,
missing, repeated, in another place or in another object does not decrypt, and neither does an
object that was cut off. The manifest is not encrypted and has an HMAC.

A Secret holds keys by their ids, so that older backups stay readable when a new key is current.

Errors: `KeyMissing` names the Secret and the id; `Damaged` names the object.
"""

from __future__ import annotations

import asyncio
import hmac
import os
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from .errors import Damaged, KeyMissing
from .manifest import MANIFEST, Manifest, Sealing

__all__ = ["Keyring", "Seal", "key_id_of"]

_MAGIC = b"RBKP\x01"
_SALT = 16
_CHUNK = 1 << 20
_TAG = 16
_KEY_BYTES = 32
_CURRENT = "current"
_ALGORITHM = "AES-256-GCM"
_NO_MAC, _PUT_MAC = b'"mac": ""', b'"mac": "%s"'


class Keyring:
    """The keys of one Secret, mounted as files. Nothing of them is ever part of a message."""

    def __init__(self, secret: str, folder: Path) -> None:
        self.secret = secret
        self._folder = folder

    def current(self, wanted: str) -> str:
        """Return the id of the key that new backups are encrypted with."""
        if wanted:
            return wanted
        named = self._read(_CURRENT)
        if named is not None:
            return named.decode(errors="replace").strip()
        known = self._ids()
        if len(known) == 1:
            return known[0]
        if not known:
            raise KeyMissing(
                f"Secret {self.secret} (spec.encryption.secretName) does not exist or has no key"
            )
        raise KeyMissing(
            f"Secret {self.secret} has the keys {', '.join(known)}; name the one to encrypt with "
            f"in spec.encryption.keyId, or in the entry {_CURRENT} of the Secret"
        )

    def key(self, name: str) -> bytes:
        """Return the key of an id."""
        raw = self._read(name) if name in self._ids() else None
        if raw is None:
            raise KeyMissing(
                f"Secret {self.secret} (spec.encryption.secretName) has no key {name}; it has "
                f"{', '.join(self._ids()) or 'none, or does not exist'}"
            )
        try:
            found = b64decode(raw.strip(), validate=True)
        except (Base64Error, ValueError):
            found = b""
        if len(found) != _KEY_BYTES:
            raise KeyMissing(
                f"key {name} of Secret {self.secret} is not {_KEY_BYTES} bytes in base64, as "
                "`openssl rand -base64 32` makes them"
            )
        return found

    def _ids(self) -> list[str]:
        try:
            found = sorted(entry.name for entry in self._folder.iterdir())
        except OSError:
            return []
        return [name for name in found if name != _CURRENT and not name.startswith("..")]

    def _read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except OSError:
            return None


class _Cipher:
    """The chunks of one object."""

    def __init__(self, name: str, header: bytes, key: bytes) -> None:
        self._name, self._header = name, header
        self._cipher = AESGCM(_derived(key, header[-_SALT:], name))

    async def sealed(self, number: int, chunk: bytes, *, last: bool) -> bytes:
        nonce = _nonce(number, last=last)
        return await asyncio.to_thread(self._cipher.encrypt, nonce, chunk, self._header)

    async def opened(self, number: int, chunk: bytes, *, last: bool) -> bytes:
        nonce = _nonce(number, last=last)
        try:
            return await asyncio.to_thread(self._cipher.decrypt, nonce, chunk, self._header)
        except InvalidTag as error:
            raise Damaged(
                f"{self._name} is damaged: chunk {number} is not what was encrypted there, or the "
                "object ends too early"
            ) from error


class Seal:
    """Encrypts with the current key, and decrypts with the key that was used."""

    def __init__(self, keys: Keyring, wanted: str) -> None:
        self._keys = keys
        self._wanted = wanted

    async def sealed(self, name: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Return an object as the store is given it."""
        key_id = self._keys.current(self._wanted)
        header = _MAGIC + bytes([len(key_id.encode())]) + key_id.encode() + os.urandom(_SALT)
        cipher = _Cipher(name, header, self._keys.key(key_id))
        yield header
        number, held = 0, bytearray()
        async for piece in pieces:
            held += piece
            while len(held) > _CHUNK:
                chunk = bytes(held[:_CHUNK])
                del held[:_CHUNK]
                yield await cipher.sealed(number, chunk, last=False)
                number += 1
        yield await cipher.sealed(number, bytes(held), last=True)

    async def opened(self, name: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Return what an object holds. Nothing that was changed is ever returned."""
        held, number = bytearray(), 0
        cipher: _Cipher | None = None
        async for piece in pieces:
            held += piece
            if cipher is None:
                header = _header(name, bytes(held[:512]))
                if not header:
                    continue
                del held[: len(header)]
                key = self._keys.key(header[len(_MAGIC) + 1 : -_SALT].decode(errors="replace"))
                cipher = _Cipher(name, header, key)
            while len(held) > _CHUNK + _TAG:
                chunk = bytes(held[: _CHUNK + _TAG])
                del held[: _CHUNK + _TAG]
                yield await cipher.opened(number, chunk, last=False)
                number += 1
        if cipher is None:
            raise Damaged(f"{name} is damaged: it ends before its first chunk")
        yield await cipher.opened(number, bytes(held), last=True)

    def signed(self, manifest: bytes) -> bytes:
        """Return a manifest, which names its key, with its HMAC."""
        assert manifest.count(_NO_MAC) == 1
        mac = self._mac(manifest, self._keys.current(self._wanted))
        return manifest.replace(_NO_MAC, _PUT_MAC % mac.encode(), 1)

    def sealing(self) -> Sealing:
        """Return what a manifest says of the encryption. Raises `KeyMissing` without a key."""
        key_id = self._keys.current(self._wanted)
        self._keys.key(key_id)
        return Sealing(key_id=key_id, algorithm=_ALGORITHM)

    def check(self, raw: bytes, manifest: Manifest) -> None:
        """Check the signature of a manifest. Raises `Damaged`."""
        found = manifest.encryption
        if found is None:
            raise Damaged(
                f"{MANIFEST} is of a backup without encryption, and spec.encryption asks for one"
            )
        bare = raw.replace(_PUT_MAC % found.mac.encode(), _NO_MAC, 1)
        wanted = self._mac(bare, found.key_id)
        if not hmac.compare_digest(wanted.encode(), found.mac.encode()):
            raise Damaged(
                f"{MANIFEST} was changed, or key {found.key_id} of Secret {self._keys.secret} is "
                "not the one that it was written with"
            )

    def _mac(self, manifest: bytes, key_id: str) -> str:
        key = _derived(self._keys.key(key_id), b"", MANIFEST)
        return hmac.new(key, manifest, sha256).hexdigest()


def key_id_of(beginning: bytes) -> str | None:
    """Return the id of the key of an encrypted object, from its header; None: it is not
    encrypted."""
    if not beginning.startswith(_MAGIC) or len(beginning) <= len(_MAGIC):
        return None
    size = beginning[len(_MAGIC)]
    return beginning[len(_MAGIC) + 1 :][:size].decode(errors="replace")


def _header(name: str, beginning: bytes) -> bytes:
    """Return the header of an object; empty: more of it is needed."""
    if not beginning.startswith(_MAGIC[: len(beginning)]):
        raise Damaged(f"{name} is damaged: it is not encrypted")
    if len(beginning) <= len(_MAGIC):
        return b""
    size = len(_MAGIC) + 1 + beginning[len(_MAGIC)] + _SALT
    return beginning[:size] if len(beginning) >= size else b""


def _derived(key: bytes, salt: bytes, name: str) -> bytes:
    info = b"redis-operator backup\0" + name.encode()
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=salt, info=info).derive(key)


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])
