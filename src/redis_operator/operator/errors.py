"""The errors of one action.

ActionError
├── Refused       the state changed since it was observed: nothing was done, observe again
└── Failed        it was attempted; the result is not known, or it did not take effect
"""

from __future__ import annotations

__all__ = ["ActionError", "Failed", "Refused"]


class ActionError(Exception):
    """An action was not completed; the message says why, in words for people."""


class Refused(ActionError):  # noqa: N818 - what happened, in one word
    """A precondition does not hold any more. Nothing was done."""


class Failed(ActionError):  # noqa: N818 - what happened, in one word
    """The action was attempted and did not take effect within its time."""
