"""Run every measurement, or those whose module names are given: `python -m bench [queue ...]`.

A module of this package whose name starts with `measure_` has `run() -> list[Row]`; it may raise
`Missing` when this machine lacks what it needs, and is then listed as not run.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from pathlib import Path

import bench
from bench.missing import Missing
from bench.rows import Row, show, write


def main(chosen: list[str]) -> int:
    rows: list[Row] = []
    left_out: list[str] = []
    failed: list[str] = []
    for module in sorted(m.name for m in pkgutil.iter_modules(bench.__path__)):
        if not module.startswith("measure_"):
            continue
        name = module.removeprefix("measure_")
        if chosen and name not in chosen:
            continue
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        try:
            rows += importlib.import_module(f"bench.{module}").run()
        except Missing as missing:
            left_out.append(f"{name}: not run, {missing}")
        except Exception:
            traceback.print_exc()
            failed.append(f"{name}: failed, see above")
    print(show(rows))
    for line in (*left_out, *failed):
        print(line)
    write(rows, Path("build/bench.json"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
