"""Change the program in small ways and see which changes no test notices: `make mutants`.

Usage: python -m tools.mutants [path below src or src/redis_operator ...]
Environment: MUTANTS_SECONDS (how long after the record, 600), MUTANTS_SAMPLE (how many changes
of each group; all unless given), MUTANTS_TESTS (folders of tests, chosen by package unless given),
SEED (of the sample; printed), MUTANTS_TEST_SECONDS (CPU time of the tests of one change, 10),
MUTANTS_SLOWEST (CPU time of one test, 4), MUTANTS_COPIES (how many changes at a time, 2),
MUTANTS_AGAIN (a file that an earlier run wrote: only what no test noticed then is tried).

1. Copies of the repository are made in a temporary folder, and run by a user of their own
   where we are root: a changed program can delete or signal nothing that is not its own.
   `kubelocal`, which removes folders and ends processes for a living, is never changed.
2. In each copy pytest collects the tests once and stays (`warm_tests`). The tests run once as they
   are, and the lines they run are recorded; the record of a file of tests is kept in `build` for
   as long as neither it nor a file of the program that its tests run changes (`records`).
3. For each change a fork puts the changed function in place and runs the tests that run the changed
   line until one fails: the quickest, those that run most of that file, and first of all those
   that noticed something in it before.
   A change that no test runs counts as unnoticed.
Written are `build/mutants.json` and a table. `docs/mutants.md` lists what was found equivalent.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from tools.copies import Copy, make_copy
from tools.mutations import Mutation, mutations, names
from tools.records import Covering, Records

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parent.parent
_SOURCE = Path("src")
_PRODUCT = "redis_operator"
_CHANGED = (
    *(
        "planning",
        "operator",
        "kubecontroller/runtime",
        "manifests/cluster_scripts.py",
        "redis/config.py",
    ),
    *("redis/mover.py", "redis/moving.py", "redis/carrying.py", "redis/atomic.py"),
    *("redis/manual.py", "redis/rescue.py", "redis/tally.py", "redis/weights.py"),
)
_TESTS = {
    "redis_operator/planning": ("tests/planning", "tests/operator/test_guards.py"),
    "redis_operator/operator": ("tests/operator", "tests/planning", "tests/sim"),
    "kubecontroller/runtime": ("tests/kubecontroller/runtime",),
    "redis_operator/manifests": ("tests/manifests",),
    "redis_operator/redis": ("tests/redis",),
}
_STRICT = (
    "redis_operator/operator",
    *(f"redis_operator/planning/cluster/{name}.py" for name in ("election", "situation", "guards")),
)
_RULES = tuple(
    f"redis_operator/planning/{name}" for name in ("common", "cluster", "failover", "standalone")
)
_AIM, _STRICT_AIM = 90, 95
_COPIES = int(os.environ.get("MUTANTS_COPIES", "2"))
_RECORD_SECONDS = 3000.0
_PROGRESS = 20
_START_SECONDS = 60.0  # what may pass before and after the tests of a change
_T = TypeVar("_T")


@dataclass
class Result:
    """What became of one change."""

    path: str
    line: int
    kind: str
    name: str
    outcome: str = "not tried"  # noticed, unnoticed, not called, equivalent, not tried
    by: str = ""
    tests: int = 0
    seconds: float = 0.0


# Which tests run what


def _record(copies: list[Copy]) -> dict[str, dict[str, Any]]:
    """What each test that passes runs; recorded where it is not known."""
    records = Records(_ROOT)
    limit = float(os.environ.get("MUTANTS_SLOWEST", "4"))
    by_file: dict[str, list[str]] = {}
    for test in copies[0].collected:
        by_file.setdefault(test.partition("::")[0], []).append(test)
    found = {file: records.load(file, limit=limit) for file in by_file}
    missing = sorted(file for file, tests in found.items() if tests is None)
    if missing:
        print(f"recording what the tests of {len(missing)} files run (kept until they change) ...")

    def record(copy: Copy, file: str) -> None:
        answer = copy.ask(do="record", tests=by_file[file], seconds=limit, wall=_RECORD_SECONDS)
        tests = answer.get("recorded", {})
        records.keep(file, tests, collected=len(by_file[file]), limit=limit)
        found[file] = tests
        print(f"  {file}: {len(tests)} of {len(by_file[file])}", flush=True)

    _spread(copies, missing, record)
    return {test: noted for tests in found.values() if tests for test, noted in tests.items()}


def _spread(copies: list[Copy], work: list[_T], do: Callable[[Copy, _T], None]) -> None:
    """Do it for each, in as many copies at a time as there are."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(item: _T) -> None:
        copy = free.get()
        try:
            do(copy, item)
        finally:
            free.put(copy)

    pool = ThreadPoolExecutor(len(copies))
    try:
        list(pool.map(one, work))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


# Trying


def _try(copy: Copy, path: str, mutation: Mutation, covering: Covering, result: Result) -> None:
    limit = float(os.environ.get("MUTANTS_TEST_SECONDS", "10"))
    tests, expected = covering.of(path, mutation, seconds=limit)
    result.tests = len(tests)
    if not tests:
        result.outcome = "not called"
        return
    begun = time.monotonic()
    changed = copy.folder / _SOURCE / path
    original = changed.read_bytes()
    source = mutation.apply(original)
    try:
        changed.write_bytes(source)  # for tests that start a Python of their own
        told = copy.ask(
            do="try",
            path=path,
            function_line=mutation.function_line,
            source=source.decode(),
            tests=tests,
            cpu=5 + 3 * expected,
            wall=_START_SECONDS + 15 * expected,
        )
        if told["outcome"] == "unplaced":
            told = _try_cold(copy, tests, expected)
    finally:
        changed.write_bytes(original)
    result.seconds = round(time.monotonic() - begun, 1)
    result.outcome, result.by = told["outcome"], told["by"]
    if "::" in result.by:
        covering.noticed(path, result.by)


def _try_cold(copy: Copy, tests: list[str], expected: float) -> dict[str, Any]:
    code, printed = copy.run_cold(tests, seconds=_START_SECONDS + 15 * expected)
    if code == 0:
        return {"outcome": "unnoticed", "by": ""}
    return {"outcome": "noticed", "by": _noticed_by(code, printed)}


def _noticed_by(code: int, printed: str) -> str:
    if code == 124:
        return "took too long"
    lines = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].partition(" - ")[0] if lines else f"exit code {code}"


def _chosen(paths: list[str]) -> list[str]:
    """The files to be changed, below `src`."""
    found = []
    for path in paths or _CHANGED:
        named = path.removeprefix(f"{_SOURCE}/")
        places = [_ROOT / _SOURCE / named, _ROOT / _SOURCE / _PRODUCT / named]
        place = next((place for place in places if place.exists()), places[0])
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        found += [str(f.relative_to(_ROOT / _SOURCE)) for f in files if f.exists()]
    kept = [path for path in found if not path.startswith("kubelocal/")]
    if not kept:
        raise SystemExit(f"there is nothing to change in {', '.join(paths)}")
    return kept


def _tests_for(files: list[str]) -> tuple[str, ...]:
    given = os.environ.get("MUTANTS_TESTS", "").split()
    packages = {_package(path) for path in files}
    chosen = given or [t for package in packages for t in _TESTS.get(package, ("tests",))]
    return tuple(sorted(set(chosen)))


def _package(path: str) -> str:
    return "/".join(path.split("/")[:2])


def _draw(files: list[str], sample: int, seed: int) -> list[tuple[str, Mutation, Result]]:
    equivalent = (_ROOT / "docs" / "mutants.md").read_text() if _has_list() else ""
    drawn = []
    for path in files:
        found = mutations((_ROOT / _SOURCE / path).read_bytes())
        for mutation, name in zip(found, names(found), strict=True):
            result = Result(path, mutation.line, mutation.kind, f"{path}: {name}")
            if f"`{result.name}`" in equivalent:
                result.outcome = "equivalent"
            drawn.append((path, mutation, result))
    random.Random(seed).shuffle(drawn)
    taken: Counter[str] = Counter()
    kept = []
    for path, mutation, result in drawn:
        group = _group(path)[0]
        taken[group] += 1
        if not sample or taken[group] <= sample:
            kept.append((path, mutation, result))
    return kept


def _again(drawn: list[tuple[str, Mutation, Result]]) -> list[tuple[str, Mutation, Result]]:
    """Keep the changes that no test noticed in an earlier run, where one is named."""
    before = os.environ.get("MUTANTS_AGAIN")
    if not before:
        return drawn
    found = json.loads(Path(before).read_text())["results"]
    left = {one["name"] for one in found if one["outcome"] in ("unnoticed", "not called")}
    return [item for item in drawn if item[2].name in left]


def _has_list() -> bool:
    return (_ROOT / "docs" / "mutants.md").exists()


def main(paths: list[str]) -> int:
    """Try changes until the time is over; print and write what was found."""
    seed = int(os.environ.get("SEED") or random.randrange(10**6))
    sample = int(os.environ.get("MUTANTS_SAMPLE", "0"))
    seconds = float(os.environ.get("MUTANTS_SECONDS", "600"))
    files = _chosen(paths)
    drawn = _again(_draw(files, sample, seed))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also in the background
    print(f"SEED={seed}: {len(drawn)} changes in {len(files)} files")
    base = Path(tempfile.mkdtemp(prefix="mutants-"))
    base.chmod(0o755)
    copies = [make_copy(_ROOT, base, number) for number in range(_COPIES)]
    try:
        for copy in copies:
            copy.warm_up(_tests_for(files))
        covering = Covering(_record(copies))
        _try_all(drawn, copies, covering, time.monotonic() + seconds)
    except KeyboardInterrupt:
        print("interrupted: what was found until now is written")
    finally:
        for copy in copies:
            copy.cool()
        shutil.rmtree(base, ignore_errors=True)
    results = [result for _, _, result in drawn]
    _write(results, seed)
    print(table(results))
    return 0


def _try_all(
    drawn: list[tuple[str, Mutation, Result]],
    copies: list[Copy],
    covering: Covering,
    deadline: float,
) -> None:
    progress: Counter[str] = Counter()

    def work(copy: Copy, item: tuple[str, Mutation, Result]) -> None:
        path, mutation, result = item
        if result.outcome == "equivalent" or time.monotonic() > deadline:
            return
        _try(copy, path, mutation, covering, result)
        if result.outcome != "noticed":
            told = f"{result.outcome}: {result.path}:{result.line} {result.kind}: {result.name}"
            print(f"{told} ({result.tests} tests)", flush=True)
        progress[result.outcome] += 1
        if progress.total() % _PROGRESS == 0:
            print(f"... {progress['noticed']} of {progress.total()} noticed", flush=True)

    _spread(copies, drawn, work)


def _write(results: list[Result], seed: int) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    told = {"commit": commit, "seed": seed, "results": [asdict(result) for result in results]}
    path = _ROOT / "build" / "mutants.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(told, indent=1) + "\n")


def _group(path: str) -> tuple[str, int]:
    """The line of the table that a file belongs to, and its aim in percent."""
    strict = next((name for name in _STRICT if path.startswith(name)), None)
    if not strict and path.startswith(_RULES):
        return "planning rules", _STRICT_AIM
    return (strict, _STRICT_AIM) if strict else (_package(path), _AIM)


def table(results: list[Result]) -> str:
    """A line for each package: what was tried, what was noticed, and the aim."""
    groups: dict[tuple[str, int], list[str]] = {}
    for result in results:
        groups.setdefault(_group(result.path), []).append(result.outcome)
    head = ("package", "tried", "noticed", "unnoticed", "not called", "equivalent", "share", "aim")
    lines = ["  ".join(f"{word:<24}" if word == "package" else f"{word:>10}" for word in head)]
    for (name, aim), outcomes in sorted(groups.items()):
        counts = [outcomes.count(o) for o in ("noticed", "unnoticed", "not called", "equivalent")]
        tried = sum(counts[:3])
        share = f"{100 * counts[0] / tried:.0f} %" if tried else "-"
        cells = [str(tried), *map(str, counts), share, f"{aim} %"]
        lines.append("  ".join([f"{name:<24}", *(f"{cell:>10}" for cell in cells)]))
    left = sum(result.outcome == "not tried" for result in results)
    if left:
        lines.append(f"{left} changes were not tried: the time was over (MUTANTS_SECONDS)")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
