"""When a container that ended may start again: the back-off of a crash loop.

Pure. The first restart is at once; after that each waits twice as long as the one before, up to
five minutes, counted from the end of the container. One that ran ten minutes starts afresh.
"""

from __future__ import annotations

__all__ = ["FIRST", "LONGEST", "Backoff"]

FIRST = 10.0
LONGEST = 300.0
_FORGIVEN = 2 * LONGEST


class Backoff:
    """The delays before the starts of one container.

    >>> backoff = Backoff()
    >>> [backoff.after_end(ran=1.0) for _ in range(4)], backoff.after_end(ran=601.0)
    ([0.0, 10.0, 20.0, 40.0], 0.0)
    """

    def __init__(self, ends: int = 0) -> None:
        self._next = 0.0
        for _ in range(min(ends, 8)):
            self.after_end(ran=0.0)

    def after_end(self, *, ran: float) -> float:
        """Return how long after its end a container that `ran` so many seconds may start again."""
        if ran > _FORGIVEN:
            self._next = 0.0
        delay = self._next
        self._next = min(max(FIRST, delay * 2), LONGEST)
        return delay
