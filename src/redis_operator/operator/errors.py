"""What can come of doing one action, besides success.

ActionError
├── Refused       the world moved on since it was seen: nothing was done, look again
└── Failed        it was tried; what became of it is not known, or it did not take effect
"""

from __future__ import annotations

__all__ = ["ActionError", "Failed", "Refused"]


class ActionError(Exception):
    """An action did not come to its end; the message says why, in words for people."""


class Refused(ActionError):  # noqa: N818 - what happened, in one word
    """A precondition does not hold any more. Nothing was done."""


class Failed(ActionError):  # noqa: N818 - what happened, in one word
    """The action was tried and did not take effect within its time."""
