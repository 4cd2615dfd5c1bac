"""Which lines of the program each test runs: recorded once, kept in `build`, asked by line."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.mutations import Mutation

__all__ = ["Covering", "Records"]


def _fingerprint(*texts: bytes) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text)
    return digest.hexdigest()[:16]


@dataclass
class Records:
    """What tests run, a file for each file of tests, below `build/mutants-lines`.

    A record is valid until its tests, their helpers, or a file of the program that they run
    changes; a test that took longer than the limit then is recorded again with a higher limit.
    """

    root: Path

    def load(self, file: str, *, limit: float) -> dict[str, Any] | None:
        """What the tests of a file run, each within a limit of CPU time; None: it is not known."""
        place = self._place(file)
        if not place.exists():
            return None
        kept: dict[str, Any] = json.loads(place.read_text())
        complete = kept["limit"] >= limit or len(kept["tests"]) == kept["collected"]
        if not complete or kept["file"] != self._of_tests(file):
            return None
        if any(self._of_source(path) != mark for path, mark in kept["sources"].items()):
            return None
        tests: dict[str, Any] = kept["tests"]
        return {test: noted for test, noted in tests.items() if noted["seconds"] <= limit}

    def keep(self, file: str, tests: dict[str, Any], *, collected: int, limit: float) -> None:
        """Keep what was recorded."""
        paths = sorted({path for noted in tests.values() for path in noted["lines"]})
        kept = {
            "file": self._of_tests(file),
            "limit": limit,
            "collected": collected,
            "sources": {path: self._of_source(path) for path in paths},
            "tests": tests,
        }
        place = self._place(file)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(kept))

    def _place(self, file: str) -> Path:
        return self.root / "build" / "mutants-lines" / f"{file.replace('/', '.')}.json"

    def _of_tests(self, file: str) -> str:
        tests = self.root / file
        beside = sorted(p for p in tests.parent.glob("*.py") if not p.name.startswith("test_"))
        helpers = [*beside, *sorted(self.root.glob("tests/support/*.py"))]
        return _fingerprint(tests.read_bytes(), *(helper.read_bytes() for helper in helpers))

    def _of_source(self, path: str) -> str:
        source = self.root / "src" / path
        return _fingerprint(source.read_bytes()) if source.exists() else ""


class Covering:
    """The record, asked from the other side: which tests run a line."""

    def __init__(self, record: dict[str, dict[str, Any]]) -> None:
        self._seconds = {test: float(noted["seconds"]) for test, noted in record.items()}
        self._tests: dict[tuple[str, int], set[str]] = {}
        self._by_path: dict[str, Counter[str]] = {}  # how many of its lines each test runs
        self._noticed: dict[str, Counter[str]] = {}
        for test, noted in record.items():
            for path, lines in noted["lines"].items():
                self._by_path.setdefault(path, Counter())[test] = len(lines)
                for line in lines:
                    self._tests.setdefault((path, line), set()).add(test)

    def of(self, path: str, mutation: Mutation, *, seconds: float) -> tuple[list[str], float]:
        """Tests that take so long together (one at least) and their time, the likeliest first.

        Half of the time is for the quickest of those that run the line, the other half for those
        that run most of the file: they are about it, where others only pass through. Tests that
        noticed other changes of the file run first.
        """
        found = self._running(path, mutation)
        thorough = self._by_path.get(path, Counter())
        chosen: set[str] = set()
        total = 0.0
        orders = (
            (seconds / 2, sorted(found, key=lambda test: (self._seconds[test], test))),
            (seconds, sorted(found, key=lambda test: (-thorough[test], self._seconds[test], test))),
        )
        for limit, order in orders:
            for test in order:
                if test in chosen or (chosen and total + self._seconds[test] > limit):
                    continue
                chosen.add(test)
                total += self._seconds[test]
        noticed = self._noticed.get(path, Counter())
        ordered = sorted(chosen, key=lambda t: (self._seconds[t] / (1 + noticed[t]), t))
        return ordered, total

    def _running(self, path: str, mutation: Mutation) -> set[str]:
        if not mutation.function_line:
            return set(self._by_path.get(path, ()))
        first, last = mutation.lines
        lines = range(first, last + 1)
        return {test for line in lines for test in self._tests.get((path, line), ())}

    def noticed(self, path: str, test: str) -> None:
        """A test noticed a change of the file: it may notice the next one."""
        self._noticed.setdefault(path, Counter())[test] += 1
