"""Change the program in small ways and see which changes no test notices: `make mutants`.

Usage: python -m tools.mutants [path below src or src/redis_operator ...]
Environment: MUTANTS_SECONDS (how long after the record, 600), MUTANTS_SAMPLE (how many changes; all
unless given), MUTANTS_TESTS (folders of tests, chosen by package unless given), SEED (of the
sample; printed), MUTANTS_TEST_SECONDS (how long the tests of one change may take, 40).

1. Two copies of the repository are made in a temporary folder, and run by a user of their own
   where we are root: a changed program can delete or signal nothing that is not its own.
   `kubelocal`, which removes folders and ends processes for a living, is never changed.
2. The tests run once as they are, and what they call is recorded (`record_calls`); the record is
   kept in `build` for as long as neither program nor tests change.
3. For each change the tests that call the changed function run, the quickest first, until one
   fails. A change that no test calls counts as unnoticed.
Written are `build/mutants.json` and a table. `docs/mutants.md` lists what was found equivalent.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import SimpleQueue

from tools.mutations import Mutation, mutations, names

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parent.parent
_SOURCE = Path("src")
_PRODUCT = "redis_operator"
_CHANGED = (
    *("planning", "operator", "kubecontroller/runtime", "manifests/scripts.py", "redis/config.py"),
    *("redis/mover.py", "redis/moving.py", "redis/carrying.py", "redis/atomic.py"),
    *("redis/manual.py", "redis/rescue.py", "redis/tally.py", "redis/weights.py"),
)
_TESTS = {
    "redis_operator/planning": ("tests/planning", "tests/sim"),
    "redis_operator/operator": ("tests/operator", "tests/sim"),
    "kubecontroller/runtime": ("tests/kubecontroller/runtime",),
    "redis_operator/manifests": ("tests/manifests",),
    "redis_operator/redis": ("tests/redis",),
}
_STRICT = (
    "redis_operator/operator",
    *(f"redis_operator/planning/{name}.py" for name in ("election", "situation", "invariants")),
)
_RULES = "redis_operator/planning/rules"
_AIM, _STRICT_AIM = 90, 95
_COPIED = ("src", "dev", "tests", "tools", "docs", "config", "examples", "bench", "requirements")
_SINGLE = ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "LICENSE")
_QUICK = "not campaign and not contract and not e2e"
_USER = 61_000  # and upwards, one for each copy; nobody else's
_COPIES = 2
_RECORD_SECONDS = 3000.0
_START_SECONDS = 30.0  # what pytest may take before and after the tests


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


@dataclass
class Copy:
    """A copy of the repository that changed programs run in."""

    folder: Path
    user: int
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, arguments: list[str], *, seconds: float, **more: str) -> tuple[int, str]:
        """Run pytest in the copy; its exit code (124 when it took too long) and what it printed."""
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        if os.getuid() == 0:
            command = [
                *("setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"),
                *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"),
                *command,
            ]
        process = subprocess.Popen(
            ["nice", "-n", "10", *command],
            cwd=self.folder,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return 124, ""
        return process.returncode, printed


def _make_copy(base: Path, number: int) -> Copy:
    folder = base / f"copy{number}"
    folder.mkdir()
    for name in _COPIED:
        if (_ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(_ROOT / name, folder / name, ignore=ignored)
    for name in _SINGLE:
        if (_ROOT / name).exists():
            shutil.copy(_ROOT / name, folder / name)
    for name in ("home", "tmp", "build"):
        (folder / name).mkdir(exist_ok=True)
    copy = Copy(folder, _USER + number)
    kept = {
        name: os.environ[name]
        for name in ("PATH", "LANG", "REDIS_OPERATOR_ENGINES")
        if name in os.environ
    }
    copy.environment = {
        **kept,
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": f"{folder / 'src'}:{folder / 'dev'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "SEED": "1",  # the same trials for every change
    }
    if os.getuid() == 0:
        subprocess.run(["chown", "-R", f"{copy.user}:{copy.user}", str(folder)], check=True)
    return copy


# Which tests call what


def _fingerprint(tests: tuple[str, ...]) -> str:
    digest = hashlib.sha256(" ".join(tests).encode())
    for folder in ("src", "dev", *tests):
        for path in sorted((_ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _record(copy: Copy, tests: tuple[str, ...]) -> dict[str, dict[str, object]]:
    """Run the tests as they are; return what each of those that passed calls."""
    kept = _ROOT / "build" / f"mutants-calls-{_fingerprint(tests)}.json"
    if not kept.exists():
        print(f"recording what {' '.join(tests)} call (once for this program and these tests) ...")
        written = copy.folder / "build" / "calls.json"
        written.unlink(missing_ok=True)
        code, printed = copy.run(
            ["-q", "-p", "tools.record_calls", "--timeout", "300", "-m", _QUICK, *tests],
            seconds=_RECORD_SECONDS,
            RECORD_CALLS_TO=str(written),
        )
        if not written.exists():
            raise SystemExit(f"the tests could not be recorded (exit code {code}):\n{printed}")
        print(printed.splitlines()[-1] if printed else f"exit code {code}")
        kept.parent.mkdir(exist_ok=True)
        shutil.copy(written, kept)
    found: dict[str, dict[str, object]] = json.loads(kept.read_text())
    return found


class Calls:
    """The record, asked from the other side: which tests call a function, the quickest first."""

    def __init__(self, record: dict[str, dict[str, object]]) -> None:
        self._seconds = {test: float(str(noted["seconds"])) for test, noted in record.items()}
        self._by_function: dict[str, set[str]] = {}
        self._by_path: dict[str, set[str]] = {}
        for test, noted in record.items():
            calls = noted["calls"]
            assert isinstance(calls, list)
            for call in calls:
                self._by_function.setdefault(call, set()).add(test)
                self._by_path.setdefault(call.rpartition(":")[0], set()).add(test)

    def of(self, path: str, mutation: Mutation, *, seconds: float) -> tuple[list[str], float]:
        """The tests, as many as take so long together (one at least), and how long they take."""
        if mutation.function_line:
            found = self._by_function.get(f"{path}:{mutation.function_line}", set())
        else:
            found = self._by_path.get(path, set())
        chosen: list[str] = []
        total = 0.0
        for test in sorted(found, key=lambda name: (self._seconds[name], name)):
            if chosen and total + self._seconds[test] > seconds:
                break
            chosen.append(test)
            total += self._seconds[test]
        return chosen, total


# Trying


def _try(copy: Copy, path: str, mutation: Mutation, calls: Calls, result: Result) -> None:
    tests, expected = calls.of(
        path, mutation, seconds=float(os.environ.get("MUTANTS_TEST_SECONDS", "40"))
    )
    result.tests = len(tests)
    if not tests:
        result.outcome = "not called"
        return
    begun = time.monotonic()
    changed = copy.folder / _SOURCE / path
    original = changed.read_bytes()
    try:
        changed.write_bytes(mutation.apply(original))
        code, printed = copy.run(
            ["-q", "-x", "--no-header", "--timeout", "120", "-m", _QUICK, *tests],
            seconds=_START_SECONDS + expected * 5,
        )
    finally:
        changed.write_bytes(original)
    result.seconds = round(time.monotonic() - begun, 1)
    if code == 0:
        result.outcome = "unnoticed"
    elif code == 5:
        result.outcome, result.by = "not called", "the tests were not found again"
    else:
        result.outcome, result.by = "noticed", _noticed_by(code, printed)


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
    return drawn[:sample] if sample else drawn


def _has_list() -> bool:
    return (_ROOT / "docs" / "mutants.md").exists()


def main(paths: list[str]) -> int:
    """Try changes until the time is over; print and write what was found."""
    seed = int(os.environ.get("SEED") or random.randrange(10**6))
    sample = int(os.environ.get("MUTANTS_SAMPLE", "0"))
    seconds = float(os.environ.get("MUTANTS_SECONDS", "600"))
    files = _chosen(paths)
    drawn = _draw(files, sample, seed)
    print(f"SEED={seed}: {len(drawn)} changes in {len(files)} files")
    base = Path(tempfile.mkdtemp(prefix="mutants-"))
    base.chmod(0o755)
    try:
        copies = [_make_copy(base, number) for number in range(_COPIES)]
        calls = Calls(_record(copies[0], _tests_for(files)))
        _try_all(drawn, copies, calls, time.monotonic() + seconds)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    results = [result for _, _, result in drawn]
    _write(results, seed)
    print(table(results))
    return 0


def _try_all(
    drawn: list[tuple[str, Mutation, Result]], copies: list[Copy], calls: Calls, deadline: float
) -> None:
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def work(item: tuple[str, Mutation, Result]) -> None:
        path, mutation, result = item
        if result.outcome == "equivalent" or time.monotonic() > deadline:
            return
        copy = free.get()
        try:
            _try(copy, path, mutation, calls, result)
        finally:
            free.put(copy)
        if result.outcome != "noticed":
            print(f"{result.outcome}: {result.path}:{result.line} {result.kind}: {result.name}")

    with ThreadPoolExecutor(len(copies)) as pool:
        list(pool.map(work, drawn))


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
    if path.startswith(_RULES):
        return "planning rules", _STRICT_AIM
    strict = next((name for name in _STRICT if path.startswith(name)), None)
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
