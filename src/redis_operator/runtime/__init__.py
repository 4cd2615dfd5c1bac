"""The machinery of controllers: caches, queues, workers, election, and the life of a process.

What an operator author imports is here; `docs/runtime.md` explains it with a whole operator.
"""

from __future__ import annotations

from redis_operator.runtime.applier import Applier
from redis_operator.runtime.changes import Added, Change, Deleted, Updated
from redis_operator.runtime.controller import Controller, Watch
from redis_operator.runtime.informer import Informer
from redis_operator.runtime.lease import LeaseSettings, default_identity
from redis_operator.runtime.manager import Manager
from redis_operator.runtime.outcomes import Again, Done, Outcome, Retry, Stop
from redis_operator.runtime.process import run_process
from redis_operator.runtime.store import Reader

__all__ = [
    "Added",
    "Again",
    "Applier",
    "Change",
    "Controller",
    "Deleted",
    "Done",
    "Informer",
    "LeaseSettings",
    "Manager",
    "Outcome",
    "Reader",
    "Retry",
    "Stop",
    "Updated",
    "Watch",
    "default_identity",
    "run_process",
]
