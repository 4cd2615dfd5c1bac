"""What `make mutants` relies on: changes are put in place, and records are valid while they are."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.mutations import Mutation, mutations
from tools.placing import place
from tools.records import Covering, Records

SOURCE = """
LIMIT = 3


class Place:
    @property
    def full(self):
        return within(3)


def within(number):
    return number < LIMIT
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "changed_program.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("changed_program")
    del sys.modules["changed_program"]


def change(before: str) -> Mutation:
    return next(found for found in mutations(SOURCE.encode()) if found.before == before)


@pytest.mark.parametrize("frozen", [False, True], ids=["collected", "frozen"])
def test_a_changed_function_takes_the_place_of_the_imported_one(
    module: Any, *, frozen: bool
) -> None:
    """Tests freeze what was imported: the collector does not list it any more."""
    if frozen:
        gc.freeze()
    found = change("number < LIMIT")
    assert not module.Place().full
    changed = found.apply(SOURCE.encode()).decode()
    assert place(module.__file__, found.function_line, changed)
    assert module.Place().full


def test_a_changed_constant_takes_the_place_of_the_imported_one(module: Any) -> None:
    found = change("3")
    assert found.function_line == 0
    assert place(module.__file__, 0, found.apply(SOURCE.encode()).decode())
    assert module.Place().full


def test_names_of_types_are_not_changed() -> None:
    assert mutations(b"Either: TypeAlias = One | Other") == []
    assert mutations(b"either: int = 1 | 2") != []


# Records


@pytest.fixture
def records(tmp_path: Path) -> Records:
    for place_, text in (
        ("tests/a/test_one.py", "one"),
        ("tests/a/helper.py", "helps"),
        ("tests/support/shared.py", "helps all"),
        ("src/package/run.py", "runs"),
        ("src/package/other.py", "does not run"),
    ):
        (tmp_path / place_).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place_).write_text(text)
    return Records(tmp_path)


QUICK = {"seconds": 0.5, "lines": {"package/run.py": [1, 2]}}
SLOW = {"seconds": 3.0, "lines": {"package/run.py": [2]}}
FILE = "tests/a/test_one.py"


@pytest.mark.parametrize(
    ("changed", "valid"),
    [
        ("", True),
        ("src/package/other.py", True),
        ("src/package/run.py", False),
        ("tests/a/test_one.py", False),
        ("tests/a/helper.py", False),
        ("tests/support/shared.py", False),
    ],
)
def test_a_record_is_valid_until_something_changes_that_its_tests_run(
    records: Records, changed: str, *, valid: bool
) -> None:
    records.keep(FILE, {"quick": QUICK}, collected=1, limit=4.0)
    if changed:
        (records.root / changed).write_text("changed")
    assert (records.load(FILE, limit=4.0) == {"quick": QUICK}) is valid
    assert valid or records.load(FILE, limit=4.0) is None


def test_what_was_never_recorded_is_not_known(records: Records) -> None:
    assert records.load(FILE, limit=1.0) is None


def test_tests_that_take_longer_than_the_limit_are_left_out(records: Records) -> None:
    records.keep(FILE, {"quick": QUICK, "slow": SLOW}, collected=3, limit=4.0)
    assert records.load(FILE, limit=1.0) == {"quick": QUICK}
    assert records.load(FILE, limit=4.0) == {"quick": QUICK, "slow": SLOW}
    assert records.load(FILE, limit=5.0) is None  # the third one may be quick enough
    records.keep(FILE, {"quick": QUICK, "slow": SLOW}, collected=2, limit=4.0)
    assert records.load(FILE, limit=5.0) is not None


def test_half_of_the_time_is_for_tests_that_run_most_of_a_file() -> None:
    lines = {"package/run.py": [1]}
    covering = Covering(
        {f"passes-{n}": {"seconds": 0.5, "lines": lines} for n in range(8)}
        | {
            "about": {"seconds": 1.0, "lines": {"package/run.py": [1, 2, 3]}},
            "elsewhere": {"seconds": 0.1, "lines": {"package/other.py": [1]}},
        }
    )
    found = Mutation("any", "f", 1, 1, (1, 1), 0, 0, "", "")
    chosen, seconds = covering.of("package/run.py", found, seconds=2.0)
    assert chosen == ["passes-0", "passes-1", "about"]
    assert seconds == 2.0
    covering.noticed("package/run.py", "about")
    covering.noticed("package/run.py", "about")
    assert covering.of("package/run.py", found, seconds=2.0)[0][0] == "about"
