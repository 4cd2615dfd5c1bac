"""The server's configuration: what may be set, how it takes effect, how it is written. Pure.

Guarantee: for any strings in a directive, `parse(render(...))` returns exactly these directives
with exactly these words; no value can add another directive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TypeAlias

from .directives import DANGEROUS, LIVE_SINCE, MANAGED, MEASURED, RESTART, WORDS_PER_LINE
from .values import canonical, parse_bytes
from .versions import Version

__all__ = [
    "ConfigEffect",
    "Directive",
    "effect",
    "equivalent",
    "is_known",
    "is_measured",
    "limitation",
    "parse",
    "parse_bytes",
    "render",
    "spaced",
    "words_of",
]

Directive: TypeAlias = tuple[str, str]
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "a": "\a"}


class ConfigEffect(Enum):
    """How a changed directive reaches a running server."""

    LIVE = "live"
    RESTART = "restart"


def limitation(name: str) -> str | None:
    """Why a person may not set this directive, or None. Names are compared in lower case."""
    low = name.lower()
    if not _NAME.fullmatch(low):
        return "is not a directive name; names look like maxmemory-policy"
    if low in DANGEROUS:
        return f"is refused: {DANGEROUS[low]}"
    if low in MANAGED:
        instead = MANAGED[low]
        return "is set by the operator" + (f"; use {instead}" if instead else "")
    return None


def is_known(name: str, version: Version) -> bool:
    """Whether this version has the directive; True where its directives were never measured."""
    known = MEASURED.get((version.engine, version.major, version.minor))
    return known is None or name.lower() in known


def is_measured(version: Version) -> bool:
    """Whether every directive of this version is known."""
    return (version.engine, version.major, version.minor) in MEASURED


def effect(name: str, version: Version) -> ConfigEffect:
    """Whether a running server of this version accepts the directive by CONFIG SET."""
    low = name.lower()
    since = LIVE_SINCE.get((version.engine, low))
    if since is not None and (version.major, version.minor) >= since:
        return ConfigEffect.LIVE
    return ConfigEffect.RESTART if low in RESTART else ConfigEffect.LIVE


def words_of(name: str, value: str) -> list[list[str]]:
    """Return the lines, each as words, of one directive in a file."""
    per_line = WORDS_PER_LINE.get(name.lower())
    if per_line is None:
        return [[value]]
    words = value.split()
    if not words:
        return [[""]]
    if per_line == 0:
        return [words]
    return [words[start : start + per_line] for start in range(0, len(words), per_line)]


def spaced(name: str, value: str) -> str:
    """Return the value for CONFIG SET: one space between the words of a list."""
    return " ".join(value.split()) if name.lower() in WORDS_PER_LINE else value


def _quote(word: str) -> str:
    out = []
    for byte in word.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif 0x20 <= byte < 0x7F:
            out.append(char)
        else:
            out.append(f"\\x{byte:02x}")
    return '"' + "".join(out) + '"'


_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=-]+")


def render(directives: Iterable[Directive]) -> str:
    """Return a configuration file. Raises ValueError on a name that is not a directive's."""
    lines = []
    for name, value in directives:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a directive name")
        for words in words_of(name, value):
            shown = [word if _PLAIN.fullmatch(word) else _quote(word) for word in words]
            lines.append(" ".join([name, *shown]))
    return "\n".join(lines) + "\n" if lines else ""


def parse(text: str) -> list[tuple[str, list[str]]]:
    """Read a configuration file the way the server does: lines, then words with quotes."""
    found = []
    for raw in text.split("\n"):
        line = raw.strip(" \t\r\n")
        if line and not line.startswith("#"):
            name, *words = _split(line)
            found.append((name.lower(), words))
    return found


def _split(line: str) -> list[str]:
    words: list[str] = []
    position = 0
    while position < len(line):
        if line[position].isspace():
            position += 1
            continue
        word, position = _word(line, position)
        words.append(word)
    return words


def _word(line: str, position: int) -> tuple[str, int]:
    """Return one word from `position` on, and where it ends."""
    raw = bytearray()
    quoted = False
    while position < len(line):
        char = line[position]
        if quoted and char == "\\" and position + 1 < len(line):
            piece, position = _escape(line, position)
            raw += piece
            continue
        if char == '"':
            quoted = not quoted
        elif char.isspace() and not quoted:
            break
        else:
            raw += char.encode("utf-8", "surrogateescape")
        position += 1
    return raw.decode("utf-8", "surrogateescape"), position


def _escape(line: str, position: int) -> tuple[bytes, int]:
    code = line[position + 2 : position + 4]
    if line[position + 1] == "x" and re.fullmatch("[0-9a-fA-F]{2}", code):
        return bytes([int(code, 16)]), position + 4
    char = line[position + 1]
    return _ESCAPES.get(char, char).encode("utf-8", "surrogateescape"), position + 2


def equivalent(name: str, wanted: str, actual: str) -> bool:
    """Whether the reply of CONFIG GET means the desired value, however each is written."""
    if wanted == actual:
        return True
    if name.lower() == "client-output-buffer-limit":
        return _buffer_limits(wanted).items() <= _buffer_limits(actual).items()
    return canonical(name, wanted) == canonical(name, actual)


def _buffer_limits(value: str) -> dict[str, tuple[str, ...]]:
    words: Sequence[str] = canonical("client-output-buffer-limit", value).split()
    found = {}
    for start in range(0, len(words) - 3, 4):
        kind, *limits = words[start : start + 4]
        found["replica" if kind == "slave" else kind] = tuple(limits)
    return found
