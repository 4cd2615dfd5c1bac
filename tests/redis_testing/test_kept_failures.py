"""A history that failed can be had again, whatever became of the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support import kept_failures

TESTS = Path(kept_failures.__file__).parents[1]
KILLED = """
import os

def test_fails():
    raise AssertionError

def test_ends_the_run():
    os._exit(9)
"""


def test_a_failure_is_kept_with_its_seed_though_the_run_is_killed(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(KILLED)
    hidden = ("PYTEST_", "PYTHON")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "support.kept_failures", "test_it.py"],
        cwd=tmp_path,
        env=inherited | {"SEED": "7", "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 9
    assert "SEED=7" in done.stdout
    kept = (tmp_path / kept_failures.FILE).read_text()
    assert kept == "SEED=7 test_it.py::test_fails (call)\n"
