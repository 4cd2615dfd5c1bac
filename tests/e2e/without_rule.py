"""The operator without one rule of its planner: `python without_rule.py RULE run ...`.

It shows that tests notice when what the rule does is not done.
"""

from __future__ import annotations

import sys

from redis_operator.cli.main import main
from redis_operator.planning import plan as planner


def remove(name: str) -> None:
    kept = tuple(row for row in planner.RULES if row.name != name)
    if len(kept) != len(planner.RULES) - 1:
        sys.exit(f"the planner has no rule {name!r}")
    planner.RULES = kept


if __name__ == "__main__":
    remove(sys.argv.pop(1))
    main()
