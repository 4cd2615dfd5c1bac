"""Log lines as text or as JSON, each with the reconcile it belongs to.

A message is constant; what varies is a field: `log.info("applied", extra=fields(kind=...))`.
`bound` adds fields to every line logged inside it, in whatever module. Secrets are wrapped in
`client.access.Hidden` where they enter the program and render as `***` in every output.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TextIO

import msgspec

__all__ = ["Format", "HumanFormatter", "JsonFormatter", "bound", "fields", "set_up"]

_EMPTY: Final[Mapping[str, object]] = {}
_bound: ContextVar[Mapping[str, object]] = ContextVar("log_fields", default=_EMPTY)


class Format(StrEnum):
    """The format of log lines."""

    HUMAN = "human"
    JSON = "json"


def fields(**values: object) -> dict[str, object]:
    """Return the `extra` of a log call that carries these fields."""
    return {"fields": values}


@contextmanager
def bound(**values: object) -> Iterator[None]:
    """Add fields to every line logged inside, by this task and those it starts."""
    token = _bound.set({**_bound.get(), **values})
    try:
        yield
    finally:
        _bound.reset(token)


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    own: Mapping[str, object] = getattr(record, "fields", None) or {}
    return {**_bound.get(), **own}


def _time_of(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


class JsonFormatter(logging.Formatter):
    """One JSON object a line, in which no field can replace another."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "ts": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        for name, value in _fields_of(record).items():
            line[name if name not in line else f"field_{name}"] = value
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            line["traceback" if "error" in line else "error"] = trace
        try:
            return msgspec.json.encode(line, enc_hook=_plain).decode()
        except (TypeError, ValueError):
            # A log line never fails: a value that cannot be encoded is written as its text.
            return msgspec.json.encode({name: str(value) for name, value in line.items()}).decode()


class HumanFormatter(logging.Formatter):
    """Time, level, message, then the fields as `name=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback under it if there is one."""
        parts = [
            _time_of(record),
            f"{record.levelname:<7}",
            record.getMessage(),
            *(f"{name}={_quoted(value)}" for name, value in _fields_of(record).items()),
        ]
        line = " ".join(parts)
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


def set_up(
    *, style: Format = Format.HUMAN, level: int = logging.INFO, stream: TextIO | None = None
) -> Callable[[], None]:
    """Send all logging of the process to one stream in one format; return how to undo it."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if style is Format.JSON else HumanFormatter())
    root = logging.getLogger()
    before, before_level = list(root.handlers), root.level
    root.handlers[:] = [handler]
    root.setLevel(level)

    def undo() -> None:
        root.handlers[:] = before
        root.setLevel(before_level)

    return undo


def _plain(value: Any) -> object:
    return str(value)


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text) if not text or any(c.isspace() or c in "=\"'" for c in text) else text
