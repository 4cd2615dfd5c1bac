"""Everything that happens to databases in simulation."""

from __future__ import annotations

from .archives import ARCHIVE_SCENARIOS
from .backups import BACKUP_SCENARIOS
from .changes import CHANGES, ENDS, MOVES, OVERLAPS
from .failover import FAILOVER_SCENARIOS
from .heals import CREATIONS, HEALS
from .mode_changes import MODE_CHANGES
from .redisfailovers import REDISFAILOVER_SCENARIOS
from .sources import SOURCE_SCENARIOS

__all__ = ["SCENARIOS"]

SCENARIOS = (
    *CREATIONS,
    *HEALS,
    *MOVES,
    *CHANGES,
    *OVERLAPS,
    *ENDS,
    *FAILOVER_SCENARIOS,
    *MODE_CHANGES,
    *REDISFAILOVER_SCENARIOS,
    *SOURCE_SCENARIOS,
    *BACKUP_SCENARIOS,
    *ARCHIVE_SCENARIOS,
)
