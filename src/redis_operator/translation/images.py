"""The engine and the version of an image, from its name and its tag. Pure."""

from __future__ import annotations

import re
from typing import Final

from redis_operator.api.redis import Engine

__all__ = ["engine_of", "version_of"]

_VERSION: Final = re.compile(r"v?(?P<version>[0-9]{1,3}\.[0-9]{1,3})(?![0-9])")


def engine_of(image: str) -> Engine | None:
    """Return the engine that an image is named after, or None."""
    name = _parts(image)[0]
    return next((engine for engine in Engine if engine.value in name), None)


def version_of(image: str) -> str:
    """Return the version that the tag begins with, like 6.2; empty where it has none."""
    found = _VERSION.match(_parts(image)[1])
    return found["version"] if found else ""


def _parts(image: str) -> tuple[str, str]:
    """Return the last part of the name, and the tag; a port of the registry is neither."""
    name, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    return name.lower(), tag
