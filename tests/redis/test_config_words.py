"""Words of configuration files: how they are read and written, byte by byte."""

from __future__ import annotations

import pytest

from redis_operator.redis.config import (
    ConfigEffect,
    effect,
    equivalent,
    is_measured,
    parse,
    render,
    words_of,
)
from redis_operator.redis.directives import LIVE_SINCE, MEASURED, RESTART
from redis_operator.redis.versions import Version

READ = {
    "nothing": ("", []),
    "a comment": ("# maxmemory 1\n  # hz 1", []),
    "names are lower case": ("MaxMemory 1", [("maxmemory", ["1"])]),
    "space around": (" \t hz   10 \t\r\n\nport 1", [("hz", ["10"]), ("port", ["1"])]),
    "several words": ("save 60 1", [("save", ["60", "1"])]),
    "quotes": ('requirepass "a b"', [("requirepass", ["a b"])]),
    "an empty word": ('save ""', [("save", [""])]),
    "quotes within a word": ('x a"b c"d', [("x", ["ab cd"])]),
    "an escaped quote": (r'x "a\"b"', [("x", ['a"b'])]),
    "an escaped backslash": (r'x "a\\" b', [("x", ["a\\", "b"])]),
    "bytes by number": (r'x "\x41\x0ab"', [("x", ["A\nb"])]),
    "a number too short": (r'x "\x4z"', [("x", ["x4z"])]),
    "an x that is no number": (r'x "\xzz1"', [("x", ["xzz1"])]),
    "letters for control": (r'x "\n\r\t\b\a" y', [("x", ["\n\r\t\b\a", "y"])]),
    "another letter": (r'x "\q"', [("x", ["q"])]),
    "a backslash without quotes": (r"x a\nb", [("x", [r"a\nb"])]),
    "a backslash at the end": ('x "a\\', [("x", ["a\\"])]),
    "a letter at the end": ('x "\\n', [("x", ["\n"])]),
    "more than ASCII": ('x "é"', [("x", ["é"])]),
}


@pytest.mark.parametrize("name", READ)
def test_lines_are_read_as_servers_read_them(name: str) -> None:
    text, expected = READ[name]
    assert parse(text) == expected


WRITTEN = {
    "plain": ("maxmemory", "100mb", "maxmemory 100mb\n"),
    "a space": ("requirepass", "a b", 'requirepass "a b"\n'),
    "a quote and a backslash": ("requirepass", '"\\', 'requirepass "\\"\\\\"\n'),
    "the first and the last that are shown": ("requirepass", " ~", 'requirepass " ~"\n'),
    "the one after the last": ("requirepass", "\x7f", 'requirepass "\\x7f"\n'),
    "the one before the first": ("requirepass", "\x1f", 'requirepass "\\x1f"\n'),
    "more than ASCII": ("requirepass", "é", 'requirepass "\\xc3\\xa9"\n'),
    "pairs": ("save", "60 1 30 2", "save 60 1\nsave 30 2\n"),
    "all on one line": ("bind", "a b c", "bind a b c\n"),
    "nothing": ("save", "", 'save ""\n'),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_lines_are_written_as_servers_read_them(case: str) -> None:
    name, value, text = WRITTEN[case]
    assert render([(name, value)]) == text
    assert [words for _, words in parse(text)] == words_of(name, value)


def test_versions_are_measured_by_engine_major_and_minor() -> None:
    engine, major, minor = next(iter(MEASURED))
    assert is_measured(Version(engine, major, minor, 3))
    assert not is_measured(Version(engine, major, 99, 0))
    assert not is_measured(Version("other", major, minor, 0))


def test_what_is_spelled_the_same_is_the_same_whatever_it_is() -> None:
    assert equivalent("client-output-buffer-limit", "nonsense", "nonsense")
    assert equivalent("maxmemory", "1kb", "1024")
    assert not equivalent("maxmemory", "1kb", "1000")


def test_a_server_may_have_more_buffer_limits_than_were_asked_for() -> None:
    asked, more = "normal 0 0 0", "normal 0 0 0 replica 1 2 3"
    assert equivalent("client-output-buffer-limit", asked, more)
    assert equivalent("client-output-buffer-limit", more, "replica 1 2 3 normal 0 0 0")
    assert not equivalent("client-output-buffer-limit", more, asked)


def test_a_directive_is_live_from_the_very_version_that_learnt_it() -> None:
    (engine, name), (major, minor) = next(iter(LIVE_SINCE.items()))
    assert effect(name, Version(engine, major, minor, 0)) is ConfigEffect.LIVE
    assert name in RESTART
    assert effect(name, Version(engine, major - 1, 99, 0)) is ConfigEffect.RESTART
