"""The long run: ten thousand trials, every effect of every scenario, hours of trouble, by seed.

`make campaign` works on all cores and writes `build/campaign.json` after each piece of work: its
commit, seed, counts, failures and what has not run. Started again on the same commit it continues
where it was. `CAMPAIGN_SECONDS` bounds the time: the pieces are in an order drawn by seed, so that
a bounded run has a part of everything. `CAMPAIGN_ONLY` names the pieces that must run by how their
names begin ("strikes/mode:,broken/": commas between them).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from kubecontroller.testing.seeds import derive, run_seed
from redis_testing.simulation.catalog import SCENARIOS
from redis_testing.simulation.crashes import (
    Blow,
    piece,
    reference,
    strike_at_each,
    tear_points,
)
from redis_testing.simulation.failover import failover
from redis_testing.simulation.failover_trouble import heal_broken, soak_failover
from redis_testing.simulation.histories import play_struck, play_together, play_trial, play_trouble
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import simulate

__all__ = ["main", "pieces", "work"]

_FILE = Path("build/campaign.json")
_TRIALS, _TRIALS_A_PIECE = 10_000, 50
_PARTS = 8  # of the strikes of one scenario
_RANDOM_STRIKES = 5  # histories with API faults of each scenario
_TOGETHER = 5  # histories of each scenario with two operators at once
_BROKEN, _BROKEN_A_PIECE = 1000, 10
_HOURS = 20
_ENGINES = (("valkey", "8.1"), ("valkey", "9.1"), ("redis", "8.4"), ("redis", "6.2"))

Found = dict[str, Any]


def pieces(seed: int) -> list[str]:
    """Return the names of all pieces of work, in the order in which they are done."""
    found = [f"trials/{number}" for number in range(_TRIALS // _TRIALS_A_PIECE)]
    for scenario in SCENARIOS:
        found += [f"strikes/{scenario}/{part}" for part in range(_PARTS)]
        found += [f"faults/{scenario}/{number}" for number in range(_RANDOM_STRIKES)]
        found += [f"together/{scenario}/{number}" for number in range(_TOGETHER)]
    found += [f"broken/{number}" for number in range(_BROKEN // _BROKEN_A_PIECE)]
    for kind in ("trouble", "sentinels"):
        found += [f"{kind}/{number}" for number in range(_HOURS)]
    Random(seed).shuffle(found)
    chosen = tuple(os.environ.get("CAMPAIGN_ONLY", "").split(","))
    return [name for name in found if name.startswith(chosen)]


def work(name: str) -> Found:
    """Do one piece; return how many histories there were and what went wrong."""
    kind, *rest = name.split("/")
    begun = time.process_time()
    try:
        count, failures = _KINDS[kind](*rest)
    except BaseException as error:  # whatever broke, the campaign continues
        count, failures = 1, [f"{type(error).__name__}: {error}"]
    spent = round(time.process_time() - begun, 1)
    return {"piece": name, "count": count, "failures": failures, "cpu_seconds": spent}


def _trials(number: str) -> tuple[int, list[str]]:
    failures = []
    for turn in range(_TRIALS_A_PIECE):
        seed = derive("campaign trial", int(number) * _TRIALS_A_PIECE + turn)
        trial = play_trial(seed)
        if trial.verdict:
            failures.append(trial.explain())
    return _TRIALS_A_PIECE, failures


def _strikes(name: str, part: str) -> tuple[int, list[str]]:
    known = reference(_scenario(name), seed=derive(f"campaign {name}"))
    failures: list[str] = []
    blows = piece(tear_points(known.effects), int(part), _PARTS)

    def tell(_: Blow, problem: str) -> None:
        if problem:
            failures.append(f"seed {known.seed}: {problem}")

    strike_at_each(known, blows, tell)
    return len(blows), failures


def _faults(name: str, number: str) -> tuple[int, list[str]]:
    play_struck(_scenario(name), derive(f"campaign faults {name}", int(number)))
    return 1, []


def _together(name: str, number: str) -> tuple[int, list[str]]:
    play_together(_scenario(name), derive(f"campaign together {name}", int(number)))
    return 1, []


def _broken(number: str) -> tuple[int, list[str]]:
    """Databases of mode Failover that something broke before the operator came."""
    failures = []
    for turn in range(_BROKEN_A_PIECE):
        seed = derive("campaign broken", int(number) * _BROKEN_A_PIECE + turn)
        try:
            simulate(heal_broken, seed=seed, snapshot=formed(failover()))
        except AssertionError as error:
            failures.append(f"seed {seed}: {error}")
    return _BROKEN_A_PIECE, failures


def _sentinels(number: str) -> tuple[int, list[str]]:
    """Ten minutes of trouble for a database of mode Failover."""
    simulate(
        lambda simulation: soak_failover(simulation, seconds=600.0, pause=15.0),
        seed=derive("campaign sentinels", int(number)),
        snapshot=formed(failover(storage=int(number) % 2 == 0)),
    )
    return 1, []


def _trouble(number: str) -> tuple[int, list[str]]:
    engine, version = _ENGINES[int(number) % len(_ENGINES)]
    seed = derive("campaign trouble", int(number))
    play_trouble(seed, seconds=3600.0, pause=30.0, engine=engine, version=version)
    return 1, []


_KINDS: dict[str, Callable[..., tuple[int, list[str]]]] = {
    "trials": _trials,
    "strikes": _strikes,
    "faults": _faults,
    "together": _together,
    "broken": _broken,
    "sentinels": _sentinels,
    "trouble": _trouble,
}


def _scenario(name: str) -> Any:
    return next(s for s in SCENARIOS if s.name == name)


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout

    changed = " with changes" if git("status", "--porcelain", "-uno").strip() else ""
    return git("rev-parse", "HEAD").strip() + changed


def _known(commit: str) -> Found:
    """Return the record of an earlier run that can be gone on with, or a new one."""
    if _FILE.exists():
        found: Found = json.loads(_FILE.read_text())
        if found["commit"] == commit and os.environ.get("SEED", found["seed"]) == found["seed"]:
            os.environ["SEED"] = found["seed"]
            return found
    return {"commit": commit, "seed": str(run_seed()), "done": {}, "failures": []}


def _write(record: Found, left: int) -> None:
    counts: dict[str, int] = {}
    for name, one in record["done"].items():
        kind = name.split("/")[0]
        counts[kind] = counts.get(kind, 0) + one["count"]
    told = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": record["commit"],
        "seed": record["seed"],
        "histories": counts,
        "pieces_done": len(record["done"]),
        "pieces_left": left,
        "cpu_seconds": round(sum(one["cpu_seconds"] for one in record["done"].values())),
        "failures": record["failures"],
        "done": record["done"],
    }
    _FILE.parent.mkdir(exist_ok=True)
    draft = _FILE.with_suffix(".new")
    draft.write_text(json.dumps(told, indent=1) + "\n")
    draft.replace(_FILE)


def _note(record: Found, found: Found) -> None:
    name = found["piece"]
    record["done"][name] = {k: found[k] for k in ("count", "cpu_seconds")}
    record["failures"] += [{"piece": name, "problem": text} for text in found["failures"]]
    for text in found["failures"]:
        print(f"{name}: {text}", flush=True)


def main() -> int:
    """Run what is left, within the time that is given; 1 when something failed."""
    record = _known(_commit())
    seed = int(record["seed"])
    budget = float(os.environ.get("CAMPAIGN_SECONDS", "inf"))
    workers = int(os.environ.get("CAMPAIGN_WORKERS", str(os.cpu_count() or 1)))
    left = [name for name in pieces(seed) if name not in record["done"]]
    print(f"SEED={seed}: {len(record['done'])} pieces done, {len(left)} to do", flush=True)
    end = time.monotonic() + budget
    with ProcessPoolExecutor(workers) as pool:
        running: set[Future[Found]] = set()
        while running or (left and time.monotonic() < end):
            while left and len(running) < workers and time.monotonic() < end:
                running.add(pool.submit(work, left.pop()))
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                _note(record, future.result())
            _write(record, len(left) + len(running))
    print(f"{len(record['done'])} pieces done, {len(left)} left, see {_FILE}")
    return 1 if record["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
