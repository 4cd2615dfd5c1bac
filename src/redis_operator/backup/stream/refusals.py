"""The commands that a server refused while it replicated, from its own counts. Pure.

A replica that cannot execute a command of the stream logs that, skips it and continues, so that its
offset does not show it: the counts of errors do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["read_errors", "refusal"]

_COUNT = re.compile(r"^errorstat_([^:]+):count=(\d+)", re.MULTILINE)
_OF_OTHERS = ("LOADING",)  # replies to other clients meanwhile


def read_errors(answer: bytes) -> dict[str, int]:
    """Return how often a server replied with each kind of error, from INFO errorstats."""
    return {name: int(count) for name, count in _COUNT.findall(answer.decode())}


def refusal(before: Mapping[str, int], after: Mapping[str, int]) -> str | None:
    """Return what a server refused between two observations, or None."""
    more = {name: count - before.get(name, 0) for name, count in after.items()}
    refused = {name: count for name, count in more.items() if count and name not in _OF_OTHERS}
    if not refused:
        return None
    counted = ", ".join(f"{count} times {name}" for name, count in sorted(refused.items()))
    return (
        f"the server refused commands of the stream ({counted}), so it does not have what was "
        "archived; its log names them"
    )
