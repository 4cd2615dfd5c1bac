"""The page on the runtime: its example is the example, its snippets run, its evidence exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "kubecontroller" / "runtime.md").read_text()
EVIDENCE = (ROOT / "tests" / "kubecontroller" / "README.md").read_text()
EXAMPLE = (ROOT / "examples" / "website" / "website.py").read_text()
NUMBERED = {"6.1": 10, "6.2": 13, "6.3": 5, "6.4": 7}
WHOLE = ("6.5", "6.6", "6.7", "6.8", "6.9", "6.10", "6.11")


def snippets() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def rows() -> list[list[str]]:
    lines = [line for line in EVIDENCE.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_example_on_the_page_is_the_example():
    assert snippets()[0] == EXAMPLE


def test_the_example_is_shorter_than_sixty_lines():
    assert len(EXAMPLE.splitlines()) < 60


def test_the_other_snippets_run():
    for snippet in snippets()[1:]:
        done = subprocess.run(
            [sys.executable, "-c", f"import asyncio\n{snippet}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_every_numbered_line_of_the_design_is_in_the_table():
    named = {row[0] for row in rows()}
    expected = {f"{part}.{n}" for part, count in NUMBERED.items() for n in range(1, count + 1)}
    assert (expected | set(WHOLE)) - named == set()


def test_every_test_the_table_names_exists():
    references = set(re.findall(r"`([\w/]+\.py)::(\w+)`", EVIDENCE))
    assert len(references) > 100
    missing = []
    for file, name in sorted(references):
        folder = ROOT if "/" in file else ROOT / "tests" / "kubecontroller" / "runtime"
        if not re.search(rf"^ *(async )?def {name}\(", (folder / file).read_text(), re.MULTILINE):
            missing.append(f"{file}::{name}")
    assert missing == []
