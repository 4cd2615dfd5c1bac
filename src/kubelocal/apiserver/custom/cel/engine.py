"""The CEL engine, loaded without the command line of its package.

Importing the package `cel` imports its interactive shell, which takes two seconds and is not used
here. Its compiled module works alone, so it is loaded by its file.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["cel"]

_NAME = "cel.cel"


def _load() -> ModuleType:
    package = importlib.util.find_spec("cel")
    if package is None or package.origin is None:
        raise ModuleNotFoundError(
            "the API server needs a package that is not installed: "
            "`pip install common-expression-language`",
            name="cel",
        )
    folder = Path(package.origin).parent
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    file = next(f for f in sorted(folder.iterdir()) if f.name.endswith(suffixes))
    spec = importlib.util.spec_from_file_location(_NAME, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cel: ModuleType = sys.modules.get(_NAME) or _load()
