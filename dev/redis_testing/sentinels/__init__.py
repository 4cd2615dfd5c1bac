"""Simulated sentinels, in the world and the time of the simulated servers.

They have what plans can get wrong: which one knows which, under which address, suspicion alone
and together, epochs and votes, a failover step by step, what a file keeps, and clocks that jump.
Their contract suite also runs on real sentinels.

May import: `redis_operator.redis`, `cluster`.
Called by: `cluster`, which lets them run in its time, and `simulation`.
Begin with: `state`, then `watching`.
"""

from __future__ import annotations

from .state import Monitored, Sentinel, Watched

__all__ = ["Monitored", "Sentinel", "Watched"]
