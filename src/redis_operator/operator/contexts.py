"""Facts for a status in addition to the observation: previous status, failures, slot moves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from kubecontroller import Key
from redis_operator.api.status import RedisStatus, RestoringStatus
from redis_operator.manifests import names
from redis_operator.manifests.facts import Facts
from redis_operator.operator.backups.precautions import Precautions
from redis_operator.operator.objects.children import Children
from redis_operator.operator.passes import Pass
from redis_operator.operator.rotation import Rotations
from redis_operator.operator.servers.movers import SlotMovers
from redis_operator.planning.reporting.context import Context

__all__ = ["Contexts"]

_UNSEEN: Final = "objects were written, and pods have not been observed since"


class Contexts(Struct, frozen=True):
    """Collects what the shell knows of databases."""

    children: Children
    rotations: Rotations
    movers: SlotMovers
    precautions: Precautions
    clock: Callable[[], float] = time.time
    behind: Callable[[Key], str | None] = lambda _: None

    def of(
        self, one: Pass, failures: Iterable[str] = (), *, image: str = "", unseen: bool = False
    ) -> Context:
        """Return what is known of a database in the middle of a pass.

        `unseen`: objects were written after servers and pods were observed.
        """
        meta = one.redis.metadata
        stopped = self.movers.failure(one.key)
        return Context(
            previous=one.reported,
            generation=_generation(one),
            now=self._now(),
            failures=(*failures, stopped) if stopped else tuple(failures),
            hindrance=one.hindrance,
            auth=self.rotations.problem(one.redis),
            progress=self.movers.progress(one.key),
            unseen=self.behind(one.key) or (_UNSEEN if unseen else ""),
            image=image,
            endpoints=self.children.endpoints(one.redis),
            protected=meta.is_being_deleted,
            deletion_waits=self.precautions.waits(one.raw) if meta.is_being_deleted else "",
            backed_up=self.precautions.condition(one.key),
            shut=one.facts.filling is not None and one.facts.filling.shut,
            opening=_opening(one.facts),
            binding=names.connection_secret(meta.name),
            selector=",".join(f"{k}={v}" for k, v in names.selector(meta.name).items()),
        )

    def unread(self, previous: RedisStatus, generation: int) -> Context:
        """Return what is known of a database whose spec cannot be used at all."""
        return Context(previous=previous, generation=generation, now=self._now())

    def _now(self) -> str:
        return datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _opening(facts: Facts) -> RestoringStatus | None:
    found = facts.opening
    return RestoringStatus(found.restore, found.uid, opened=found.opened) if found else None


def _generation(one: Pass) -> int:
    """Return the generation that a status is about: the one whose objects are written.

    That of a paused database, whose objects are not written, is not *Ready*.
    """
    if one.wanted.unwritten and not one.redis.spec.paused:
        return one.reported.observed_generation
    return one.redis.metadata.generation
