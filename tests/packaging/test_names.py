"""The library and the local cluster know no product, not even by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PRODUCT = re.compile(r"redis|valkey", re.IGNORECASE)


@pytest.mark.parametrize("package", ["kubecontroller", "kubelocal"])
def test_no_line_names_the_product(package: str) -> None:
    named = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()[:80]}"
        for path in sorted((SOURCE / package).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if PRODUCT.search(line)
    ]
    assert named == []
