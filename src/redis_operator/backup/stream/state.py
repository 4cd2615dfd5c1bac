"""The input and the state of an archiver: values. Pure."""

from __future__ import annotations

from msgspec import Struct

from ..task import ReportedGap

__all__ = ["ArchiverState", "Limits", "Shard"]


class Shard(Struct, frozen=True):
    """The shard that is archived."""

    name: str
    engine: str
    version: str
    allow_primary: bool = False
    cluster: bool = False
    bridge: bool = False  # what a replica lacks after a full resync may be read from its primary


class Limits(Struct, frozen=True):
    """Limits of memory and disk, and the intervals of periodic work."""

    segment_bytes: int = 16 << 20
    segment_seconds: float = 10.0
    pause_seconds: float = 0.005
    sample_seconds: float = 0.05
    base_seconds: float = 3600.0
    spool_bytes: int = 1 << 30
    review_seconds: float = 5.0
    patience_seconds: float = 20.0


class ArchiverState(Struct, frozen=True):
    """The state of an archiver. `oldest` and `newest`: of the store, in microseconds since 1970."""

    attached: str  # the pod; empty: none
    line: int
    received: int
    spooled: int
    trouble: str
    oldest: int = 0
    newest: int = 0
    sampled: int = 0  # the primary's clock when it was last asked
    based: int = 0  # when the last base was taken
    stored: int = 0  # bytes that were stored
    began_empty: bool = False
    gaps: tuple[ReportedGap, ...] = ()
