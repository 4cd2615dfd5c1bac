"""Image references: `[registry/]path/name[:tag][@digest]`, taken apart."""

from __future__ import annotations

import re

from msgspec import Struct

from kubelocal.node.errors import ImageError

__all__ = ["Reference", "parse_reference", "version_key", "version_of_tag"]

_REFERENCE = re.compile(
    r"(?P<path>[a-zA-Z0-9][\w.-]*(?::\d+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>[a-z0-9]+:[0-9a-f]{32,}))?"
)
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)")


class Reference(Struct, frozen=True):
    """An image reference: the last part of its path, its tag and its digest."""

    text: str
    name: str
    tag: str
    digest: str


def parse_reference(text: str) -> Reference:
    """Take an image reference apart; one that is none is `InvalidImageName`."""
    match = _REFERENCE.fullmatch(text.strip())
    if match is None:
        raise ImageError(
            "InvalidImageName",
            f'Failed to apply default image tag "{text}": couldn\'t parse image name "{text}": '
            "invalid reference format",
        )
    path, tag = match["path"], match["tag"] or ""
    name = path.rpartition("/")[2]
    if "/" not in path and ":" in name:  # `name:5` alone is a tag, not a port
        name, _, tag = name.partition(":")
    return Reference(text, name, tag, match["digest"] or "")


def version_of_tag(tag: str) -> str:
    """Return the version that a tag asks for (`9.1-alpine` asks for 9.1), or "" for the newest."""
    match = _VERSION.match(tag)
    return match[1] if match else ""


def version_key(version: str) -> tuple[int, ...]:
    """Return a key that orders versions by number."""
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
