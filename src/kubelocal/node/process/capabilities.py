"""The capabilities of root in a container: the usual ones, and what its spec adds and drops.

A container that runs as root would otherwise be root on the machine: it could enter the mounts of
other processes and read what is hidden from it. `capabilities.json` has the names in the order of
their numbers in Linux.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

__all__ = ["capabilities_of"]

_LISTS: Final = json.loads(files(__package__).joinpath("capabilities.json").read_text())
_NUMBERS: Final = {name: number for number, name in enumerate(_LISTS["names"])}
_USUAL: Final = frozenset(_NUMBERS[name] for name in _LISTS["usual"])
"""The capabilities that container runtimes give by default."""


def capabilities_of(container: Mapping[str, Any]) -> list[int] | None:
    """Return the numbers of the capabilities that a container may have; None: all there are."""
    context = container.get("securityContext") or {}
    if context.get("privileged"):
        return None
    asked = context.get("capabilities") or {}
    drop, add = (_numbers(asked.get(verb) or ()) for verb in ("drop", "add"))
    return sorted((_USUAL - drop) | add)


def _numbers(names: Any) -> frozenset[int]:
    found = {str(name).upper().removeprefix("CAP_") for name in names}
    if "ALL" in found:
        return frozenset(_NUMBERS.values())
    return frozenset(_NUMBERS[name] for name in found if name in _NUMBERS)
