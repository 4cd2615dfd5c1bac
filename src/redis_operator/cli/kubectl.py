"""Finding a kubectl: on PATH, or the one that the package index carries."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

__all__ = ["find_kubectl"]


def find_kubectl() -> str | None:
    """Return the path of a kubectl, this Python environment's first, or None."""
    beside = Path(sys.executable).parent / "kubectl"
    if beside.exists():
        return str(beside)
    return shutil.which("kubectl")
