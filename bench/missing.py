"""Said by a measurement that cannot be made on this machine."""

from __future__ import annotations

__all__ = ["Missing"]


class Missing(Exception):  # noqa: N818 - it is a statement, not a failure
    """What is missing, in words."""
