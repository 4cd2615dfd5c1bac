"""What the shell knows of a database besides what it saw: the reader's side of a status."""

from __future__ import annotations

from msgspec import Struct

from ...api.metadata import Condition
from ...api.status import Endpoints, Progress, RedisStatus, RestoringStatus
from .degradations import Degradation

__all__ = ["Context"]


class Context(Struct, frozen=True):
    """What the shell knows besides: what stood before, what failed, what time it is."""

    previous: RedisStatus
    generation: int
    now: str
    failures: tuple[str, ...] = ()
    unseen: str = ""  # objects that were written and are not observed yet
    hindrance: Degradation | None = None  # why the spec is not followed: a last good one is
    auth: Degradation | None = None  # why passwords are not yet what they should be
    binding: str = ""
    selector: str = ""
    progress: Progress | None = None
    image: str = ""
    endpoints: Endpoints | None = None
    protected: bool = False  # a deletion was asked for and the spec forbids it
    deletion_waits: str = ""  # a deletion was asked for and waits for a backup
    shut: bool = False  # every server that answers has shut clients out
    opening: RestoringStatus | None = None  # the restore that is over when clients are let in
    backed_up: Condition | None = None  # whether there is a good backup, where one is asked for
