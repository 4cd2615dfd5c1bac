"""Names of a package that are loaded on first use: a whole operator takes long to load.

A client that reads one object does not load the runtime, and `--help` loads neither. Called by the
public packages of this library, outside of type checking.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["loader"]


def loader(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: for each of its modules, the names that it has."""
    place = {name: module for module, names in places.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in place:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{place[name]}"), name)
        setattr(sys.modules[package], name, found)  # so that it is asked for once
        return found

    return load
