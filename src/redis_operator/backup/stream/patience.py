"""How long to wait after a failure that cost a server a fork. Pure."""

from __future__ import annotations

__all__ = ["Patience"]


class Patience:
    """Twice as long after each failure, from `first` to `most` seconds; none after a success."""

    def __init__(self, *, first: float = 1.0, most: float = 300.0) -> None:
        self._first, self._most = first, most
        self._pause = 0.0
        self._until = 0.0

    def is_over(self, now: float) -> bool:
        """Whether another attempt may be made."""
        return now >= self._until

    def failed(self, now: float) -> None:
        """Wait from now on, longer than the last time."""
        self._pause = min(max(self._first, 2 * self._pause), self._most)
        self._until = now + self._pause

    def succeeded(self) -> None:
        """Forget the failures."""
        self._pause = self._until = 0.0
