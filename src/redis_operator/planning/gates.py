"""Which version may follow which, in one place, from the measured matrix of full syncs. I12

A new replica must be able to copy an old primary, and to read the files of its predecessor. The
reverse is never true, so a downgrade is a restore or a copy key by key, never a roll.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..redis.versions import Version, parse_version
from .advice import Wanted
from .observed import Observed

__all__ = ["can_copy", "limitation", "running_limitation"]


def limitation(wanted: Wanted, observed: Observed) -> str | None:
    """Why the wanted engine and version may not be rolled over the running ones, or None."""
    running = ((node.pod.name, node.engine, node.version) for node in observed.seen)
    return running_limitation(wanted.engine, wanted.version, running)


def running_limitation(
    engine: str, version: str, running: Iterable[tuple[str, str, str]]
) -> str | None:
    """Why an engine and version may not follow the running ones (name, engine, version), or None.

    Servers whose version is not known do not count.
    """
    new = parse_version(engine, version) if version else None
    if new is None:
        return None
    for name, old_engine, old_version in running:
        old = parse_version(old_engine, old_version) if old_version else None
        reason = _step(old, new) if old is not None else None
        if reason:
            return f"{name} runs {old}: {reason}"
    return None


def can_copy(primary: tuple[str, str], replica: tuple[str, str]) -> bool:
    """Whether a replica, or a receiver of slots, reads what a primary (engine, version) sends."""
    old, new = parse_version(*primary), parse_version(*replica)
    return old is None or new is None or _step(old, new) is None


def _step(old: Version, new: Version) -> str | None:
    """Why one version may not follow the other. Patch levels of a minor version go both ways."""
    before, after = (old.major, old.minor), (new.major, new.minor)
    name = f"{new.engine} {new.major}.{new.minor}"
    if old.engine == new.engine:
        if after >= before:
            return None
        return f"{name} cannot read its data; restore a backup into {name} instead"
    if old.engine == "redis":
        if before <= (7, 2):
            return None
        return f"{name} cannot read the data of redis 7.4 and later; import it key by key"
    if before < (9, 0) and after >= (7, 4):
        return None
    return f"{name} cannot read its data; import it key by key"
