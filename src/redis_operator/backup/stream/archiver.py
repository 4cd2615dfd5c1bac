"""Archive one shard: attached to a replica, the archiver stores the stream byte for byte.

Guarantees:
    - Segments of a line are contiguous, without a missing byte; a line that cannot continue ends,
      and the next one begins with its own base.
    - A server never waits for the store: see `spool`.
    - After an archiver that ended for any reason, the next one continues after its last sealed
      segment, as long as a server still has what came after it.

Assumptions: one archiver for a shard at a time. Two of them cannot mix what they write: a segment's
number can be taken once, and the second to take it ends (`Superseded`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, assert_never

from ..errors import SourceError, StoreError, WorkerError
from ..replica import Login, Snapshot, attach
from ..store import Shelf
from ..task import Source
from .bases import store_base
from .follow import (
    Bridge,
    Choice,
    Continue,
    Head,
    Restart,
    View,
    Wait,
    choose,
    is_better,
    primary_of,
)
from .link import StreamLink, attach_stream
from .outline import Overview, end_of
from .patience import Patience
from .proof import BytesLost, Prover
from .records import Base
from .sampler import look_at, sample_for_ever
from .samples import Samples
from .sealing import Growing, clean_size
from .spool import Spool
from .state import ArchiverState, Limits, Shard
from .tasks import end, is_set

__all__ = ["Archiver", "ArchiverState", "Limits", "Shard"]

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS = 0.5
_RESUME_SECONDS = 2.0
_READ_SECONDS = 0.5
_TIDY_SECONDS = 5.0
_NEW_HISTORY_SECONDS = 1.0  # servers remember one earlier history: soon the one in the store
_SILENCE_SECONDS = 60.0  # a server sends a PING every 10 s at least


class Archiver:
    """The writer of one shard's archive. `sources` names its servers as of now.

    `base_wanted` names a time, in microseconds: a base from before it is not new enough.
    """

    def __init__(
        self,
        shard: Shard,
        shelf: Shelf,
        spool: Path,
        sources: Callable[[], tuple[Source, ...]],
        login: Callable[[], Login],
        *,
        limits: Limits = Limits(),  # noqa: B008 - a frozen value
        base_wanted: Callable[[], int] = lambda: 0,
    ) -> None:
        self.trouble = ""
        self._shard = shard
        self._shelf = shelf
        self._spool = Spool(spool, shelf, limit=limits.spool_bytes)
        self._sources = sources
        self._login = login
        self._limits = limits
        self._line = 0
        self._damage = ""  # at the end of the archive, so that the line there cannot continue
        self._prover = Prover(login, shard.version)
        self._number = 1  # of the segment that grows
        self._growing: Growing | None = None
        self._attached: StreamLink | None = None
        self._primary: Source | None = None
        self._views: list[View] = []
        self._leaving = False
        self._base_due = 0.0
        self._forks = Patience()
        self._lost_since = 0.0
        self._base_wanted = base_wanted
        self._base_begun = 0  # when the last base was begun
        self._base_place = (0, 0)  # its line and the number of the segment that was written then
        self.overview = Overview(shelf)
        self._samples = Samples()

    def state(self) -> ArchiverState:
        """Return its state."""
        growing, link, outline = self._growing, self._attached, self.overview.outline
        return ArchiverState(
            attached=link.source.pod if link else "",
            line=self._line,
            received=growing.last if growing else 0,
            spooled=self._spool.size,
            trouble=self._spool.trouble or self.trouble,
            oldest=outline.oldest,
            newest=end_of(self._spool.newest),
            sampled=self._samples.newest,
            based=outline.based,
            stored=self._spool.stored,
            began_empty=outline.began_empty,
            gaps=outline.gaps,
        )

    def limit_spool(self, limit: int) -> None:
        """Change the number of bytes that may wait for the store."""
        self._spool.limit = limit

    async def run(self, stop: asyncio.Event) -> None:
        """Archive until `stop` is set; what has arrived by then is sealed and spooled.

        Raises `WorkerError` where it cannot continue at all.
        """
        while not await self._is_resumed():
            if await is_set(stop, within=_RESUME_SECONDS):
                return
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._spool.upload()),
            asyncio.ensure_future(self._follow()),
            asyncio.ensure_future(self._bases()),
            asyncio.ensure_future(self._watch()),
            asyncio.ensure_future(
                sample_for_ever(
                    lambda: self._primary,
                    self._login,
                    lambda asked: self._samples.take(asked, self._growing),
                    interval=self._limits.sample_seconds,
                    cluster=self._shard.cluster,
                )
            ),
        ]
        ended: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
        try:
            done, _ = await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
            failed = [task for task in done if task is not ended]
            if failed:
                failed[0].result()  # raises
            for task in tasks[1:]:
                await end(task)
            with suppress(TimeoutError, SourceError):
                await self._seal()
                async with asyncio.timeout(self._limits.patience_seconds):
                    await self._spool.wait_empty()
        finally:
            for task in (ended, *tasks):
                await end(task)

    async def _is_resumed(self) -> bool:
        try:
            await self._resume()
        except StoreError as error:
            self._complain(f"where the archive ended cannot be read: {error}")
            return False
        return True

    async def _resume(self) -> None:
        """Find where an earlier archiver ended."""
        found = await self.overview.read_end()  # all that may fail comes first: it is retried
        with suppress(TimeoutError):
            async with asyncio.timeout(_TIDY_SECONDS):
                await self._shelf.end_uploads()  # of an archiver that was killed
        self._spool.newest = found.stored
        self._spool.recover(found.stored)
        last = self._spool.last or found.stored
        self._line = max(found.line, last.line if last else 0)
        if found.damage:
            self._damage = found.damage
            return
        bases = found.bases if self._line == found.line else ()
        if bases:
            # A clock that was ahead when it was taken would put off the next one.
            self._base_begun = min(bases[-1].taken, time.time_ns() // 1000)
            self._base_place = (self._line, bases[-1].number)
            age = time.time() - self._base_begun / 1e6
            self._base_due = time.monotonic() + self._limits.base_seconds - age
        if last is not None and last.line == self._line:
            self._number = last.number + 1
            self._growing = self._grow(last.replication_id, last.last + 1, "")
        elif bases:
            part = bases[-1].part
            self._growing = self._grow(part.replication_id, part.offset + 1, "")

    async def _follow(self) -> None:
        while True:
            try:
                await self._once()
            except BytesLost as error:
                self._forget(str(error))
            except SourceError as error:
                self._complain(str(error))
            finally:
                await self._detach()
            await asyncio.sleep(_RETRY_SECONDS)

    def _forget(self, damage: str) -> None:
        """Have what is not proven read again."""
        self._complain(damage)
        self._prover.lost(damage)
        if self._growing is not None:
            self._growing.drop_unproven()

    async def _once(self) -> None:
        while self._spool.is_full:
            self._complain("the spool is full: the store does not take what is archived")
            await asyncio.sleep(_RETRY_SECONDS)
        if self._prover.is_hopeless and self._growing is not None:  # the line ends
            await self._seal()
            self._growing = None
        views, silent = await look_at(self._sources(), self._login())
        self._views = views
        if self._growing is not None:
            self._learn_primary(views, self._growing.replication_id)
        choice = self._choice(views)
        match choice:
            case Wait():
                self._complain("; ".join([choice.reason, *silent]))
            case Restart():
                if self._may_restart(silent):
                    await self._begin(choice)
            case Continue():
                self._lost_since = 0.0
                await self._attach(choice)
            case Bridge():
                self._lost_since = 0.0
                await self._attach(choice.first, upto=choice.upto)
            case _:
                assert_never(choice)

    def _choice(self, views: list[View]) -> Choice:
        growing, shard = self._growing, self._shard
        head = Head(growing.replication_id, growing.last) if growing else None
        return choose(head, views, allow_primary=shard.allow_primary, bridge=shard.bridge)

    def _may_restart(self, silent: list[str]) -> bool:
        """Whether the stream is given up: a server that is unreachable now may still have it."""
        if self._growing is None or not silent:
            return True
        now = time.monotonic()
        self._lost_since = self._lost_since or now
        if now - self._lost_since >= self._limits.patience_seconds:
            return True
        self._complain("; ".join(["no server that responds continues the stream", *silent]))
        return False

    async def _begin(self, choice: Restart) -> None:
        """Begin a new line, unless that failed just now: each attempt costs the server a fork."""
        if not self._forks.is_over(time.monotonic()):
            return
        line = self._line
        try:
            await self._restart(choice)
        finally:
            if self._line == line:
                self._forks.failed(time.monotonic())

    async def _restart(self, choice: Restart) -> None:
        """Begin a new line: a base, and the stream from its offset on."""
        source, shard = choice.source, self._shard
        reason = self._damage or self._prover.damage or choice.reason
        async with attach(source, self._login(), shard.version) as snapshot:
            wanted = Continue(source, snapshot.replication_id, snapshot.offset + 1)
            link = await attach_stream(wanted, self._login(), shard.version)
            if link.replication_id != wanted.replication_id:
                link.close()
                raise SourceError(f"{source.pod} was promoted just now", passing=True)
            await self._seal()
            self._line += 1
            self._number = 1
            self._lost_since = 0.0
            self._damage = ""
            self._prover.begin()
            self._base_due = time.monotonic() + self._limits.base_seconds
            self._begins_base(self._number)
            self._growing = self._grow(wanted.replication_id, wanted.first, "")
            _LOG.info("%s: line %s begins: %s", shard.name, self._line, reason)
            storing = asyncio.ensure_future(
                self._store_base(source, snapshot, self._number, reason)
            )
            try:
                await self._take(link)
            finally:
                if not storing.done():
                    self._base_due = 0.0
                await end(storing)

    def _grow(self, replication_id: str, first: int, parent: str) -> Growing:
        return Growing(replication_id, first, parent=parent, now=time.time_ns() // 1000)

    async def _attach(self, choice: Continue, *, upto: int = 0) -> None:
        """Go on with the stream; `upto`: from a primary, up to this byte alone."""
        growing = self._growing
        assert growing is not None
        [replication] = [view.replication for view in self._views if view.source == choice.source]
        await self._prover.compare_again(choice, growing, replication)
        link = await attach_stream(choice, self._login(), self._shard.version, silent=bool(upto))
        if link.replication_id != growing.replication_id:
            orphaned = growing.last + 1 - choice.first
            _LOG.info(
                "%s: history %s continues as %s at byte %s; %s bytes are orphaned",
                self._shard.name,
                growing.replication_id,
                link.replication_id,
                choice.first,
                orphaned,
            )
            parent = (not growing.size and growing.parent) or growing.replication_id
            try:
                await self._seal()
            except BaseException:
                link.close()
                raise
            if orphaned > 0:
                self._base_due = 0.0  # a base among the orphaned bytes is of no use
            self._growing = self._grow(link.replication_id, choice.first, parent)
            self._samples.give(self._growing)
        await self._take(link, upto=upto)

    async def _take(self, link: StreamLink, *, upto: int = 0) -> None:
        """Take the stream until it ends, or until another server is the one to be attached to.

        `upto`: until this byte has come, and for some seconds at most.
        """
        self._attached = link
        self.trouble = ""
        limits = self._limits
        assert self._growing is not None
        self._growing.source = link.source.pod
        self._learn_primary(self._views, self._growing.replication_id)
        self._leaving = False
        begun = heard = time.monotonic()
        try:
            while not self._leaving:
                arrived, growing = await self._receive(link, _READ_SECONDS), self._growing
                now = time.monotonic()
                if arrived:
                    heard = now
                elif now - heard > _SILENCE_SECONDS:
                    raise SourceError(f"{link.source.pod} is silent", passing=True)
                if await self._may_seal(link, growing):
                    await self._seal()
                    if self._spool.is_full:
                        return
                if upto and (growing.last >= upto or now - begun > limits.patience_seconds):
                    return
                await asyncio.sleep(limits.pause_seconds)
        finally:
            link.close()

    async def _receive(self, link: StreamLink, timeout: float) -> bool:
        found = await link.read(timeout=timeout)
        if found and self._growing is not None:
            self._growing.add(found, time.time_ns() // 1000)
        return bool(found)

    async def _may_seal(self, link: StreamLink, growing: Growing) -> bool:
        """Whether a segment is due, and compared with its server. Raises `BytesLost`.

        A server that does not say how far it is gets asked again, for some seconds.
        """
        limits, age = self._limits, time.time() - growing.begun / 1e6
        is_full = growing.size >= limits.segment_bytes
        due = _NEW_HISTORY_SECONDS if growing.parent else limits.segment_seconds
        if not is_full and age < due:
            return False
        is_late = is_full or age >= due + limits.patience_seconds
        return await self._prover.is_proven(link, growing, partial(self._receive, link)) or is_late

    async def _watch(self) -> None:
        """Check whether another server is the one to attach to, and which is the primary."""
        while True:
            await asyncio.sleep(self._limits.review_seconds)
            link = self._attached
            if link is None:
                continue
            views, _ = await look_at(self._sources(), self._login())
            growing = self._growing
            if link is self._attached and growing is not None:
                self._learn_primary(views, growing.replication_id)
                self._leaving = is_better(self._choice(views), link.source, views)

    def _learn_primary(self, views: list[View], replication_id: str) -> None:
        self._primary = primary_of(replication_id, views) or self._primary

    async def _detach(self) -> None:
        """Drop the beginning of a command whose end did not arrive."""
        if self._attached is not None:
            self._attached.close()
            self._attached = None
        growing = self._growing
        if growing is not None and growing.size:
            growing.drop_after(await asyncio.to_thread(clean_size, growing))

    async def _seal(self) -> None:
        """Spool the whole commands that have arrived; the rest begins the next segment."""
        growing = self._growing
        if growing is None:
            return
        if not growing.size and not growing.has_news:
            growing.begun = time.time_ns() // 1000
            return
        sealed = await asyncio.to_thread(
            self._spool.seal,
            growing,
            line=self._line,
            number=self._number,
            engine=self._shard.engine,
            version=self._shard.version,
        )
        if sealed is None:
            return
        self._spool.queue(sealed.segment)
        self._number += 1
        self._growing = growing.rest_after(sealed, time.time_ns() // 1000)

    async def _bases(self) -> None:
        """Take a base whenever one is due."""
        while True:
            await asyncio.sleep(_RETRY_SECONDS)
            with suppress(WorkerError):
                await self.overview.follow(self._spool.newest)
            link, growing = self._attached, self._growing
            if link is None or growing is None:
                continue
            now = time.monotonic()
            is_due = now >= self._base_due or self._is_base_asked() or self.overview.is_broken
            is_due = is_due and (self._line, self._number) != self._base_place
            if not is_due or self._spool.trouble or not self._forks.is_over(now):
                continue
            # The segment that holds its offset is this one or a later one.
            line, number, kept = self._line, self._number, False
            try:
                async with attach(link.source, self._login(), self._shard.version) as snapshot:
                    if (snapshot.replication_id, line) == (growing.replication_id, self._line):
                        self._base_due = now + self._limits.base_seconds
                        self._begins_base(number)
                        base = await self._store_base(link.source, snapshot, number, "")
                        kept = base is not None
            except WorkerError as error:
                self._complain(str(error))
            if not kept:
                self._base_due = 0.0
                self._forks.failed(time.monotonic())

    def _begins_base(self, number: int) -> None:
        """Record a base: another one has another name only when another segment is written."""
        self._base_begun = time.time_ns() // 1000
        self._base_place = (self._line, number)

    def _is_base_asked(self) -> bool:
        return self._base_begun < self._base_wanted() <= time.time_ns() // 1000

    async def _store_base(
        self, source: Source, snapshot: Snapshot, number: int, reason: str
    ) -> Base | None:
        shard = self._shard
        try:
            base = await store_base(
                self._shelf,
                snapshot,
                line=self._line,
                number=number,
                pod=source.pod,
                engine=shard.engine,
                version=shard.version,
                cluster=shard.cluster,
                reason=reason,
            )
        except WorkerError as error:
            self._complain(f"the base could not be stored: {error}")
            self._base_due = 0.0
            self._forks.failed(time.monotonic())
            return None
        self._forks.succeeded()
        await self.overview.based()
        return base

    def _complain(self, text: str) -> None:
        if text != self.trouble:
            _LOG.warning("%s: %s", self._shard.name, text)
        self.trouble = text
