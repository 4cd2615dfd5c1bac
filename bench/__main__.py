"""Run every measurement, or the parts that are named: `make bench PART="moves cluster"`.

A module of this package whose name starts with `measure_` has `run() -> list[Row]` and says in its
first line what it does; `SECONDS` is how long it takes on two quiet cores. It may raise `Missing`
when this machine lacks what it needs, and is then listed as not run. A part that takes four times
as long as it should is ended and named.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import signal
import subprocess
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from types import FrameType

import bench
from bench.missing import Missing
from bench.peers import prepare_engines
from bench.rows import Row, show, write

_USUAL_SECONDS = 120.0
_PATIENCE = 4


def main(chosen: list[str]) -> int:
    prepare_engines()
    rows: list[Row] = []
    left_out: list[str] = []
    failed: list[str] = []
    parts = [m.name.removeprefix("measure_") for m in pkgutil.iter_modules(bench.__path__)
             if m.name.startswith("measure_")]  # fmt: skip
    unknown = sorted(set(chosen) - set(parts))
    if unknown:
        print(f"there is no part {', '.join(unknown)}; there are: {', '.join(sorted(parts))}")
        return 2
    for name in sorted(chosen or parts):
        load = os.getloadavg()[0]
        try:
            rows += [_signed(row, name, load) for row in _measure(name)]
        except Missing as missing:
            left_out.append(f"{name}: {missing}")
        except Exception:
            traceback.print_exc()
            failed.append(f"{name}: failed, see above")
        write(rows, Path("build/bench.json"))
    print(show(rows))
    if left_out:
        print(f"missing rows: {'; '.join(left_out)}")
    for line in failed:
        print(line)
    return 1 if failed else 0


def _measure(name: str) -> list[Row]:
    module = importlib.import_module(f"bench.measure_{name}")
    usual = float(getattr(module, "SECONDS", _USUAL_SECONDS))
    does = (module.__doc__ or "").strip().splitlines()[0]
    print(f"measuring {name} (about {usual:.0f} s): {does}", file=sys.stderr, flush=True)
    signal.signal(signal.SIGALRM, _end)
    signal.alarm(int(usual * _PATIENCE))
    try:
        found: list[Row] = module.run()
    finally:
        signal.alarm(0)
    return found


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"this part took {_PATIENCE} times as long as it should")


def _signed(row: Row, part: str, load: float) -> Row:
    return replace(row, part=part, commit=_commit(), kernel=platform.release(), load=load)


def _commit() -> str:
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
