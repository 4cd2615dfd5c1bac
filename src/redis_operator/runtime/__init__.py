"""The machinery of controllers: caches, queues, workers, election, and the life of a process."""

from __future__ import annotations
