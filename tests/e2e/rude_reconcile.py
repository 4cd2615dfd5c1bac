"""The operator whose reconcile misbehaves for one database: `python rude_reconcile.py HOW run ...`.

HOW is `raises`, `returns nothing` or `is cancelled`; the database is the one called `rude`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from redis_operator.cli.main import main
from redis_operator.operator.reconcile import Reconciler

_WHOLE = Reconciler.reconcile


async def misbehave(how: str) -> Any:
    if how == "raises":
        raise RuntimeError("a mistake of ours")
    if how == "is cancelled":
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future
    return None


def apply(how: str) -> None:
    """Have the operator of this process misbehave."""

    async def reconcile(self: Reconciler, key: tuple[str, str]) -> Any:
        return await (misbehave(how) if key[1] == "rude" else _WHOLE(self, key))

    Reconciler.reconcile = reconcile  # type: ignore[method-assign]


if __name__ == "__main__":
    apply(sys.argv.pop(1))
    main()
