"""The operator without one rule of its planner: `python without_rule.py RULE run ...`.

It shows that tests notice when what the rule does is not done.
"""

from __future__ import annotations

import sys

from msgspec.structs import replace

from redis_operator.api.redis import Mode
from redis_operator.cli.main import main
from redis_operator.planning import plan as planner


def apply(name: str) -> None:
    """Remove the rule from the planner of this process."""
    mode = planner.MODES[Mode.CLUSTER]
    kept = tuple(row for row in mode.rules if row.name != name)
    if len(kept) != len(mode.rules) - 1:
        sys.exit(f"the planner has no rule {name!r}")
    planner.MODES = {**planner.MODES, Mode.CLUSTER: replace(mode, rules=kept)}


if __name__ == "__main__":
    apply(sys.argv.pop(1))
    main()
