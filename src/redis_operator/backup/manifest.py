"""The manifest of a backup: written beside its parts, last. Without it there is none. Pure."""

from __future__ import annotations

import msgspec
from msgspec import Struct

__all__ = [
    "FORMAT",
    "MANIFEST",
    "Cut",
    "Manifest",
    "ManifestError",
    "Sealing",
    "StoredPart",
    "read_manifest",
]

FORMAT = 1
MANIFEST = "manifest.json"


class ManifestError(Exception):
    """A manifest that cannot be used; the message says why."""


class StoredPart(Struct, frozen=True, rename="camel"):
    """The snapshot of one shard.

    `sha256` and `size` are of the RDB as the server sent it; `stored` is the size of the zstd
    frame that the object holds, or that is encrypted in it. `rdb` is how the RDB begins: its format
    and version. `keys` are those of its first database, by its number, as the server announced
    them; None: not known.
    """

    name: str
    object: str
    replication_id: str
    offset: int
    rdb: str
    size: int
    stored: int
    sha256: str
    slots: str = ""
    source: str = ""  # the pod that it was read from
    keys: dict[str, int] | None = None


class Sealing(Struct, frozen=True, rename="camel"):
    """How parts are encrypted, with which key, and the HMAC of the manifest by the same key."""

    key_id: str
    algorithm: str
    mac: str = ""


class Cut(Struct, frozen=True, rename="camel"):
    """All parts are of one moment: when, and for how many milliseconds writes waited for it."""

    time: str
    paused: int


class Manifest(Struct, frozen=True, rename="camel"):
    """One backup: its database, the engine that wrote it, and its parts."""

    namespace: str
    redis: str
    uid: str  # of the database
    mode: str
    engine: str
    version: str
    begun: str
    ended: str
    parts: tuple[StoredPart, ...]
    format: int = FORMAT
    encryption: Sealing | None = None
    cut: Cut | None = None
    backup: str = ""  # the folder that it was written to; empty: by an earlier version

    @property
    def size(self) -> int:
        """Bytes of all snapshots as servers sent them."""
        return sum(part.size for part in self.parts)

    @property
    def stored(self) -> int:
        """Bytes of all objects."""
        return sum(part.stored for part in self.parts)


def read_manifest(raw: bytes) -> Manifest:
    """Return the manifest that an object holds. Raises `ManifestError`."""
    try:
        found = msgspec.json.decode(raw, type=Manifest)
    except msgspec.DecodeError as error:
        raise ManifestError(f"{MANIFEST} cannot be read: {error}") from error
    if found.format != FORMAT:
        raise ManifestError(
            f"{MANIFEST} has format {found.format}, and this worker reads {FORMAT} only; use the "
            "version of the operator that wrote it, or a later one"
        )
    if not found.parts:
        raise ManifestError(f"{MANIFEST} names no part")
    return found
