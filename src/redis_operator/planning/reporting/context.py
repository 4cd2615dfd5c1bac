"""What the shell knows of a database in addition to the observation, for its status."""

from __future__ import annotations

from msgspec import Struct

from ...api.metadata import Condition
from ...api.status import Endpoints, Progress, RedisStatus, RestoringStatus
from .degradations import Degradation

__all__ = ["Context"]


class Context(Struct, frozen=True):
    """Additional facts for a status: the previous status, failures and the current time."""

    previous: RedisStatus
    generation: int
    now: str
    failures: tuple[str, ...] = ()
    unseen: str = ""  # objects that were written and are not observed yet
    hindrance: Degradation | None = None  # why an older, valid spec is used instead
    auth: Degradation | None = None  # why passwords are not yet as they should be
    binding: str = ""
    selector: str = ""
    progress: Progress | None = None
    image: str = ""
    endpoints: Endpoints | None = None
    protected: bool = False  # a deletion was requested and the spec forbids it
    deletion_waits: str = ""  # a deletion was requested and waits for a backup
    shut: bool = False  # every server that responds refuses clients
    opening: RestoringStatus | None = None  # the restore that ends when clients can connect
    backed_up: Condition | None = None  # whether there is a good backup, if one is wanted
