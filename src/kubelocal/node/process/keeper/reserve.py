"""Descriptors that the keeper holds for its own needs.

Ending a container means reading /proc. A keeper that has no free descriptor cannot see which
processes are left, so a few are held back: starts and connections are refused before they are used.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

__all__ = ["Reserve"]

_HELD = 8


class Reserve:
    """Open descriptors, which are closed while their numbers are needed."""

    def __init__(self) -> None:
        self._held: list[int] = []
        with contextlib.suppress(OSError):
            self.fill()

    def fill(self) -> None:
        """Open what is missing; raise OSError when that is not possible."""
        while len(self._held) < _HELD:
            self._held.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))

    def close(self) -> None:
        """Close all of them."""
        while self._held:
            os.close(self._held.pop())

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the body use the descriptors; within another use, it shares them."""
        is_outermost = bool(self._held)
        self.close()
        try:
            yield
        finally:
            if is_outermost:
                with contextlib.suppress(OSError):
                    self.fill()
