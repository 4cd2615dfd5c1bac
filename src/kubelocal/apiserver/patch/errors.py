"""Why a patch cannot be carried out."""

from __future__ import annotations

__all__ = ["PatchError"]


class PatchError(Exception):
    """A patch that does not fit its document; carries the status and reason of the answer."""

    def __init__(self, message: str, *, status: int = 422, reason: str = "Invalid") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
