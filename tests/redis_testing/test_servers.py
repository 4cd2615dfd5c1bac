"""The real servers that tests run on."""

from __future__ import annotations

from redis_testing.servers import find_engines


def test_both_engines_are_found() -> None:
    """The development requirements bring one of each; tests on all engines must not shrink."""
    assert {engine.version.engine for engine in find_engines()} == {"redis", "valkey"}
