"""Which labels of an object are copied: user-defined patterns, matched in bounded time. Pure.

The patterns are those of regular expressions that people use for it: letters, `.`, `.*`, `^` and
`$`. Others are refused: matched by a backtracking engine, one of them could stop the operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["copied", "pattern_problem"]

_ALLOWED: Final = re.compile(r"\^?(?:[A-Za-z0-9_/-]|\\[./]|\.\*?)*\$?")
_ANY: Final = "\0"  # one character, whichever; no label has it


def pattern_problem(pattern: str) -> str | None:
    """Return why a pattern is not supported, or None."""
    if _ALLOWED.fullmatch(pattern):
        return None
    return "may consist of letters, digits, - _ / and of ., .*, ^ and $"


def copied(labels: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """Return the labels whose names one of the patterns fits; without patterns all."""
    wanted = tuple(patterns)
    if not wanted:
        return dict(labels)
    return {
        name: value
        for name, value in labels.items()
        if any(_fits(pattern, name) for pattern in wanted)
    }


def _fits(pattern: str, name: str) -> bool:
    body = pattern.removeprefix("^")
    begins, ends = body != pattern, body.endswith("$")
    pieces = [_letters(piece) for piece in body.removesuffix("$").split(".*")]
    position = 0
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        if last and ends:
            start = len(name) - len(piece)
            fixed = number == 0 and begins
            return start >= position and not (fixed and start) and _at(piece, name, start)
        if number == 0 and begins:
            found = 0 if _at(piece, name, 0) else None
        else:
            places = range(position, len(name) - len(piece) + 1)
            found = next((place for place in places if _at(piece, name, place)), None)
        if found is None:
            return False
        position = found + len(piece)
    return True


def _letters(piece: str) -> str:
    return re.sub(r"\\(.)|\.", lambda match: match[1] or _ANY, piece)


def _at(piece: str, name: str, position: int) -> bool:
    there = name[position : position + len(piece)]
    return len(there) == len(piece) and all(
        letter in (_ANY, found) for letter, found in zip(piece, there, strict=True)
    )
