"""The segment that is being written, and how it is sealed.

A segment ends where a command does, outside of MULTI: the bytes of the next command stay for the
segment after it. So each can be read on its own, and the archive continues from its last byte.
Where nothing was written, a segment without a byte has the samples that show it: a restore can go
back to such times as well.
"""

from __future__ import annotations

import hashlib
import secrets

from msgspec import Struct

from ..squeeze import Compressor
from .records import Owned, Sample, Segment, segment_names
from .scan import Scanner

__all__ = ["Growing", "Sealed", "seal"]

_INDEX_MICROSECONDS = 5_000


class Growing:
    """Bytes of one history in their order, the times at which they arrived, and samples.

    `proven`: the last byte that was compared with what the server says; see `proof`.
    """

    def __init__(self, replication_id: str, first: int, *, parent: str, now: int) -> None:
        self.replication_id = replication_id
        self.first = first
        self.parent = parent
        self.begun = now
        self.source = ""
        self.size = 0
        self.proven = first - 1
        self.pieces: list[bytes] = []
        self.index: list[tuple[int, int]] = []
        self.samples: list[Sample] = []
        self.owned: list[Owned] = []

    @property
    def last(self) -> int:
        """The last byte that is here."""
        return self.first + self.size - 1

    @property
    def has_news(self) -> bool:
        """Whether there is a sample of what is here, or of where it begins."""
        return any(sample.offset <= self.last for sample in self.samples)

    def add(self, piece: bytes, now: int) -> None:
        """Take what has arrived."""
        self.pieces.append(piece)
        self.size += len(piece)
        if self.index and now - self.index[-1][1] < _INDEX_MICROSECONDS:
            self.index[-1] = (self.last, self.index[-1][1])
        else:
            self.index.append((self.last, now))

    def sample(self, sample: Sample) -> None:
        """Take a sample; of those at one offset the first and the last are kept."""
        kept = self.samples
        if len(kept) >= 2 and kept[-1].offset == kept[-2].offset == sample.offset:
            kept[-1] = sample
        else:
            kept.append(sample)

    def rest_after(self, sealed: Sealed, now: int) -> Growing:
        """Return what a segment does not hold: the bytes after it, and all other samples.

        Those that were taken while it was sealed may be of an offset that it holds.
        """
        rest = Growing(self.replication_id, self.first + sealed.clean, parent="", now=now)
        rest.source = self.source
        rest.proven = max(self.proven, rest.proven)
        tail = b"".join(self.pieces)[sealed.clean :]
        if tail:
            rest.add(tail, self.index[-1][1])
            rest.begun = self.index[-1][1]
        samples, owned = set(sealed.segment.samples), set(sealed.segment.owned)
        rest.samples = [sample for sample in self.samples if sample not in samples]
        rest.owned = [one for one in self.owned if one not in owned]
        return rest

    def between(self, first: int, last: int) -> bytes:
        """Return the bytes `first` to `last`."""
        found: list[bytes] = []
        end = self.last
        for piece in reversed(self.pieces):
            if end < first:
                break
            found.append(piece)
            end -= len(piece)
        return b"".join(reversed(found))[first - end - 1 : last - end]

    def drop_unproven(self) -> None:
        """Forget the bytes that are not proven to be those of the server."""
        self.drop_after(self.proven + 1 - self.first)

    def drop_after(self, size: int) -> None:
        """Drop what comes after the first `size` bytes."""
        whole = b"".join(self.pieces)[:size]
        self.pieces = [whole] if whole else []
        self.size = size
        self.proven = min(self.proven, self.last)
        self.index = [pair for pair in self.index if pair[0] <= self.last]
        if whole and (not self.index or self.index[-1][0] < self.last):
            self.index.append((self.last, self.index[-1][1] if self.index else self.begun))


class Sealed(Struct, frozen=True):
    """A segment, ready for the spool."""

    segment: Segment
    content: bytes
    clean: int  # how many bytes of what grew it holds


def clean_size(growing: Growing) -> int:
    """Return how many bytes belong to whole commands outside of a transaction."""
    scanner = Scanner()
    scanner.feed(b"".join(growing.pieces))
    return scanner.clean


def seal(
    growing: Growing, *, line: int, number: int, engine: str, version: str, level: int = 1
) -> Sealed | None:
    """Return the whole commands of what grew as a segment; None: there is nothing yet. Blocks.

    Samples may be taken meanwhile, in another thread: see `Growing.rest_after`.
    """
    taken, owners = list(growing.samples), list(growing.owned)
    whole = b"".join(growing.pieces)
    scanner = Scanner()
    scanner.feed(whole)
    if scanner.clean == 0 and (whole or not growing.has_news):
        return None
    raw = whole[: scanner.clean]
    compressor = Compressor(level)
    content = compressor.compress(raw) + compressor.flush()
    last = growing.first + len(raw) - 1
    reached = [pair for pair in growing.index if pair[0] <= last]
    later = [when for offset, when in growing.index if offset > last]
    if later and (not reached or reached[-1][0] < last):
        reached.append((last, later[0]))
    samples = tuple(sample for sample in taken if sample.offset <= last)
    segment = Segment(
        line=line,
        number=number,
        object=segment_names(line, number, secrets.token_hex(4)).content,
        replication_id=growing.replication_id,
        first=growing.first,
        last=last,
        size=len(raw),
        stored=len(content),
        sha256=hashlib.sha256(raw).hexdigest(),
        begun=growing.begun,
        ended=reached[-1][1] if reached else max(growing.begun, samples[-1].received),
        engine=engine,
        version=version,
        clean_start=True,
        database=-1,
        source=growing.source,
        parent=growing.parent,
        index=_differences(reached, growing.first, growing.begun),
        samples=samples,
        owned=tuple(owned for owned in owners if owned.offset <= last),
    )
    return Sealed(segment, content, len(raw))


def _differences(
    pairs: list[tuple[int, int]], first: int, begun: int
) -> tuple[tuple[int, int], ...]:
    found, offset, when = [], first, begun
    for at, time in pairs:
        found.append((at - offset, time - when))
        offset, when = at, time
    return tuple(found)
