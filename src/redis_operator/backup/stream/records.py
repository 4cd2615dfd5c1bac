"""The content of an archive, as values, and the names of its objects. Pure.

The archive of a shard is a series of *lines*. A line begins with a base (a snapshot) and continues
without a gap; where the stream was lost, a new line begins. Within a line segments are numbered. An
offset is the number of a byte in the history of its replication id, as servers count: a base of
offset N holds everything up to byte N, and the byte after it is N + 1.

Guarantees: objects are written once and never changed, the manifest after what it describes.
A segment or base without a manifest does not exist.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..errors import Damaged
from ..manifest import StoredPart

__all__ = [
    "FORMAT",
    "Base",
    "Names",
    "Owned",
    "Point",
    "PointMark",
    "Sample",
    "Segment",
    "base_names",
    "content_number",
    "decode",
    "encode",
    "line_and_number",
    "point_name",
    "segment_names",
]

FORMAT = 1
_NUMBERED = re.compile(r"^(\d{6})/(segment|base)-(\d{8})\.json$")
_CONTENT = re.compile(r"^(\d{6})/segment-(\d{8})-[0-9a-f]+\.zst$")


class Sample(Struct, frozen=True, array_like=True):
    """A sample: the primary's clock and offset, from one transaction.

    Times are microseconds since 1970: the server's clock, and the worker's before and after.
    """

    offset: int
    server: int
    sent: int
    received: int


class Owned(Struct, frozen=True, array_like=True):
    """The slots of a shard of mode Cluster, from this offset on, as its primary said.

    `migrating` and `importing`: slots that a move has open, with the node at the other end.
    """

    offset: int
    server: int
    epoch: int
    slots: str
    migrating: tuple[tuple[int, str], ...] = ()
    importing: tuple[tuple[int, str], ...] = ()
    node: str = ""  # the node that reported it


class Segment(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A piece of the stream: the bytes `first` to `last` of the history `replication_id`.

    `parent`: the history that this one went on from, in the first segment after a promotion. Where
    `first` is not after the last byte of the segment before, the tail of that one is orphaned:
    writes that servers acknowledged and lost. `clean_start`: it begins and ends where a command
    does, and not within MULTI. `index`: pairs of an offset and the time at which the stream had
    arrived so far, each as the difference to the pair before, from `first` and `begun` on.
    """

    line: int
    number: int
    object: str
    replication_id: str
    first: int
    last: int
    size: int
    stored: int
    sha256: str
    begun: int
    ended: int
    engine: str
    version: str
    clean_start: bool
    database: int  # that was selected where it starts; -1: unknown
    source: str = ""
    parent: str = ""
    index: tuple[tuple[int, int], ...] = ()
    samples: tuple[Sample, ...] = ()
    owned: tuple[Owned, ...] = ()
    format: int = FORMAT

    @property
    def began_at(self) -> int:
        """When it begins, by the primary's clock if that was asked, else by the worker's."""
        return self.samples[0].server if self.samples else self.begun

    @property
    def ended_at(self) -> int:
        """Up to when it can be gone back to, by the primary's clock if that was asked."""
        return self.samples[-1].server if self.samples else self.ended

    def lean(self) -> Segment:
        """Return it without what is long: the last sample is kept, and who owned slots last."""
        return replace(self, index=(), samples=self.samples[-1:], owned=self.owned[-1:])


class Base(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A snapshot to begin from. `number`: the segment that was written when it was taken.

    `taken` is the worker's clock when the server had begun it.
    """

    line: int
    number: int
    part: StoredPart
    taken: int
    engine: str
    version: str
    reason: str = ""  # why a new line begins with it
    cluster: bool = False
    format: int = FORMAT


class PointMark(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where one shard was, and in mode Cluster which slots it had; earlier points do not say."""

    replication_id: str
    offset: int
    server: int
    owned: Owned | None = None


class Point(Struct, frozen=True, rename="camel"):
    """A named restore point: the exact place of every shard at one moment.

    It is written into the archive of every shard; one that has it is enough.
    """

    name: str
    shards: dict[str, PointMark]
    format: int = FORMAT
    request: str = ""  # the request it was taken for


class Names(Struct, frozen=True):
    """The objects of a segment or a base.

    What an attempt writes has a name of its own, `content`; the manifest, which can be created
    once, decides which attempt it was.
    """

    content: str
    manifest: str


def segment_names(line: int, number: int, attempt: str = "") -> Names:
    """Return where a segment is."""
    stem = f"{line:06d}/segment-{number:08d}"
    return Names(f"{stem}-{attempt}.zst", f"{stem}.json")


def base_names(line: int, number: int, attempt: str = "") -> Names:
    """Return where a base is."""
    stem = f"{line:06d}/base-{number:08d}"
    return Names(f"{stem}-{attempt}.rdb.zst", f"{stem}.json")


def point_name(name: str) -> str:
    """Return where a restore point is."""
    return f"points/{name}.json"


def line_and_number(name: str) -> tuple[str, int, int] | None:
    """Return what a manifest is of: `segment` or `base`, its line and its number."""
    found = _NUMBERED.match(name)
    return (found[2], int(found[1]), int(found[3])) if found else None


def content_number(name: str) -> tuple[int, int] | None:
    """Return the line and the number of the segment whose bytes an object holds."""
    found = _CONTENT.match(name)
    return (int(found[1]), int(found[2])) if found else None


Record = TypeVar("Record", Segment, Base, Point)


def encode(record: Segment | Base | Point) -> bytes:
    """Return a record as it is stored."""
    return msgspec.json.encode(record)


def decode(raw: bytes, kind: type[Record], name: str) -> Record:
    """Return the record that an object holds. Raises `Damaged`, which names it."""
    try:
        found = msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError as error:
        raise Damaged(f"{name} is damaged: {error}") from error
    if found.format != FORMAT:
        raise Damaged(
            f"{name} has format {found.format}, and this worker reads {FORMAT} only; use the "
            "version of the operator that wrote it, or a later one"
        )
    return found
