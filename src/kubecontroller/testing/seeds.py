"""The seed of a run: a new one each time, printed, and given again to repeat the run exactly.

`SEED=...` in the environment is the run's seed; without it one is drawn and set there, so that
child processes have the same. Everything random in a run is derived from it by name: adding or
removing a test does not change the seeds of the others.
"""

from __future__ import annotations

import hashlib
import os
import secrets

__all__ = ["derive", "run_seed"]

_NAME = "SEED"


def run_seed() -> int:
    """Return the seed of this run; draw it when there is none yet."""
    if not os.environ.get(_NAME, "").isdigit():
        os.environ[_NAME] = str(secrets.randbelow(2**32))
    return int(os.environ[_NAME])


def derive(name: str, number: int = 0) -> int:
    """Return the seed of a named part of the run."""
    text = f"{run_seed()} {name} {number}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
