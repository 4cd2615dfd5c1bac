"""From a manager to a process: exit status, messages, memory.

`sys.exit(run_process(main))` is the last line of an operator. An expected error is one line on
standard error that says what to do; only a bug shows a traceback.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from kubecontroller.client.errors import KubeError
from kubecontroller.runtime.controller import CachesNotSynced
from kubecontroller.runtime.election import LeadershipLost
from kubecontroller.runtime.server import CannotServe

__all__ = ["freeze_cached_objects", "run_process"]

_THRESHOLDS = (50_000, 20, 100)


def run_process(
    main: Callable[[], Coroutine[Any, Any, None]],
    *,
    exit_now: Callable[[int], object] = os._exit,
) -> int:
    """Run an operator's main function; return the exit status.

    A lost lease ends the process from inside: parts that still run must not be waited for.
    """

    async def guarded() -> int:
        try:
            await main()
        except LeadershipLost as error:
            _print_error(f"error: {error}")
            exit_now(1)
            return 1
        except (KubeError, CachesNotSynced, CannotServe) as error:
            _print_error(f"error: {error}")
            return 1
        except Exception:
            _print_error(traceback.format_exc())
            return 1
        return 0

    try:
        return asyncio.run(guarded())
    except KeyboardInterrupt:
        return 130


def freeze_cached_objects() -> None:
    """Exclude cached objects from garbage collection. Call it once caches are full.

    A full collection over ten thousand cached objects stops the process for tens of milliseconds,
    and finds nothing: cached objects live as long as the process.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def _print_error(text: str) -> None:
    sys.stderr.write(text.rstrip() + "\n")
    sys.stderr.flush()
